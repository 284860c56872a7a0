"""Small, linked units for tests of the store: every table has rows, every link holds, and every number can be worked out by hand."""

import json
from datetime import UTC, datetime
from typing import Any

from mentor_audit.records import (
    Attempt,
    AttemptGroup,
    Cost,
    Diagnosis,
    DiagnosisAudit,
    Instruction,
    Problem,
    Run,
    TrainStep,
)
from mentor_audit.store import StepRows

FLOPS_A_GROUP = 1000.0
ROWS_A_GROUP = {"attempt_group": 1, "attempt": 3, "diagnosis": 1, "instruction": 1, "diagnosis_audit": 1, "cost": 1}
"""Two failed attempts and a follow-up, one diagnosis with an audit, one instruction, one cost row."""


def run(run_id: str = "r") -> Run:
    return Run(
        run_id=run_id,
        suite="suite",
        arm="mentor",
        seed=1,
        config="{}",
        config_hash="c",
        learner="tiny",
        mentor="scripted",
        task="words",
        code_version="0.1.0",
        packages="{}",
        hardware="{}",
        created_at=datetime(2026, 12, 1, tzinfo=UTC),
    )


def problems(count: int = 2) -> list[Problem]:
    return [
        Problem(
            problem_id=f"p{i}",
            run_id="-",
            task="words",
            split="train",
            prompt=f"Q {i}",
            gold="x",
            source="tests",
            fingerprint=str(i),
        )
        for i in range(count)
    ]


def step(
    step: int,
    *,
    run_id: str = "r",
    launch: int = 1,
    mode: str = "train",
    start: int = 0,
    groups: int = 2,
    rank: int = 0,
    world_size: int = 1,
    text: str = "wrong",
) -> StepRows:
    """A unit with `groups` groups a rank. Group g is about problem g % 2; `text` is every completion."""
    unit: dict[str, Any] = {"run_id": run_id, "launch": launch, "step": step, "mode": mode, "rank": rank}
    unit_id = f"{run_id}.l{launch}.{mode[0]}{step}"
    rows: dict[str, list[Any]] = {table: [] for table in ROWS_A_GROUP}
    for g in range(rank * groups, (rank + 1) * groups):
        for table, found in _group(unit, f"{unit_id}.g{g}", f"p{g % 2}", text).items():
            rows[table] += found
    if rank == 0:
        counts = {table: count * groups * world_size for table, count in ROWS_A_GROUP.items()}
        rows["train_step"] = [_train_step(unit, unit_id, start, groups * world_size, world_size, {**counts, "train_step": 1})]
    return StepRows(step, mode, rows)


def _group(unit: dict[str, Any], group: str, problem: str, text: str) -> dict[str, list[Any]]:
    about = {**unit, "group_id": group}
    sampled = {
        **about,
        "problem_id": problem,
        "prompt": "Q",
        "completion": text,
        "completion_ids": [1, 2, 3],
        "finish_reason": "eos",
        "prompt_tokens": 1,
        "completion_tokens": 3,
        "is_correct": False,
        "status": "incorrect",
    }
    failed = [Attempt(**sampled, attempt_id=f"{group}.a{i}", role="attempt", position=i) for i in range(2)]
    answer = {"parent_attempt_id": f"{group}.a0", "instruction_id": f"{group}.i0"}
    follow_up = Attempt(**sampled, **answer, attempt_id=f"{group}.f0", role="follow_up", position=0)
    return {
        "attempt_group": [
            AttemptGroup(
                **about,
                problem_id=problem,
                num_generations=2,
                num_correct=0,
                num_incorrect=2,
                num_truncated=0,
                num_unscored=0,
                zero_reward=True,
                zero_reward_after=True,
                triggered=True,
                trigger_reason="all wrong",
            )
        ],
        "attempt": [*failed, follow_up],
        "diagnosis": [
            Diagnosis(
                **about,
                diagnosis_id=f"{group}.d0",
                attempt_id=f"{group}.a0",
                attempts_read=[f"{group}.a0"],
                mentor="scripted",
                saw_gold=False,
                raw_reply="{}",
                parse_status="ok",
            )
        ],
        "instruction": [
            Instruction(
                **about,
                instruction_id=f"{group}.i0",
                attempt_id=f"{group}.a0",
                diagnosis_id=f"{group}.d0",
                arm="mentor",
                text="hint",
                source="diagnosis",
            )
        ],
        "diagnosis_audit": [
            DiagnosisAudit(
                **unit,
                audit_id=f"{group}.d0.location",
                diagnosis_id=f"{group}.d0",
                auditor="program",
                aspect="location",
                verdict=True,
            )
        ],
        "cost": [
            Cost(
                **unit,
                cost_id=f"{group}.c",
                call_id=f"{group}.c",
                owner_table="attempt_group",
                owner_id=group,
                phase="rollout",
                payer="learner",
                sequences=2,
                prompt_tokens=2,
                output_tokens=6,
                flops=FLOPS_A_GROUP,
                wall_seconds=0.1,
                disposition="used",
            )
        ],
    }


def _train_step(
    unit: dict[str, Any], unit_id: str, start: int, groups: int, world_size: int, counts: dict[str, int]
) -> TrainStep:
    return TrainStep(
        **unit,
        train_step_id=unit_id,
        launch_start_step=start,
        world_size=world_size,
        num_groups=groups,
        num_zero_reward_groups=groups,
        num_inserted=0,
        wall_seconds=0.5,
        metrics="{}",
        row_counts=json.dumps(counts),
    )
