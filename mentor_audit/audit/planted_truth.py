"""The auditor of tasks that know, by program, where an attempt first goes wrong: each aspect is compared with the known error."""

from collections.abc import Mapping, Sequence
from typing import Any

from mentor_audit.audit.cases import ASPECTS, Case
from mentor_audit.audit.opinions import Audited, BatchAudit, Opinion, unreadable
from mentor_audit.protocols import ChecksSteps, FirstError, TaskProblem
from mentor_audit.records import Aspect


class PlantedTruth:
    """`problems` holds the problem of every case, by id."""

    name = "planted_truth"

    def __init__(self, task: ChecksSteps, problems: Mapping[str, TaskProblem]) -> None:
        self.settings: dict[str, Any] = {}
        self._task, self._problems = task, problems

    def aspects_of(self, case: Case) -> tuple[Aspect, ...]:
        return ASPECTS

    def audit(self, cases: Sequence[Case], seed: int) -> BatchAudit:
        return BatchAudit([self._one(case) for case in cases])

    def _one(self, case: Case) -> Audited:
        if not case.is_readable:
            return unreadable(ASPECTS)
        problem = self._problems[case.problem_id]
        truth = self._task.first_error(problem, case.attempt)
        if truth is None:
            return Audited(_without_truth(case))
        detection = Opinion("detection", True, f"the attempt has an error: {truth.claim}")
        location = _compared("location", case.location, truth.location)
        cause = _compared("cause", case.error_type, truth.error_type)
        return Audited([detection, location, cause, self._fix(case, problem, truth)])

    def _fix(self, case: Case, problem: TaskProblem, truth: FirstError) -> Opinion:
        if case.instruction is None:
            return Opinion("fix", None, "the mentor proposed no instruction")
        fits = self._task.fits(problem, case.attempt, case.instruction)
        words = {True: "names", False: "does not name", None: "may or may not name"}[fits]
        return Opinion("fix", fits, f"the instruction {words} the error in {truth.location}")


def _without_truth(case: Case) -> list[Opinion]:
    if case.attempt_is_correct:
        why = "the attempt is correct, so there is no error to find"
        return [Opinion(aspect, False, why) for aspect in ASPECTS]
    return [Opinion(aspect, None, "the program finds no error in the attempt's steps") for aspect in ASPECTS]


def _compared(aspect: Aspect, claimed: str | None, true: str) -> Opinion:
    if claimed is None:
        return Opinion(aspect, None, f"the mentor named none; found {true}")
    return Opinion(aspect, claimed == true, f"claimed {claimed}, found {true}")
