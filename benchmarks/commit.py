"""What a durable step costs: commit_step + flush against a plain Parquet write of the same rows with the same fsyncs.

    python benchmarks/commit.py [--units 60]

64 attempts of 2,000 characters and 768 token ids with their train_step row, both sides from the same row objects, taken in turns in
one run. The plain side writes one Parquet file a table (temporary name, fsync, rename, fsync of the folder). The store's
side also hashes the part, commits it to the Delta log, and compacts as it goes; its mean includes the compactions.
"""

import argparse
import os
import random
import statistics
import string
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mentor_audit.records import Attempt, Run, TrainStep
from mentor_audit.schema import to_arrow
from mentor_audit.store import StepRows, Store

ROWS, CHARACTERS, TOKEN_IDS = 64, 2000, 768


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=60)
    units = parser.parse_args().units
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        store, plain = Store.create(Path(folder) / "store"), Path(folder) / "plain"
        times: dict[str, list[float]] = {"plain Parquet": [], "commit_step + flush": []}
        with store.writer(_run()) as writer:
            for step in range(units):
                unit = _unit(step, rng)
                pairs: list[tuple[str, Callable[[], None]]] = [
                    ("plain Parquet", lambda unit=unit: _write_plain(plain, unit)),
                    ("commit_step + flush", lambda unit=unit: _commit(writer, unit)),
                ]
                for name, act in pairs if step % 2 else reversed(pairs):
                    start = time.perf_counter()
                    act()
                    times[name].append(time.perf_counter() - start)
    print(f"{units} units of {ROWS} attempts ({CHARACTERS} characters, {TOKEN_IDS} token ids) and one train_step row, in turns")
    print(f"{'':22}{'mean ms':>10}{'median ms':>12}{'p95 ms':>10}")
    for name, seconds in times.items():
        spread = statistics.quantiles(seconds, n=20)
        print(f"{name:22}{1e3 * statistics.mean(seconds):10.1f}{1e3 * statistics.median(seconds):12.1f}{1e3 * spread[-1]:10.1f}")
    plain_s, store_s = times.values()
    mean, median = (f(store_s) / f(plain_s) for f in (statistics.mean, statistics.median))
    print(f"ratio {mean:.2f} of means, compaction included ({median:.2f} of medians); aim 3")


def _commit(writer: Any, unit: StepRows) -> None:
    writer.commit_step(unit)
    writer.flush()


def _write_plain(root: Path, unit: StepRows) -> None:
    for table, rows in unit.rows.items():
        folder = root / table
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / ".part.tmp"
        pq.write_table(to_arrow(table, rows), temporary, compression="zstd")
        _fsync(temporary)
        os.rename(temporary, folder / f"{unit.step:08d}.parquet")
        _fsync(folder)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def _unit(step: int, rng: random.Random) -> StepRows:
    own: dict[str, Any] = {"run_id": "r", "launch": 1, "step": step, "mode": "train"}
    attempts = [
        Attempt(
            **own,
            attempt_id=f"r.l1.t{step}.g{i // 8}.a{i % 8}",
            group_id=f"r.l1.t{step}.g{i // 8}",
            problem_id=f"p{i // 8}",
            role="attempt",
            position=i % 8,
            prompt="What is 2 + 2? " * 10,
            completion="".join(rng.choices(string.ascii_lowercase + "     ", k=CHARACTERS)),
            completion_ids=[rng.randrange(32_000) for _ in range(TOKEN_IDS)],
            finish_reason="eos",
            prompt_tokens=60,
            completion_tokens=TOKEN_IDS,
            is_correct=i % 3 == 0,
            status="correct" if i % 3 == 0 else "incorrect",
            reward=float(i % 3 == 0),
            advantage=0.5,
        )
        for i in range(ROWS)
    ]
    done = TrainStep(
        **own,
        train_step_id=f"r.l1.t{step}",
        launch_start_step=0,
        world_size=1,
        num_groups=8,
        num_zero_reward_groups=0,
        num_inserted=0,
        wall_seconds=1.0,
        metrics="{}",
        row_counts='{"attempt": 64, "train_step": 1}',
    )
    return StepRows(step, "train", {"attempt": attempts, "train_step": [done]})


def _run() -> Run:
    texts = dict.fromkeys(["suite", "arm", "config", "config_hash", "learner", "mentor", "task", "code_version"], "-")
    return Run(run_id="r", seed=0, packages="{}", hardware="{}", created_at=datetime.now(UTC), **texts)


if __name__ == "__main__":
    main()
