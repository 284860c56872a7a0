"""What an actor must offer, and the plain values that pass between actors.

A policy samples, a verifier grades, a mentor diagnoses, a task ties problems, prompts and verdicts together. None of these types
knows torch or trl, so the episode runs on scripted actors in its tests. Randomness enters as `random.Random` or a seed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from mentor_audit.records import AttemptStatus, ParseStatus, Problem

Prompt = str | list[dict[str, Any]]
"""Plain text, or chat messages `[{"role": ..., "content": ...}]`."""


@dataclass(frozen=True)
class Usage:
    """What one sequence of a model call cost. Sums over sequences give the call.

    prompt_tokens   unpadded; cached_tokens of them would be spared by prefix caching within a group
    output_tokens   sampled tokens, end-of-sequence included
    padded_tokens   positions that were computed for padding only
    flops           as executed, padding included; None: the model's size is unknown
    flops_prefix_cached   without padding, the prompt computed once a group
    wall_seconds    this sequence's equal share of the call
    sequences       1; a training or log-prob pass is one Usage for all its sequences
    """

    call_id: str
    model: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    padded_tokens: int | None
    flops: float | None
    flops_prefix_cached: float | None
    wall_seconds: float
    sequences: int = 1


@dataclass(frozen=True)
class Price:
    """Expected cost of one call on one sequence. `flops` None: the model's size is unknown."""

    prompt_tokens: int
    output_tokens: int
    flops: float | None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True)
class Completion:
    """One sampled sequence. `token_ids` are the sampled ids with the end-of-sequence token; `text` leaves special tokens out."""

    prompt_text: str
    prompt_ids: list[int]
    text: str
    token_ids: list[int]
    finish_reason: Literal["eos", "length"]
    usage: Usage
    logprobs: list[float] | None = None  # sampling log-probs, when the backend gives them
    flags: tuple[str, ...] = ()  # see records.Attempt.flags


@dataclass(frozen=True)
class Verdict:
    """`is_correct` is None when unscored; then `status` says why. `why` is the verifier's explanation, for people."""

    is_correct: bool | None
    status: AttemptStatus
    extracted: str | None = None
    why: str | None = None


@dataclass(frozen=True)
class Grade:
    """A verdict with its reward. `reward` None: nothing gave one. `rewards`: each reward function's own value, where there are several."""

    verdict: Verdict
    reward: float | None
    rewards: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class TaskProblem:
    """A problem as actors see it: the stored row, the prompt for the model, and whatever the task needs to grade it."""

    row: Problem
    prompt: Prompt
    data: Any = None


@dataclass(frozen=True)
class FirstError:
    """Where an attempt first goes wrong: `location` and `error_type` in the task's terms, `claim` in words."""

    location: str
    error_type: str
    claim: str


@dataclass(frozen=True)
class MentorReply:
    """A mentor's answer on one failed attempt. A reply that failed or can't be parsed keeps its slot and its cost."""

    parse_status: ParseStatus
    usage: Usage | None
    raw: str | None = None
    error: str | None = None
    location: str | None = None
    error_type: str | None = None
    claim: str | None = None
    instruction: str | None = None


@dataclass(frozen=True)
class Failure:
    """A failed attempt as mentor and arms see it. `siblings` are the texts of the other attempts of its group."""

    problem: TaskProblem
    attempt_id: str
    text: str
    verdict: Verdict
    siblings: list[str] = field(default_factory=list)
    sibling_ids: list[str] = field(default_factory=list)


class Policy(Protocol):
    """The learner at its current weights, or another model."""

    name: str

    @property
    def max_prompt_tokens(self) -> int | None:
        """The longest prompt that leaves room for a completion in the model's context; None: no known limit."""
        ...

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
        """One list of `num_samples` completions a prompt, in order. An empty list of prompts gives an empty list.

        Training calls it on every rank the same number of times, so an implementation may run collectives. `seed` reseeds
        the sampler where the implementation owns it; None leaves the stream as it is. `max_tokens` and `temperature`
        replace the policy's own settings for this call. `prompts_are_cached`: the same prompts were sampled from before
        at these weights, so prefix caching would spare them; it changes only how usage is counted.
        """
        ...

    def price(self, prompt_tokens: int, output_tokens: int) -> Price:
        """Of sampling one sequence of this size, without padding or prefix caching."""
        ...

    def count_tokens(self, prompt: Prompt) -> int:
        """Tokens of a prompt as the model would be given it."""
        ...


class Mentor(Protocol):
    """Reads failed attempts; returns a diagnosis and an instruction for each, in order. Never raises for a bad reply."""

    name: str
    model: str | None
    prompt_template: str | None
    saw_gold: bool

    def diagnose(self, failures: Sequence[Failure], rng: random.Random) -> list[MentorReply]: ...

    def price(self, failure: Failure) -> "Price":
        """What a call on this failure takes, without making it; the resample arms are matched to it."""
        ...


@runtime_checkable
class WritesControls(Protocol):
    """A mentor that also writes the texts of controls, in a second call; each gives one reply a failure, in order, whose `instruction` counts.

    As `diagnose`, they never raise for a bad reply, and each is one call even without failures: ranks stay in lockstep.
    """

    def hint(self, failures: Sequence[Failure], rng: random.Random) -> list[MentorReply]:
        """A hint from the problem alone: the attempt is not looked at."""
        ...

    def paraphrase(self, failures: Sequence[Failure], instructions: Sequence[str], rng: random.Random) -> list[MentorReply]:
        """Each instruction in other words, nothing added and nothing left out."""
        ...

    def mislead(self, failures: Sequence[Failure], instructions: Sequence[str], rng: random.Random) -> list[MentorReply]:
        """An instruction of the same form and length that blames another place or cause than this one does."""
        ...


class Task(Protocol):
    """Problems with prompts and a verifier."""

    name: str

    def problems(self, split: str) -> list[TaskProblem]:
        """`split` is "train" or "heldout"; the two never share a fingerprint."""
        ...

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        """Grade one completion. A verifier that fails returns a verdict with a status, it doesn't raise."""
        ...

    def instructed_prompt(self, problem: TaskProblem, instruction: str, shown_attempt: str | None) -> Prompt:
        """The prompt of a follow-up. `instruction` may be empty; `shown_attempt` is the failed attempt, when it is shown."""
        ...

    def placebo(self, problem: TaskProblem, length_of: str, rng: random.Random) -> str:
        """A generic instruction that says nothing of the problem, about as long as the text `length_of`."""
        ...

    def verdict_only(self, problem: TaskProblem) -> str:
        """The instruction that says only that the answer was wrong."""
        ...


class Answer(NamedTuple):
    """A completion to grade."""

    problem: TaskProblem
    completion: str
    finish_reason: str


@runtime_checkable
class VerifiesBatches(Protocol):
    """A task whose verifier works on many completions at a time, in processes of its own."""

    def verify_batch(self, answers: Sequence[Answer]) -> list[Verdict]:
        """One verdict an answer, in order; each as `verify` would give it."""
        ...


@runtime_checkable
class ChecksSteps(Protocol):
    """A task that knows, by program, where an attempt first goes wrong. Needed by oracle, scripted mentors and their audit."""

    def first_error(self, problem: TaskProblem, completion: str) -> FirstError | None:
        """None: no error found, or the program can't tell."""
        ...

    def instruction_for(self, error: FirstError) -> str:
        """The instruction that a mentor who believes in `error` gives."""
        ...

    def altered(self, problem: TaskProblem, error: FirstError, rng: random.Random) -> FirstError:
        """A wrong diagnosis of the same form: another location or another error type, never the true one."""
        ...

    def fits(self, problem: TaskProblem, completion: str, instruction: str) -> bool | None:
        """Does the instruction name this attempt's true first error? None: can't tell."""
        ...


@runtime_checkable
class StatesAnswer(Protocol):
    """A task that tells the learner a reference answer in its own words. Without it: `The answer is ...`."""

    def answer_only(self, problem: TaskProblem) -> str: ...


@runtime_checkable
class KnowsExpected(Protocol):
    """A task whose reference answer is not one text: the values that its tests expect, for finding them in an instruction."""

    def expected_answers(self, problem: TaskProblem) -> Sequence[str]: ...


@runtime_checkable
class HasDemonstration(Protocol):
    """A task with a demonstration that was prepared before training: the same text for every failure."""

    def demonstration(self) -> str: ...


@runtime_checkable
class Rewords(Protocol):
    """A task whose instructions a program can write in other words, and whose problems it can give a hint to without an attempt."""

    def reworded(self, instruction: str, rng: random.Random) -> str: ...

    def hint_for(self, problem: TaskProblem, rng: random.Random) -> str: ...
