"""Which part of a completion is its answer."""

import pytest

from mentor_audit.tasks.maths.extract import extract


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("First \\boxed{5}. That is wrong; it is \\boxed{7}.", "7"),
        ("\\boxed{5} or, as some write, \\fbox{6}", "6"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed {\\{1,2\\}}", "\\{1,2\\}"),
        ("\\boxed{\\left\\{x : x>1\\right.}", "\\left\\{x : x>1\\right."),
        ("<think> maybe \\boxed{3} </think> The answer is \\boxed{4}", "4"),
        ("<think> it is \\boxed{3}", "3"),
        ("\\boxed{4} <think> or rather \\boxed{3} </think>", "3"),
        ("\\boxed{\\boxed{5}}", "5"),
        ("Answer: \\boxed{5}\nAnswer: 6", "5"),
        ("so\nAnswer: 5\nno,\n**Final Answer:** 6", "6"),
        ("It is 12.\n#### 12", "12"),
        ("  $\\frac{1}{3}$ \n", "$\\frac{1}{3}$"),
        ("5", "5"),
        ("We add.\nThe answer is 12.", "12."),
        ("a \\boxed{5} b", "5"),
        ("#### 12\n", "12"),
        ("final answer is 3\nthe end", "3"),
    ],
)
def test_the_last_box_then_the_last_line_then_a_bare_answer(text: str, answer: str) -> None:
    assert extract(text).answer == answer


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\\boxed{5} and then \\boxed{7", "not closed"),
        ("\\boxed{5} and then \\boxed{}", "empty"),
        ("\\boxed{5} and then \\boxed", "no opening brace"),
        ("Answer: 3\nso \\boxed{\\frac{1}{2}", "not closed"),
        ("long\ntext\nwithout any", "expected \\boxed"),
        ("x" * 300, "expected \\boxed"),
        ("", "expected \\boxed"),
    ],
)
def test_a_malformed_last_box_is_no_answer(text: str, why: str) -> None:
    found = extract(text)
    assert found.answer is None and why in (found.why or "")


def test_time_is_linear_in_the_length_of_hostile_text() -> None:
    for text in (
        "\\boxed{" * 50_000,
        "\n" * 300_000,
        "{" * 300_000 + "\\boxed{",
        "Answer" * 50_000,
        "####" * 50_000 + " \n" * 50_000,
    ):
        extract(text)
