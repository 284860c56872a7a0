"""A table task whose maths workers fail on rank 1 during training, in the way that the settings say."""

import os
import signal
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from mentor_audit.protocols import Answer, TaskProblem, Verdict
from mentor_audit.tasks.maths import pool
from mentor_audit.tasks.table import TableSettings, TableTask

How = Literal["hang", "kill", "crash"]
HANGS = "\\sum_{k=1}^{10^{9}} \\frac{1}{k}"
FAILING = (4, 1)
"""How many answers fail of the first training batches of rank 1; of later ones none does."""


class FailingWorker(pool.Worker):
    """Fails while it works on the answer that hangs: killed, or ended by a request that it doesn't know, or not at all."""

    how: ClassVar[How]

    def _send(self, request: dict[str, Any], until: float) -> None:
        is_due = HANGS in request["arguments"]
        super()._send(request | {"function": "unknown"} if is_due and self.how == "crash" else request, until)
        if is_due and self.how == "kill":
            os.kill(self.pid, signal.SIGKILL)


class FailingSettings(TableSettings):
    how: How


class FailingTask(TableTask):
    """A random model gives no answers, so each is replaced by a right or a wrong one that takes a worker to judge."""

    Settings = FailingSettings

    def __init__(self, settings: FailingSettings) -> None:
        super().__init__(settings)
        self._failing = iter(FAILING if os.environ["RANK"] == "1" else ())
        FailingWorker.how = settings.how
        pool.Worker = FailingWorker  # type: ignore[misc]

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        """Canaries go to the verifier as they are."""
        return super().verify_batch([Answer(problem, completion, finish_reason)])[0]

    def verify_batch(self, answers: Sequence[Answer]) -> list[Verdict]:
        trains = any(a.problem.row.split == "train" for a in answers)
        failing = next(self._failing, 0) if trains else 0
        posed = [HANGS if i < failing else f"{a.problem.row.gold} + {i % 2} x" for i, a in enumerate(answers)]
        return super().verify_batch(
            [Answer(a.problem, f"\\boxed{{{text}}}", "eos") for a, text in zip(answers, posed, strict=True)]
        )
