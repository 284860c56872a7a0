"""A real MentorGRPOTrainer on a tiny model, whose completions may be scripted: the loop is TRL's, the text is ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripted import CheckedWordTask, problem
from tiny import tiny_model, tiny_tokenizer
from trl import GRPOConfig

from mentor_audit.protocols import TaskProblem
from mentor_audit.training import MentorGRPOTrainer, task_dataset

Script = Callable[[str, int], str]
"""(prompt text, how many rows were asked for before in this call) -> completion text."""


class DigitTask(CheckedWordTask):
    """`Q <d> A` asks for the digit d. An attempt that has `check` in it goes wrong there."""

    name = "digits"

    def __init__(self, problems: int = 4) -> None:
        super().__init__([digit(i) for i in range(problems)])

    def first_error(self, problem: TaskProblem, completion: str) -> Any:
        from mentor_audit.protocols import FirstError

        return FirstError("check", "slip", "check is wrong") if "check" in completion else None

    def instruction_for(self, error: Any) -> str:
        return "hint carry" if error.location == "check" else "hint borrow"

    def instructed_prompt(self, problem: TaskProblem, instruction: str, shown_attempt: str | None) -> str:
        return f"{problem.prompt} {instruction} {shown_attempt or ''}".strip()


def digit(i: int) -> TaskProblem:
    made = problem(f"{i}", gold=str(i))
    row = made.row.model_copy(update={"prompt": f"Q {i} A", "problem_id": f"digits-{i}", "task": "digits"})
    return TaskProblem(row, row.prompt)


class ScriptedTrainer(MentorGRPOTrainer):
    """Completions come from `script`; a text that ends in `...` is cut at the length limit. Everything else is TRL's."""

    script: Script

    def generate_rows(self, prompt_ids: list[list[int]], num_samples: int) -> tuple[list[list[int]], Any]:
        found = []
        for i, ids in enumerate(prompt_ids):
            text = self.script(self._tokenizer.decode(ids), i)
            end = [] if text.endswith("...") else [self._tokenizer.eos_token_id]
            found.append(self._tokenizer(text.removesuffix("..."))["input_ids"] + end)
        return found, None


def fails_unless_told(prompt: str, i: int) -> str:
    """Wrong without a hint; right with the fitting one."""
    wanted = prompt.split()[1]
    return wanted if "hint carry" in prompt else f"check {(int(wanted) + 1) % 10}"


def make_trainer(
    store: Any,
    folder: Path,
    *,
    script: Script | None = fails_unless_told,
    arm: str = "mentor",
    task: Any = None,
    seed: int = 1,
    grpo: dict[str, Any] | None = None,
    model: Any = None,
    **kwargs: Any,
) -> MentorGRPOTrainer:
    """Two problems of four attempts an update, one update, unless `grpo` says otherwise."""
    task = task or DigitTask()
    tokenizer = tiny_tokenizer()
    settings = {
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_steps": 1,
        "max_completion_length": 6,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
        "seed": seed,
        **(grpo or {}),
    }
    kind = MentorGRPOTrainer if script is None else type("Scripted", (ScriptedTrainer,), {"script": staticmethod(script)})
    return kind(
        model=model or tiny_model(hidden=32, layers=1, heads=2, seed=3),
        processing_class=tokenizer,
        args=GRPOConfig(str(folder), **settings),
        train_dataset=kwargs.pop("train_dataset", None) or task_dataset(task),
        store=store,
        arm=arm,
        task=task,
        **{"calibrate": False, **kwargs},
    )
