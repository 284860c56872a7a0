"""What is scored at all, the statuses, and the verifier as a TRL reward function."""

from collections.abc import Iterator

import pytest

from mentor_audit.errors import TaskError
from mentor_audit.tasks.maths import MathItem, MathVerifier


@pytest.fixture(scope="module")
def verifier() -> Iterator[MathVerifier]:
    with MathVerifier(workers=1) as made:
        yield made


@pytest.mark.parametrize(
    ("gold", "completion", "is_correct", "status"),
    [
        ("7", "First \\boxed{5}. That is wrong; it is \\boxed{7}.", True, "correct"),
        ("5", "First \\boxed{5}. That is wrong; it is \\boxed{7}.", False, "incorrect"),
        ("5", "\\boxed{5} then \\boxed{7", False, "no_answer"),
        ("5", "I do not know.", False, "no_answer"),
        ("5", "I would say that it is five\nor so", False, "no_answer"),
        ("5", "5", True, "correct"),
        ("\\frac13", "$\\frac{1}{3}$", True, "correct"),
        ("\\frac13", "\\frac14", False, "incorrect"),
        ("Monday", "monday.", True, "correct"),
        ("Monday", "Tuesday", False, "no_answer"),
        ("Monday", "\\boxed{Tuesday}", False, "incorrect"),
        ("Work it out.\n#### 1,000", "Answer: 1000", True, "correct"),
        ("so we get \\boxed{\\frac{1}{2}}", "\\boxed{0.5}", True, "correct"),
        ("so we get \\boxed{\\frac{1}{2}", "\\boxed{0.5}", None, "unscorable_gold"),
        ("", "\\boxed{0.5}", None, "unscorable_gold"),
        (None, "\\boxed{0.5}", None, "unscorable_gold"),
        ("1+2+\\cdots+n", "\\boxed{5}", None, "unscorable_gold"),
        ("5", "\\boxed{\\foo}", None, "verifier_error"),
        ("5", "\\boxed{" + "1+" * 3000 + "1}", None, "verifier_error"),
        ("5", "\\boxed{5^{5^{5^{5^{5}}}}}", None, "verifier_timeout"),
        ("an odd number", "\\boxed{odd number}", True, "correct"),
    ],
)
def test_statuses(verifier: MathVerifier, gold: str | None, completion: str, is_correct: bool | None, status: str) -> None:
    found = verifier.verify(gold, completion)
    assert (found.is_correct, found.status) == (is_correct, status)
    assert found.why


def test_a_completion_that_was_cut_has_no_verdict(verifier: MathVerifier) -> None:
    assert verifier.verify("5", "\\boxed{5}", "length").status == "truncated"
    assert verifier.verify("5", "\\boxed{5}", "length").is_correct is None


def test_a_batch_keeps_its_order(verifier: MathVerifier) -> None:
    items = [MathItem(str(i), f"\\boxed{{{i + i % 2}}}") for i in range(50)]
    assert [v.is_correct for v in verifier.verify_batch(items)] == [i % 2 == 0 for i in range(50)]
    assert verifier.verify_batch([]) == []


def test_references_are_checked_before_training(verifier: MathVerifier) -> None:
    golds = ["5", "\\frac{1}{2}", "(1,2)", "Monday", "f(x+y)", "", None, "\\boxed{3", "x \\foo y", "5^{5^{5^{5}}}"]
    reasons = [verifier.check_gold(g) for g in golds]
    assert [r is None for r in reasons] == [True, True, True, True, False, False, False, False, False, True]
    assert "not closed" in (reasons[7] or "")


def test_as_a_reward_function(verifier: MathVerifier) -> None:
    completions = ["\\boxed{1}", "\\boxed{2}", "\\boxed{\\foo}", "nothing"]
    columns = {"prompts": ["?"] * 4, "completion_ids": [[1]] * 4, "answer": ["1", 1, "1", "1"], "trainer_state": None}
    assert verifier(completions=completions, **columns) == [1.0, 0.0, None, 0.0]
    assert verifier.__name__ == "math_verifier"
    assert verifier(completions=completions, **columns, finish_reason=["length"] * 4) == [None] * 4
    reward = verifier.as_reward("solution")
    chat = [
        [{"role": "assistant", "content": "\\boxed{3}"}],
        [{"role": "assistant", "content": [{"type": "text", "text": "#### 4"}]}],
        [],
    ]
    assert reward(completions=chat, prompts=[], solution=["3", "5", "6"]) == [1.0, 0.0, 0.0]
    assert reward.__name__ == "math_verifier"


def test_a_missing_column_is_named(verifier: MathVerifier) -> None:
    with pytest.raises(TaskError, match=r"column `solution`.*found none \(columns: answer\)"):
        verifier.as_reward("solution")(completions=["1"], answer=["1"])
    with pytest.raises(TaskError, match="each of 2 completions, found 1"):
        verifier(completions=["1", "2"], answer=["1"])


def test_a_verdict_does_not_change_when_it_is_asked_again(verifier: MathVerifier) -> None:
    assert verifier.verify("x+1", "\\boxed{1+x}") == verifier.verify("x+1", "\\boxed{1+x}")
