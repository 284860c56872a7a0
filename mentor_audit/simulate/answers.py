"""Rows of what an arm did after one failure: instruction, responses and their costs. Shared by replays and randomised training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mentor_audit.config import ARMS_RESAMPLING, ARMS_WITH_MENTOR
from mentor_audit.simulate.failures import chance, draw_texts
from mentor_audit.simulate.rows import SAMPLE_FLOPS, Rows, attempt, cost, diagnosis, diagnosis_audit, with_gaps
from mentor_audit.simulate.world import Failures

SOURCE = {
    "retry": "attempt",
    "verdict_only": "template",
    "placebo": "template",
    "fixed_demo": "demonstration",
    "problem_hint": "problem",
    "shuffled_other": "other_problem",
    "shuffled_same": "other_attempt",
    "wrong": "altered",
    "answer_only": "gold",
    "scrubbed": "scrubbed",
    "paraphrase": "reworded",
    "oracle": "truth",
    "mentor": "diagnosis",
}
FROM_DIAGNOSIS = ("wrong", "scrubbed", "paraphrase", "mentor")
WRITTEN_BY_MENTOR = ("paraphrase", "problem_hint")
"""Arms for which the mentor is called a second time."""
MENTOR_FLOPS = 4e6
LEAK = "the answer is 1"


@dataclass(frozen=True)
class Failure:
    """A group whose every attempt was verified wrong. `failed`: their ids, the first is answered; `texts`: see draw_texts."""

    group_id: str
    problem_id: str
    failed: list[str]
    ease: float
    lucky: float
    texts: Mapping[str, Mapping[str, bool]]


def make_failure(
    failures: Failures, group_id: str, problem_id: str, verdicts: list[bool | None], ease: float, lucky: float, rng: np.random.Generator
) -> Failure | None:  # fmt: skip
    """None unless every attempt was verified wrong."""
    if verdicts.count(False) < len(verdicts):
        return None
    failed = [f"{group_id}.a{n}" for n in range(len(verdicts))]
    return Failure(group_id, problem_id, failed, ease, lucky, draw_texts(failures, ease, rng))


def add_diagnoses(rows: Rows, unit: dict[str, Any], failure: Failure, key: str, arms: tuple[str, ...]) -> None:
    """What the arms stand on, with a program's verdict: `key`.d0 of the answered attempt, `key`.d1 of another one for shuffled_same."""
    wanted = [("d0", failure.failed[0], "diagnosis")] if set(arms) & (set(ARMS_WITH_MENTOR) - {"shuffled_same"}) else []
    wanted += [("d1", failure.failed[-1], "other_diagnosis")] if "shuffled_same" in arms else []
    for name, read, text in wanted:
        diagnosis_id = f"{key}.{name}"
        rows["diagnosis"].append(diagnosis(unit, diagnosis_id, failure.group_id, read))
        rows["cost"].append(cost(unit, ("diagnosis", diagnosis_id), "mentor", "mentor", MENTOR_FLOPS, 1))
        right = failure.texts[text]["right"]
        rows["diagnosis_audit"] += [diagnosis_audit(unit, diagnosis_id, "planted_truth", a, right) for a in ("location", "cause")]


def add_answer(
    rows: Rows,
    unit: dict[str, Any],
    failures: Failures,
    failure: Failure,
    key: str,
    arm: str,
    number: int,
    rng: np.random.Generator,
    *,
    diagnoses: str,
    probability: float = 1.0,
    later: float = 0.0,
) -> list[bool | None]:
    """`number` responses of one arm in the group `key`, and their verdicts. `diagnoses`: key of add_diagnoses; `later`: one cause more."""
    if arm == "vanilla":
        return []
    text = failure.texts[arm]
    q = chance(failures, arm, failure.ease, failure.lucky, text["right"], text["leaks"])
    correct_N = rng.random(number) < 1 - (1 - q) * (1 - later)
    sampled = arm in ARMS_RESAMPLING
    verdicts = with_gaps(correct_N, failures.unscored * (1 if sampled else 2), rng)
    parent, flops = failure.failed[0], SAMPLE_FLOPS * number
    if sampled:
        role, instruction, owner, phase = "extra_sample", None, ("attempt_group", key), "extra_sample"
    else:
        role, instruction, owner, phase = "follow_up", f"{key}.i0", ("instruction", f"{key}.i0"), "follow_up"
        rows["instruction"].append(_instruction(unit, f"{key}.i0", key, failure, arm, diagnoses, probability))
        if arm in WRITTEN_BY_MENTOR:
            rows["cost"].append(cost(unit, owner, "mentor", "mentor", MENTOR_FLOPS, 1))
    for n, verdict in enumerate(verdicts):
        name = f"{key}.{'x' if sampled else 'f'}{n}"
        rows["attempt"].append(attempt(unit, name, key, failure.problem_id, role, n, verdict, parent, instruction))
    rows["cost"].append(cost(unit, owner, phase, "learner", flops, number))
    return verdicts


def _instruction(
    unit: dict[str, Any], instruction_id: str, key: str, failure: Failure, arm: str, diagnoses: str, probability: float
) -> dict[str, Any]:
    made_from = f"{diagnoses}.d0" if arm in FROM_DIAGNOSIS else f"{diagnoses}.d1" if arm == "shuffled_same" else None
    specific = arm in ("shuffled_other", "shuffled_same", "wrong", "scrubbed", "paraphrase", "oracle", "mentor")
    return {
        **unit,
        "instruction_id": instruction_id,
        "group_id": key,
        "attempt_id": failure.failed[0],
        "diagnosis_id": made_from,
        "arm": arm,
        "text": f"hint s1 carry {LEAK}" if failure.texts[arm]["leaks"] else "hint s1 carry",
        "source": SOURCE[arm],
        "assignment_probability": probability,
        "is_fitting": failure.texts[arm]["right"] if specific else None,
        "text_replaced": False,
    }
