"""The embedded task: chains of small sums with planted misconceptions, whose first error a program finds.

A problem is a two-digit number and a few steps, all modulo 100: `Q 2 7 s1 + 8 s2 - 9 A`. An answer writes every step out,
`s1 + 8 =15 3 5 s2 - 9 =16 2 6`: label, operation, operand, the work in the units column, the two digits of the result. The last
result is the answer. Work in the units column is u+n, u*n, u-n, or 10 more than the new units digit when 1 is borrowed.

The misconceptions: `+` and `*` drop the carry, `-` takes the smaller digit from the larger. A step is *hard* when its misconception
changes what is written. The instruction that fits a failure is `hint s2 borrow`: the first wrong step, and what it neglects.

Everything here is plain words separated by spaces; `policy.embedded` makes one token of each and teaches a model to read them.
"""

import json
import random
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from mentor_audit.errors import TaskError
from mentor_audit.protocols import FirstError, TaskProblem, Verdict
from mentor_audit.records import Problem
from mentor_audit.tasks.identity import fingerprint, problem_id

MAX_STEPS = 4
KINDS = {"+": "carry", "-": "borrow", "*": "mulcarry"}
"""Operation -> what its misconception neglects, as a hint calls it."""
LABELS = [f"s{i + 1}" for i in range(MAX_STEPS)]
SPECIAL_WORDS = ["<pad>", "<eos>", "<unk>"]
WORDS = [
    *SPECIAL_WORDS,
    *["Q", "A", "hint", "check", "again", "wrong", "tried"],
    *"0123456789",
    *KINDS,
    *LABELS,
    *KINDS.values(),
    *(f"={work:02d}" for work in range(46)),
]
"""The whole language. What a mentor writes beyond it reaches the learner as `<unk>`."""
WORDS_A_STEP = 6
MAX_SHOWN_WORDS = 32
"""The learner is shown so many words of an instruction, and of an attempt, and no more."""

_STEP = re.compile(r"s[1-9] [-+*] [0-9] =[0-9]{2} [0-9] [0-9]")
_ANSWER = re.compile(r"=[0-9]{2} ([0-9]) ([0-9])$")
_PROMPT = re.compile(r"Q ([0-9]) ([0-9])((?: s[1-9] [-+*] [0-9])+) A")
_HINT = re.compile(r"\bhint (s[1-9]) (carry|borrow|mulcarry)\b")


class ChainSettings(BaseModel):
    """`train_mix` and `heldout_mix` give the share of problems by their number of hard steps, in any scale."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    steps: int = Field(default=4, ge=2, le=MAX_STEPS, description="steps a problem")
    num_train: int = Field(default=1000, ge=1, description="problems to train on")
    num_heldout: int = Field(default=200, ge=1, description="problems to evaluate on")
    seed: int = Field(default=0, description="which problems are drawn")
    train_mix: dict[int, float] = Field(default={0: 0.1, 1: 0.9}, description="hard steps -> share of training problems")
    heldout_mix: dict[int, float] = Field(default={1: 1.0}, description="hard steps -> share of held-out problems")

    @field_validator("train_mix", "heldout_mix")
    @classmethod
    def _shares(cls, mix: dict[int, float]) -> dict[int, float]:
        if not mix or min(mix.values()) < 0 or sum(mix.values()) <= 0:
            raise ValueError(f"expected shares of at least 0 that are not all 0, found {mix}")
        return mix

    @model_validator(mode="after")
    def _fits(self) -> "ChainSettings":
        for name, mix in (("train_mix", self.train_mix), ("heldout_mix", self.heldout_mix)):
            if min(mix) < 0 or max(mix) > self.steps:
                raise ValueError(f"expected {name} to name 0 to {self.steps} hard steps, found {sorted(mix)}")
        return self


class Step(NamedTuple):
    operation: str
    operand: int


@dataclass(frozen=True)
class Chain:
    """A start value, 0 to 99, and what is done to it. Steps are numbered from 0 here and from s1 in text."""

    start: int
    steps: tuple[Step, ...]

    @property
    def prompt(self) -> str:
        steps = (f"{label} {op} {n}" for label, (op, n) in zip(LABELS, self.steps, strict=False))
        return " ".join(["Q", *f"{self.start:02d}", *steps, "A"])

    def work(self, misconceived: Collection[int] = ()) -> list[tuple[int, int]]:
        """(units work, result) of each step; the steps in `misconceived` follow the misconception."""
        done, value = [], self.start
        for i, step in enumerate(self.steps):
            done.append(perform(value, step, i in misconceived))
            value = done[-1][1]
        return done

    @property
    def answer(self) -> str:
        return f"{self.work()[-1][1]:02d}"

    def hard_steps(self, misconceived: Collection[int] = ()) -> list[int]:
        """Steps that the misconception would change, on the way that `misconceived` steps lead."""
        values = [self.start] + [result for _, result in self.work(misconceived)[:-1]]
        return [i for i, (v, s) in enumerate(zip(values, self.steps, strict=True)) if perform(v, s, True) != perform(v, s, False)]

    def write(self, misconceived: Collection[int] = ()) -> str:
        """The written-out answer."""
        lines = zip(LABELS, self.steps, self.work(misconceived), strict=False)
        return " ".join(f"{label} {op} {n} ={work:02d} {result // 10} {result % 10}" for label, (op, n), (work, result) in lines)

    @classmethod
    def read(cls, prompt: str) -> "Chain":
        """The inverse of `prompt`. Raises TaskError."""
        match = _PROMPT.fullmatch(prompt)
        if match is None:
            raise TaskError(
                f"Expected a chain problem such as `Q 2 7 s1 + 8 A`, found {prompt[:120]!r}. Take it from ChainTask.problems."
            )
        words = match[3].split()
        steps = tuple(Step(op, int(n)) for op, n in zip(words[1::3], words[2::3], strict=True))
        return cls(int(match[1] + match[2]), steps)


@dataclass(frozen=True)
class ChainError(FirstError):
    """`kind` is the word that the hint uses, for errors that are not a misconception too: that natural to the step's operation."""

    kind: str = ""


class ChainTask:
    """Chain problems by number of hard steps. Implements `Task` and `ChecksSteps`."""

    name = "chain"

    def __init__(self, settings: ChainSettings | None = None) -> None:
        """Raises TaskError when there are not as many different problems as asked for."""
        self.settings = settings or ChainSettings()
        taken: set[Chain] = set()
        self._problems: dict[str, list[TaskProblem]] = {
            "heldout": self._draw("heldout", self.settings.num_heldout, self.settings.heldout_mix, taken),
            "train": self._draw("train", self.settings.num_train, self.settings.train_mix, taken),
        }

    def problems(self, split: str) -> list[TaskProblem]:
        """In an order in which every prefix has about the mix's shares. Raises TaskError for an unknown split."""
        if split not in self._problems:
            raise TaskError(f'Expected split "train" or "heldout", found {split!r}. Ask for one of the two.')
        return list(self._problems[split])

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        """A completion that ended without two digits after some work is wrong, with status no_answer."""
        if finish_reason == "length":
            return Verdict(None, "truncated", why="cut at the length limit")
        match = _ANSWER.search(" ".join(completion.split()))
        if match is None:
            return Verdict(False, "no_answer", why="it does not end in `=<work> <tens> <units>`")
        answer = match[1] + match[2]
        is_correct = answer == problem.row.gold
        return Verdict(is_correct, "correct" if is_correct else "incorrect", answer, f"answered {answer}")

    def first_error(self, problem: TaskProblem, completion: str) -> ChainError | None:
        """The first step that doesn't follow from what the attempt itself had before. None: every step is right.

        Error types: carry, borrow, mulcarry (the misconceptions); slip (another wrong number); copy (not the step that was asked
        for); format (a step is missing or malformed, or something follows the last one).
        """
        chain, words = Chain.read(problem.row.prompt), completion.split()
        value = chain.start
        for i, step in enumerate(chain.steps):
            label, kind = LABELS[i], KINDS[step.operation]
            written = words[i * WORDS_A_STEP : (i + 1) * WORDS_A_STEP]
            if _STEP.fullmatch(" ".join(written)) is None:
                return ChainError(label, "format", f"{label} is missing or malformed", kind)
            if written[:3] != [label, step.operation, str(step.operand)]:
                return ChainError(label, "copy", f"it says {' '.join(written[:3])} where {label} was asked for", kind)
            found = (int(written[3][1:]), int(written[4] + written[5]))
            if found != perform(value, step, misconceived=False):
                error_type = kind if found == perform(value, step, misconceived=True) else "slip"
                what = f"the {kind} is neglected" if error_type == kind else "the numbers are wrong"
                return ChainError(label, error_type, f"in {label}, {value:02d} {step.operation} {step.operand}, {what}", kind)
            value = found[1]
        if len(words) > len(chain.steps) * WORDS_A_STEP:
            label, kind = LABELS[len(chain.steps) - 1], KINDS[chain.steps[-1].operation]
            return ChainError(label, "format", f"it goes on after {label}", kind)
        return None

    def instruction_for(self, error: FirstError) -> str:
        return f"hint {error.location} {_kind(error)}"

    def altered(self, problem: TaskProblem, error: FirstError, rng: random.Random) -> ChainError:
        """Another step with the same kind, or another kind at the same step, with even chances."""
        kind = _kind(error)
        if rng.random() < 0.5:
            labels = LABELS[: len(Chain.read(problem.row.prompt).steps)]
            location = rng.choice([label for label in labels if label != error.location])
            return ChainError(location, error.error_type, f"in {location} the {kind} is neglected", kind)
        other = rng.choice([k for k in KINDS.values() if k not in (kind, error.error_type)])
        return ChainError(error.location, other, f"in {error.location} the {other} is neglected", other)

    def fits(self, problem: TaskProblem, completion: str, instruction: str) -> bool | None:
        """True when the hints in the instruction are one, and it is the true one. None: the attempt has no error to name."""
        truth = self.first_error(problem, completion)
        if truth is None:
            return None
        hints = set(_HINT.findall(" ".join(instruction.split())))
        return hints == {(truth.location, truth.kind)}

    def instructed_prompt(self, problem: TaskProblem, instruction: str, shown_attempt: str | None) -> str:
        """`Q ... tried <the attempt> <instruction> A`. Each is cut at MAX_SHOWN_WORDS words; see also `shown_words`."""
        words = problem.row.prompt.removesuffix(" A").split()
        if shown_attempt is not None:
            words += ["tried", *shown_words(shown_attempt)]
        return " ".join([*words, *shown_words(instruction), "A"])

    def placebo(self, problem: TaskProblem, length_of: str, rng: random.Random) -> str:
        """`check again check ...`, of as many words as the learner would be shown of `length_of`; 3 for an empty one."""
        return placebo_words(len(shown_words(length_of)) or 3)

    def verdict_only(self, problem: TaskProblem) -> str:
        return "wrong"

    def answer_only(self, problem: TaskProblem) -> str:
        """In the learner's words: the two digits after the word that asks for them. Its warm-up never showed it such a thing."""
        return " ".join(["A", *(problem.row.gold or "")])

    def reworded(self, instruction: str, rng: random.Random) -> str:
        """The hint said twice: of the few other forms that its words allow, the one that the learner reads as well as the plain one,
        when it fits. A misfitting hint said twice helps more often than said once: here the noise floor is not the same everywhere.
        """
        return f"{instruction} {instruction}"

    def hint_for(self, problem: TaskProblem, rng: random.Random) -> str:
        """A hard step of the problem and what it is easily got wrong by; of a problem without one, any step."""
        chain = Chain.read(problem.row.prompt)
        step = rng.choice(chain.hard_steps() or list(range(len(chain.steps))))
        return f"hint {LABELS[step]} {KINDS[chain.steps[step].operation]}"

    def demonstration(self) -> str:
        """A chain of another start value, written out without a mistake."""
        return draw_chain(random.Random(f"chain:{self.settings.seed}:demonstration"), self.settings.steps, 1).write()

    def _draw(self, split: str, number: int, mix: dict[int, float], taken: set[Chain]) -> list[TaskProblem]:
        rng = random.Random(f"chain:{self.settings.seed}:{split}")
        drawn = []
        for num_hard in _spread(number, mix):
            chain = draw_chain(rng, self.settings.steps, num_hard, taken)
            taken.add(chain)
            drawn.append(_problem(chain, split, self.settings))
        return drawn


def perform(value: int, step: Step, misconceived: bool) -> tuple[int, int]:
    """(units work, result modulo 100) of one step."""
    (tens, units), n = divmod(value, 10), step.operand
    if step.operation == "+":
        work = units + n
        return work, (tens * 10 + work % 10 if misconceived else (value + n) % 100)
    if step.operation == "*":
        work = units * n
        return work, (tens * n % 10 * 10 + work % 10 if misconceived else value * n % 100)
    if units >= n:
        return units - n, value - n
    if misconceived:
        return n - units, tens * 10 + n - units
    return 10 + (10 + units - n), (value - n) % 100


def draw_chain(rng: random.Random, steps: int, num_hard: int | None = None, taken: Collection[Chain] = ()) -> Chain:
    """A chain with `num_hard` hard steps on its true way (None: any), whose misconceptions change the answer if there are any.

    Raises TaskError when none is found that is not in `taken`.
    """
    for _ in range(20_000):
        chain = Chain(rng.randrange(100), tuple(_draw_step(rng) for _ in range(steps)))
        if num_hard is not None:
            if len(chain.hard_steps()) != num_hard:
                continue
            if num_hard and chain.work(range(steps))[-1][1] == chain.work()[-1][1]:
                continue
        if chain not in taken:
            return chain
    raise TaskError(
        f"Expected another problem of {steps} steps with {num_hard} hard ones, found no new one in 20000 draws. Ask for fewer problems "
        "(task.num_train, task.num_heldout), or for more steps."
    )


def placebo_words(number: int) -> str:
    return " ".join(("check", "again")[i % 2] for i in range(number))


def shown_words(text: str) -> list[str]:
    """What the learner is shown of a text: its first MAX_SHOWN_WORDS words. A spelled-out special token is not one to it."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    for special in SPECIAL_WORDS:
        clean = clean.replace(special, f" {SPECIAL_WORDS[-1]} ")
    return clean.split()[:MAX_SHOWN_WORDS]


def _draw_step(rng: random.Random) -> Step:
    operation = rng.choice("+-*")
    return Step(operation, rng.randrange(2, 6 if operation == "*" else 10))


def _kind(error: FirstError) -> str:
    return error.kind if isinstance(error, ChainError) else error.error_type


def _problem(chain: Chain, split: str, settings: ChainSettings) -> TaskProblem:
    hard = chain.hard_steps()
    facts = {
        "num_hard_steps": len(hard),
        "hard_steps": [LABELS[i] for i in hard],
        "hard_kinds": [KINDS[chain.steps[i].operation] for i in hard],
    }
    mark = fingerprint(chain.prompt, chain.answer)
    row = Problem(
        problem_id=problem_id(ChainTask.name, mark),
        run_id="",
        task=ChainTask.name,
        split="train" if split == "train" else "heldout",
        prompt=chain.prompt,
        gold=chain.answer,
        source=f"mentor_audit.tasks.chain, steps {settings.steps}, seed {settings.seed}",
        fingerprint=mark,
        facts=json.dumps(facts),
    )
    return TaskProblem(row, chain.prompt)


def _spread(number: int, mix: dict[int, float]) -> Iterator[int]:
    """`number` keys of `mix`, each prefix as near to the shares as it can be."""
    total, given = sum(mix.values()), dict.fromkeys(sorted(mix), 0)
    for i in range(1, number + 1):
        key = max(given, key=lambda k: mix[k] / total * i - given[k])
        given[key] += 1
        yield key
