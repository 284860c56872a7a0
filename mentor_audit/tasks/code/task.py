"""Problems with tests from a table: JSONL, JSON, CSV or Parquet, or a Hugging Face data set; with presets."""

import random
from typing import Any, Literal, TypeVar

from pydantic import Field, model_validator

from mentor_audit.errors import TaskError
from mentor_audit.protocols import TaskProblem
from mentor_audit.tasks.code.base import CodeProblem, PoseSettings, SandboxedTask
from mentor_audit.tasks.code.shapes import SHAPES, text, texts
from mentor_audit.tasks.overlap import without_overlap
from mentor_audit.tasks.presets import CODE, of_preset
from mentor_audit.tasks.reading import read_rows, require_columns

Drawn = TypeVar("Drawn")


class CodeSettings(PoseSettings):
    """Where the rows are and what their columns mean; `shape` as in code/shapes.py."""

    preset: str | None = Field(default=None, description="settings of a known data set, which every other setting replaces")
    path: str = Field(description="a file, or a Hugging Face data set id")
    config_name: str | None = Field(default=None, description="of a Hugging Face data set with several configurations")
    train_split: str = "train"
    heldout_path: str | None = Field(default=None, description="a file of held-out problems; else they are drawn")
    heldout_split: str | None = Field(default=None, description="a split of the Hugging Face data set")
    heldout_fraction: float = Field(default=0.2, gt=0, lt=1, description="drawn from the rows when neither is given")
    seed: int = Field(default=0, description="of that draw")
    overlap: Literal["refuse", "drop", "allow"] = Field(
        default="refuse", description="what becomes of training problems that repeat a held-out one, in nearly the same words"
    )
    shape: Literal["function", "asserts", "stdio", "livecodebench"] = "function"
    prompt_column: str = "prompt"
    tests_column: str = Field(default="test", description="for function and asserts")
    entry_point_column: str = Field(default="entry_point", description="for function")
    setup_column: str | None = Field(default=None, description="for asserts: code that runs before them")
    show_tests: int = Field(
        default=0, ge=0, description="for asserts: how many the prompt shows, so that the function's name is known"
    )
    inputs_column: str = Field(default="inputs", description="for stdio; for livecodebench the public cases")
    outputs_column: str = Field(default="outputs", description="for stdio; for livecodebench the hidden cases")
    solution_column: str | None = Field(default="canonical_solution", description="used where the rows have it; it is the canary")

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, values: Any) -> Any:
        return of_preset(values, CODE)


class CodeTask(SandboxedTask):
    """num_overlapping   training problems left out because they repeat a held-out one
    num_unsupported   rows left out because this sandbox can't pose them
    """

    name = "code"

    def __init__(self, settings: CodeSettings) -> None:
        """Reads everything. Raises TaskError for a missing file or column and for rows that can't be used, in words."""
        self.settings: CodeSettings = settings
        self.num_unsupported = 0
        rows = self._read(settings.path, settings.train_split)
        if settings.heldout_path or settings.heldout_split:
            train, heldout = rows, self._read(settings.heldout_path or settings.path, settings.heldout_split or "train")
        else:
            train, heldout = draw_heldout(rows, settings.heldout_fraction, settings.seed)
        self._problems, self.num_overlapping = split_problems(
            [self._problem(prompt, data, "train", settings.path) for prompt, data in train],
            [self._problem(prompt, data, "heldout", settings.heldout_path or settings.path) for prompt, data in heldout],
            settings.overlap,
            settings.path,
        )

    def _read(self, path: str, split: str) -> list[tuple[str, CodeProblem]]:
        s, found = self.settings, []
        rows = read_rows(path, split, s.config_name)
        require_columns(rows, {getattr(s, name): f"task.{name}" for name in ("prompt_column", *COLUMNS[s.shape])}, path)
        for number, row in enumerate(rows):
            where = f"row {number} of {path}"
            prompt = text(row, s.prompt_column, where)
            if s.shape == "asserts" and s.show_tests:
                shown = "\n".join(texts(row, s.tests_column, where)[: s.show_tests])
                prompt = f"{prompt}\n\nTests such as this one have to pass:\n{shown}"
            data = SHAPES[s.shape](row, s, prompt, where)
            if data is None:
                self.num_unsupported += 1
            else:
                found.append((prompt, data))
        if not found:
            raise TaskError(f"Expected problems in {path} that can be posed, found none in {len(rows)} rows. Set task.shape.")
        return found


COLUMNS = {
    "function": ("tests_column", "entry_point_column"),
    "asserts": ("tests_column",),
    "stdio": ("inputs_column", "outputs_column"),
    "livecodebench": ("inputs_column", "outputs_column"),
}
"""Settings that name the columns which a shape can't do without."""


def draw_heldout(rows: list[Drawn], fraction: float, seed: int) -> tuple[list[Drawn], list[Drawn]]:
    """(training, held out), each in the order of the rows; at least one is held out."""
    drawn = set(random.Random(seed).sample(range(len(rows)), max(1, round(len(rows) * fraction))))
    return [r for i, r in enumerate(rows) if i not in drawn], [r for i, r in enumerate(rows) if i in drawn]


def split_problems(
    train: list[TaskProblem], heldout: list[TaskProblem], overlap: str, where: str
) -> tuple[dict[str, list[TaskProblem]], int]:
    """The splits without doubles, and how many training problems were left out. Raises TaskError when none is left to train on."""
    kept_out = list({p.row.fingerprint: p for p in heldout}.values())
    kept, num_overlapping = without_overlap(list({p.row.fingerprint: p for p in train}.values()), kept_out, overlap, where)
    if not kept:
        raise TaskError(f"Expected problems to train on in {where}, found none that is not held out. Add rows.")
    return {"train": kept, "heldout": kept_out}, num_overlapping
