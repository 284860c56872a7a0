"""What an auditor says, and what it must offer. An opinion is on one aspect; "can't tell" is an opinion too, with its reason."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mentor_audit.audit.cases import Case
from mentor_audit.protocols import Usage
from mentor_audit.records import Aspect

CANARIES_FOUND = 0.8
"""Of the verdicts of one kind that are known: an auditor that finds fewer is warned of."""
UNREADABLE = "the mentor's reply could not be read: there is no diagnosis to judge"


@dataclass(frozen=True)
class Opinion:
    """`verdict` None: it can't be told, `why` says why. `confidence` 0 to 1; None: none was given."""

    aspect: Aspect
    verdict: bool | None
    why: str
    confidence: float | None = None


@dataclass(frozen=True)
class Audited:
    """The opinions on one case. `usage` None: no model was called for it. `error`: why the call failed."""

    opinions: Sequence[Opinion]
    usage: Usage | None = None
    error: str | None = None


@dataclass(frozen=True)
class CanaryCounts:
    """Verdicts on diagnoses of known truth: how many should have been true, how many of those were; the same for false.

    "Can't tell" counts among those asked and not among those found.
    """

    true_asked: int = 0
    true_found: int = 0
    false_asked: int = 0
    false_found: int = 0

    def __add__(self, other: "CanaryCounts") -> "CanaryCounts":
        return CanaryCounts(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class BatchAudit:
    """Of one batch: one `Audited` a case, in order, and what came of the canaries among them."""

    audited: Sequence[Audited]
    canaries: CanaryCounts = CanaryCounts()
    canary_usages: Sequence[Usage] = field(default_factory=list)


class Auditor(Protocol):
    """`settings` is what could change an opinion, as JSON."""

    name: str
    settings: dict[str, Any]

    def aspects_of(self, case: Case) -> tuple[Aspect, ...]:
        """Those that it can have an opinion on; each gets one from `audit`, "can't tell" included."""
        ...

    def audit(self, cases: Sequence[Case], seed: int) -> BatchAudit:
        """One batch. Never raises for what a model or a diagnosis says."""
        ...


def unreadable(aspects: Sequence[Aspect]) -> Audited:
    return Audited([Opinion(aspect, None, UNREADABLE) for aspect in aspects])
