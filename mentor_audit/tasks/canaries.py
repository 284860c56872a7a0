"""Before a run: does the verifier, as it is configured, pass what is right and fail what is wrong?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mentor_audit.errors import TaskError
from mentor_audit.protocols import TaskProblem, Verdict


@dataclass(frozen=True)
class Canary:
    """A completion whose verdict is known."""

    problem: TaskProblem
    completion: str
    expected_is_correct: bool


@runtime_checkable
class HasCanaries(Protocol):
    """A task that can tell whether its verifier works."""

    def canaries(self) -> Sequence[Canary]:
        """At least one. Each goes through `verify` as any completion does."""
        ...

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict: ...


def check_canaries(task: HasCanaries) -> None:
    """Raises TaskError for the first canary whose verdict isn't the known one, or when there is none."""
    canaries = task.canaries()
    if not canaries:
        raise TaskError(
            "Expected canaries from a task that offers them, found none. Give the task problems with reference solutions."
        )
    for canary in canaries:
        verdict = task.verify(canary.problem, canary.completion, "eos")
        if verdict.is_correct is not canary.expected_is_correct:
            known, found = ("right" if canary.expected_is_correct else "wrong"), _words(verdict)
            raise TaskError(
                f"Expected the verifier to find a known-{known} answer to {canary.problem.row.problem_id} {known}, found {found}. Nothing it "
                "says can be trusted: check the reference answers and the settings of [task]; for programs also `mentor-audit sandbox-check`."
            )


def _words(verdict: Verdict) -> str:
    found = {True: "right", False: "wrong", None: f"no verdict ({verdict.status})"}[verdict.is_correct]
    return f"{found}: {verdict.why}"
