"""The report on a store of a million attempts: five arms x five seeds of training, a replay of seven arms. Prints seconds and memory.

Rows are the simulator's, repeated over steps by DuckDB with other ids and verdicts; texts are of the size that real training writes.
`--out` keeps the store, to be profiled or looked at again.
"""

import argparse
import cProfile
import multiprocessing
import pstats
import resource
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import duckdb
import pyarrow as pa
import rows

from mentor_audit.records import TRAJECTORY_TABLES, Run
from mentor_audit.report import build_report
from mentor_audit.simulate import Causes, Failures, Replays, World, as_arrow, simulate
from mentor_audit.store import Store
from mentor_audit.store.delta import TableLog, write_part

ARMS = ("vanilla", "resample", "placebo", "wrong", "mentor")
SEEDS, GROUPS, SIZE, HELDOUT, SAMPLES, EVALUATIONS, TRAIN_PROBLEMS = 5, 24, 4, 500, 2, 10, 2000
STEPS_A_PART = 200
TRAINING = World(
    gain=dict.fromkeys(ARMS, 0.3),
    rescue=dict.fromkeys(ARMS[1:], 0.4),
    seeds=tuple(range(1, SEEDS + 1)),
    steps=1,
    eval_every=1,
    heldout=HELDOUT,
    samples=SAMPLES,
    groups_a_step=GROUPS,
    suite="bench",
)
REPLAY = World(
    replays=Replays(
        Failures(Causes(0.05, 0.05, 0.05, 0.5, 0.1), accuracy=0.7, leak_rate=0.05, judge=(0.9, 0.8)),
        ("vanilla", "resample", "retry", "placebo", "wrong", "scrubbed", "mentor"),
        problems=2000,
        follow_ups=2,
        extra_samples=3,
    ),
    suite="bench",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, help="where the store is, or is to be kept")
    parser.add_argument("--profile", action="store_true", help="print the functions that took longest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = (options.out or Path(folder)) / "store"
        if not path.exists():  # in a process of its own, whose memory is not the report's
            filling = multiprocessing.get_context("spawn").Process(target=fill, args=(path, options.attempts))
            filling.start()
            filling.join()
        report(Store.open(path), Path(folder) / "report", options.profile)


def report(store: Store, out: Path, profile: bool) -> None:
    (held,) = store.arrow("SELECT count(*) AS attempts, (SELECT count(*) FROM run) AS runs FROM attempt").to_pylist()
    before = _peak_mib()
    profiler, started = cProfile.Profile(), time.perf_counter()
    if profile:
        profiler.enable()
    build_report(store, out, suite="bench")
    profiler.disable()
    seconds = time.perf_counter() - started
    print(
        f"{held['attempts']} attempts of {held['runs']} runs: report in {seconds:.1f} s (aim 60), peak {_peak_mib():.0f} MiB (aim 4096)"
    )
    print(f"before the report {before:.0f} MiB")
    if profile:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)


def fill(path: Path, attempts: int) -> None:
    """A store with the replay, evaluations, and as many training steps as make up the attempts."""
    store = Store.create(path)
    found = simulate(TRAINING, seed=1)
    follow_ups = sum(row["role"] in ("follow_up", "extra_sample") for row in found["attempt"]) / (len(ARMS) * SEEDS)
    evaluated = len(ARMS) * SEEDS * EVALUATIONS * HELDOUT * SAMPLES
    steps = max(EVALUATIONS, round((attempts - evaluated) / (len(ARMS) * SEEDS * (GROUPS * SIZE + follow_ups))))
    print(f"{steps} training steps of each of {len(ARMS) * SEEDS} runs")
    every = max(1, steps // (EVALUATIONS - 1))
    for run in found["run"]:
        _add_run(store, run)
        for table in TRAJECTORY_TABLES:
            mine = [row for row in found[table] if row["run_id"] == run["run_id"]]
            if table == "problem":
                if mine:
                    mine += [{**mine[-1], "problem_id": f"t{i}", "fingerprint": f"t{i}"} for i in range(12, TRAIN_PROBLEMS)]
                    _write(store, table, as_arrow(table, mine), run["run_id"], "problems", 0)
                continue
            train, evaluation = (
                _sized(as_arrow(table, [row for row in mine if row["mode"] == mode and row["step"] == 0]))
                for mode in ("train", "eval")
            )
            if len(evaluation):
                made = _repeat(evaluation, ".e0", [i * every for i in range(EVALUATIONS)])
                _write(store, table, made, run["run_id"], "eval", 1)
            for start in range(0, steps, STEPS_A_PART) if len(train) else ():
                made = _repeat(train, ".t0", range(start, min(start + STEPS_A_PART, steps)))
                _write(store, table, made, run["run_id"], f"train-{start:08d}", 2 + start)
    replayed = simulate(REPLAY, seed=2)
    for run in replayed["run"]:
        _add_run(store, run)
        for table in TRAJECTORY_TABLES:
            mine = [row for row in replayed[table] if row["run_id"] == run["run_id"]]
            if mine:
                _write(store, table, _sized(as_arrow(table, mine)), run["run_id"], "replay", 0)
    store.compact()


def _add_run(store: Store, run: dict) -> None:
    store.registry.add_run(Run(**run))
    store.registry.close_launch(run["run_id"], store.registry.open_launch(run["run_id"], None), "finished")


def _write(store: Store, table: str, made: pa.Table, run_id: str, name: str, sequence: int) -> None:
    part = write_part(store.root, table, made, run_id, f"l1-{name}-r0")
    TableLog(store.root, table).append([part], f"{run_id}/1", sequence)


def _sized(table: pa.Table) -> pa.Table:
    """Completions of 1,500 characters, instructions of some 40 words."""
    for name, characters in (("completion", 1500), ("text", 240)):
        if name in table.column_names and len(table):
            texts = [rows.TEXT[(at := 37 * i % 30_000) : at + characters] for i in range(len(table))]
            table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), pa.array(texts))
    return table


def _repeat(table: pa.Table, mark: str, steps: Iterable[int]) -> pa.Table:
    """The rows of step 0 as those of other steps: step, ids, verdicts and instructions differ, and so do training's problems."""
    connection = duckdb.connect()
    connection.register("base", table)
    changed = []
    for name in table.column_names:
        texts = table.schema.field(name).type == pa.string() and name.endswith("_id") and name != "run_id"
        if name == "step":
            changed.append("s::BIGINT AS step")
        elif name == "problem_id" and mark == ".t0":
            changed.append(f"'t' || hash(group_id, s) % {TRAIN_PROBLEMS} AS problem_id")
        elif name == "is_correct" and mark == ".t0":
            changed.append("CASE WHEN role = 'attempt' THEN is_correct ELSE hash(attempt_id, s) % 3 = 0 END AS is_correct")
        elif name == "is_correct":
            changed.append("(hash(attempt_id, s) % 5 = 0) AS is_correct")
        elif name == "text":
            changed.append("substr(text, 1 + (hash(instruction_id, s) % 200)::INT) || ' ' || s AS text")
        elif texts and name != "problem_id":
            changed.append(f"replace({name}, '{mark}', '{mark[:-1]}' || s) AS {name}")
        else:
            changed.append(name)
    listed = pa.table({"s": pa.array(list(steps), pa.int64())})
    connection.register("steps", listed)
    return connection.sql(f"SELECT {', '.join(changed)} FROM base, steps").to_arrow_table().cast(table.schema)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
