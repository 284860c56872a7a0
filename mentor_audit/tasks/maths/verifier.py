"""`MathVerifier`: is a completion's answer the reference answer, decided exactly, in worker processes that can be killed.

What counts as the answer is `extract`'s to say, what counts as equal `compare`'s; docs/maths.md states both. This module
decides what is scored at all, and is the front door: one answer, a batch, a TRL reward function, the check of a data set's
references, of a text's steps.
"""

import importlib.util
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from mentor_audit.errors import TaskError
from mentor_audit.protocols import Verdict
from mentor_audit.tasks.maths.extract import extract
from mentor_audit.tasks.maths.fast import plain_number
from mentor_audit.tasks.maths.pool import Pool
from mentor_audit.tasks.maths.report import StepReport, WrongStep, report_from

MAX_ANSWER_CHARACTERS = 4000
_REMEMBERED = 10_000


@dataclass(frozen=True)
class MathItem:
    """One completion to verify. `finish_reason` "length": it was cut."""

    gold: str | None
    completion: str
    finish_reason: str = "eos"


class MathVerifier:
    """Verdicts on maths answers. Safe to use from any thread and after a fork; pickles as its settings; close it or use it as a
    context.

    deadline_s    seconds that one item may take in a worker; it then is verifier_timeout and the worker is replaced
    workers       processes; None: one a core, at most 8. They start when first needed
    gold_column   the column of references that the instance itself reads as a reward function

    Raises TaskError when the library that reads LaTeX is not installed, or for a deadline or number of workers that is not
    positive.
    """

    def __init__(self, deadline_s: float = 5.0, workers: int | None = None, gold_column: str = "answer") -> None:
        if importlib.util.find_spec("latex2sympy2_extended") is None:
            raise TaskError("Expected the library math-verify for maths answers, found it not installed. pip install math-verify")
        if deadline_s <= 0 or (workers is not None and workers < 1):
            raise TaskError(
                f"Expected a positive deadline and number of workers, found {deadline_s} and {workers}. Correct them."
            )
        self.__name__ = "math_verifier"
        self.deadline_s, self.gold_column = deadline_s, gold_column
        self.workers = workers or min(8, os.cpu_count() or 1)
        self._start()

    def _start(self) -> None:
        self._pool = Pool(self.workers)
        self._known: dict[tuple[str, str, bool], Verdict] = {}
        self._lock = threading.Lock()

    def verify(self, gold: str | None, completion: str, finish_reason: str = "eos") -> Verdict:
        """`is_correct` None: unscored, `status` and `why` say why. `gold` is an answer, or a solution that marks its answer.
        Never raises.
        """
        reference, problem = _reference(gold)
        if problem is not None:
            return Verdict(None, "unscorable_gold", why=problem)
        if finish_reason == "length":
            return Verdict(None, "truncated", why="cut at the length limit")
        found = extract(completion)
        if found.answer is None:
            return Verdict(False, "no_answer", why=found.why)
        if len(found.answer) > MAX_ANSWER_CHARACTERS:
            return Verdict(None, "verifier_error", why=f"the answer is longer than {MAX_ANSWER_CHARACTERS} characters")
        return self._decide(reference, found.answer, found.source == "bare")

    def verify_batch(self, items: Sequence[MathItem]) -> list[Verdict]:
        """One verdict an item, in order. An item that hangs costs its own deadline on one worker; the others go on."""
        with ThreadPoolExecutor(self.workers) as threads:
            return list(threads.map(lambda item: self.verify(item.gold, item.completion, item.finish_reason), items))

    def check_gold(self, gold: str | None) -> str | None:
        """Why nothing can be scored against this reference; None: it can be read. Ask it of a data set before training on it."""
        reference, problem = _reference(gold)
        if problem is not None or plain_number(reference) is not None:
            return problem
        reply = self._pool.call("unscorable", [reference], self.deadline_s)
        return reply.value if reply.kind == "ok" else reply.why

    def check_steps(self, text: str) -> StepReport:
        """The first false equality of a solution, in a worker. A report with `why` set: it could not be checked. Never raises."""
        reply = self._pool.call("check_steps", [text], self.deadline_s)
        return report_from(reply.value) if reply.kind == "ok" else StepReport(why=reply.why)

    def first_wrong_step(self, text: str) -> WrongStep | None:
        """None: no claim that could be checked is false, or nothing could be checked."""
        return self.check_steps(text).wrong

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """As a TRL reward function: 1.0 correct, 0.0 incorrect or no answer,
        None unscored. Completions are texts or chat messages.

        A column `finish_reason` is used where there is one. Raises TaskError when the column of references is missing or of
        another length.
        """
        return self._rewards(self.gold_column, completions, columns)

    def as_reward(self, gold_column: str) -> "MathReward":
        """The same as a reward function that reads another column."""
        return MathReward(self, gold_column)

    def _rewards(self, gold_column: str, completions: Sequence[Any], columns: dict[str, Any]) -> list[float | None]:
        golds = columns.get(gold_column)
        if golds is None or len(golds) != len(completions):
            raise TaskError(
                f"Expected a column `{gold_column}` with a reference for each of {len(completions)} completions, found "
                f"{'none' if golds is None else len(golds)} (columns: "
                f"{', '.join(sorted(columns)) or 'none'}). Name the column of the answers."
            )
        reasons = columns.get("finish_reason") or ["eos"] * len(completions)
        items = [
            MathItem(None if g is None else str(g), _text(c), r) for g, c, r in zip(golds, completions, reasons, strict=True)
        ]
        return [None if v.is_correct is None else float(v.is_correct) for v in self.verify_batch(items)]

    def _decide(self, gold: str, answer: str, is_bare: bool) -> Verdict:
        a, b = plain_number(gold), plain_number(answer)
        if a is not None and b is not None:
            return Verdict(a == b, "correct" if a == b else "incorrect", answer, f"read `{answer}`, expected `{gold}`")
        key = (gold, answer, is_bare)
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return known
        reply = self._pool.call("judge", list(key), self.deadline_s)
        if reply.kind != "ok":
            status: Any = "verifier_timeout" if reply.kind == "timeout" else "verifier_error"
            return Verdict(None, status, answer, reply.why)
        verdict = Verdict(reply.value["is_correct"], reply.value["status"], answer, reply.value["why"])
        with self._lock:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = verdict
        return verdict

    def close(self) -> None:
        """Ends the workers. A later call starts new ones."""
        self._pool.close()

    def __enter__(self) -> "MathVerifier":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"deadline_s": self.deadline_s, "workers": self.workers, "gold_column": self.gold_column}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class MathReward:
    """A MathVerifier as a TRL reward function with the name of its gold column."""

    def __init__(self, verifier: MathVerifier, gold_column: str) -> None:
        self.verifier, self.gold_column = verifier, gold_column
        self.__name__ = "math_verifier"

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """As `MathVerifier.__call__`."""
        return self.verifier._rewards(self.gold_column, completions, columns)


def _reference(gold: str | None) -> tuple[str, str | None]:
    """(the reference answer, None), or (empty, why there is none)."""
    if gold is None or not gold.strip():
        return "", "the reference answer is empty"
    found = extract(gold)
    if found.answer is None and "box" in (found.why or ""):
        marked = "\\boxed" in gold or "\\fbox" in gold
        return ("", f"in the reference, {found.why}") if marked else (gold.strip(), None)
    answer = found.answer or gold.strip()
    if len(answer) > MAX_ANSWER_CHARACTERS:
        return "", f"the reference answer is longer than {MAX_ANSWER_CHARACTERS} characters"
    return answer, None


def _text(completion: Any) -> str:
    """A completion's text; of chat messages the last one's."""
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])
