"""The rows: one SQLModel class a table, the one source of truth for every schema.

Trajectory tables (`table=False`: validated and frozen) live in Parquet; registry tables (`table=True`) in SQLite or Postgres.
`schema.py` renders Arrow schemas, SQL DDL and JSON Schema from these classes.

Conventions
- Ids are text, deterministic and readable: `<run>.l<launch>.<t|e|r><step>.g<group>` is a group of launch, step and position
  (`t` training, `e` evaluation, `r` replay); its attempts end in `.a<i>`, extra samples in `.x<i>`, its diagnosis in `.d<i>`, its
  instruction in `.i<i>`, follow-ups in `.f<i>`. Writing the same step again gives the same ids.
- `step` counts the optimizer updates that the policy had taken when it sampled (0 is the starting policy). The update that
  follows is the `train_step` row of the same number. In the modes `replay` and `audit`, which update nothing, it counts batches.
- `mode` is `train`, `eval`, `replay` (a frozen policy: the failure bank, and every arm's answer to it) or `audit` (verdicts given
  afterwards). (run_id, launch, step, mode) names one committed unit: whole or not there.
- A run's `arm` is what it was trained with; `randomised`: each group has its own. Runs that train nothing are called `bank`,
  `replay` and `audit` there.
- None means "not known" or "does not apply", never 0 or False.
- FLOPs are float64: sums overflow int64.
"""

import math
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, model_validator
from sqlmodel import Field, SQLModel

SCHEMA_VERSION = 2

Mode = Literal["train", "eval", "replay", "audit"]
Role = Literal["attempt", "extra_sample", "follow_up", "eval"]
AttemptStatus = Literal[
    "correct",
    "incorrect",
    "truncated",
    "no_answer",
    "verifier_timeout",
    "verifier_error",
    "unscorable_gold",
]
ParseStatus = Literal["ok", "repaired", "unparsable", "mentor_error"]
Aspect = Literal["detection", "location", "cause", "fix"]
RUNS_WITHOUT_TRAINING = ("bank", "replay", "audit")
"""Arms, in the column of `run`, of runs that train nothing."""
Payer = Literal["learner", "mentor", "eval", "audit"]
Phase = Literal["rollout", "extra_sample", "mentor", "follow_up", "logprob", "optimizer", "eval", "calibration", "audit"]


class Row(SQLModel):
    """A frozen, validated row. Unknown columns, NaN and infinities are refused.

    Raises pydantic.ValidationError on a bad value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")  # type: ignore[assignment]

    @model_validator(mode="before")
    @classmethod
    def _finite(cls, values: Any) -> Any:
        if isinstance(values, dict):
            for name, value in values.items():
                if isinstance(value, float) and not math.isfinite(value):
                    raise ValueError(f"{name} is {value}: expected a finite number, or None for 'not known'")
        return values


class Problem(Row):
    """A question with a verifiable answer. The id comes from the content, so every run names it alike."""

    problem_id: str = Field(primary_key=True, description="from task and content fingerprint")
    run_id: str = Field(description="the run that wrote this copy; the view `problem` keeps one copy a problem_id")
    task: str = Field(description="task name")
    split: Literal["train", "heldout"]
    prompt: str = Field(description="the question as text")
    gold: str | None = Field(default=None, description="reference answer; None when the verifier needs none")
    source: str = Field(description="where it comes from: generator and settings, file, data set id")
    fingerprint: str = Field(description="sha256 of the normalised prompt and gold answer")
    facts: str | None = Field(default=None, description="JSON: what the task knows of it (difficulty, planted truth)")


class StepRow(Row):
    """What belongs to one committed unit of a run."""

    run_id: str = Field(description="registry key of the run; the partition of every table")
    launch: int = Field(ge=1, description="1 for the first process life of the run, +1 for every resume")
    step: int = Field(ge=0, description="optimizer updates that the policy had taken")
    mode: Mode
    rank: int = Field(default=0, ge=0, description="process that wrote the row")


class AttemptGroup(StepRow):
    """The G attempts on one problem at one policy step."""

    group_id: str = Field(primary_key=True)
    problem_id: str = Field(foreign_key="problem.problem_id")
    num_generations: int = Field(ge=1, description="G, attempts sampled without instruction")
    num_correct: int = Field(ge=0)
    num_incorrect: int = Field(ge=0)
    num_truncated: int = Field(ge=0, description="cut at the length limit before an answer; not counted as incorrect")
    num_unscored: int = Field(ge=0, description="no verdict for another reason")
    zero_reward: bool = Field(description="no attempt was verified correct, before anything was inserted")
    zero_reward_after: bool = Field(description="the same, over what GRPO was given after insertion")
    triggered: bool = Field(description="the arm acted on this group")
    trigger_reason: str = Field(description="why it did or did not")
    arm: str | None = Field(default=None, description="what this group got; None: written before version 2, that of its run")
    assignment_probability: float | None = Field(
        default=None, gt=0, le=1, description="chance that this group got this arm; None: written before version 2"
    )
    source_group_id: str | None = Field(
        default=None,
        foreign_key="attempt_group.group_id",
        description="in a replay: the bank's group whose failure is answered here; the counts are that group's. None: sampled here",
    )


class Attempt(StepRow):
    """One sampled completion with its verdict. A follow-up is an attempt made with an instruction."""

    attempt_id: str = Field(primary_key=True)
    group_id: str = Field(foreign_key="attempt_group.group_id")
    problem_id: str = Field(foreign_key="problem.problem_id")
    role: Role
    position: int = Field(ge=0, description="place among the rows of this role in its group")
    parent_attempt_id: str | None = Field(
        default=None, foreign_key="attempt.attempt_id", description="the failed attempt that this one answers to"
    )
    instruction_id: str | None = Field(
        default=None, foreign_key="instruction.instruction_id", description="what the learner was shown; None: nothing"
    )
    prompt: str = Field(description="the text that the model was given, chat template applied")
    completion: str = Field(description="decoded completion, special tokens left out")
    completion_ids: list[int] = Field(description="sampled token ids, end-of-sequence included; never re-encoded")
    text_replaced: bool = Field(default=False, description="characters that Arrow can't hold were replaced in a text")
    flags: list[str] = Field(
        default=[],
        description="double_bos: the prompt begins with two beginning-of-sequence tokens; retokenization_drift: encoding the completion's "
        "text gives other ids than the sampled ones",
    )
    finish_reason: Literal["eos", "length"]
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    extracted_answer: str | None = Field(default=None, description="what the verifier read as the answer")
    is_correct: bool | None = Field(default=None, description="the verifier's verdict; None: unscored, see status")
    status: AttemptStatus
    status_detail: str | None = Field(default=None, description="why, in the verifier's words")
    reward: float | None = Field(default=None, description="what the reward functions gave; None: none did")
    advantage: float | None = Field(default=None, description="as given to the loss before corrections; None: not in GRPO")
    trained: bool = Field(default=False, description="it was in the batch that GRPO's loss saw")
    replaced_by: str | None = Field(
        default=None, foreign_key="attempt.attempt_id", description="the follow-up that took this attempt's slot"
    )
    mean_logprob_original: float | None = Field(
        default=None, description="mean log-prob a token under the prompt without instruction, at sampling time"
    )
    mean_logprob_instructed: float | None = Field(default=None, description="the same under the instructed prompt")


class Diagnosis(StepRow):
    """Where an attempt first went wrong, how, and why, as the mentor claims."""

    diagnosis_id: str = Field(primary_key=True)
    group_id: str = Field(foreign_key="attempt_group.group_id")
    attempt_id: str = Field(foreign_key="attempt.attempt_id", description="the failed attempt that it is about")
    attempts_read: list[str] = Field(description="every attempt that the mentor was shown")
    mentor: str = Field(description="self, frozen, hf, endpoint, scripted, or module:attr")
    mentor_model: str | None = Field(default=None, description="model name; None for a program")
    prompt_template: str | None = Field(default=None, description="file and content hash of the mentor's prompt")
    saw_gold: bool = Field(description="the mentor was shown the reference answer")
    raw_reply: str | None = Field(
        default=None, description="as written, or what came of a reply that broke off; None when nothing came"
    )
    parse_status: ParseStatus
    error: str | None = Field(
        default=None, description="what failed; with a parsed reply: what is wrong with it all the same, such as being cut off"
    )
    location: str | None = Field(default=None, description="the first wrong step, in the task's terms")
    error_type: str | None = None
    claim: str | None = Field(default=None, description="the diagnosis in words")
    proposed_instruction: str | None = None
    text_replaced: bool = False


class Instruction(StepRow):
    """The text that the learner is shown for its next attempt, as the arm decided."""

    instruction_id: str = Field(primary_key=True)
    group_id: str = Field(foreign_key="attempt_group.group_id")
    attempt_id: str = Field(foreign_key="attempt.attempt_id", description="the failed attempt that it answers")
    diagnosis_id: str | None = Field(
        default=None, foreign_key="diagnosis.diagnosis_id", description="the diagnosis it was made from; None: from none"
    )
    arm: str
    text: str
    source: str = Field(
        description="diagnosis, other_attempt, other_problem, altered, reworded, scrubbed, problem, gold, truth, template, demonstration, "
        "attempt or fallback"
    )
    assignment_probability: float = Field(default=1.0, gt=0, le=1, description="chance that this group got this arm")
    is_fitting: bool | None = Field(
        default=None, description="a program's verdict: it names this attempt's true first error; None: can't tell"
    )
    leak_findings: str | None = Field(default=None, description="not used: findings are rows of leak_audit")
    text_replaced: bool = False


class DiagnosisAudit(StepRow):
    """An independent verdict on one aspect of a diagnosis."""

    audit_id: str = Field(primary_key=True)
    diagnosis_id: str = Field(foreign_key="diagnosis.diagnosis_id")
    auditor: str
    aspect: Aspect
    verdict: bool | None = Field(default=None, description="None: the auditor could not tell")
    confidence: float | None = Field(default=None, ge=0, le=1)
    why: str | None = None


class LeakAudit(StepRow):
    """What one auditor found of the reference answer in an instruction, tier by tier. A column is None where it did not look."""

    leak_audit_id: str = Field(primary_key=True)
    instruction_id: str = Field(foreign_key="instruction.instruction_id")
    auditor: str = Field(description="program, or the name of the model that answered or scored")
    answer_found: bool | None = Field(default=None, description="tier 1: the reference answer stands in the instruction")
    answer_span: str | None = Field(default=None, description="the words of the instruction that match it")
    answer_known: bool | None = Field(
        default=None, description="tier 2: the same answer stands in the problem or the failed attempt, so nothing was given away"
    )
    answer_known_where: str | None = Field(default=None, description="problem or attempt, and the words there")
    is_leak: bool | None = Field(default=None, description="found and not known; None: can't tell")
    reference_overlap: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="tier 3: share of the instruction's word n-grams that stand in the reference solution",
    )
    reference_span: str | None = Field(default=None, description="the longest run of words that both have")
    answered: bool | None = Field(
        default=None, description="tier 4: a model given the instruction without the problem gives the reference answer"
    )
    answered_text: str | None = Field(default=None, description="what that model wrote")
    logprob_change: float | None = Field(
        default=None,
        description="tier 5: mean log-prob a token of the reference answer with the instruction, less without it, in nats",
    )
    detail: str | None = Field(default=None, description="JSON: settings of this auditor, why it could not tell")
    text_replaced: bool = False


class Cost(StepRow):
    """One owner's share of a model call, or one optimizer phase. Shares of one call add up to the call exactly."""

    cost_id: str = Field(primary_key=True)
    call_id: str = Field(description="rows of one batched call share it")
    owner_table: Literal["attempt_group", "diagnosis", "instruction", "train_step", "diagnosis_audit", "leak_audit"]
    owner_id: str = Field(description="key of the row that this was spent on; a train_step's is run.launch.step")
    phase: Phase
    payer: Payer
    model: str | None = None
    sequences: int = Field(ge=0)
    prompt_tokens: int | None = Field(default=None, ge=0, description="unpadded, counted once a sequence")
    cached_tokens: int | None = Field(default=None, ge=0, description="prompt tokens that prefix caching would spare")
    output_tokens: int | None = Field(default=None, ge=0, description="sampled, end-of-sequence included")
    padded_tokens: int | None = Field(default=None, ge=0, description="padding positions that were computed, not in the others")
    flops: float | None = Field(default=None, ge=0, description="as executed, padding included; None: model size unknown")
    flops_prefix_cached: float | None = Field(
        default=None, ge=0, description="without padding and with the prompt computed once a group"
    )
    wall_seconds: float = Field(ge=0)
    disposition: Literal["used", "discarded"] = Field(description="discarded: nothing of it reached a gradient or the next stage")
    error: str | None = None


class TrainStep(StepRow):
    """The trainer's metrics of one update, or of one evaluation. Committed last: with it, the step is whole."""

    train_step_id: str = Field(primary_key=True)
    launch_start_step: int = Field(ge=0, description="where this launch began; it supersedes earlier launches from there")
    world_size: int = Field(ge=1)
    loss: float | None = None
    learning_rate: float | None = None
    grad_norm: float | None = None
    reward_mean: float | None = Field(default=None, description="over GRPO's batch, after insertion")
    entropy: float | None = None
    mean_completion_tokens: float | None = None
    num_groups: int = Field(ge=0)
    num_zero_reward_groups: int = Field(ge=0, description="before insertion")
    zero_reward_fraction: float | None = Field(default=None, ge=0, le=1, description="before insertion; None: no group")
    zero_reward_fraction_after: float | None = Field(default=None, ge=0, le=1, description="after insertion")
    num_inserted: int = Field(ge=0, description="rows that GRPO got from follow-ups or extra samples")
    wall_seconds: float = Field(ge=0)
    metrics: str = Field(description="JSON: every metric that TRL logged")
    row_counts: str = Field(description="JSON: rows a table that this unit committed")


class RunBase(SQLModel):
    """One arm, one seed."""

    run_id: str = Field(primary_key=True)
    suite: str
    arm: str
    seed: int
    config: str = Field(description="JSON: the whole resolved configuration")
    config_hash: str
    learner: str = Field(description="model and revision")
    learner_params: int | None = Field(default=None, description="parameters in all; None: unknown")
    mentor: str = Field(description="mentor and model; '-' for arms without one")
    task: str
    code_version: str
    packages: str = Field(description="JSON: name -> version")
    hardware: str = Field(description="JSON")
    created_at: datetime
    flop_calibration: str | None = Field(
        default=None, description="JSON: counted and computed FLOPs of one step, by phase, and their ratio"
    )


class Run(RunBase, table=True):
    pass


class LaunchBase(SQLModel):
    """One process life of a run."""

    run_id: str = Field(primary_key=True, foreign_key="run.run_id")
    launch: int = Field(primary_key=True)
    started_at: datetime
    resumed_from_step: int | None = Field(default=None, description="None: started from nothing")
    ended_at: datetime | None = None
    ended_how: str | None = Field(
        default=None, description="finished, budget, interrupted, or error: ...; None: alive, or died without a word"
    )
    pid: int
    host: str


class Launch(LaunchBase, table=True):
    pass


class HumanLabelBase(SQLModel):
    """A person's verdict on one aspect of a diagnosis."""

    label_id: str = Field(primary_key=True)
    diagnosis_id: str
    person: str
    aspect: str
    verdict: bool | None = None
    note: str | None = None
    labelled_at: datetime


class HumanLabel(HumanLabelBase, table=True):
    __tablename__ = "human_label"


TRAJECTORY_TABLES: dict[str, type[Row]] = {
    "problem": Problem,
    "attempt_group": AttemptGroup,
    "attempt": Attempt,
    "diagnosis": Diagnosis,
    "instruction": Instruction,
    "diagnosis_audit": DiagnosisAudit,
    "leak_audit": LeakAudit,
    "cost": Cost,
    "train_step": TrainStep,
}
"""Name -> row class, parents first: the order in which a step is committed."""

REGISTRY_TABLES: dict[str, type[SQLModel]] = {"run": Run, "launch": Launch, "human_label": HumanLabel}
