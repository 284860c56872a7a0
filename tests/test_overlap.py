"""Training that repeats a held-out problem is found: word for word, or nearly; other numbers make another problem."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentor_audit.errors import TaskError
from mentor_audit.protocols import TaskProblem
from mentor_audit.records import Problem
from mentor_audit.tasks.identity import fingerprint
from mentor_audit.tasks.overlap import find_overlap, without_overlap

LONG = (
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. "
    "How many clips did Natalia sell altogether in April and May?"
)


def posed(text: str, gold: str = "1") -> TaskProblem:
    row = Problem(
        problem_id=text[:20], run_id="-", task="t", split="train", prompt=text, gold=gold, source="s", fingerprint=fingerprint(text, gold)
    )  # fmt: skip
    return TaskProblem(row, text)


def similarity(a: str, b: str) -> float:
    found = find_overlap([posed(a)], [posed(b)])
    return found[0].similarity if found else 0.0


@pytest.mark.parametrize(
    "other",
    [
        LONG,
        LONG.upper(),
        LONG.replace(", ", " ").replace("?", " ?"),
        LONG.replace("altogether ", ""),
        f"  {LONG}\n",
    ],
)
def test_the_same_problem_in_other_clothes_is_found(other: str) -> None:
    assert similarity(LONG, other) >= 0.8


def test_a_label_in_another_gold_answer_does_not_hide_a_copy() -> None:
    (found,) = find_overlap([posed(LONG, "72")], [posed(LONG, "73")])
    assert found.similarity == 1.0


@pytest.mark.parametrize(
    "other",
    [
        LONG.replace("48", "52"),
        "What is 48?",
        "Ben bought 48 apples in April and ate half of them. How many apples has he left in May?",
        "",
    ],
)
def test_another_problem_is_not(other: str) -> None:
    assert similarity(LONG, other) == 0.0


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_one_template_with_other_numbers_is_two_problems(a: int, b: int) -> None:
    template = "A train travels {} kilometres in one hour. How many kilometres does it travel in seven hours at the same speed?"
    assert (similarity(template.format(a), template.format(b)) == 1.0) is (a == b)


def test_the_most_similar_one_is_named() -> None:
    near = LONG.replace("altogether ", "")
    (found,) = find_overlap([posed(LONG)], [posed(near), posed(LONG), posed("x y z")])
    assert found.heldout.row.prompt == LONG


def test_overlap_is_refused_dropped_or_kept_as_the_settings_say() -> None:
    train, heldout = [posed("a first problem with 3"), posed(LONG)], [posed(LONG.lower())]
    with pytest.raises(TaskError, match=r'found 1 of 2 training problems.*100%.*overlap = "drop"'):
        without_overlap(train, heldout, "refuse", "data.jsonl")
    assert without_overlap(train, heldout, "drop", "data.jsonl") == (train[:1], 1)
    assert without_overlap(train, heldout, "allow", "data.jsonl") == (train, 0)
    assert without_overlap(train, train[:1], "allow", "data.jsonl") == (train[1:], 1), "the splits never share a fingerprint"
