"""Scripted actors: a policy that plays back completions, a task whose answers are single words."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from mentor_audit.protocols import Completion, FirstError, Price, Prompt, TaskProblem, Usage, Verdict
from mentor_audit.records import Problem


def problem(name: str, gold: str = "right") -> TaskProblem:
    row = Problem(
        problem_id=f"words-{name}",
        run_id="r",
        task="words",
        split="train",
        prompt=f"Q {name}",
        gold=gold,
        source="tests",
        fingerprint=name * 8,
    )
    return TaskProblem(row, row.prompt)


@dataclass
class ScriptedPolicy:
    """Plays `replies` back in order. Tokens are words; a FLOP is a token; the call log keeps what was asked."""

    replies: list[str]
    name: str = "scripted-policy"
    max_prompt_tokens: int | None = None
    calls: list[tuple[list[Prompt], int]] = field(default_factory=list)

    def sample(
        self,
        prompts: Sequence[Prompt],
        num_samples: int,
        *,
        seed: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        prompts_are_cached: bool = False,
    ) -> list[list[Completion]]:
        self.calls.append((list(prompts), num_samples))
        return [[self._complete(prompt) for _ in range(num_samples)] for prompt in prompts]

    def _complete(self, prompt: Prompt) -> Completion:
        text = self.replies.pop(0)
        cut = text.endswith("...")
        tokens, words = self.count_tokens(prompt), len(text.split())
        usage = Usage(f"call{len(self.calls)}", self.name, tokens, 0, words, 1, float(tokens + words), float(words), 0.5)
        return Completion(str(prompt), list(range(tokens)), text, list(range(words)), "length" if cut else "eos", usage)

    def price(self, prompt_tokens: int, output_tokens: int) -> Price:
        return Price(prompt_tokens, output_tokens, float(prompt_tokens + output_tokens))

    def count_tokens(self, prompt: Prompt) -> int:
        return len(str(prompt).split())


class WordTask:
    """Correct when the last word is the gold answer. `bad-<place>` marks where an attempt goes wrong: the steps can be checked."""

    name = "words"

    def __init__(self, problems: Sequence[TaskProblem] = ()) -> None:
        self._problems = list(problems)

    def problems(self, split: str) -> list[TaskProblem]:
        return self._problems

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        if finish_reason == "length":
            return Verdict(None, "truncated")
        if completion == "crash":
            return Verdict(None, "verifier_error", why="the verifier crashed")
        answer = (completion.split() or [""])[-1]
        return Verdict(answer == problem.row.gold, "correct" if answer == problem.row.gold else "incorrect", answer)

    def instructed_prompt(self, problem: TaskProblem, instruction: str, shown_attempt: str | None) -> Prompt:
        shown = "" if shown_attempt is None else f" seen[{shown_attempt}]"
        return f"{problem.prompt} hint[{instruction}]{shown}"

    def placebo(self, problem: TaskProblem, length_of: str, rng: random.Random) -> str:
        return " ".join(["care"] * len(length_of.split()))

    def verdict_only(self, problem: TaskProblem) -> str:
        return "wrong"


class CheckedWordTask(WordTask):
    def first_error(self, problem: TaskProblem, completion: str) -> FirstError | None:
        places = [word for word in completion.split() if word.startswith("bad-")]
        return FirstError(places[0], "slip", f"{places[0]} is wrong") if places else None

    def instruction_for(self, error: FirstError) -> str:
        return f"fix {error.location}"

    def altered(self, problem: TaskProblem, error: FirstError, rng: random.Random) -> FirstError:
        return FirstError("bad-elsewhere", error.error_type, "elsewhere")

    def fits(self, problem: TaskProblem, completion: str, instruction: str) -> bool | None:
        truth = self.first_error(problem, completion)
        return None if truth is None else instruction == self.instruction_for(truth)
