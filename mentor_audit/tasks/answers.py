"""A modest verifier: which answer a completion gives, and whether it is the reference answer.

Numbers are compared exactly, as fractions; everything else as normalised text. There is no symbolic comparison: `x+1` is not `1+x`.
"""

import re
from fractions import Fraction

from mentor_audit.protocols import Verdict

_NUMBER = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?")
_FRACTION = re.compile(r"([+-]?\d+)\s*/\s*(\d+)")
_LATEX_FRACTION = re.compile(r"([+-]?)\\[dt]?frac\{(-?\d+)\}\{(\d+)\}")
_ANSWER_LINE = re.compile(r"^\s*(?:\**(?:final )?answer\**\s*(?::|is)\**|####)\s*(.+?)\s*$", re.IGNORECASE | re.MULTILINE)


def verify_answer(gold: str | None, completion: str, finish_reason: str) -> Verdict:
    """Correct, or wrong with status incorrect or no_answer; without a verdict when cut short or when the gold can't be read.

    A completion that was cut at the length limit has no verdict, whatever stands in it: it had not finished answering.
    """
    reference = None if gold is None else gold_answer(gold)
    if not reference:
        return Verdict(None, "unscorable_gold", why="the reference answer is empty")
    if finish_reason == "length":
        return Verdict(None, "truncated", why="cut at the length limit")
    answer = extract_answer(completion)
    if answer is None:
        return Verdict(False, "no_answer", why="expected \\boxed{...}, `Answer: ...` or `#### ...`")
    same = same_answer(reference, answer)
    return Verdict(same, "correct" if same else "incorrect", answer, f"read {answer!r}, expected {reference!r}")


def gold_answer(gold: str) -> str:
    """The answer in a reference solution that marks it as completions do; the whole text of any other."""
    return (extract_answer(gold) or gold).strip()


def extract_answer(text: str) -> str | None:
    """The last box's content; a last box that is malformed is no answer, not the one before it. Without boxes, the last answer line."""
    start = text.rfind("\\boxed")
    if start >= 0:
        return _braced(text[start + len("\\boxed") :])
    lines = _ANSWER_LINE.findall(text)
    return lines[-1] if lines else None


def same_answer(gold: str, answer: str) -> bool:
    """Equal as exact numbers, where both are numbers; else equal as normalised text."""
    a, b = _number(gold), _number(answer)
    if a is not None and b is not None:
        return a == b
    return _normalised(gold) == _normalised(answer)


def _braced(text: str) -> str | None:
    """What stands between the opening brace at the start and the one that closes it."""
    text = text.lstrip()
    if not text.startswith("{"):
        return None
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[1:i].strip() or None
    return None


def _number(text: str) -> Fraction | None:
    text = _normalised(text).removesuffix("%").strip()
    latex = _LATEX_FRACTION.fullmatch(text)
    if latex:
        text = f"{latex[1]}{latex[2]}/{latex[3]}".replace("--", "")
    fraction = _FRACTION.fullmatch(text)
    if fraction:
        return Fraction(int(fraction[1]), int(fraction[2])) if int(fraction[2]) else None
    if _NUMBER.fullmatch(text) and any(c.isdigit() for c in text):
        return Fraction(text.replace(",", ""))
    return None


def _normalised(text: str) -> str:
    return " ".join(text.replace("$", " ").replace("\\!", "").split()).rstrip(".").strip().casefold()
