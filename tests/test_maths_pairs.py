"""Pairs of a reference and an answer in the style of GSM8K, MATH, AIME and Omni-MATH, right and wrong, each in both orders."""

from pathlib import Path

import pytest

from mentor_audit.tasks.maths.judge import judge, unscorable

LINES = (Path(__file__).parent / "test_maths_pairs.txt").read_text(encoding="utf-8").splitlines()
PAIRS = [tuple(part.strip() for part in line.split(" ;; ")) for line in LINES if not line.startswith("#")]
LETTER = {True: "T", False: "F", None: "N"}


@pytest.mark.parametrize("wanted", sorted({p[0] for p in PAIRS}))
def test_verdicts_are_right_in_both_orders(wanted: str) -> None:
    wrong = []
    chosen = [p for p in PAIRS if p[0] == wanted]
    for _, reference, answer in chosen:
        for gold, given in ((reference, answer), (answer, reference)):
            found = judge(gold, given, False)
            if LETTER[found["is_correct"]] not in wanted:
                wrong.append((gold, given, found))
    assert not wrong
    assert len(chosen) > 5


def test_an_answer_agrees_with_itself_whenever_it_can_be_read() -> None:
    texts = sorted({text for _, *both in PAIRS for text in both})
    readable = [t for t in texts if unscorable(t) is None]
    assert len(readable) > 500
    assert [t for t in readable if judge(t, t, False)["is_correct"] is not True] == []
