"""2,000 commits of small steps in one run: is the last as fast as the first?"""

import statistics
import tempfile
import time
from pathlib import Path

import rows

from mentor_audit.store import Store

COMMITS, WINDOW = 2000, 200


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = Store.create(Path(folder) / "store").writer(rows.run())
        writer.put_problems([rows.problem()])
        seconds = []
        for number in range(COMMITS):
            unit = rows.step(number, groups=1, size=4, characters=200, tokens=50)
            started = time.perf_counter()
            writer.commit_step(unit)
            writer.flush()
            seconds.append(time.perf_counter() - started)
        writer.close("finished")
    first, last = seconds[:WINDOW], seconds[-WINDOW:]
    for name, found in (("first", first), ("last", last)):
        print(
            f"{name} {WINDOW} commits: median {statistics.median(found) * 1e3:.1f} ms, mean {statistics.mean(found) * 1e3:.1f} ms"
        )
    print(
        f"ratio of medians {statistics.median(last) / statistics.median(first):.2f}, of means {statistics.mean(last) / statistics.mean(first):.2f}"
    )


if __name__ == "__main__":
    main()
