"""Any table of prompts and answers as a task, with presets for the data sets of the field."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Number
from typing import Any, Literal, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mentor_audit.errors import TaskError
from mentor_audit.protocols import Answer, Prompt, TaskProblem, Verdict
from mentor_audit.records import Problem
from mentor_audit.tasks.canaries import Canary
from mentor_audit.tasks.identity import fingerprint, problem_id
from mentor_audit.tasks.maths import MathItem, MathVerifier
from mentor_audit.tasks.maths.extract import extract
from mentor_audit.tasks.maths.fast import plain_number
from mentor_audit.tasks.overlap import without_overlap
from mentor_audit.tasks.presets import MATHS, of_preset
from mentor_audit.tasks.prompting import VERDICT_ONLY, instructed_prompt, make_prompt, placebo
from mentor_audit.tasks.reading import read_rows, require_columns, value

NUM_CANARIES = 3


class TableSettings(BaseModel):
    """Where the rows are and what their columns mean. Held-out problems come from a file or split of their own, or are drawn."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    preset: str | None = Field(default=None, description="settings of a known data set, which every other setting replaces")
    path: str = Field(description="a file, or a Hugging Face data set id")
    config_name: str | None = Field(default=None, description="of a Hugging Face data set with several configurations")
    train_split: str = "train"
    heldout_path: str | None = Field(default=None, description="a file of held-out problems")
    heldout_split: str | None = Field(default=None, description="a split of the Hugging Face data set")
    heldout_fraction: float = Field(default=0.2, gt=0, lt=1, description="drawn from the rows when neither is given")
    seed: int = Field(default=0, description="of that draw")
    overlap: Literal["refuse", "drop", "allow"] = Field(
        default="refuse", description="what becomes of training problems that repeat a held-out one, in nearly the same words"
    )
    prompt_column: str = Field(default="prompt", description="text, or chat messages; dots lead into nested columns")
    answer_column: str = "answer"
    answer_is: Literal["whole", "last_box", "after_hashes", "whole_number"] = Field(
        default="whole",
        description="the answer in its column: all of it; in the last \\boxed{}; after the last ####; a number such as 42.0 that stands "
        "for a whole one",
    )
    deadline_seconds: float = Field(default=5.0, gt=0, description="that one answer may take the verifier")
    system_prompt: str | None = None
    template: str = Field(default="{problem}", description="`{problem}` is replaced by the problem's text")
    chat: bool = Field(default=True, description="pose problems as chat messages; false: as plain text")

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, values: Any) -> Any:
        return of_preset(values, MATHS)


class TableTask:
    """Verdicts by `maths.MathVerifier`; docs/maths.md says what counts as the answer and what as equal.

    num_overlapping   training problems left out because they repeat a held-out one
    unscorable        problem -> why no answer to it could be scored: they are in neither split
    """

    name = "table"

    def __init__(self, settings: TableSettings) -> None:
        """Reads everything. Raises TaskError for a missing file, column or row, and for overlapping splits, in words."""
        self.settings = settings
        self.unscorable: dict[str, str] = {}
        self.maths = MathVerifier(settings.deadline_seconds)
        train = self._load(settings.path, settings.train_split, "train")
        if settings.heldout_path or settings.heldout_split:
            heldout = self._load(settings.heldout_path or settings.path, settings.heldout_split or "train", "heldout")
        else:
            train, heldout = self._drawn(train)
        train, self.num_overlapping = without_overlap(train, heldout, settings.overlap, settings.path)
        if not train:
            raise TaskError(f"Expected problems to train on in {settings.path}, found none that is not held out. Add rows.")
        self._problems = {"train": train, "heldout": heldout}

    def problems(self, split: str) -> list[TaskProblem]:
        return list(self._problems[split])

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        return self.verify_batch([Answer(problem, completion, finish_reason)])[0]

    def verify_batch(self, answers: Sequence[Answer]) -> list[Verdict]:
        return self.maths.verify_batch([MathItem(a.problem.row.gold, a.completion, a.finish_reason) for a in answers])

    def canaries(self) -> list[Canary]:
        """The reference answers of the first problems, boxed, and a wrong answer to each."""
        return [
            canary
            for problem in self._problems["train"][:NUM_CANARIES]
            for canary in (Canary(problem, _boxed(problem.row.gold), True), Canary(problem, _boxed(_wrong(problem)), False))
        ]

    def instructed_prompt(self, problem: TaskProblem, instruction: str, shown_attempt: str | None) -> Prompt:
        return instructed_prompt(problem.prompt, instruction, shown_attempt)

    def placebo(self, problem: TaskProblem, length_of: str, rng: random.Random) -> str:
        return placebo(length_of, rng)

    def verdict_only(self, problem: TaskProblem) -> str:
        return VERDICT_ONLY

    def _drawn(self, problems: list[TaskProblem]) -> tuple[list[TaskProblem], list[TaskProblem]]:
        order = list(range(len(problems)))
        random.Random(self.settings.seed).shuffle(order)
        number = max(1, round(len(problems) * self.settings.heldout_fraction))
        held = set(order[:number])
        train = [p for i, p in enumerate(problems) if i not in held]
        return train, [_moved(problems[i], "heldout") for i in sorted(held)]

    def _load(self, path: str, split: str, side: Any) -> list[TaskProblem]:
        """The different problems of one file or split whose reference answers can be scored."""
        settings = self.settings
        rows = read_rows(path, split, settings.config_name)
        columns = {settings.prompt_column: "task.prompt_column", settings.answer_column: "task.answer_column"}
        require_columns(rows, columns, path)
        found = [self._problem(row, number, path, side) for number, row in enumerate(rows)]
        unique = list({p.row.fingerprint: p for p in found}.values())
        with ThreadPoolExecutor(self.maths.workers) as pool:
            reasons = list(pool.map(self._why_unscorable, unique))
        self.unscorable |= {p.row.problem_id: why for p, why in zip(unique, reasons, strict=True) if why}
        kept = [p for p, why in zip(unique, reasons, strict=True) if not why]
        if not kept:
            raise TaskError(
                f"Expected reference answers in `{settings.answer_column}` of {path} that can be scored, found none in {len(unique)} rows. The "
                f"first: {next(iter(self.unscorable.values()))}. Set task.answer_column or task.answer_is."
            )
        return kept

    def _why_unscorable(self, problem: TaskProblem) -> str | None:
        gold = problem.row.gold
        if not gold:
            return f"no answer where task.answer_is = {self.settings.answer_is!r} looks for one"
        return self.maths.check_gold(gold)

    def _problem(self, row: dict[str, Any], number: int, path: str, side: Any) -> TaskProblem:
        settings = self.settings
        posed, answer = value(row, settings.prompt_column), value(row, settings.answer_column)
        messages = posed if is_chat(posed) else None
        text = messages[-1]["content"] if messages else posed
        if not isinstance(text, str) or not text.strip() or not isinstance(answer, str | Number):
            raise TaskError(
                f"Expected text or chat messages in `{settings.prompt_column}` and an answer, text or number, in `{settings.answer_column}` of "
                f"row {number} of {path}, found {posed!r:.200} and {answer!r:.80}. Correct or remove the row."
            )
        gold = read_gold(str(answer), settings.answer_is)
        mark = fingerprint(text, gold)
        stored = Problem(
            problem_id=problem_id(self.name, mark),
            run_id="-",
            task=self.name,
            split=side,
            prompt=text,
            gold=gold,
            source=path,
            fingerprint=mark,
        )
        if messages:
            prompt: Prompt = [{"role": m["role"], "content": m["content"]} for m in messages]
        else:
            prompt = make_prompt(text, settings.template, settings.system_prompt, settings.chat)
        return TaskProblem(stored, prompt)


def is_chat(posed: Any) -> TypeGuard[list[dict[str, Any]]]:
    """At least one message, each with a role and a content in text."""
    return (
        isinstance(posed, list)
        and bool(posed)
        and all(isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str) for m in posed)
    )


def read_gold(text: str, answer_is: str) -> str:
    """The reference answer in its column's text; empty when it isn't there. `answer_is` as in TableSettings."""
    if answer_is == "after_hashes":
        return text.rpartition("####")[2].strip() if "####" in text else ""
    if answer_is == "last_box":
        found = extract(text)
        return (found.answer or "") if found.source == "box" else ""
    if answer_is == "whole_number":
        number = plain_number(text)
        return str(number) if number is not None and number.denominator == 1 else ""
    return text.strip()


def _boxed(answer: str | None) -> str:
    return f"\\boxed{{{answer}}}"


def _wrong(problem: TaskProblem) -> str:
    number = plain_number(problem.row.gold or "")
    return "no answer" if number is None else str(number + 1)


def _moved(problem: TaskProblem, split: Any) -> TaskProblem:
    return TaskProblem(problem.row.model_copy(update={"split": split}), problem.prompt, problem.data)
