"""Any table of prompts and answers as a task: JSONL, JSON, CSV or Parquet files, or a Hugging Face data set."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mentor_audit.config import nearest
from mentor_audit.errors import TaskError
from mentor_audit.protocols import Prompt, TaskProblem, Verdict
from mentor_audit.records import Problem
from mentor_audit.tasks.answers import verify_answer
from mentor_audit.tasks.identity import fingerprint, problem_id
from mentor_audit.tasks.prompting import VERDICT_ONLY, instructed_prompt, make_prompt, placebo

READERS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


class TableSettings(BaseModel):
    """Where the rows are and what their columns mean. Held-out problems come from a file or split of their own, or are drawn."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    path: str = Field(description="a file, or a Hugging Face data set id")
    config_name: str | None = Field(default=None, description="of a Hugging Face data set with several configurations")
    train_split: str = "train"
    heldout_path: str | None = Field(default=None, description="a file of held-out problems")
    heldout_split: str | None = Field(default=None, description="a split of the Hugging Face data set")
    heldout_fraction: float = Field(default=0.2, gt=0, lt=1, description="drawn from the rows when neither is given")
    seed: int = Field(default=0, description="of that draw")
    prompt_column: str = "prompt"
    answer_column: str = "answer"
    system_prompt: str | None = None
    template: str = Field(default="{problem}", description="`{problem}` is replaced by the problem's text")
    chat: bool = Field(default=True, description="pose problems as chat messages; false: as plain text")


class TableTask:
    """Verdicts by `answers.verify_answer`. Problems that are in both splits leave training; `num_excluded` counts them."""

    name = "table"

    def __init__(self, settings: TableSettings) -> None:
        """Reads everything. Raises TaskError for a missing file, column or row, in words."""
        self.settings = settings
        train = _rows(settings.path, settings.train_split, settings)
        if settings.heldout_path or settings.heldout_split:
            heldout = _rows(settings.heldout_path or settings.path, settings.heldout_split or "train", settings)
        else:
            order = list(range(len(train)))
            random.Random(settings.seed).shuffle(order)
            number = max(1, round(len(train) * settings.heldout_fraction))
            drawn = set(order[:number])
            train, heldout = [r for i, r in enumerate(train) if i not in drawn], [train[i] for i in sorted(drawn)]
        kept_out = _unique([self._problem(row, "heldout") for row in heldout])
        marks = {p.row.fingerprint for p in kept_out}
        unique = _unique([self._problem(row, "train") for row in train])
        self._problems = {"heldout": kept_out, "train": [p for p in unique if p.row.fingerprint not in marks]}
        self.num_excluded = len(train) - len(self._problems["train"])
        if not self._problems["train"]:
            raise TaskError(f"Expected problems to train on in {settings.path}, found none that is not held out. Add rows.")

    def problems(self, split: str) -> list[TaskProblem]:
        return list(self._problems[split])

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        return verify_answer(problem.row.gold, completion, finish_reason)

    def instructed_prompt(self, problem: TaskProblem, instruction: str, shown_attempt: str | None) -> Prompt:
        return instructed_prompt(problem.prompt, instruction, shown_attempt)

    def placebo(self, problem: TaskProblem, length_of: str, rng: random.Random) -> str:
        return placebo(length_of, rng)

    def verdict_only(self, problem: TaskProblem) -> str:
        return VERDICT_ONLY

    def _problem(self, row: tuple[str, str], split: Any) -> TaskProblem:
        text, gold = row
        mark = fingerprint(text, gold)
        stored = Problem(
            problem_id=problem_id(self.name, mark),
            run_id="-",
            task=self.name,
            split=split,
            prompt=text,
            gold=gold,
            source=self.settings.path,
            fingerprint=mark,
        )
        return TaskProblem(stored, make_prompt(text, self.settings.template, self.settings.system_prompt, self.settings.chat))


def _unique(problems: Sequence[TaskProblem]) -> list[TaskProblem]:
    return list({p.row.fingerprint: p for p in problems}.values())


def _rows(path: str, split: str, settings: TableSettings) -> list[tuple[str, str]]:
    """(prompt, answer) texts."""
    columns, rows = _read(path, split, settings)
    for wanted, key in ((settings.prompt_column, "task.prompt_column"), (settings.answer_column, "task.answer_column")):
        if wanted not in columns:
            raise TaskError(
                f"Expected a column `{wanted}` in {path}, found {', '.join(columns) or 'none'}{nearest(wanted, columns)} Set {key}."
            )
    found = []
    for number, row in enumerate(rows):
        prompt, answer = row[settings.prompt_column], row[settings.answer_column]
        if not isinstance(prompt, str) or not prompt.strip() or answer is None:
            raise TaskError(
                f"Expected text in `{settings.prompt_column}` and an answer in `{settings.answer_column}` of row {number} of {path}, found "
                f"{prompt!r} and {answer!r}. Correct or remove the row."
            )
        found.append((prompt, str(answer)))
    if not found:
        raise TaskError(f"Expected rows in {path}, found none. Check the file.")
    return found


def _read(path: str, split: str, settings: TableSettings) -> tuple[list[str], list[dict[str, Any]]]:
    """Column names and rows, of a file or of a Hugging Face data set."""
    suffix = Path(path).suffix.lower()
    if suffix in READERS or Path(path).exists():
        return _read_file(Path(path), suffix)
    import datasets

    try:
        loaded = datasets.load_dataset(path, settings.config_name, split=split)
    except Exception as error:
        raise TaskError(
            f"Expected a file or a Hugging Face data set at `{path}` with a split `{split}`, found neither: {type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else 'no message'}. Check task.path, and that this machine reaches the hub."
        ) from error
    return list(loaded.column_names), list(loaded)


def _read_file(path: Path, suffix: str) -> tuple[list[str], list[dict[str, Any]]]:
    import json

    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if not path.exists():
        raise TaskError(f"Expected a file at {path}, found none. Check task.path; it is looked up from the working folder.")
    if suffix not in READERS:
        raise TaskError(f"Expected a file named {', '.join(READERS)}, found {path}. Convert it to one of them.")
    try:
        if suffix == ".parquet":
            table = pa.parquet.read_table(path)
        elif suffix == ".csv":
            table = pa.csv.read_csv(path)
        else:
            text = path.read_text(encoding="utf-8")
            values = json.loads(text) if suffix == ".json" else [json.loads(line) for line in text.splitlines() if line.strip()]
            if not isinstance(values, list) or not all(isinstance(v, dict) for v in values):
                raise ValueError("it does not hold a list of objects")
            names = sorted({name for row in values for name in row})
            return names, [{name: row.get(name) for name in names} for row in values]
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TaskError(f"Expected {READERS[suffix]} rows in {path}, found a mistake: {error}. Correct the file.") from error
    return table.column_names, table.to_pylist()
