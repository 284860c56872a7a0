"""Diagnoses of known truth, mixed in among those that a judge is asked about. A judge that misjudges them is not to be believed.

Where the task knows the first error of an attempt, there are right ones, made from it, and wrong ones, altered from it. Elsewhere
there are only wrong ones: the diagnosis of another problem's attempt. Then nothing shows whether the judge knows a right one.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mentor_audit.audit.cases import ASPECTS, Case
from mentor_audit.audit.opinions import Audited, CanaryCounts
from mentor_audit.protocols import ChecksSteps, FirstError, Task, TaskProblem
from mentor_audit.records import Aspect


@dataclass(frozen=True)
class Canary:
    """`expected` holds the aspects whose verdict is known."""

    case: Case
    expected: Mapping[Aspect, bool]

    def count(self, audited: Audited) -> CanaryCounts:
        """Of its known verdicts, which the judge found."""
        given = {opinion.aspect: opinion.verdict for opinion in audited.opinions}
        true = [aspect for aspect, verdict in self.expected.items() if verdict]
        false = [aspect for aspect, verdict in self.expected.items() if not verdict]
        return CanaryCounts(
            len(true), sum(given.get(a) is True for a in true), len(false), sum(given.get(a) is False for a in false)
        )


class CanaryMaker:
    """`pool` are all cases of the audit. `problems` holds their problems by id, for a task that checks steps. `task` None: none."""

    def __init__(self, pool: Sequence[Case], task: Task | None, problems: Mapping[str, TaskProblem]) -> None:
        self._pool = [case for case in pool if case.is_readable and (case.location or case.claim)]
        self._task = task if isinstance(task, ChecksSteps) else None
        self._problems = problems

    def draw(self, cases: Sequence[Case], rng: random.Random, pairs: int) -> list[Canary]:
        """About the attempts of `cases`: up to `pairs` right ones, and as many wrong ones."""
        found: list[Canary] = []
        for case in rng.sample(cases, min(pairs, len(cases))):
            found += self._planted(case, rng) if self._task is not None else self._swapped(case, rng)
        return found

    def _planted(self, case: Case, rng: random.Random) -> list[Canary]:
        assert self._task is not None
        problem = self._problems[case.problem_id]
        truth = self._task.first_error(problem, case.attempt)
        if truth is None:
            return []
        altered = self._task.altered(problem, truth, rng)
        right, wrong = self._saying(case, truth), self._saying(case, altered)
        known_right: dict[Aspect, bool] = dict.fromkeys(ASPECTS, True)
        if not self._fits(problem, right):
            del known_right["fix"]
        known_wrong: dict[Aspect, bool] = {}
        if altered.location != truth.location:
            known_wrong["location"] = False
        if altered.error_type != truth.error_type:
            known_wrong["cause"] = False
        if self._fits(problem, wrong) is False:
            known_wrong["fix"] = False
        return [Canary(right, known_right), Canary(wrong, known_wrong)]

    def _swapped(self, case: Case, rng: random.Random) -> list[Canary]:
        said = (case.location, case.error_type, case.claim)
        others = [
            other
            for other in self._pool
            if other.problem_id != case.problem_id and (other.location, other.error_type, other.claim) != said
        ]
        if not others:
            return []
        other = rng.choice(others)
        swapped = replace(
            case, location=other.location, error_type=other.error_type, claim=other.claim, instruction=other.instruction
        )
        return [Canary(swapped, {"location": False, "cause": False})]

    def _saying(self, case: Case, error: FirstError) -> Case:
        assert self._task is not None
        instruction = self._task.instruction_for(error)
        return replace(case, location=error.location, error_type=error.error_type, claim=error.claim, instruction=instruction)

    def _fits(self, problem: TaskProblem, case: Case) -> bool | None:
        assert self._task is not None and case.instruction is not None
        return self._task.fits(problem, case.attempt, case.instruction)
