"""The auditor of maths: the first equality of an attempt that does not hold, against the step that the diagnosis points at.

It knows false equalities and nothing else. A diagnosis that points at an earlier step may be right for a reason that no equality
shows: that can't be told. One that points at a later step has missed an error.
"""

from collections.abc import Sequence
from typing import Any

from mentor_audit.audit.cases import Case
from mentor_audit.audit.opinions import Audited, BatchAudit, Opinion, unreadable
from mentor_audit.audit.step_places import Region, readings
from mentor_audit.records import Aspect
from mentor_audit.tasks.maths import MathVerifier
from mentor_audit.tasks.maths.report import StepReport, WrongStep

ASPECTS_CHECKED: tuple[Aspect, ...] = ("detection", "location")


class StepChecker:
    name = "step_checker"

    def __init__(self, verifier: MathVerifier) -> None:
        self.settings: dict[str, Any] = {"deadline_s": verifier.deadline_s}
        self._verifier = verifier

    def aspects_of(self, case: Case) -> tuple[Aspect, ...]:
        return ASPECTS_CHECKED

    def audit(self, cases: Sequence[Case], seed: int) -> BatchAudit:
        return BatchAudit([self._one(case) for case in cases])

    def _one(self, case: Case) -> Audited:
        if not case.is_readable:
            return unreadable(ASPECTS_CHECKED)
        report = self._verifier.check_steps(case.attempt)
        if report.wrong is None:
            why = report.why or f"none of the {report.num_checked} equalities that could be checked is false"
            return Audited([Opinion(aspect, None, why) for aspect in ASPECTS_CHECKED])
        wrong = report.wrong
        detection = Opinion("detection", True, f"step {wrong.index + 1} says {wrong.equality}: {wrong.why}")
        return Audited([detection, _location(case, report, wrong)])


def _location(case: Case, report: StepReport, wrong: WrongStep) -> Opinion:
    """From `location`; where that names no place, from the claim."""
    found: list[Region] = []
    for words in (case.location, case.claim):
        found = found or readings(words or "", report.steps, case.attempt)
    first = f"the first false equality is in step {wrong.index + 1}, {wrong.equality}"
    if not found:
        return Opinion("location", None, f"no step that the diagnosis points at was found; {first}")
    verdicts = {_verdict(region, wrong.index) for region in found}
    verdict = verdicts.pop() if len(verdicts) == 1 else None
    places = " or ".join(_named(region) for region in found)
    return Opinion("location", verdict, f"the diagnosis points at {places}; {first}")


def _verdict(region: Region, wrong: int) -> bool | None:
    if wrong in region:
        return True
    return False if min(region) > wrong else None


def _named(region: Region) -> str:
    first, last = min(region) + 1, max(region) + 1
    return f"step {first}" if first == last else f"steps {first} to {last}"
