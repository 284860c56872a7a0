"""Problems with tests from a JSONL file: tests of a function, as HumanEval has them, or cases of input and output."""

import json
import random
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field

from mentor_audit.config import nearest
from mentor_audit.errors import TaskError
from mentor_audit.protocols import TaskProblem
from mentor_audit.tasks.code.base import CodeProblem, PoseSettings, SandboxedTask, function_problem

Drawn = TypeVar("Drawn")


class CodeSettings(PoseSettings):
    """Where the rows are and what their columns mean.

    `shape = "function"`: columns of tests, entry point and perhaps a solution. `shape = "stdio"`: columns of inputs and expected outputs,
    lists of text of the same length, and perhaps a solution.
    """

    path: str = Field(description="a JSONL file")
    heldout_path: str | None = Field(default=None, description="a file of held-out problems; else they are drawn")
    heldout_fraction: float = Field(default=0.2, gt=0, lt=1, description="drawn from the rows when there is no heldout_path")
    seed: int = Field(default=0, description="of that draw")
    shape: Literal["function", "stdio"] = "function"
    prompt_column: str = "prompt"
    tests_column: str = "test"
    entry_point_column: str = "entry_point"
    inputs_column: str = "inputs"
    outputs_column: str = "outputs"
    solution_column: str | None = Field(default="canonical_solution", description="used where the rows have it; it is the canary")


class CodeTask(SandboxedTask):
    """Problems that are in both splits leave training; `num_excluded` counts what did."""

    name = "code"

    def __init__(self, settings: CodeSettings) -> None:
        """Reads everything. Raises TaskError for a missing file or column and for rows that can't be used, in words."""
        self.settings: CodeSettings = settings
        rows = self._read(settings.path)
        if settings.heldout_path is not None:
            train, heldout = rows, self._read(settings.heldout_path)
        else:
            train, heldout = draw_heldout(rows, settings.heldout_fraction, settings.seed)
        self._problems, self.num_excluded = split_problems(
            [self._problem(prompt, data, "train", settings.path) for prompt, data in train],
            [self._problem(prompt, data, "heldout", settings.heldout_path or settings.path) for prompt, data in heldout],
            settings.path,
        )

    def _read(self, path: str) -> list[tuple[str, CodeProblem]]:
        file = Path(path)
        if not file.is_file():
            raise TaskError(
                f"Expected a JSONL file at {path}, found none. Check task.path; it is looked up from the working folder."
            )
        found = []
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                found.append(self._row(_object(line, f"line {number} of {path}"), f"line {number} of {path}"))
        if not found:
            raise TaskError(f"Expected problems in {path}, found none. Check the file.")
        return found

    def _row(self, row: dict[str, Any], where: str) -> tuple[str, CodeProblem]:
        s = self.settings
        prompt = _text(row, s.prompt_column, "prompt_column", where)
        solution = row.get(s.solution_column) if s.solution_column else None
        if solution is not None and not isinstance(solution, str):
            raise TaskError(f"Expected text in `{s.solution_column}` of {where}, found {solution!r:.80}. Correct the row.")
        if s.shape == "function":
            tests = _text(row, s.tests_column, "tests_column", where)
            entry_point = _text(row, s.entry_point_column, "entry_point_column", where)
            return prompt, function_problem(prompt, tests, entry_point, solution)
        inputs = _texts(row, s.inputs_column, "inputs_column", where)
        outputs = _texts(row, s.outputs_column, "outputs_column", where)
        if len(inputs) != len(outputs):
            raise TaskError(
                f"Expected as many outputs as inputs in {where}, found {len(outputs)} and {len(inputs)}. Correct the row."
            )
        return prompt, CodeProblem(None, tuple(zip(inputs, outputs, strict=True)), solution)


def draw_heldout(rows: list[Drawn], fraction: float, seed: int) -> tuple[list[Drawn], list[Drawn]]:
    """(training, held out), each in the order of the rows; at least one is held out."""
    drawn = set(random.Random(seed).sample(range(len(rows)), max(1, round(len(rows) * fraction))))
    return [r for i, r in enumerate(rows) if i not in drawn], [r for i, r in enumerate(rows) if i in drawn]


def split_problems(train: list[TaskProblem], heldout: list[TaskProblem], where: str) -> tuple[dict[str, list[TaskProblem]], int]:
    """The splits without doubles and disjoint by fingerprint, and how many left training. Raises TaskError when none is left there."""
    kept_out = {p.row.fingerprint: p for p in heldout}
    kept = {p.row.fingerprint: p for p in train if p.row.fingerprint not in kept_out}
    if not kept:
        raise TaskError(f"Expected problems to train on in {where}, found none that is not held out. Add rows.")
    return {"train": list(kept.values()), "heldout": list(kept_out.values())}, len(train) - len(kept)


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise TaskError(f"Expected a JSON object on {where}, found a mistake: {error}. Correct the file.") from error
    if not isinstance(row, dict):
        raise TaskError(f"Expected a JSON object on {where}, found {row!r:.80}. Correct the file.")
    return row


def _column(row: dict[str, Any], column: str, key: str, where: str) -> Any:
    if column not in row:
        raise TaskError(
            f"Expected a column `{column}` on {where}, found {', '.join(row)}{nearest(column, list(row))} Set task.{key}."
        )
    return row[column]


def _text(row: dict[str, Any], column: str, key: str, where: str) -> str:
    value = _column(row, column, key, where)
    if not isinstance(value, str) or not value.strip():
        raise TaskError(f"Expected text in `{column}` on {where}, found {value!r:.80}. Correct or remove the row.")
    return value


def _texts(row: dict[str, Any], column: str, key: str, where: str) -> list[str]:
    value = _column(row, column, key, where)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise TaskError(f"Expected a list of texts in `{column}` on {where}, found {value!r:.80}. Correct or remove the row.")
    return value
