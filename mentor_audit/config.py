"""The one settings file: TOML plus `key=value` overrides, validated and content-hashed.

`load_config(path, overrides)` is the door. What only an actor can judge (does the task's own table fit, is the model there) is
checked by `suite.validate`; what needs no actor is checked here. An unknown key is an error that names the nearest known one.
"""

import difflib
import hashlib
import json
import os
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from mentor_audit.errors import ConfigError

Arm = Literal[
    "vanilla",
    "resample",
    "resample_flops",
    "retry",
    "verdict_only",
    "placebo",
    "fixed_demo",
    "problem_hint",
    "shuffled_other",
    "shuffled_same",
    "wrong",
    "answer_only",
    "scrubbed",
    "paraphrase",
    "oracle",
    "mentor",
]
"""`resample` is matched to the mentor's tokens, `resample_flops` to its FLOPs."""
ARMS: tuple[str, ...] = get_args(Arm)
ARMS_WITH_MENTOR = ("placebo", "shuffled_other", "shuffled_same", "wrong", "scrubbed", "paraphrase", "mentor")
"""Arms that call the mentor. The controls among them call it too: they must cost what the mentor arm costs, word for word."""
ARMS_RESAMPLING = ("resample", "resample_flops")
ARMS_WITH_TRUTH = ("oracle",)
"""Arms that need a task which knows, by program, where an attempt first goes wrong."""
RANDOMISED = "randomised"
"""The arm, in the column of `run`, of a run in which every failed group draws its own."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SuiteSection(Section):
    name: str = Field(default="suite", pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")
    arms: list[Arm] = Field(default=["vanilla", "resample", "mentor"], min_length=1)
    seeds: list[int] = Field(default=[1, 2, 3], min_length=1)
    workers: int | None = Field(default=None, ge=1, description="runs side by side; None: one a core")
    notes: list[str] = Field(default=[], description="sentences that the report prints under what was assumed")

    @field_validator("arms", "seeds")
    @classmethod
    def _once(cls, values: list[Any]) -> list[Any]:
        if len(set(values)) != len(values):
            raise ValueError(f"expected each entry once, found {values}")
        return values


class TaskSection(BaseModel):
    """`name` chooses the task; every other key is the task's own setting and is checked by it."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = Field(default="chain", description="chain, table, reasoning_gym, or module:attr")

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class LearnerSection(Section):
    model: str = Field(default="embedded", description="embedded, smollm2-135m-instruct, a Hugging Face id or a folder")
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str | None = Field(default=None, description="None: a GPU when there is one")
    attn_implementation: str | None = None
    max_completion_tokens: int = Field(default=256, ge=1)
    temperature: float = Field(default=1.0, gt=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    warm_up: dict[str, Any] = Field(default={}, description="settings of the embedded learner's warm-up")


class MentorSection(Section):
    kind: str = Field(
        default="self", description="self (live weights), frozen (start weights), hf, endpoint, scripted, or module:attr"
    )
    model: str | None = Field(
        default=None, description="for hf: a Hugging Face id or folder; for endpoint: the model as the server calls it"
    )
    revision: str | None = None
    accuracy: float = Field(default=1.0, ge=0, le=1, description="scripted: share of diagnoses that are true")
    charged_as: Literal["learner", "nothing"] = Field(
        default="learner", description="scripted: priced as if the learner had read the attempt and written the reply"
    )
    sees: Literal["one", "all"] = Field(default="one", description="one failed attempt drawn with the seed, or all of the group")
    sees_gold: bool = False
    max_tokens: int = Field(default=256, ge=1)
    temperature: float = Field(default=0.7, ge=0)
    fallback: Literal["nothing", "placebo", "raw_reply"] = Field(
        default="nothing", description="what the learner is shown when the reply can't be parsed; nothing: no follow-up"
    )
    options: dict[str, Any] = Field(
        default={}, description="settings of an endpoint, or keyword arguments of a module:attr mentor"
    )

    @model_validator(mode="after")
    def _fits(self) -> "MentorSection":
        kinds = ("self", "frozen", "hf", "endpoint", "scripted")
        if self.kind not in kinds and ":" not in self.kind:
            raise ValueError(
                f"expected kind to be one of {', '.join(kinds)} or module:attr, found {self.kind!r}{nearest(self.kind, kinds)}"
            )
        if self.kind in ("hf", "endpoint") and not self.model:
            raise ValueError(f'expected mentor.model with kind = "{self.kind}", found none; name the model')
        if self.options and self.kind != "endpoint" and ":" not in self.kind:
            raise ValueError("options belong to an endpoint or a module:attr mentor only")
        return self


class MentoringSection(Section):
    """The knobs of 'what happens after a failure'."""

    trigger: Literal["all_wrong", "below", "always"] = "all_wrong"
    success_threshold: float | None = Field(
        default=None, gt=0, le=1, description="for below: act when the share correct is under it"
    )
    learner_sees: Literal["instruction", "diagnosis_and_instruction"] = "instruction"
    show_attempt: bool = Field(default=False, description="the learner sees its failed attempt as well")
    follow_ups: int = Field(default=1, ge=1, description="a failure; every one is recorded")
    demonstration: str | None = Field(default=None, description="what the arm fixed_demo shows; None: the task's own")
    assignment: Literal["run", "randomised"] = Field(
        default="run", description="an arm a run; or every failed group of one run draws its own of suite.arms"
    )
    arm_weights: dict[Arm, float] = Field(
        default={}, description="for randomised: chances of the arms, in any scale; an arm of suite.arms that isn't named: 1"
    )
    placement: Literal["replace_one", "append", "instructed_group"] = "replace_one"
    context: Literal["original", "instructed"] = Field(
        default="original", description="the prompt under which a follow-up's log-probs are taken"
    )
    correction: Literal["shaped", "none", "truncated", "recomputed"] = Field(
        default="shaped",
        description="for context original: shaped p/(p+g); none; truncated ratio of original to instructed probability; "
        "recomputed: the ratio is not clipped",
    )
    shaping_gamma: float = Field(default=0.1, gt=0)
    ratio_cap: float = Field(default=2.0, gt=0, description="for truncated")
    advantage: Literal["mean_centred", "std_scaled", "split_baseline"] = "mean_centred"
    train_on_failed_follow_ups: bool = False
    stop: Literal["never", "warm_up", "cosine"] = Field(
        default="never", description="warm_up: only before stop_step; cosine: with a chance that falls to 0 at stop_step"
    )
    stop_step: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _fits(self) -> "MentoringSection":
        if (self.trigger == "below") != (self.success_threshold is not None):
            raise ValueError('trigger = "below" and success_threshold go together')
        if self.arm_weights and self.assignment != "randomised":
            raise ValueError('arm_weights belong to assignment = "randomised"')
        if any(weight <= 0 for weight in self.arm_weights.values()):
            raise ValueError(f"expected weights above 0, found {self.arm_weights}; leave an arm out of suite.arms instead")
        if (self.stop != "never") != (self.stop_step is not None):
            raise ValueError('stop = "warm_up" or "cosine" and stop_step go together')
        if self.placement == "instructed_group" and self.context == "original" and self.correction in ("truncated", "recomputed"):
            raise ValueError(
                'placement = "instructed_group" is a fresh group on the instructed prompt: use context = "instructed", '
                'or correction = "shaped" or "none"'
            )
        return self


class TrainSection(Section):
    steps: int = Field(default=50, ge=1, description="optimizer updates")
    problems_per_step: int = Field(default=8, ge=1)
    num_generations: int = Field(default=8, ge=2, description="G, attempts a problem")
    learning_rate: float = Field(default=1e-6, gt=0)
    micro_batch: int | None = Field(
        default=None, ge=1, description="sequences a forward pass on one device; None: all of a step at once"
    )
    checkpoint_every: int | None = Field(default=None, ge=1, description="steps; None: at the end only")
    calibrate: bool = Field(default=True, description="count the FLOPs of one step with torch's counter")
    grpo: dict[str, Any] = Field(default={}, description="any other setting of trl.GRPOConfig, by its own name")


class EvalSection(Section):
    every: int | None = Field(
        default=None, ge=1, description="steps between held-out evaluations; None: first and last step only"
    )
    samples: int = Field(default=1, ge=1, description="a problem; pass@k needs at least k")
    temperature: float = Field(default=1.0, ge=0, description="0: greedy")
    problems: int | None = Field(default=None, ge=1, description="the first so many held-out problems; None: all")


class BudgetSection(Section):
    """A run stops at the first step whose end reaches the budget; mentor included, held-out evaluation not."""

    tokens: int | None = Field(default=None, ge=1)
    flops: float | None = Field(default=None, gt=0)


class ReportSection(Section):
    budget: Literal["flops", "tokens", "seconds"] = "flops"


class StoreSection(Section):
    path: str = "store"
    registry_url: str | None = Field(default=None, description="SQLAlchemy URL; None: STORE/registry.sqlite")


class ReplaySection(Section):
    """`mentor-audit replay`: a failure bank from a frozen policy, and every arm's answer to each of its failures."""

    name: str = Field(
        default="replay", pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", description="of this replay; several may share a bank"
    )
    arms: list[Arm] = Field(
        default=["vanilla", "resample", "retry", "placebo", "shuffled_other", "shuffled_same", "wrong", "scrubbed", "mentor"],
        min_length=1,
        description="sampled for failures that lack them; an arm that is added later is all that is sampled then",
    )
    seed: int = 1
    split: Literal["train", "heldout"] = Field(default="train", description="where the bank's problems come from")
    problems: int = Field(default=200, ge=1, description="the first so many of the split")
    failures: int | None = Field(
        default=None, ge=1, description="stop the bank at so many zero-reward groups; None: all problems"
    )
    num_generations: int = Field(default=8, ge=2, description="G, attempts a problem in the bank")
    batch: int = Field(default=32, ge=2, description="problems of the bank, or failures answered, in one commit")
    bank: str | None = Field(
        default=None,
        description="run id of a bank that is there, made by this policy or another; None: SUITE-bank, made as far as it is lacking",
    )
    policy: str | None = Field(
        default=None,
        description="model folder, or run id of a run trained in this store (its final weights); None: the learner as it starts",
    )

    @field_validator("arms")
    @classmethod
    def _once(cls, values: list[Any]) -> list[Any]:
        if len(set(values)) != len(values):
            raise ValueError(f"expected each arm once, found {values}")
        return values


class PowerSection(Section):
    """`mentor-audit power`: the effect that is to be found, and how surely."""

    effect: float = Field(default=0.05, gt=0, lt=1, description="difference of two arms, as a fraction: 0.05 is 5 points")
    power: float = Field(default=0.8, gt=0, lt=1)
    alpha: float = Field(default=0.05, gt=0, lt=1)


class SuiteConfig(Section):
    """Every setting of a suite, by section. `load_config` reads one; `hash()` covers what can change a row."""

    suite: SuiteSection = SuiteSection()
    task: TaskSection = TaskSection()
    learner: LearnerSection = LearnerSection()
    mentor: MentorSection = MentorSection()
    mentoring: MentoringSection = MentoringSection()
    train: TrainSection = TrainSection()
    eval: EvalSection = EvalSection()
    budget: BudgetSection = BudgetSection()
    replay: ReplaySection = ReplaySection()
    report: ReportSection = ReportSection()
    power: PowerSection = PowerSection()
    store: StoreSection = StoreSection()

    @model_validator(mode="after")
    def _fits(self) -> "SuiteConfig":
        if self.mentoring.placement == "append" and self.mentoring.follow_ups > self.train.num_generations:
            raise ValueError('placement = "append" holds at most num_generations follow-ups a group')
        strangers = [arm for arm in self.mentoring.arm_weights if arm not in self.suite.arms]
        if strangers:
            raise ValueError(f"expected arm_weights of suite.arms, found {', '.join(strangers)}")
        return self

    @property
    def run_arms(self) -> list[str]:
        """The arms of the suite's runs: its arms, or the one that draws among them."""
        return [RANDOMISED] if self.mentoring.assignment == "randomised" else list(self.suite.arms)

    @property
    def arm_chances(self) -> dict[str, float]:
        """Chance of each arm for a failed group of a randomised run; empty otherwise."""
        if self.mentoring.assignment == "run":
            return {}
        weights = {str(arm): self.mentoring.arm_weights.get(arm, 1.0) for arm in self.suite.arms}
        return {arm: weight / sum(weights.values()) for arm, weight in weights.items()}

    def hash(self) -> str:
        """sha256 over everything that can change a training run's row: where the store lies and how many workers there are can't."""
        arms_count = self.mentoring.assignment == "randomised"
        content = self.model_dump(
            mode="json",
            exclude={
                "store": True,
                "report": True,
                "replay": True,
                "power": True,
                "suite": {"workers", "notes", "seeds", *(() if arms_count else ("arms",))},
            },
        )
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def load_config(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> SuiteConfig:
    """Read a TOML file (or, named .json, the same as JSON) and apply overrides such as `train.steps=20`, whose values are TOML too (bare words are strings).

    Raises ConfigError for a file that is missing or malformed, an unknown key, and a value that can't be.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Expected a TOML file at {path}, found none that can be read ({error}). Check the path.") from error
    is_json = str(path).endswith(".json")
    try:
        values = json.loads(text) if is_json else tomllib.loads(text)
    except ValueError as error:
        kind = "JSON" if is_json else "TOML"
        raise ConfigError(f"Expected {kind} in {path}, found a mistake: {error}. Correct that line.") from error
    return parse_config(values, overrides, where=str(path))


def parse_config(values: dict[str, Any], overrides: Sequence[str] = (), where: str = "the settings") -> SuiteConfig:
    """The same from a dictionary."""
    values = json.loads(json.dumps(values, default=str))
    for override in overrides:
        _apply(values, override)
    try:
        return SuiteConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error, SuiteConfig, where)) from error


def explain(error: ValidationError, model: type[BaseModel], where: str) -> str:
    """pydantic's findings in our three parts: the key, what was expected, what was found, the nearest known key."""
    lines = []
    for finding in error.errors():
        key = ".".join(str(part) for part in finding["loc"])
        if finding["type"] == "extra_forbidden":
            known = sorted(_known_keys(model))
            lines.append(f"unknown setting `{key}`{nearest(key, known)}")
        else:
            found = "" if finding["type"] == "value_error" else f", found {finding['input']!r}"
            lines.append(f"`{key or 'settings'}`: {finding['msg'].removeprefix('Value error, ')}{found}")
    return f"In {where}: " + "; ".join(lines) + ". Correct it and try `mentor-audit validate` again."


def nearest(name: str, known: Sequence[str]) -> str:
    """`; did you mean ...?`, or the list when nothing is near."""
    by_last = {k.rsplit(".", 1)[-1]: k for k in known}
    near = difflib.get_close_matches(name, known, n=1) or [
        by_last[m] for m in difflib.get_close_matches(name.rsplit(".", 1)[-1], list(by_last), n=1)
    ]
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; known are {', '.join(known)}" if len(known) <= 12 else ""


def _known_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _known_keys(field.annotation, f"{prefix}{name}.")


def _apply(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"Expected an override as key=value, found {override!r}. Write for example --set train.steps=20.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *sections, name = key.strip().split(".")
    place = values
    for section in sections:
        place = place.setdefault(section, {})
        if not isinstance(place, dict):
            raise ConfigError(
                f"Expected `{section}` in {override!r} to be a section, found a value. See the TOML's section names."
            )
    place[name] = value
