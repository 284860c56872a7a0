"""One durable commit of a step of 64 attempts, against a plain Parquet write of the same rows with the same fsyncs; interleaved."""

import os
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import rows

from mentor_audit.schema import to_arrow
from mentor_audit.store import Store

STEPS = 60


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "store")
        writer = store.writer(rows.run())
        writer.put_problems([rows.problem()])
        writer.flush()
        ours, plain = [], []
        for number in range(STEPS):
            unit = rows.step(number)
            ours.append(_seconds(lambda unit=unit: (writer.commit_step(unit), writer.flush())))
            plain.append(_seconds(lambda unit=unit: _plain(Path(folder), unit)))
        writer.close("finished")
    a, b = statistics.median(ours), statistics.median(plain)
    print(f"commit of 64 attempts in 4 tables, median of {STEPS}: {a * 1e3:.1f} ms; plain Parquet, fsynced: {b * 1e3:.1f} ms")
    print(f"ratio {a / b:.2f} (aim 3)")


def _plain(folder: Path, unit: object) -> None:
    for table, found in unit.rows.items():  # type: ignore[attr-defined]
        path = folder / f"{table}-{unit.step}.parquet"  # type: ignore[attr-defined]
        pq.write_table(to_arrow(table, found), path, compression="zstd")
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def _seconds(work: object) -> float:
    started = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
