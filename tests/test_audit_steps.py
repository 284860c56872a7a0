"""The step checker's auditor: which step a diagnosis points at, however it says so, and what then can and can't be told."""

from collections.abc import Iterator
from typing import Any

import pytest
from test_audit import case

from mentor_audit.audit.step_checker import StepChecker
from mentor_audit.audit.step_places import compact, readings
from mentor_audit.tasks.maths import MathVerifier
from mentor_audit.tasks.maths.steps import split_steps

PLAIN = "First we add 3 + 4 = 7.\nThen 7 * 2 = 15.\n\nSo 15 - 1 = 14.\nThe answer is 14."
LABELLED = "Step 1: Let us add.\n3 + 4 = 7\nStep 2: Double it. 7 * 2 = 15\nStep 3: Take one away.\n15 - 1 = 14"
TWICE = "7 * 2 = 14\n3 + 4 = 8\n7 * 2 = 14\n8 + 1 = 9"


@pytest.fixture(scope="module")
def checker() -> Iterator[StepChecker]:
    with MathVerifier(workers=1) as verifier:
        yield StepChecker(verifier)


def judged(checker: StepChecker, attempt: str, location: str | None, claim: str | None = None) -> dict[str, Any]:
    (found,) = checker.audit([case(attempt=attempt, location=location, claim=claim)], 0).audited
    return {opinion.aspect: opinion for opinion in found.opinions}


@pytest.mark.parametrize(
    ("attempt", "location", "verdict"),
    [
        (PLAIN, "`7 * 2 = 15`", True),
        (PLAIN, "the doubling, $7 \\times 2 = 15$", True),
        (PLAIN, "7*2=15 is not true", True),
        (PLAIN, "step 2", True),
        (PLAIN, "In the second step the product is off", True),
        (PLAIN, "line 2", True),
        (PLAIN, "So 15 - 1 = 14", False),  # later than the first false equality
        (PLAIN, "step 4", False),
        (PLAIN, "the last step", False),
        (PLAIN, "Step 4: 15 - 1 = 14", False),
        (PLAIN, "3 + 4 = 7", None),  # earlier: no equality says that it is wrong, and none that it is right
        (PLAIN, "step 1", None),
        (PLAIN, "`3 + 4 = 7` or `7 * 2 = 15`", None),  # two places
        (PLAIN, "step 9", None),
        (PLAIN, "step 0", None),
        (PLAIN, "the multiplication", None),
        (PLAIN, "7", None),
        (PLAIN, "17 * 2 = 15", None),  # not what stands there
        (PLAIN, "7 * 2 = 1", None),
        (PLAIN, "`7 * 2`", True),
        (LABELLED, "Step 2", True),  # its own labels count, not its lines
        (LABELLED, "Step 3", False),
        (LABELLED, "Step 1", None),
        (LABELLED, "line 3", True),
        (LABELLED, "line 4", False),
        (TWICE, "3 + 4 = 8", True),
        (TWICE, "7 * 2 = 14", None),  # stands before and after it
        (TWICE, "line 3", False),
    ],
)
def test_where_a_diagnosis_points(checker: StepChecker, attempt: str, location: str, verdict: bool | None) -> None:
    opinion = judged(checker, attempt, location)["location"]
    assert opinion.verdict is verdict, opinion.why
    assert "the first false equality is in step" in opinion.why


def test_a_step_number_that_may_count_lines_or_sentences_is_told_only_where_both_agree(checker: StepChecker) -> None:
    attempt = "We add. It is easy.\n7 * 2 = 15.\nTake one. 15 - 1 = 14."
    assert judged(checker, attempt, "step 3")["location"].verdict is None, "the third sentence is it, the third line comes later"
    assert judged(checker, attempt, "step 5")["location"].verdict is False, "there is no fifth line"
    assert judged(checker, attempt, "line 2")["location"].verdict is True


def test_the_claim_counts_where_the_location_names_no_place(checker: StepChecker) -> None:
    assert judged(checker, PLAIN, "in the middle", "7 * 2 = 15 should be 14")["location"].verdict is True
    assert judged(checker, PLAIN, None, "15 - 1 = 14 is wrong")["location"].verdict is False
    assert judged(checker, PLAIN, "step 2", "15 - 1 = 14 is wrong")["location"].verdict is True, "the location comes first"


def test_detection_needs_a_false_equality(checker: StepChecker) -> None:
    assert judged(checker, PLAIN, "step 2")["detection"].verdict is True
    nothing = judged(checker, "3 + 4 = 7 and so the answer is 9", "step 1")
    assert {aspect: opinion.verdict for aspect, opinion in nothing.items()} == {"detection": None, "location": None}
    assert "none of the 1 equalities" in nothing["detection"].why


def test_a_reply_that_could_not_be_read_gets_no_verdict(checker: StepChecker) -> None:
    (found,) = checker.audit([case(attempt=PLAIN, is_readable=False, location=None)], 0).audited
    assert [(o.aspect, o.verdict) for o in found.opinions] == [("detection", None), ("location", None)]


def test_what_only_changes_the_look_is_left_out() -> None:
    assert compact(r"$7 \times 2 = {15}$") == compact("7*2 = 15") == "7*2=15"
    assert compact("1,234 − 4") == "1234-4" and compact("(1, 234)") != compact("(1234)")


def test_steps_of_a_displayed_formula_and_of_lines() -> None:
    text = "We add.\n$$\n3 + 4\n= 8\n$$\nThen 8 + 1 = 9."
    steps = split_steps(text)
    assert len(steps) == 3
    assert readings("line 3", steps, text)[0] == {1}
    assert readings("line 6", steps, text) == [frozenset({2})]
    assert readings("", steps, text) == []
