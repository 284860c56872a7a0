"""A table task whose maths worker fails once, on rank 1, in the way that the settings say."""

import os
import signal
import threading
from collections.abc import Sequence
from typing import Literal

from mentor_audit.protocols import Answer, TaskProblem, Verdict
from mentor_audit.tasks import MathVerifier
from mentor_audit.tasks.table import TableSettings, TableTask

SIGNALS = {"hang": (), "kill": (signal.SIGKILL,), "crash": (signal.SIGSEGV, signal.SIGCONT)}


class FailingSettings(TableSettings):
    how: Literal["hang", "kill", "crash"]


class FailingTask(TableTask):
    """Every answer of a batch is replaced by one that needs a worker: a random model gives none."""

    Settings = FailingSettings

    def __init__(self, settings: FailingSettings) -> None:
        super().__init__(settings)
        self.maths = MathVerifier(deadline_s=2.0, workers=1)
        self._how, self._is_due = settings.how, os.environ.get("RANK") == "1"

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        return TableTask.verify_batch(self, [Answer(problem, completion, finish_reason)])[0]

    def verify_batch(self, answers: Sequence[Answer]) -> list[Verdict]:
        posed = [Answer(a.problem, f"\\boxed{{\\frac{{{i}}}{{3}} + x}}", "eos") for i, a in enumerate(answers)]
        if self._is_due:
            self._is_due = False
            self.maths.verify(gold="y", completion="\\boxed{z}")  # so that there is a worker
            (worker,) = self.maths._pool.pids()
            os.kill(worker, signal.SIGSTOP)  # the first answer finds it silent
            threading.Timer(0.5, lambda: [os.kill(worker, number) for number in SIGNALS[self._how]]).start()
        return super().verify_batch(posed)
