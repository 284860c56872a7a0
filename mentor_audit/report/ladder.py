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
    "correctness, answer removed": "the same, with the reference answer taken out of the true one",
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


CONTRASTS = (
    ("gain", "mentor", "vanilla"),
    ("sampling", "resample", "vanilla"),
    ("beyond sampling", "mentor", "resample"),
    ("context", "retry", "resample"),
    ("one bit", "verdict_only", "retry"),
    ("form", "placebo", "retry"),
    ("residual", "wrong", "placebo"),
    ("topic", "shuffled_same", "shuffled_other"),
    ("trajectory", "mentor", "shuffled_same"),
    ("content", "mentor", "shuffled_other"),
    ("correctness", "mentor", "wrong"),
    ("correctness, answer removed", "scrubbed", "wrong"),
    ("leakage", "mentor", "scrubbed"),
    ("noise floor", "mentor", "paraphrase"),
    ("failure", "mentor", "problem_hint"),
    ("live", "mentor", "fixed_demo"),
    ("answer alone", "mentor", "answer_only"),
    ("beyond form", "mentor", "placebo"),
    ("ceiling", "oracle", "mentor"),
)
"""(name, plus, minus) of every contrast that a report shows. See `pairs`, which fits them to the arms that there are."""


def pairs(arms: Sequence[str], extra: str = "resample") -> list[tuple[str, str, str]]:
    """CONTRASTS of arms that are there. `extra` stands in for resample; without `retry` the arms above it are held against `extra`.

    Where both resampling arms were run, the contrasts of the other one follow, named after it.
    """
    there, found = set(arms), []
    below_form = "retry" if "retry" in there else extra
    for name, plus, minus in CONTRASTS:
        plus, minus = (extra if arm == "resample" else arm for arm in (plus, minus))
        minus = below_form if minus == "retry" else minus
        if {plus, minus} <= there:
            found.append((name, plus, minus))
    other = next((arm for arm in ("resample", "resample_flops") if arm in there and arm != extra), None)
    if other:
        more = [(f"sampling, {other}", other, "vanilla"), (f"beyond sampling, {other}", "mentor", other)]
        found += [(name, plus, minus) for name, plus, minus in more if {plus, minus} <= there]
    return found


def isolates(name: str) -> str:
    """What a contrast is the effect of, in words."""
    return ISOLATES[name] if name in ISOLATES else ISOLATES[name.partition(",")[0]]
