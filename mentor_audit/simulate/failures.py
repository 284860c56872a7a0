"""What happens after a failure: the chance of a response, and how texts come to be right or to leak. Numbers and arrays alike."""

from typing import Any

import numpy as np
from scipy import stats

from mentor_audit.simulate.world import CARRIED, WITH_DIAGNOSIS, Failures

Number = Any
"""A float, or an array of one entry a problem or failure."""


def luck(failures: Failures, ease: Number) -> Number:
    """Chance that one sample is correct, of problems of this rank, 0 to 1."""
    return stats.beta.ppf(ease, *failures.lucky)


def accuracy(failures: Failures, ease: Number) -> Number:
    """Chance that a diagnosis is right."""
    room = min(failures.accuracy, 1 - failures.accuracy)
    return failures.accuracy + failures.tilt * (2 * ease - 1) * room


def chance(failures: Failures, arm: str, ease: Number, lucky: Number, right: Number, leaks: Number) -> Number:
    """Chance that one response of this arm is correct. `right`, `leaks`: 1 where its text names the true error, gives the answer away."""
    fails = 1 - lucky
    for cause in CARRIED[arm]:
        fails = fails * (1 - _strength(failures, cause, ease))
    fails = fails * (1 - right * _strength(failures, "correctness", ease))
    return 1 - fails * (1 - leaks * _strength(failures, "leakage", ease))


def right_chance(failures: Failures, arm: str, ease: Number) -> Number:
    """Chance that the arm's text names the true error."""
    if arm == "oracle":
        return 1.0 + 0 * ease
    if arm == "shuffled_other":
        return failures.accidental + 0 * ease
    if arm == "shuffled_same":
        return failures.same_error * accuracy(failures, ease)
    return accuracy(failures, ease) if arm in WITH_DIAGNOSIS else 0 * ease


def leak_chance(failures: Failures, arm: str) -> float:
    """Chance that the arm's text gives the answer away."""
    if arm == "answer_only":
        return 1.0
    return failures.leak_rate if arm in ("mentor", "paraphrase") else 0.0


def draw_texts(failures: Failures, ease: float, rng: np.random.Generator) -> dict[str, dict[str, bool]]:
    """Of one failure, arm -> whether its text would be `right` and `leaks`. Arms that stand on one diagnosis are right together."""
    own, other = (bool(v) for v in rng.random(2) < accuracy(failures, ease))
    same, accident, leaks = (bool(v) for v in rng.random(3) < (failures.same_error, failures.accidental, failures.leak_rate))
    right = {"oracle": True, "shuffled_other": accident, "shuffled_same": other and same}
    right |= dict.fromkeys(("scrubbed", "paraphrase", "mentor"), own)
    leaking = {"answer_only": True, "mentor": leaks, "paraphrase": leaks}
    texts = {arm: {"right": right.get(arm, False), "leaks": leaking.get(arm, False)} for arm in CARRIED}
    return {**texts, "diagnosis": {"right": own, "leaks": False}, "other_diagnosis": {"right": other, "leaks": False}}


def _strength(failures: Failures, cause: str, ease: Number) -> Number:
    return getattr(failures.causes, cause) * (1 - failures.spread + 2 * failures.spread * ease)
