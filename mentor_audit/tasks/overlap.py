"""Does training meet the held-out problems? Exact copies, and near copies: the same numbers in nearly the same words.

Words are compared by shingles of three (Jaccard similarity), lower case, punctuation left out. The numbers must be the same ones as often:
problems made from one template differ in their numbers and are different problems.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mentor_audit.errors import TaskError
from mentor_audit.protocols import TaskProblem

NEAR = 0.8
SHINGLE = 3
_WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+|[+\-*/^=<>]")


@dataclass(frozen=True)
class Overlap:
    """A training problem and the held-out problem that it repeats. `similarity` 1.0: word for word."""

    train: TaskProblem
    heldout: TaskProblem
    similarity: float


def find_overlap(train: Sequence[TaskProblem], heldout: Sequence[TaskProblem], near: float = NEAR) -> list[Overlap]:
    """For each training problem its most similar held-out problem, where that reaches `near`; in the order of `train`."""
    by_shingle: dict[tuple[object, ...], list[int]] = defaultdict(list)
    shingles = [_shingles(p.row.prompt) for p in heldout]
    for i, found in enumerate(shingles):
        for shingle in found:
            by_shingle[shingle].append(i)
    overlaps = []
    for problem in train:
        mine = _shingles(problem.row.prompt)
        shared = Counter(i for shingle in mine for i in by_shingle.get(shingle, ()))
        best = max(((n / (len(mine) + len(shingles[i]) - n), -i) for i, n in shared.items()), default=(0.0, 0))
        if best[0] >= near:
            overlaps.append(Overlap(problem, heldout[-best[1]], best[0]))
    return overlaps


def without_overlap(
    train: Sequence[TaskProblem], heldout: Sequence[TaskProblem], policy: str, where: str
) -> tuple[list[TaskProblem], int]:
    """The problems to train on, and how many were left out.

    `policy` refuse: raises TaskError when any training problem repeats a held-out one; drop: leaves it out; allow: keeps it, unless it is
    the very same problem with the same answer: the two splits never share a fingerprint.
    """
    if policy == "allow":
        held_out = {p.row.fingerprint for p in heldout}
        kept = [p for p in train if p.row.fingerprint not in held_out]
        return kept, len(train) - len(kept)
    found = find_overlap(train, heldout)
    if found and policy == "refuse":
        first = max(found, key=lambda overlap: overlap.similarity)
        raise TaskError(
            f"Expected training and held-out problems of {where} to differ, found {len(found)} of {len(train)} training problems that "
            f"repeat a held-out one (the same numbers in nearly the same words). The closest, {first.similarity:.0%} alike: "
            f'{_short(first.train)!r} and {_short(first.heldout)!r}. Set task.overlap = "drop" to leave them out of training, or correct the data.'
        )
    out = {id(overlap.train) for overlap in found}
    return [p for p in train if id(p) not in out], len(out)


def _shingles(text: str) -> set[tuple[object, ...]]:
    """The numbers of the text are part of every shingle, so that texts with other numbers share none."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).lower())
    numbers = tuple(sorted(word for word in words if word[0].isdigit()))
    pieces = [tuple(words[i : i + SHINGLE]) for i in range(max(1, len(words) - SHINGLE + 1))]
    return {(numbers, piece) for piece in pieces}


def _short(problem: TaskProblem) -> str:
    text = " ".join(problem.row.prompt.split())
    return text if len(text) <= 80 else f"{text[:77]}..."
