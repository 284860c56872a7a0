"""The verdict's questions, one after the other, on contrasts made by hand: one store can't show where each line lies."""

import pytest

from mentor_audit.report.contrasts import MARGIN
from mentor_audit.report.replay import Replay, RescueContrast
from mentor_audit.report.statistics import Estimate, equivalence_p, upper_bound
from mentor_audit.report.verdict import Verdict, decide_replay

NAMES = {
    "gain": ("mentor", "vanilla"),
    "sampling": ("resample", "vanilla"),
    "beyond sampling": ("mentor", "resample"),
    "correctness": ("mentor", "wrong"),
    "correctness, answer removed": ("scrubbed", "wrong"),
    "leakage": ("mentor", "scrubbed"),
}


def contrast(name: str, points: float, error: float) -> RescueContrast:
    """`points` and its standard error, in points; 400 problems, so the ends lie 1.97 errors off and the one-sided bound 1.65."""
    value, se = points / 100, error / 100
    estimate = Estimate(value, value - 1.966 * se, value + 1.966 * se, se, 399, 0.001 if abs(points) > 3 * error else 0.2, 1, 400)
    plus, minus = NAMES[name]
    return RescueContrast(name, plus, minus, "", estimate, None, upper_bound(estimate), equivalence_p(estimate, MARGIN))


def verdict(**points: tuple[float, float]) -> Verdict:
    contrasts = [contrast(name.replace("_", " ").replace(" answer", ", answer"), *given) for name, given in points.items()]
    arms = [
        {"arm": arm, "failures": 400, "unknown": 0, "rescue_rate": contrasts[0].estimate}
        for arm in sorted({a for c in contrasts for a in (c.plus, c.minus)})
    ]
    return decide_replay(Replay("r", 0, None, "start", "scripted", None, 400, 400, arms, contrasts))


def test_a_sampling_of_little_account_is_not_named_beside_correct_diagnoses() -> None:
    found = verdict(gain=(95, 1), sampling=(0.8, 0.3), beyond_sampling=(94.2, 1), correctness=(93, 1))
    assert found.code == "correct_diagnoses"
    assert found.sentence == (
        "Gain explained by correct diagnoses; extra sampling adds less than 5 points to vanilla, with 95 % confidence."
    )


def test_sampling_that_may_matter_is_named_as_a_cause_or_left_open() -> None:
    assert verdict(gain=(50, 2), sampling=(8, 3), beyond_sampling=(42, 3), correctness=(30, 3)).code == "both"
    open_still = verdict(gain=(50, 2), sampling=(4, 3), beyond_sampling=(46, 3), correctness=(30, 3))
    assert open_still.code == "correct_diagnoses"
    assert open_still.sentence.endswith("extra sampling was not shown to add to it.")


@pytest.mark.parametrize("correctness", [(1.5, 0.5), (0.2, 0.5)])
def test_a_correctness_of_little_account_does_not_explain_a_large_gain(correctness: tuple[float, float]) -> None:
    """It is above 0 in one of the two: with enough failures everything is."""
    found = verdict(gain=(40, 1), sampling=(2, 1), beyond_sampling=(38, 1), correctness=correctness)
    assert found.code == "instruction_form"
    assert "no better than a wrong diagnosis (equivalence within 5 points, with 95 % confidence)" in found.sentence


def test_of_a_small_gain_small_parts_are_causes() -> None:
    found = verdict(gain=(3, 0.5), sampling=(0.1, 0.5), beyond_sampling=(2.9, 0.5), correctness=(2.5, 0.5))
    assert found.code == "correct_diagnoses"


def test_a_large_gain_that_fresh_samples_match_is_sampling_even_when_a_little_is_left() -> None:
    found = verdict(gain=(40, 1), sampling=(38, 1), beyond_sampling=(2, 0.5), correctness=(30, 1))
    assert found.code == "extra_sampling"


def test_a_leaked_answer_is_told_from_a_correct_diagnosis() -> None:
    base = {"gain": (40.0, 1.0), "sampling": (1.0, 1.0), "beyond_sampling": (39.0, 1.0), "correctness": (35.0, 1.0)}
    assert verdict(**base, correctness_answer_removed=(0.5, 1), leakage=(34.5, 1)).code == "leakage"
    assert verdict(**base, correctness_answer_removed=(30, 1), leakage=(5, 1)).code == "correct_diagnoses"
    assert verdict(**base, correctness_answer_removed=(0.5, 1), leakage=(2, 2)).code == "cannot_tell"


def test_what_is_neither_shown_nor_excluded_is_open() -> None:
    assert verdict(gain=(4, 3), sampling=(1, 1), beyond_sampling=(3, 3), correctness=(3, 3)).code == "cannot_tell"
    assert verdict(gain=(1, 1), sampling=(0, 1), beyond_sampling=(1, 1), correctness=(0, 1)).code == "no_gain"
    found = verdict(gain=(20, 3), sampling=(15, 3), beyond_sampling=(5, 4), correctness=(3, 3))
    assert found.code == "cannot_tell" and "mentor minus resample is +5.0" in found.sentence
    found = verdict(gain=(20, 3), sampling=(5, 3), beyond_sampling=(15, 4), correctness=(3, 3))
    assert found.code == "cannot_tell" and "mentor minus wrong is +3.0" in found.sentence
