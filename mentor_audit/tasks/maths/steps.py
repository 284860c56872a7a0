"""Where a solution first says something false: its steps in order, the equalities that each claims, the first that does not hold.

None is "nothing wrong was found", never "all is right": `num_checked` says how many claims were checked.
"""

import re
from dataclasses import asdict

from mentor_audit.tasks.maths.claims import Claim, claims
from mentor_audit.tasks.maths.report import StepReport, WrongStep

MAX_CHARACTERS = 50_000
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z\ue001])|(?<=[a-z%)][.!?])\s+(?=[\d$\\(])")


def split_steps(text: str) -> list[str]:
    """Lines, and the sentences of a line; a displayed formula stays whole. Empty ones are left out."""
    kept: list[str] = []

    def keep(found: "re.Match[str]") -> str:
        kept.append(found[0])
        return f"\ue001{len(kept) - 1}\ue002"

    text = re.sub(r"\$\$.+?\$\$|\\\[.+?\\\]|\\begin\{(align|gather|equation)\*?\}.+?\\end\{\1\*?\}", keep, text, flags=re.DOTALL)
    parts = [s.strip() for line in text.splitlines() for s in _SENTENCE.split(line)]
    whole = [re.sub("\ue001(\\d+)\ue002", lambda m: _displayed(kept[int(m[1])]), p) for p in parts]
    return [w for w in whole if w]


def review(text: str) -> StepReport:
    """Check the claims step by step, up to the first that does not hold. May hang on hostile text: see
    `MathVerifier.check_steps`.
    """
    if len(text) > MAX_CHARACTERS:
        return StepReport(why=f"longer than {MAX_CHARACTERS} characters")
    steps = split_steps(text)
    checked = unchecked = 0
    for index, step in enumerate(steps):
        found = claims(step)
        wrong = next((c for c in found if c.holds is False), None)
        before = found if wrong is None else found[: found.index(wrong) + 1]
        checked += sum(c.holds is not None for c in before)
        unchecked += sum(c.holds is None for c in before)
        if wrong is not None:
            return StepReport(steps, checked, unchecked, _wrong(index, step, wrong))
    return StepReport(steps, checked, unchecked)


def check_steps(text: str) -> dict:
    """`review` as a dict, for the worker's pipe."""
    return asdict(review(text))


def first_wrong_step(text: str) -> WrongStep | None:
    """None: no claim that could be checked is false. In this process and without a deadline."""
    return review(text).wrong


def _wrong(index: int, step: str, claim: Claim) -> WrongStep:
    return WrongStep(index, step, claim.text, claim.why)


def _displayed(formula: str) -> str:
    return formula if not formula.startswith("\\begin") else f"$${formula}$$"
