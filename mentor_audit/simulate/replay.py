"""Rows of a failure bank, of every arm's answers to it, and of audits after the fact."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mentor_audit.config import ARMS_RESAMPLING
from mentor_audit.simulate.answers import LEAK, Failure, add_answer, add_diagnoses, make_failure
from mentor_audit.simulate.failures import luck
from mentor_audit.simulate.rows import (
    SAMPLE_FLOPS,
    Rows,
    add_run,
    attempt,
    cost,
    diagnosis_audit,
    group,
    problem,
    train_step,
    unit_id,
    unit_of,
    with_gaps,
)
from mentor_audit.simulate.world import Replays

BATCH = 64
"""Groups of the bank, failures of a replay and audited rows in one unit."""


def add_replays(rows: Rows, suite: str, replays: Replays, rng: np.random.Generator) -> None:
    """Runs `<suite>-bank`, `<suite>-<name>` and the audits of what the replay wrote."""
    found = _add_bank(rows, suite, replays, rng)
    run_id = f"{suite}-{replays.name}"
    mentor = {"kind": "scripted", "accuracy": replays.failures.accuracy}
    add_run(rows, suite, run_id, "replay", 0, "scripted", {"suite": {"name": suite}, "mentor": mentor})
    for step, batch in enumerate(_batches(found)):
        unit = unit_of(run_id, step, "replay")
        for i, failure in enumerate(batch):
            _add_treatments(rows, unit, replays, failure, i, rng)
        rows["train_step"].append(train_step(unit))
    if replays.failures.judge is not None:
        _add_judge(rows, suite, run_id, *replays.failures.judge, rng)
    if replays.failures.leak_rate or "answer_only" in replays.arms:
        _add_leak_audits(rows, suite, run_id)


def _add_bank(rows: Rows, suite: str, replays: Replays, rng: np.random.Generator) -> list[Failure]:
    run_id, failures = f"{suite}-bank", replays.failures
    add_run(rows, suite, run_id, "bank", 0, "-", {"suite": {"name": suite}})
    rows["problem"] += [problem(f"r{p}", run_id) for p in range(replays.problems)]
    ease_P = rng.random(replays.problems)
    lucky_P = luck(failures, ease_P)
    correct_P_R_G = rng.random((replays.problems, replays.groups, replays.attempts)) < lucky_P[:, None, None]
    verdicts = with_gaps(correct_P_R_G.reshape(-1, replays.attempts), failures.unscored, rng)
    found = []
    for step, batch in enumerate(_batches(list(enumerate(verdicts)))):
        unit = unit_of(run_id, step, "replay")
        for g, (number, given) in enumerate(batch):
            p, key = number // replays.groups, f"{unit_id(unit)}.g{g}"
            rows["attempt"] += [attempt(unit, f"{key}.a{n}", key, f"r{p}", "attempt", n, v) for n, v in enumerate(given)]
            rows["attempt_group"].append(group(unit, key, f"r{p}", given, False, "bank", 1.0))
            owner, flops = ("attempt_group", key), SAMPLE_FLOPS * len(given)
            rows["cost"].append(cost(unit, owner, "rollout", "learner", flops, len(given)))
            failure = make_failure(failures, key, f"r{p}", given, float(ease_P[p]), float(lucky_P[p]), rng)
            found += [failure] if failure else []
        rows["train_step"].append(train_step(unit))
    return found


def _add_treatments(
    rows: Rows, unit: dict[str, Any], replays: Replays, failure: Failure, place: int, rng: np.random.Generator
) -> None:
    """One failure, `place` in its unit, and every arm's answer to it."""
    named = f"{unit_id(unit)}.b{place}"
    add_diagnoses(rows, unit, failure, named, replays.arms)
    for a, arm in enumerate(replays.arms):
        key = f"{unit_id(unit)}.g{place * len(replays.arms) + a}"
        treated = group(
            unit, key, failure.problem_id, [False] * len(failure.failed), arm != "vanilla", arm, 1.0, failure.group_id
        )
        rows["attempt_group"].append(treated)
        number = replays.extra_samples if arm in ARMS_RESAMPLING else replays.follow_ups
        add_answer(rows, unit, replays.failures, failure, key, arm, number, rng, diagnoses=named)


def _add_judge(rows: Rows, suite: str, audited: str, sensitivity: float, specificity: float, rng: np.random.Generator) -> None:
    """A second auditor of every diagnosis: finds a right one right with chance `sensitivity`, a wrong one wrong with `specificity`."""
    run_id = f"{suite}-audit-judge"
    add_run(rows, suite, run_id, "audit", 0, "-", {"suite": {"name": suite}})
    known = [row for row in rows["diagnosis_audit"] if row["run_id"] == audited and row["aspect"] == "location"]
    for step, batch in enumerate(_batches(known)):
        unit = unit_of(run_id, step, "audit")
        for row in batch:
            errs = rng.random() > (sensitivity if row["verdict"] else specificity)
            found = [
                diagnosis_audit(unit, row["diagnosis_id"], "judge", a, row["verdict"] != errs) for a in ("location", "cause")
            ]
            rows["diagnosis_audit"] += found
            rows["cost"].append(cost(unit, ("diagnosis_audit", found[0]["audit_id"]), "audit", "audit", SAMPLE_FLOPS, 1))
        rows["train_step"].append(train_step(unit))


def _add_leak_audits(rows: Rows, suite: str, audited: str) -> None:
    """A program looks for the answer in every instruction."""
    run_id = f"{suite}-audit-program"
    add_run(rows, suite, run_id, "audit", 0, "-", {"suite": {"name": suite}})
    instructions = [row for row in rows["instruction"] if row["run_id"] == audited]
    for step, batch in enumerate(_batches(instructions)):
        unit = unit_of(run_id, step, "audit")
        for row in batch:
            found = LEAK in row["text"]
            rows["leak_audit"].append(
                {
                    **unit,
                    "leak_audit_id": f"{row['instruction_id']}.program",
                    "instruction_id": row["instruction_id"],
                    "auditor": "program",
                    "answer_found": found,
                    "answer_span": LEAK if found else None,
                    "answer_known": False if found else None,
                    "is_leak": found,
                    "text_replaced": False,
                }
            )
        rows["train_step"].append(train_step(unit))


def _batches(found: Sequence[Any]) -> list[Sequence[Any]]:
    return [found[i : i + BATCH] for i in range(0, len(found), BATCH)]
