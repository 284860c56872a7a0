"""Data set rows as problems: a task's problems as a data set for TRL, and any GRPO data set as a task."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from datasets import Dataset

from mentor_audit.protocols import Completion, Prompt, Task, TaskProblem, Verdict
from mentor_audit.records import Problem
from mentor_audit.tasks.identity import fingerprint, problem_id
from mentor_audit.tasks.prompting import VERDICT_ONLY, instructed_prompt, placebo

VerdictFunction = Callable[[Prompt, str, Mapping[str, Any], float | None], Verdict]
"""(prompt, completion text, data set row, weighted reward) -> verdict."""
ANSWER_COLUMNS = ("answer", "solution", "ground_truth", "label")


def task_dataset(task: Task, split: str = "train") -> Dataset:
    """The task's problems with the columns `prompt` and `problem_id`, in the task's order."""
    problems = task.problems(split)
    return Dataset.from_dict({"prompt": [p.prompt for p in problems], "problem_id": [p.row.problem_id for p in problems]})


class RowTask:
    """Any data set with a `prompt` column as a task. Verdicts come from the rewards, or from a function of the caller's.

    Without a function an attempt is correct when its weighted reward is above 0. One that was cut at the length limit and is not
    correct has no verdict: it may have been on its way to the answer.
    """

    name = "rows"

    def __init__(self, verdict: VerdictFunction | None = None) -> None:
        self._verdict = verdict

    def problems(self, split: str) -> list[TaskProblem]:
        """None in advance: they come as rows."""
        return []

    def from_row(self, row: Mapping[str, Any]) -> TaskProblem:
        prompt = row["prompt"]
        text = prompt if isinstance(prompt, str) else "\n".join(str(message.get("content", "")) for message in prompt)
        gold = next((str(row[name]) for name in ANSWER_COLUMNS if row.get(name) is not None), None)
        mark = fingerprint(text, gold)
        stored = Problem(
            problem_id=problem_id(self.name, mark),
            run_id="-",
            task=self.name,
            split="train",
            prompt=text,
            gold=gold,
            source="data set row",
            fingerprint=mark,
            facts=json.dumps({k: v for k, v in row.items() if k != "prompt"}, default=str, sort_keys=True),
        )
        return TaskProblem(stored, prompt, row)

    def verdict(
        self, problem: TaskProblem, completion: Completion, row: Mapping[str, Any], reward: float | None, error: str | None
    ) -> Verdict:
        if self._verdict is not None:
            return self._verdict(problem.prompt, completion.text, row, reward)
        if reward is None:
            return Verdict(None, "verifier_error", why=error or "no reward function gave this row a value")
        if reward > 0:
            return Verdict(True, "correct")
        return Verdict(None, "truncated") if completion.finish_reason == "length" else Verdict(False, "incorrect")

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        return Verdict(None, "verifier_error", why="a data set's rows are graded by the trainer's reward functions")

    def instructed_prompt(self, problem: TaskProblem, instruction: str, shown_attempt: str | None) -> Prompt:
        return instructed_prompt(problem.prompt, instruction, shown_attempt)

    def placebo(self, problem: TaskProblem, length_of: str, rng: Any) -> str:
        return placebo(length_of, rng)

    def verdict_only(self, problem: TaskProblem) -> str:
        return VERDICT_ONLY
