"""Ladders: arms in the order in which each adds one thing to the one below, so that the differences add up. For transfer and rescue alike."""

from collections.abc import Sequence
from dataclasses import dataclass

MAIN = (
    ("resample", "sampling"),
    ("retry", "context"),
    ("placebo", "form"),
    ("wrong", "residual"),
    ("scrubbed", "correctness"),
    ("mentor", "leakage"),
)
"""From vanilla to mentor."""
BESIDE = (("shuffled_other", "residual"), ("shuffled_same", "topic"), ("mentor", "trajectory"))
"""From placebo to mentor, by other arms: what of a diagnosis is the problem's, and what this failure's."""
ISOLATES = {
    "gain": "everything that the mentor arm adds",
    "sampling": "extra samples of the same price, no instruction",
    "beyond sampling": "what an instruction adds to its price spent on samples",
    "context": "seeing the failed attempt, without feedback",
    "one bit": "being told only that it was wrong",
    "form": "a generic instruction of the same length",
    "residual": "what any specific text adds to a generic one, true or not",
    "topic": "a diagnosis of the same problem, against one of another problem",
    "trajectory": "the diagnosis of this failure, against one of another attempt at the problem",
    "content": "the diagnosis of this failure, against one of another problem",
    "correctness": "a true diagnosis, against a deliberately wrong one of the same form",
    "leakage": "what the mentor's words add to the same ones without the answer",
    "noise floor": "the mentor's words against the same in other words: what counts as nothing",
    "failure": "having read the failure, against a hint from the problem alone",
    "live": "a diagnosis made now, against a demonstration prepared before",
    "answer alone": "a diagnosis, against the bare reference answer",
    "beyond form": "a diagnosis, against a generic instruction of the same length",
    "ceiling": "what a perfect diagnosis would add to the mentor's",
}
"""Contrast -> what it is the effect of."""


@dataclass(frozen=True)
class Rung:
    """One arm minus another. `isolates` in words."""

    name: str
    plus: str
    minus: str
    isolates: str


def ladder(arms: Sequence[str], steps: Sequence[tuple[str, str]], bottom: str, extra: str = "resample") -> list[Rung]:
    """The rungs of `steps` (MAIN from vanilla, BESIDE from placebo) that the arms allow; they add up from `bottom` to mentor.

    Where an arm wasn't run, its step is part of the next one's, and named there; `context` and the split of `leakage` from `correctness` are
    left unnamed where their arm wasn't run. `extra` stands in for resample. Empty without `bottom` or mentor.
    """
    if bottom not in arms or "mentor" not in arms:
        return []
    rungs, below, waiting = [], bottom, []
    for arm, adds in steps:
        arm = extra if arm == "resample" else arm
        if arm not in arms:
            waiting += [] if adds == "context" else [adds]
            continue
        names = [*waiting, adds]
        names = [name for name in names if name != "leakage" or "correctness" not in names]
        name = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        rungs.append(Rung(name, arm, below, "; ".join(ISOLATES[n] for n in names)))
        below, waiting = arm, []
    return rungs
