"""Problems of the package reasoning-gym as a task: generated, with its own scoring."""

import random
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mentor_audit.config import nearest
from mentor_audit.errors import TaskError
from mentor_audit.protocols import Prompt, TaskProblem, Verdict
from mentor_audit.records import Problem
from mentor_audit.tasks.canaries import Canary
from mentor_audit.tasks.identity import fingerprint, problem_id
from mentor_audit.tasks.maths.extract import extract
from mentor_audit.tasks.prompting import VERDICT_ONLY, instructed_prompt, make_prompt, placebo

NUM_CANARIES = 3
HELDOUT_SEED_OFFSET = 1_000_003


class GymSettings(BaseModel):
    """`options` go to the generator as they are."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    dataset: str = Field(description="a generator of reasoning-gym, such as chain_sum")
    options: dict[str, Any] = {}
    num_train: int = Field(default=200, ge=1)
    num_heldout: int = Field(default=50, ge=1)
    seed: int = 0
    system_prompt: str | None = "Think step by step, briefly. End with a line `Answer: ` and the answer."
    template: str = "{problem}"
    chat: bool = True


class GymTask:
    """An attempt is correct when the generator's own scorer gives its answer 1.0."""

    name = "reasoning_gym"

    def __init__(self, settings: GymSettings) -> None:
        """Raises TaskError when the package or the generator isn't there, or refuses its options."""
        self.settings = settings
        self._dataset: Any = None
        heldout = self._draw("heldout", settings.num_heldout, settings.seed + HELDOUT_SEED_OFFSET, set())
        train = self._draw("train", settings.num_train, settings.seed, {p.row.fingerprint for p in heldout})
        self._problems = {"train": train, "heldout": heldout}

    def problems(self, split: str) -> list[TaskProblem]:
        return list(self._problems[split])

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        """A scorer that raises leaves the attempt without a verdict."""
        if finish_reason == "length":
            return Verdict(None, "truncated", why="cut at the length limit")
        found = extract(completion)
        answer = found.answer
        if answer is None:
            return Verdict(False, "no_answer", why=found.why)
        try:
            score = float(self._dataset.score_answer(answer=answer, entry=problem.data))
        except Exception as error:
            return Verdict(None, "verifier_error", answer, f"the scorer raised {type(error).__name__}: {error}")
        return Verdict(score == 1.0, "correct" if score == 1.0 else "incorrect", answer, f"scored {score:g}")

    def canaries(self) -> list[Canary]:
        """The generator's own answers to the first problems, and a wrong answer to each."""
        first = [p for p in self._problems["train"] if p.row.gold is not None][:NUM_CANARIES]
        right = [Canary(p, f"Answer: {p.row.gold}", True) for p in first]
        return right + [Canary(p, "Answer: no answer", False) for p in first]

    def instructed_prompt(self, problem: TaskProblem, instruction: str, shown_attempt: str | None) -> Prompt:
        return instructed_prompt(problem.prompt, instruction, shown_attempt)

    def placebo(self, problem: TaskProblem, length_of: str, rng: random.Random) -> str:
        return placebo(length_of, rng)

    def verdict_only(self, problem: TaskProblem) -> str:
        return VERDICT_ONLY

    def _draw(self, split: Any, number: int, seed: int, taken: set[str]) -> list[TaskProblem]:
        """`number` different problems that are not in `taken`."""
        found: dict[str, TaskProblem] = {}
        self._dataset = _generator(self.settings, number * 4, seed)
        for entry in self._dataset:
            problem = self._problem(entry, split)
            if problem.row.fingerprint not in taken:
                found.setdefault(problem.row.fingerprint, problem)
            if len(found) == number:
                return list(found.values())
        raise TaskError(
            f"Expected {number} different problems of `{self.settings.dataset}` for {split}, found {len(found)} in {number * 4} draws. Ask for "
            "fewer, or widen task.options."
        )

    def _problem(self, entry: dict[str, Any], split: Any) -> TaskProblem:
        settings, text = self.settings, str(entry["question"])
        gold = None if entry.get("answer") is None else str(entry["answer"])
        mark = fingerprint(text, gold)
        row = Problem(
            problem_id=problem_id(self.name, mark),
            run_id="-",
            task=self.name,
            split=split,
            prompt=text,
            gold=gold,
            source=f"reasoning-gym {settings.dataset}, seed {settings.seed}",
            fingerprint=mark,
        )
        return TaskProblem(row, make_prompt(text, settings.template, settings.system_prompt, settings.chat), entry)


def _generator(settings: GymSettings, size: int, seed: int) -> Any:
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise TaskError(
            'Expected the package reasoning-gym for task.name = "reasoning_gym", found none. Install it: pip install '
            "'mentor_audit[reasoning-gym]'."
        ) from error
    if settings.dataset not in DATASETS:
        raise TaskError(
            f"reasoning-gym has no generator `{settings.dataset}`{nearest(settings.dataset, sorted(DATASETS))} Set task.dataset."
        )
    try:
        return reasoning_gym.create_dataset(settings.dataset, size=size, seed=seed, **settings.options)
    except (TypeError, AssertionError, ValueError) as error:
        raise TaskError(f"reasoning-gym's `{settings.dataset}` refuses these task.options: {error}. Change them.") from error
