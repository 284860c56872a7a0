"""What is true in a simulated store. Owns the planted numbers and their meaning; writes no row.

A failure's responses are correct by luck or by a cause: each cause that a response carries makes it correct by itself, with a chance
of its own, and causes don't know of one another. So a response's chance is 1 - (1 - luck) x (1 - cause) x (1 - cause) ..., and what an
arm adds to another can be worked out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from mentor_audit.config import ARMS
from mentor_audit.errors import ConfigError

LADDER = ("vanilla", "resample", "retry", "placebo", "wrong", "scrubbed", "mentor")
"""Arms, each with one cause more than the one before."""
CAUSES = ("sampling", "context", "form", "residual", "correctness", "leakage")
"""What each step of the ladder adds."""
WITH_DIAGNOSIS = ("shuffled_same", "scrubbed", "paraphrase", "mentor")
"""Arms whose text is made from a diagnosis of this problem's failures."""
CARRIED: dict[str, tuple[str, ...]] = {
    "resample": (),
    "resample_flops": (),
    "retry": ("context",),
    "verdict_only": ("context",),
    "placebo": ("context", "form"),
    "fixed_demo": ("context", "form"),
    "answer_only": ("context", "form"),
    **dict.fromkeys(
        ("problem_hint", "shuffled_other", "shuffled_same", "wrong", "scrubbed", "paraphrase", "oracle", "mentor"),
        ("context", "form", "residual"),
    ),
}
"""Responding arm -> the causes that each of its responses carries; correctness and leakage depend on the text."""


@dataclass(frozen=True)
class Causes:
    """Chance, 0 to 1, that a cause alone makes a response correct.

    correctness acts where the text names the true error, leakage where it gives the answer away; the others in every text of an arm
    that carries them.
    """

    context: float = 0.0
    form: float = 0.0
    residual: float = 0.0
    correctness: float = 0.0
    leakage: float = 0.0

    def __post_init__(self) -> None:
        for cause in fields(self):
            _between(f"causes.{cause.name}", getattr(self, cause.name), 0, 1)


@dataclass(frozen=True)
class Failures:
    """Problems, the chance of luck on them, and what helps after a failure.

    lucky         a, b of the Beta distribution of a problem's chance that one sample is correct; a problem's *ease* is its rank in it
    accuracy      share of diagnoses that are right, over all problems
    tilt          0 to 1: how far accuracy rises with ease; 1: from 0 to 2 x accuracy, or as far as 0 to 1 allows
    spread        0 to 1: how far every cause's chance rises with ease; 1: from 0 to twice the chance
    same_error    chance that a right diagnosis of another attempt at the problem is right for this one
    accidental    chance that the diagnosis of another problem is right for this one
    leak_rate     share of the mentor's instructions that give the answer away
    unscored      share of samples that get no verdict, whether right or not; with an instruction twice as many
    judge         sensitivity and specificity of a second auditor; None: there is none
    """

    causes: Causes = field(default_factory=Causes)
    lucky: tuple[float, float] = (0.5, 3.0)
    accuracy: float = 0.7
    tilt: float = 0.0
    spread: float = 0.0
    same_error: float = 0.5
    accidental: float = 0.1
    leak_rate: float = 0.0
    unscored: float = 0.0
    judge: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name in ("accuracy", "tilt", "spread", "same_error", "accidental", "leak_rate"):
            _between(name, getattr(self, name), 0, 1)
        _between("unscored", self.unscored, 0, 0.5)
        if self.spread:
            for cause in fields(self.causes):
                _between(f"causes.{cause.name} x (1 + spread)", getattr(self.causes, cause.name) * (1 + self.spread), 0, 1)


@dataclass(frozen=True)
class Replays:
    """A failure bank and one replay on it.

    problems x groups groups of `attempts` attempts; every arm answers each group whose every attempt was verified wrong, with
    `follow_ups` responses, or `extra_samples` of an arm that samples.
    """

    failures: Failures
    arms: tuple[str, ...]
    problems: int = 60
    groups: int = 2
    attempts: int = 4
    follow_ups: int = 1
    extra_samples: int = 1
    name: str = "replay"

    def __post_init__(self) -> None:
        _known(self.arms)


@dataclass(frozen=True)
class Randomised:
    """Training runs in which every failed group draws its arm.

    first, second   arm -> chance, in the first and the second half of the steps; each adds up to 1
    later           a cause that every response of the second half carries: what is rescued easily then has nothing to do with the arm
    """

    failures: Failures
    first: Mapping[str, float]
    second: Mapping[str, float]
    later: float = 0.0
    problems: int = 60
    seeds: tuple[int, ...] = (1, 2, 3)
    steps: int = 10
    groups_a_step: int = 12
    attempts: int = 4
    follow_ups: int = 1
    extra_samples: int = 1

    def __post_init__(self) -> None:
        _known((*self.first, *self.second))
        for half, chances in (("first", self.first), ("second", self.second)):
            if set(self.first) != set(self.second) or abs(sum(chances.values()) - 1) > 1e-9 or min(chances.values()) <= 0:
                raise ConfigError(
                    f"Expected chances above 0 that add up to 1, of the same arms in both halves, found {dict(chances)} in `{half}`. "
                    "Give every arm a chance."
                )


@dataclass(frozen=True)
class World:
    """The truth of one suite: training runs, a replay, randomised training, or several of them.

    gain              arm -> held-out accuracy that training adds by its end; no arm: nothing was trained
    rescue            arm -> chance that a response in training is correct
    flops_a_step      arm -> training FLOPs a step; 1e9 where not named
    start             mean held-out accuracy before training
    seed_spread       standard deviation of a run's gain
    problem_spread    standard deviation of held-out problems' difficulty
    unscored          arm -> share of held-out samples without a verdict, whether right or not
    first_eval        step of the first held-out evaluation; then every `eval_every` steps
    """

    gain: Mapping[str, float] = field(default_factory=dict)
    rescue: Mapping[str, float] = field(default_factory=dict)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    flops_a_step: Mapping[str, float] = field(default_factory=dict)
    start: float = 0.2
    seed_spread: float = 0.01
    problem_spread: float = 0.15
    unscored: Mapping[str, float] = field(default_factory=dict)
    mentor_accuracy: float = 0.8
    accidental: float = 0.1
    steps: int = 20
    eval_every: int = 5
    first_eval: int = 0
    heldout: int = 80
    samples: int = 2
    train_problems: int = 12
    groups_a_step: int = 3
    unknown_mentor_flops: bool = False
    replays: Replays | None = None
    randomised: Randomised | None = None
    notes: tuple[str, ...] = ("The learning rate was not tuned for each arm.",)
    suite: str = "simulated"

    @property
    def eval_steps(self) -> list[int]:
        return list(range(self.first_eval, self.steps + 1, self.eval_every))


def gains(arms: tuple[str, ...], **by_cause: float) -> dict[str, float]:
    """Held-out gains of arms on the ladder: each has the sum of what its causes add. Raises ConfigError for an unknown arm or cause."""
    unknown = (set(arms) - set(LADDER)) | (set(by_cause) - set(CAUSES))
    if unknown:
        raise ConfigError(
            f"Expected arms of {', '.join(LADDER)} and causes of {', '.join(CAUSES)}, found {', '.join(sorted(unknown))}. Use those."
        )
    return {arm: sum(by_cause.get(cause, 0.0) for cause in CAUSES[: LADDER.index(arm)]) for arm in arms}


def _known(arms: tuple[str, ...]) -> None:
    unknown = [arm for arm in arms if arm not in ARMS]
    if unknown:
        raise ConfigError(f"Expected arms of {', '.join(ARMS)}, found {', '.join(unknown)}. Use those.")


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"Expected {name} from {low:g} to {high:g}, found {value:g}. Choose a chance within.")
