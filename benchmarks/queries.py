"""Each named query on a store of a million attempts, against the same SQL on plain Parquet files of the same rows.

Plain Parquet is the floor: no commit log, no views over whole steps. What the ratio shows is what those cost a reader. Opening is
measured apart: it is paid once a connection, and does not grow with the rows.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import rows

from mentor_audit.records import REGISTRY_TABLES, TRAJECTORY_TABLES
from mentor_audit.schema import to_arrow
from mentor_audit.store import Store, reader
from mentor_audit.store.delta import TableLog, write_part

RUNS, STEPS_A_PART = 8, 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = fill(Store.create(Path(folder) / "store"), options.attempts)
        plain = export(store, Path(folder) / "plain")
        store.compact()  # as a run does when it ends
        opened, opened_plain = _timed(lambda: _open(store)), _timed(lambda: _views(plain))
        print(f"{'opening':28} store {opened:7.3f} s   plain {opened_plain:7.3f} s")
        ratios = []
        with reader.connect(store.root, store.registry) as connection:
            floor = _views(plain)
            for query in store.queries():
                seconds: dict[str, list[float]] = {"store": [], "plain": []}
                for _ in range(options.repeats):
                    seconds["store"].append(_timed(lambda q=query: reader.fetch(connection, q.sql)))
                    seconds["plain"].append(_timed(lambda q=query: floor.sql(q.sql).to_arrow_table()))
                a, b = (statistics.median(seconds[name]) for name in ("store", "plain"))
                ratios.append(a / b)
                print(f"{query.name:28} store {a:7.3f} s   plain {b:7.3f} s   ratio {a / b:.2f}")
        print(f"median ratio {statistics.median(ratios):.2f}, worst {max(ratios):.2f} (aim 1.3)")


def fill(store: Store, attempts: int) -> Store:
    """Eight runs, of which every group is a copy of one real step with other ids, written by DuckDB in parts of twenty steps."""
    groups, size = 8, 8
    steps = max(STEPS_A_PART, attempts // (RUNS * groups * size))
    for r in range(RUNS):
        run_id = f"bench{r}"
        store.registry.add_run(rows.run(run_id).model_copy(update={"seed": r, "arm": ("vanilla", "mentor")[r % 2]}))
        store.registry.open_launch(run_id, None)
        base = rows.step(0, characters=1500, tokens=64, run_id=run_id)
        tables = {name: to_arrow(name, found) for name, found in base.rows.items()}
        for first in range(0, steps, STEPS_A_PART):
            for name, table in tables.items():
                part = _repeat(table, first, min(STEPS_A_PART, steps - first))
                made = write_part(store.root, name, part, run_id, f"l1-train-{first:08d}-r0")
                TableLog(store.root, name).append([made], f"{run_id}/1", first + 1)
        TableLog(store.root, "problem").append(
            [
                write_part(
                    store.root,
                    "problem",
                    to_arrow("problem", [rows.problem().model_copy(update={"run_id": run_id})]),
                    run_id,
                    "l1-problems",
                )
            ],
            f"{run_id}/1",
            1,
        )
    return store


def _repeat(table: pa.Table, first: int, count: int) -> pa.Table:
    """The rows of step 0 as those of steps first .. first + count - 1: step and ids differ, a fifth of the attempts is correct."""
    connection = duckdb.connect()
    connection.register("base", table)
    changed = []
    for name in table.column_names:
        if name == "step":
            changed.append("s::BIGINT AS step")
        elif name in ("is_correct",):
            changed.append("(hash(attempt_id, s) % 5 = 0) AS is_correct")
        elif (
            table.schema.field(name).type == pa.string()
            and name.endswith("_id")
            and name not in ("run_id", "problem_id", "call_id")
        ):
            changed.append(f"replace({name}, '.t0', '.t' || s) AS {name}")
        else:
            changed.append(name)
    return connection.sql(f"SELECT {', '.join(changed)} FROM base, range({first}, {first + count}) r(s)").to_arrow_table()


def export(store: Store, folder: Path) -> Path:
    folder.mkdir()
    with reader.connect(store.root, store.registry) as connection:
        for table in TRAJECTORY_TABLES:
            connection.execute(f"COPY (SELECT * FROM {table}_raw) TO '{folder / table}.parquet' (COMPRESSION zstd)")
        for table in REGISTRY_TABLES:
            connection.execute(f"COPY (SELECT * FROM {table}) TO '{folder / table}.parquet'")
    return folder


def _open(store: Store) -> None:
    with reader.connect(store.root, store.registry):
        pass


def _views(folder: Path) -> duckdb.DuckDBPyConnection:
    """Views straight over the files: every row is whole and current, because nothing could say otherwise."""
    connection = duckdb.connect()
    for table in (*TRAJECTORY_TABLES, *REGISTRY_TABLES):
        more = ", false AS superseded, true AS whole" if table == "cost" else ""
        connection.execute(f"CREATE VIEW {table} AS SELECT *{more} FROM '{folder / table}.parquet'")
    chain = (reader.SQL / "views" / "02_chain.sql").read_text(encoding="utf-8")
    connection.execute(chain)
    return connection


def _timed(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
