"""Rows of training suites: arms x seeds x steps with groups, responses, costs and held-out evaluations.

A run's held-out accuracy rises with its cumulative compute towards start + gain[arm].
"""

from typing import Any

import numpy as np

from mentor_audit.simulate.rows import (
    Rows,
    add_run,
    attempt,
    cost,
    diagnosis,
    diagnosis_audit,
    group,
    problem,
    train_step,
    unit_id,
    unit_of,
    with_gaps,
)
from mentor_audit.simulate.world import World

RESPONDING = ("resample", "resample_flops", "retry", "verdict_only", "placebo", "shuffled_other", "wrong", "scrubbed", "oracle", "mentor")  # fmt: skip
CALLING = ("placebo", "shuffled_other", "wrong", "scrubbed", "mentor")
SOURCE = {
    "retry": "attempt",
    "verdict_only": "template",
    "placebo": "template",
    "shuffled_other": "other_problem",
    "wrong": "altered",
    "scrubbed": "scrubbed",
    "oracle": "truth",
    "mentor": "diagnosis",
}


def add_training(rows: Rows, world: World, rng: np.random.Generator) -> None:
    difficulty_P = rng.normal(0, world.problem_spread, world.heldout)
    names = [f"h{i}" for i in range(world.heldout)] + [f"t{i}" for i in range(world.train_problems)]
    first = f"{world.suite}-{next(iter(world.gain))}-s{world.seeds[0]}"
    rows["problem"] += [problem(name, first) for name in names]
    for arm in world.gain:
        for seed in world.seeds:
            _run(rows, world, arm, seed, difficulty_P, rng)


def _run(rows: Rows, world: World, arm: str, seed: int, difficulty_P: np.ndarray, rng: np.random.Generator) -> None:
    run_id = f"{world.suite}-{arm}-s{seed}"
    luck = rng.normal(0, world.seed_spread)
    config = {
        "suite": {"name": world.suite},
        "mentor": {"kind": "scripted", "accuracy": world.mentor_accuracy},
        "train": {"learning_rate": 3e-4, "steps": world.steps},
        "notes": list(world.notes),
        "warm_up": {"steps": 1600, "seconds": 95.0},
    }
    add_run(rows, world.suite, run_id, arm, seed, "scripted" if arm in CALLING else "-", config)
    total = 1e9 * world.steps
    for step in range(world.steps + 1):
        spent = world.flops_a_step.get(arm, 1e9) * step
        gained = (world.gain[arm] + luck * (step > 0)) * min(1.0, spent / total)
        if step in world.eval_steps:
            chance_P = np.clip(world.start + gained + difficulty_P, 0.0, 1.0)
            correct_P_N = rng.random((world.heldout, world.samples)) < chance_P[:, None]
            _evaluation(rows, run_id, step, with_gaps(correct_P_N, world.unscored.get(arm, 0.0), rng))
        if step < world.steps:
            _train_step(rows, world, arm, run_id, step, gained, rng)


def _evaluation(rows: Rows, run_id: str, step: int, verdicts_P_N: list[list[bool | None]]) -> None:
    unit = unit_of(run_id, step, "eval")
    for p, verdicts in enumerate(verdicts_P_N):
        key = f"{unit_id(unit)}.g{p}"
        rows["attempt"] += [attempt(unit, f"{key}.a{n}", key, f"h{p}", "eval", n, v) for n, v in enumerate(verdicts)]
        rows["attempt_group"].append(group(unit, key, f"h{p}", verdicts, False))
    rows["cost"].append(cost(unit, ("train_step", unit_id(unit)), "eval", "eval", 5e8))
    rows["train_step"].append(train_step(unit))


def _train_step(rows: Rows, world: World, arm: str, run_id: str, step: int, gained: float, rng: np.random.Generator) -> None:
    unit = unit_of(run_id, step, "train")
    flops = world.flops_a_step.get(arm, 1e9)
    zero = rescued = 0
    for g in range(world.groups_a_step):
        problem_id, key = f"t{rng.integers(world.train_problems)}", f"{unit_id(unit)}.g{g}"
        failed = bool(rng.random() < max(0.05, 0.9 - 1.5 * gained))
        verdicts: list[bool | None] = [False] * 4 if failed else [True, False, False, True]
        rows["attempt"] += [attempt(unit, f"{key}.a{n}", key, problem_id, "attempt", n, v) for n, v in enumerate(verdicts)]
        answered = failed and arm in RESPONDING
        rows["attempt_group"].append(group(unit, key, problem_id, verdicts, answered, arm, 1.0))
        zero += failed
        if answered:
            rescued += _response(rows, world, arm, unit, key, problem_id, rng)
    learner = 0.8 * flops if arm in CALLING else flops
    owner = ("train_step", unit_id(unit))
    rows["cost"].append(cost(unit, owner, "rollout", "learner", 0.4 * learner))
    rows["cost"].append(cost(unit, owner, "optimizer", "learner", 0.6 * learner))
    if arm in CALLING:
        rows["cost"].append(cost(unit, owner, "mentor", "mentor", None if world.unknown_mentor_flops else flops - learner))
    rows["train_step"].append(train_step(unit, world.groups_a_step, zero, rescued, rescued))


def _response(
    rows: Rows, world: World, arm: str, unit: dict[str, Any], key: str, problem_id: str, rng: np.random.Generator
) -> bool:
    parent = f"{key}.a0"
    is_correct = bool(rng.random() < world.rescue.get(arm, 0.05))
    if arm in ("resample", "resample_flops"):
        rows["attempt"].append(attempt(unit, f"{key}.x0", key, problem_id, "extra_sample", 0, is_correct, parent))
        return is_correct
    is_true = bool(rng.random() < world.mentor_accuracy)
    if arm in CALLING:
        rows["diagnosis"].append(diagnosis(unit, f"{key}.d0", key, parent))
        rows["diagnosis_audit"] += [
            diagnosis_audit(unit, f"{key}.d0", "planted_truth", aspect, is_true or aspect == "cause")
            for aspect in ("location", "cause")
        ]
    fits = {
        "mentor": is_true,
        "scrubbed": is_true,
        "oracle": True,
        "shuffled_other": bool(rng.random() < world.accidental),
        "wrong": False,
    }
    rows["instruction"].append(
        {
            **unit,
            "instruction_id": f"{key}.i0",
            "group_id": key,
            "attempt_id": parent,
            "diagnosis_id": f"{key}.d0" if arm in ("mentor", "scrubbed") else None,
            "arm": arm,
            "text": "hint s1 carry",
            "source": SOURCE[arm],
            "assignment_probability": 1.0,
            "is_fitting": fits.get(arm),
            "text_replaced": False,
        }
    )
    rows["attempt"].append(attempt(unit, f"{key}.f0", key, problem_id, "follow_up", 0, is_correct, parent, f"{key}.i0"))
    return is_correct
