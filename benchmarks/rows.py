"""Rows of the size that real training writes: 2,000 characters and 768 token ids an attempt."""

import json
import random
from datetime import UTC, datetime
from typing import Any

from mentor_audit.records import Attempt, AttemptGroup, Cost, Problem, Run, TrainStep
from mentor_audit.store import StepRows

RNG = random.Random(1)
TEXT = "".join(RNG.choice("abcdefghij klmnopqrst uvwxyz0123456789 ") for _ in range(40_000))


def run(run_id: str = "bench") -> Run:
    return Run(
        run_id=run_id, suite="bench", arm="vanilla", seed=1, config="{}", config_hash="c", learner="l", mentor="-", task="t",
        code_version="0", packages="{}", hardware="{}", created_at=datetime(2026, 12, 1, tzinfo=UTC),
    )  # fmt: skip


def problem() -> Problem:
    return Problem(problem_id="p", run_id="-", task="t", split="train", prompt="q", source="bench", fingerprint="f")


def step(
    number: int, groups: int = 8, size: int = 8, characters: int = 2000, tokens: int = 768, run_id: str = "bench"
) -> StepRows:
    unit: dict[str, Any] = {"run_id": run_id, "launch": 1, "step": number, "mode": "train"}
    step_id = f"{run_id}.l1.t{number}"
    rows: dict[str, list[Any]] = {"attempt_group": [], "attempt": [], "cost": []}
    for g in range(groups):
        group = f"{step_id}.g{g}"
        rows["attempt_group"].append(
            AttemptGroup(
                **unit, group_id=group, problem_id="p", num_generations=size, num_correct=0, num_incorrect=size, num_truncated=0,
                num_unscored=0, zero_reward=True, zero_reward_after=True, triggered=False, trigger_reason="bench",
            )
        )  # fmt: skip
        for i in range(size):
            start = RNG.randrange(len(TEXT) - characters)
            rows["attempt"].append(
                Attempt(
                    **unit, attempt_id=f"{group}.a{i}", group_id=group, problem_id="p", role="attempt", position=i, prompt="q",
                    completion=TEXT[start : start + characters], completion_ids=[RNG.randrange(128_000) for _ in range(tokens)],
                    finish_reason="eos", prompt_tokens=1, completion_tokens=tokens, is_correct=False, status="incorrect",
                )
            )  # fmt: skip
        rows["cost"].append(
            Cost(
                **unit, cost_id=f"{group}.rollout", call_id="c", owner_table="attempt_group", owner_id=group, phase="rollout",
                payer="learner", sequences=size, prompt_tokens=size, output_tokens=size * tokens, flops=1e9, wall_seconds=1.0,
                disposition="used",
            )
        )  # fmt: skip
    counts = {table: len(found) for table, found in rows.items()}
    rows["train_step"] = [
        TrainStep(
            **unit, train_step_id=step_id, launch_start_step=0, world_size=1, num_groups=groups, num_zero_reward_groups=groups,
            num_inserted=0, wall_seconds=1.0, metrics="{}", row_counts=json.dumps({**counts, "train_step": 1}),
        )
    ]  # fmt: skip
    return StepRows(number, "train", rows)
