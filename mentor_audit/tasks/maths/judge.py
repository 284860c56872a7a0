"""One answer against one reference, as the worker decides it. It may hang, run out of memory or fail: that is for the pool to
handle.
"""

import re
from dataclasses import asdict, dataclass

from mentor_audit.records import AttemptStatus
from mentor_audit.tasks.maths.compare import same
from mentor_audit.tasks.maths.exact import is_huge
from mentor_audit.tasks.maths.kinds import Items, Labelled, Reading, Scalar, Words
from mentor_audit.tasks.maths.readings import read
from mentor_audit.tasks.maths.scalar import Unreadable
from mentor_audit.tasks.maths.text import clean

_BARE_LOG = r"\\log(?![A-Za-z_])"


@dataclass(frozen=True)
class Outcome:
    """`is_correct` None: unscored, `status` says why."""

    is_correct: bool | None
    status: AttemptStatus
    why: str


def judge(gold: str, answer: str, is_bare: bool) -> dict:
    """An Outcome as a dict. `is_bare`: the answer is a whole completion, which may be a remark and no answer."""
    return asdict(_judge(gold, answer, is_bare))


def unscorable(gold: str) -> str | None:
    """Why nothing can be compared with this reference; None: it can be read."""
    try:
        read(gold)
    except Unreadable as error:
        return str(error)
    return None


def _judge(gold: str, answer: str, is_bare: bool) -> Outcome:
    try:
        reference = read(gold)
    except Unreadable as error:
        return Outcome(None, "unscorable_gold", f"the reference {_short(gold)} can't be read: {error}")
    compared = f"read {_short(answer)}, expected {_short(gold)}"
    if clean(gold) == clean(answer):
        return Outcome(True, "correct", compared)
    try:
        given = read(answer)
    except Unreadable as error:
        if is_bare:
            return Outcome(False, "no_answer", f"no box and no answer line, and the completion is no answer: {error}")
        return Outcome(None, "verifier_error", f"{compared}: the answer can't be read: {error}")
    found = same(reference, given)
    if found is False and re.search(_BARE_LOG, f"{clean(gold)} {clean(answer)}"):
        natural = [read(re.sub(_BARE_LOG, r"\\ln ", clean(t))) for t in (gold, answer)]
        found = False if same(natural[0], natural[1]) is False else None  # the base that was meant is not known
    if found is None:
        if any(_huge(r) for r in (*reference, *given)):
            return Outcome(None, "verifier_timeout", f"{compared}: a number is too large to evaluate")
        return Outcome(None, "verifier_error", f"{compared}: neither equal nor different could be shown")
    if not found and is_bare and all(isinstance(r, Words) for r in given):
        return Outcome(False, "no_answer", f"no box and no answer line, and the completion {_short(answer)} is no answer")
    return Outcome(found, "correct" if found else "incorrect", compared)


def _huge(reading: Reading) -> bool:
    if isinstance(reading, Scalar):
        return is_huge(reading.value)
    if isinstance(reading, Labelled):
        return any(_huge(r) for r in reading.readings)
    return isinstance(reading, Items) and any(_huge(r) for item in reading.items for r in item or ())


def _short(text: str) -> str:
    text = " ".join(text.split())
    return f"`{text if len(text) <= 80 else text[:77] + '...'}`"
