"""Does a commit get slower as a run grows? Latency of 2,000 small steps, first against last.

    python benchmarks/append_latency.py [--commits 2000]

Each step is one attempt, one cost row and one train_step row: three tables, three Delta commits, then flush. The mean of a window includes the
compactions that fall into it; the median does not show them.
"""

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mentor_audit.records import Attempt, Cost, Run, TrainStep
from mentor_audit.store import StepRows, Store

WINDOW = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=2000)
    commits = parser.parse_args().commits
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "store")
        with store.writer(_run()) as writer:
            for step in range(commits):
                unit = _unit(step)
                start = time.perf_counter()
                writer.commit_step(unit)
                writer.flush()
                seconds.append(time.perf_counter() - start)
        live = sum(1 for _ in (Path(folder) / "store" / "tables" / "attempt" / "run_id=r").glob("c*"))
    print(f"{'commits':>14}{'median ms':>12}{'mean ms':>10}{'max ms':>10}")
    windows = [seconds[i : i + WINDOW] for i in range(0, commits, WINDOW)]
    for i, window in enumerate(windows):
        name = f"{i * WINDOW + 1}-{i * WINDOW + len(window)}"
        print(f"{name:>14}{1e3 * statistics.median(window):12.1f}{1e3 * statistics.mean(window):10.1f}{1e3 * max(window):10.1f}")
    first, last = windows[0], windows[-1]
    median, mean = (f(last) / f(first) for f in (statistics.median, statistics.mean))
    print(f"{live} merged parts of table `attempt` were written on the way")
    print(f"ratio {median:.2f} of medians, last {WINDOW} to first {WINDOW} ({mean:.2f} of means); aim 1: flat")


def _unit(step: int) -> StepRows:
    own: dict[str, Any] = {"run_id": "r", "launch": 1, "step": step, "mode": "train"}
    unit = f"r.l1.t{step}"
    attempt = Attempt(
        **own,
        attempt_id=f"{unit}.g0.a0",
        group_id=f"{unit}.g0",
        problem_id="p",
        role="attempt",
        position=0,
        prompt="Q",
        completion=f"answer {step}",
        completion_ids=[1, 2, 3],
        finish_reason="eos",
        prompt_tokens=1,
        completion_tokens=3,
        status="incorrect",
        is_correct=False,
    )
    cost = Cost(
        **own,
        cost_id=f"{unit}.c",
        call_id=f"{unit}.c",
        owner_table="train_step",
        owner_id=unit,
        phase="rollout",
        payer="learner",
        sequences=1,
        flops=1e9,
        wall_seconds=0.1,
        disposition="used",
    )
    done = TrainStep(
        **own,
        train_step_id=unit,
        launch_start_step=0,
        world_size=1,
        num_groups=1,
        num_zero_reward_groups=1,
        num_inserted=0,
        wall_seconds=0.1,
        metrics="{}",
        row_counts='{"attempt": 1, "cost": 1, "train_step": 1}',
    )
    return StepRows(step, "train", {"attempt": [attempt], "cost": [cost], "train_step": [done]})


def _run() -> Run:
    texts = dict.fromkeys(["suite", "arm", "config", "config_hash", "learner", "mentor", "task", "code_version"], "-")
    return Run(run_id="r", seed=0, packages="{}", hardware="{}", created_at=datetime.now(UTC), **texts)


if __name__ == "__main__":
    main()
