"""A store with a planted truth: arms x seeds x steps with groups, attempts, follow-ups, diagnoses, costs and held-out evaluations.

`World` says what is true; `simulate` writes rows that follow from it by chance alone; `SimulatedStore` serves them through the
package's own views, without files. A run's held-out accuracy rises with its cumulative compute towards start + gain[arm].
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from mentor_audit.records import REGISTRY_TABLES, TRAJECTORY_TABLES
from mentor_audit.schema import arrow_schema
from mentor_audit.store.reader import make_views_over_raw

RESPONDING = ("resample", "resample_flops", "retry", "verdict_only", "placebo", "shuffled_other", "wrong", "oracle", "mentor")
CALLING = ("placebo", "shuffled_other", "wrong", "mentor")
SOURCE = {
    "retry": "attempt",
    "verdict_only": "template",
    "placebo": "template",
    "shuffled_other": "other_problem",
    "wrong": "altered",
    "oracle": "truth",
    "mentor": "diagnosis",
}


@dataclass(frozen=True)
class World:
    """gain: arm -> held-out accuracy that training adds by its end; rescue: arm -> chance that a response is correct.

    flops_a_step: arm -> training FLOPs a step; 1e9 where not named. seed_spread: standard deviation of a run's gain. interaction of
    run and problem comes from the problems' difficulty.
    """

    gain: Mapping[str, float]
    rescue: Mapping[str, float] = field(default_factory=dict)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    flops_a_step: Mapping[str, float] = field(default_factory=dict)
    start: float = 0.2
    seed_spread: float = 0.01
    problem_spread: float = 0.15
    mentor_accuracy: float = 0.8
    accidental: float = 0.1
    steps: int = 20
    eval_every: int = 5
    first_eval: int = 0
    heldout: int = 80
    samples: int = 2
    train_problems: int = 12
    groups_a_step: int = 3
    unknown_mentor_flops: bool = False
    notes: tuple[str, ...] = ("The learning rate was not tuned for each arm.",)
    suite: str = "simulated"


ALL_SAMPLING = World(
    gain={"vanilla": 0.0, "resample": 0.4, "placebo": 0.4, "wrong": 0.4, "shuffled_other": 0.4, "mentor": 0.4},
    rescue={"resample": 0.3, "placebo": 0.3, "wrong": 0.3, "shuffled_other": 0.3, "mentor": 0.3},
    samples=4,
)
ALL_DIAGNOSIS = World(
    gain={"vanilla": 0.0, "resample": 0.0, "placebo": 0.0, "wrong": 0.0, "shuffled_other": 0.05, "mentor": 0.4},
    rescue={"resample": 0.02, "placebo": 0.02, "wrong": 0.02, "shuffled_other": 0.1, "mentor": 0.8},
)
BOTH = World(
    gain={"vanilla": 0.0, "resample": 0.2, "retry": 0.2, "placebo": 0.2, "wrong": 0.22, "shuffled_other": 0.25, "mentor": 0.55},
    rescue={"resample": 0.1, "retry": 0.1, "placebo": 0.08, "wrong": 0.08, "shuffled_other": 0.15, "mentor": 0.7},
    flops_a_step={"vanilla": 8e8, "resample": 1.2e9},
    seed_spread=0.03,
)
ALL_FORM = World(gain={"vanilla": 0.0, "resample": 0.0, "placebo": 0.4, "wrong": 0.4, "mentor": 0.4}, samples=4)
NOTHING = World(gain={"vanilla": 0.0, "resample": 0.0, "placebo": 0.0, "wrong": 0.0, "mentor": 0.0})


def simulate(world: World, seed: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Rows by table, registry included; the same seed gives the same rows."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in (*REGISTRY_TABLES, *TRAJECTORY_TABLES)}
    difficulty_P = rng.normal(0, world.problem_spread, world.heldout)
    names = [f"h{i}" for i in range(world.heldout)] + [f"t{i}" for i in range(world.train_problems)]
    for name in names:
        rows["problem"].append(_problem(name, f"{world.suite}-{next(iter(world.gain))}-s{world.seeds[0]}"))
    for arm in world.gain:
        for run_seed in world.seeds:
            _run(rows, world, arm, run_seed, difficulty_P, rng)
    return rows


class SimulatedStore:
    """What the report needs of a store, over rows in memory and the package's own views."""

    def __init__(self, rows: Mapping[str, list[dict[str, Any]]], root: Path = Path("simulated/store")) -> None:
        self.root = root
        self._connection = duckdb.connect()
        for table in (*REGISTRY_TABLES, *TRAJECTORY_TABLES):
            name = table if table in REGISTRY_TABLES else f"{table}_raw"
            self._connection.register(name, as_arrow(table, rows.get(table, [])))
        make_views_over_raw(self._connection)

    def arrow(self, text: str, versions: dict[str, int] | None = None) -> pa.Table:
        return self._connection.sql(text).to_arrow_table()

    def versions(self, *, pinned: bool = False) -> dict[str, int]:
        return dict.fromkeys(TRAJECTORY_TABLES, 7)


def as_arrow(table: str, rows: list[dict[str, Any]]) -> pa.Table:
    """By column; a key that a row lacks is NULL."""
    schema = arrow_schema(table)
    return pa.table([pa.array([row.get(f.name) for row in rows], f.type) for f in schema], schema=schema)


def _run(
    rows: dict[str, list[dict[str, Any]]],
    world: World,
    arm: str,
    seed: int,
    difficulty_P: np.ndarray,
    rng: np.random.Generator,
) -> None:
    run_id = f"{world.suite}-{arm}-s{seed}"
    luck = rng.normal(0, world.seed_spread)
    config = {
        "suite": {"name": world.suite},
        "mentor": {"kind": "scripted", "accuracy": world.mentor_accuracy},
        "train": {"learning_rate": 3e-4, "steps": world.steps},
        "notes": list(world.notes),
        "warm_up": {"steps": 1600, "seconds": 95.0},
    }
    rows["run"].append(
        {
            "run_id": run_id,
            "suite": world.suite,
            "arm": arm,
            "seed": seed,
            "config": json.dumps(config),
            "config_hash": "c0ffee" * 10,
            "learner": "embedded",
            "learner_params": 252_000,
            "mentor": "scripted" if arm in CALLING else "-",
            "task": "chain",
            "code_version": "0.1.0",
            "packages": json.dumps({"torch": "2.13.0", "trl": "1.16.0"}),
            "hardware": json.dumps({"cores": 2, "device": "cpu"}),
            "created_at": datetime(2026, 12, 1, tzinfo=UTC),
            "flop_calibration": json.dumps({"rollout": {"counted": 1.0e9, "computed": 1.001e9, "ratio": 1.001}}),
        }
    )
    rows["launch"].append(
        {
            "run_id": run_id,
            "launch": 1,
            "started_at": datetime(2026, 12, 1, tzinfo=UTC),
            "ended_how": "finished",
            "pid": 1,
            "host": "h",
        }
    )
    total = 1e9 * world.steps
    for step in range(world.steps + 1):
        spent = world.flops_a_step.get(arm, 1e9) * step
        gained = (world.gain[arm] + luck * (step > 0)) * min(1.0, spent / total)
        if step >= world.first_eval and (step - world.first_eval) % world.eval_every == 0:
            chance_P = np.clip(world.start + gained + difficulty_P, 0.0, 1.0)
            _evaluation(rows, world, run_id, step, rng.random((world.heldout, world.samples)) < chance_P[:, None])
        if step < world.steps:
            _train_step(rows, world, arm, run_id, step, gained, rng)


def _evaluation(rows: dict[str, list[dict[str, Any]]], world: World, run_id: str, step: int, correct_P_N: np.ndarray) -> None:
    unit = {"run_id": run_id, "launch": 1, "step": step, "mode": "eval", "rank": 0}
    for p, verdicts in enumerate(correct_P_N):
        group = f"{run_id}.l1.e{step}.g{p}"
        for n, is_correct in enumerate(verdicts):
            rows["attempt"].append(_attempt(unit, f"{group}.a{n}", group, f"h{p}", "eval", n, bool(is_correct)))
        rows["attempt_group"].append(_group(unit, group, f"h{p}", verdicts, False))
    rows["cost"].append(_cost(unit, f"{run_id}.e{step}", "eval", "eval", 5e8))
    rows["train_step"].append(_train_step_row(unit, 0, 0, 0.0, 0.0, 0))


def _train_step(
    rows: dict[str, list[dict[str, Any]]],
    world: World,
    arm: str,
    run_id: str,
    step: int,
    gained: float,
    rng: np.random.Generator,
) -> None:
    unit = {"run_id": run_id, "launch": 1, "step": step, "mode": "train", "rank": 0}
    flops = world.flops_a_step.get(arm, 1e9)
    zero = rescued = 0
    for g in range(world.groups_a_step):
        problem, group = f"t{rng.integers(world.train_problems)}", f"{run_id}.l1.t{step}.g{g}"
        failed = bool(rng.random() < max(0.05, 0.9 - 1.5 * gained))
        verdicts = np.array([False] * 4 if failed else [True, False, False, True])
        for n, is_correct in enumerate(verdicts):
            rows["attempt"].append(_attempt(unit, f"{group}.a{n}", group, problem, "attempt", n, bool(is_correct)))
        answered = failed and arm in RESPONDING
        rows["attempt_group"].append(_group(unit, group, problem, verdicts, answered))
        zero += failed
        if answered:
            rescued += _response(rows, world, arm, unit, group, problem, rng)
    learner = 0.8 * flops if arm in CALLING else flops
    rows["cost"].append(_cost(unit, f"{run_id}.t{step}", "rollout", "learner", 0.4 * learner))
    rows["cost"].append(_cost(unit, f"{run_id}.t{step}", "optimizer", "learner", 0.6 * learner))
    if arm in CALLING:
        mentor_flops = None if world.unknown_mentor_flops else flops - learner
        rows["cost"].append(_cost(unit, f"{run_id}.t{step}", "mentor", "mentor", mentor_flops))
    n = world.groups_a_step
    rows["train_step"].append(_train_step_row(unit, n, zero, zero / n, (zero - rescued) / n, rescued))


def _response(
    rows: dict[str, list[dict[str, Any]]],
    world: World,
    arm: str,
    unit: dict[str, Any],
    group: str,
    problem: str,
    rng: np.random.Generator,
) -> bool:
    parent = f"{group}.a0"
    is_correct = bool(rng.random() < world.rescue.get(arm, 0.05))
    if arm in ("resample", "resample_flops"):
        rows["attempt"].append(_attempt(unit, f"{group}.x0", group, problem, "extra_sample", 0, is_correct, parent))
        return is_correct
    is_true = bool(rng.random() < world.mentor_accuracy)
    if arm in CALLING:
        rows["diagnosis"].append(
            {
                **unit,
                "diagnosis_id": f"{group}.d0",
                "group_id": group,
                "attempt_id": parent,
                "attempts_read": [parent],
                "mentor": "scripted",
                "saw_gold": False,
                "raw_reply": "{}",
                "parse_status": "ok",
                "location": "s1",
                "error_type": "carry",
                "text_replaced": False,
            }
        )
        for aspect in ("location", "cause"):
            rows["diagnosis_audit"].append(
                {
                    **unit,
                    "audit_id": f"{group}.d0.{aspect}",
                    "diagnosis_id": f"{group}.d0",
                    "auditor": "step_checker",
                    "aspect": aspect,
                    "verdict": is_true or aspect == "cause",
                }
            )
    fits = {"mentor": is_true, "oracle": True, "shuffled_other": bool(rng.random() < world.accidental), "wrong": False}
    rows["instruction"].append(
        {
            **unit,
            "instruction_id": f"{group}.i0",
            "group_id": group,
            "attempt_id": parent,
            "diagnosis_id": f"{group}.d0" if arm == "mentor" else None,
            "arm": arm,
            "text": "hint s1 carry",
            "source": SOURCE[arm],
            "assignment_probability": 1.0,
            "is_fitting": fits.get(arm),
            "text_replaced": False,
        }
    )
    row = _attempt(unit, f"{group}.f0", group, problem, "follow_up", 0, is_correct, parent)
    rows["attempt"].append({**row, "instruction_id": f"{group}.i0"})
    return is_correct


def _problem(name: str, run_id: str) -> dict[str, Any]:
    return {
        "problem_id": name,
        "run_id": run_id,
        "task": "chain",
        "split": "heldout" if name.startswith("h") else "train",
        "prompt": f"problem {name}",
        "gold": "1",
        "source": "simulated",
        "fingerprint": name,
    }


def _attempt(
    unit: dict[str, Any],
    attempt_id: str,
    group: str,
    problem: str,
    role: str,
    position: int,
    is_correct: bool,
    parent: str | None = None,
) -> dict[str, Any]:
    return {
        **unit,
        "attempt_id": attempt_id,
        "group_id": group,
        "problem_id": problem,
        "role": role,
        "position": position,
        "parent_attempt_id": parent,
        "prompt": "p",
        "completion": "c",
        "completion_ids": [1],
        "text_replaced": False,
        "finish_reason": "eos",
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "is_correct": is_correct,
        "status": "correct" if is_correct else "incorrect",
        "reward": float(is_correct),
        "trained": False,
    }


def _group(unit: dict[str, Any], group: str, problem: str, verdicts: np.ndarray, triggered: bool) -> dict[str, Any]:
    zero = not bool(verdicts.any())
    return {
        **unit,
        "group_id": group,
        "problem_id": problem,
        "num_generations": len(verdicts),
        "num_correct": int(verdicts.sum()),
        "num_incorrect": int((~verdicts.astype(bool)).sum()),
        "num_truncated": 0,
        "num_unscored": 0,
        "zero_reward": zero,
        "zero_reward_after": zero,
        "triggered": triggered,
        "trigger_reason": "simulated",
    }


def _cost(unit: dict[str, Any], owner: str, phase: str, payer: str, flops: float | None) -> dict[str, Any]:
    return {
        **unit,
        "cost_id": f"{owner}.{phase}",
        "call_id": f"{owner}.{phase}",
        "owner_table": "train_step",
        "owner_id": owner,
        "phase": phase,
        "payer": payer,
        "model": "embedded",
        "sequences": 12,
        "prompt_tokens": 120,
        "cached_tokens": 100,
        "output_tokens": 240,
        "padded_tokens": 30,
        "flops": flops,
        "flops_prefix_cached": flops,
        "wall_seconds": 0.5,
        "disposition": "used",
    }


def _train_step_row(unit: dict[str, Any], groups: int, zero: int, before: float, after: float, inserted: int) -> dict[str, Any]:
    return {
        **unit,
        "train_step_id": f"{unit['run_id']}.l{unit['launch']}.{unit['mode'][0]}{unit['step']}",
        "launch_start_step": 0,
        "world_size": 1,
        "num_groups": groups,
        "num_zero_reward_groups": zero,
        "zero_reward_fraction": before if groups else None,
        "zero_reward_fraction_after": after if groups else None,
        "num_inserted": inserted,
        "wall_seconds": 1.0,
        "metrics": "{}",
        "row_counts": "{}",
    }
