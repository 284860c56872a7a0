"""The straight line: attempt -> grade -> diagnose -> instruct -> follow up -> grade.

`attempt` and `rescue` work on aligned lists of episodes, one an episode a group. They see actors through their protocols only:
neither torch nor trl. An actor's failure is data and keeps its slot; an error of ours is an exception. `rows` turns finished
episodes into the store's rows.

Lockstep: with several ranks every rank calls `rescue` on its own groups, and each arm makes the same number of
`policy.sample` and `gather` calls on every rank, with empty lists where a rank has no failure.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import cos, pi
from typing import Any

from mentor_audit.config import ARMS_RESAMPLING, ARMS_WITH_MENTOR, MentoringSection
from mentor_audit.cost.ledger import cost_row
from mentor_audit.errors import TrainingError
from mentor_audit.mentor.arms import Draft, OtherDiagnosis, instruct
from mentor_audit.protocols import (
    Answer,
    ChecksSteps,
    Completion,
    Failure,
    FirstError,
    Grade,
    Mentor,
    MentorReply,
    Policy,
    Task,
    TaskProblem,
    Usage,
    Verdict,
    VerifiesBatches,
)
from mentor_audit.records import Aspect, Attempt, AttemptGroup, Cost, Diagnosis, DiagnosisAudit, Instruction, Mode, Role, Row

Grader = Callable[[Sequence[TaskProblem], Sequence[Completion]], Sequence[Grade]]
Gather = Callable[[list[OtherDiagnosis]], list[OtherDiagnosis]]
"""The lists of all ranks, joined in rank order."""


@dataclass(frozen=True)
class Unit:
    """What one commit holds: a step of a launch of a run. `rank` is the process that writes these rows."""

    run_id: str
    launch: int
    step: int
    mode: Mode
    rank: int = 0

    def group_id(self, index: int) -> str:
        return f"{self.run_id}.l{self.launch}.{self.mode[0]}{self.step}.g{index}"

    @property
    def columns(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "launch": self.launch, "step": self.step, "mode": self.mode, "rank": self.rank}


@dataclass(frozen=True)
class Plan:
    """What happens after a failure: the arm, its knobs, and the seed that every draw derives from."""

    arm: str
    mentoring: MentoringSection
    seed: int
    fallback: str = "nothing"
    mentor_sees: str = "one"


@dataclass
class Sampled:
    """One attempt on its way to a row. The trainer fills in what GRPO made of it."""

    attempt_id: str
    role: Role
    position: int
    completion: Completion
    grade: Grade
    parent_attempt_id: str | None = None
    instruction_id: str | None = None
    advantage: float | None = None
    trained: bool = False
    replaced_by: str | None = None
    mean_logprob_original: float | None = None
    mean_logprob_instructed: float | None = None

    @property
    def verdict(self) -> Verdict:
        return self.grade.verdict


@dataclass
class Episode:
    """A group and everything that followed from it."""

    index: int
    group_id: str
    problem: TaskProblem
    attempts: list[Sampled]
    triggered: bool = False
    trigger_reason: str = "arm without a trigger"
    assignment_probability: float = 1.0
    failure: Failure | None = None
    reply: MentorReply | None = None
    diagnosis_id: str | None = None
    truth: FirstError | None = None
    draft: Draft | None = None
    instruction_id: str | None = None
    responses: list[Sampled] = field(default_factory=list)
    zero_reward_after: bool | None = None

    @property
    def zero_reward(self) -> bool:
        return not any(a.verdict.is_correct for a in self.attempts)

    @property
    def failed(self) -> list[Sampled]:
        """Attempts verified wrong; truncated and unscored ones are not among them."""
        return [a for a in self.attempts if a.verdict.is_correct is False]


def run(
    problems: Sequence[TaskProblem],
    policy: Policy,
    task: Task,
    mentor: Mentor | None,
    plan: Plan,
    unit: Unit,
    num_generations: int,
) -> list[Episode]:
    """The whole line on one process: G attempts a problem, and the arm's answer to the failures among them."""
    grade = verifier_grader(task)
    episodes = attempt(problems, policy, grade, unit, num_generations, seed=plan.seed)
    rescue(episodes, policy, task, mentor, grade, plan, unit)
    return episodes


def attempt(
    problems: Sequence[TaskProblem],
    policy: Policy,
    grade: Grader,
    unit: Unit,
    num_samples: int,
    *,
    indices: Sequence[int] | None = None,
    seed: int | None = None,
    temperature: float | None = None,
) -> list[Episode]:
    """Sample and grade; an evaluation's attempts have the role `eval`. `indices` number the groups; None: from 0."""
    sampled = policy.sample([p.prompt for p in problems], num_samples, seed=seed, temperature=temperature)
    flat = [(p, c) for p, completions in zip(problems, sampled, strict=True) for c in completions]
    graded = iter(grade([p for p, _ in flat], [c for _, c in flat]))
    return [
        make_episode(unit, index, problem, completions, [next(graded) for _ in completions])
        for index, problem, completions in zip(indices or range(len(problems)), problems, sampled, strict=True)
    ]


def make_episode(
    unit: Unit,
    index: int,
    problem: TaskProblem,
    completions: Sequence[Completion],
    graded: Sequence[Grade],
) -> Episode:
    """A group from attempts that were sampled and graded elsewhere."""
    group_id = unit.group_id(index)
    role: Role = "eval" if unit.mode == "eval" else "attempt"
    attempts = [
        Sampled(f"{group_id}.a{i}", role, i, completion, grade)
        for i, (completion, grade) in enumerate(zip(completions, graded, strict=True))
    ]
    return Episode(index, group_id, problem, attempts)


def rescue(
    episodes: Sequence[Episode],
    policy: Policy,
    task: Task,
    mentor: Mentor | None,
    grade: Grader,
    plan: Plan,
    unit: Unit,
    gather: Gather = list,
) -> None:
    """Answer the failures as the arm says; the episodes are filled in. `mentor` may be None for arms that neither call nor price it."""
    for episode in episodes:
        decide(episode, plan, unit)
    if plan.arm == "vanilla":
        return
    failed = [e for e in episodes if e.triggered]
    if plan.arm in ARMS_RESAMPLING:
        _resample(failed, policy, mentor, grade, plan, unit)
        return
    if plan.arm in ARMS_WITH_MENTOR:
        _diagnose(failed, task, mentor, plan, unit)
    _instruct(failed, task, plan, unit, gather)
    _follow_up([e for e in failed if e.draft is not None], policy, task, grade, plan)


def decide(episode: Episode, plan: Plan, unit: Unit) -> None:
    """Does the arm act on this group, and on which failed attempt? The reason is recorded either way."""
    knobs, wrong, size = plan.mentoring, len(episode.failed), len(episode.attempts)
    correct = sum(a.verdict.is_correct is True for a in episode.attempts)
    counts = f"{wrong} of {size} verified wrong, {correct} correct, {size - wrong - correct} without a verdict"
    if knobs.trigger == "all_wrong":
        acts = wrong == size
    elif knobs.trigger == "below":
        acts = wrong > 0 and correct / (correct + wrong) < (knobs.success_threshold or 0.0)
    else:
        acts = wrong > 0
    rng = _rng(plan, unit, episode, "trigger")
    probability = _activity(knobs, unit.step) if plan.arm != "vanilla" else 0.0
    episode.trigger_reason = f"{knobs.trigger}: {counts}"
    if plan.arm == "vanilla":
        episode.trigger_reason += "; vanilla never acts"
        return
    if acts and probability < 1 and rng.random() >= probability:
        episode.trigger_reason += f"; not acted on, chance {probability:.3f} at step {unit.step} ({knobs.stop})"
        return
    episode.triggered = acts
    if acts:
        episode.assignment_probability = probability
        drawn = rng.choice(episode.failed)
        siblings = [a for a in episode.failed if a is not drawn]
        episode.failure = Failure(
            episode.problem,
            drawn.attempt_id,
            drawn.completion.text,
            drawn.verdict,
            [a.completion.text for a in siblings],
            [a.attempt_id for a in siblings],
        )


def _activity(knobs: MentoringSection, step: int) -> float:
    """Chance that a failure is acted on at this step."""
    if knobs.stop == "never" or knobs.stop_step is None:
        return 1.0
    if step >= knobs.stop_step:
        return 0.0
    return 1.0 if knobs.stop == "warm_up" else (1 + cos(pi * step / knobs.stop_step)) / 2


def _diagnose(failed: Sequence[Episode], task: Task, mentor: Mentor | None, plan: Plan, unit: Unit) -> None:
    if mentor is None:
        raise TrainingError(f"Arm {plan.arm} calls a mentor, found none. Pass one, or choose another arm.")
    rng = random.Random(f"{plan.seed}:{unit.mode}{unit.step}:r{unit.rank}:g{failed[0].index if failed else 0}:mentor")
    replies = mentor.diagnose([e.failure for e in failed if e.failure is not None], rng)
    for episode, reply in zip(failed, replies, strict=True):
        episode.reply, episode.diagnosis_id = reply, f"{episode.group_id}.d0"
        if isinstance(task, ChecksSteps) and episode.failure is not None:
            episode.truth = task.first_error(episode.problem, episode.failure.text)


def _instruct(failed: Sequence[Episode], task: Task, plan: Plan, unit: Unit, gather: Gather) -> None:
    mine = [
        OtherDiagnosis(e.problem.row.problem_id, e.diagnosis_id, e.reply.instruction)
        for e in failed
        if e.reply is not None and e.reply.instruction is not None and e.diagnosis_id is not None
    ]
    drafts = instruct(
        plan.arm,
        [e.failure for e in failed if e.failure is not None],
        [e.reply for e in failed],
        [e.diagnosis_id for e in failed],
        gather(mine),
        task,
        plan.mentoring,
        plan.fallback,
        [_rng(plan, unit, e, "instruct") for e in failed],
    )
    for episode, draft in zip(failed, drafts, strict=True):
        episode.draft = draft
        if draft is None:
            status = f" (mentor's reply: {episode.reply.parse_status})" if episode.reply else ""
            episode.trigger_reason += f"; nothing to show{status}"
        else:
            episode.instruction_id = f"{episode.group_id}.i0"


def _follow_up(instructed: Sequence[Episode], policy: Policy, task: Task, grade: Grader, plan: Plan) -> None:
    prompts, fitting = [], []
    for episode in instructed:
        if episode.failure is None or episode.draft is None:
            continue
        shown = episode.failure.text if episode.draft.show_attempt else None
        prompt = task.instructed_prompt(episode.problem, episode.draft.text, shown)
        tokens, limit = policy.count_tokens(prompt), policy.max_prompt_tokens
        if limit is not None and tokens > limit:
            episode.trigger_reason += (
                f"; no follow-up: the instructed prompt has {tokens} tokens, the model leaves room for {limit}"
            )
            continue
        prompts.append(prompt)
        fitting.append(episode)
    sampled = policy.sample(prompts, plan.mentoring.follow_ups)
    _add_responses(fitting, sampled, "follow_up", grade)


def _resample(failed: Sequence[Episode], policy: Policy, mentor: Mentor | None, grade: Grader, plan: Plan, unit: Unit) -> None:
    """Extra samples for what the mentor's call and the follow-ups would have cost, rounded at random so that the mean is exact."""
    counts = [_affordable(e, policy, mentor, plan, _rng(plan, unit, e, "resample")) for e in failed]
    prompts = [e.problem.prompt for e, n in zip(failed, counts, strict=True) for _ in range(n)]
    flat = iter(policy.sample(prompts, 1, prompts_are_cached=True))
    sampled = [[next(flat)[0] for _ in range(n)] for n in counts]
    _add_responses(failed, sampled, "extra_sample", grade)


def _affordable(episode: Episode, policy: Policy, mentor: Mentor | None, plan: Plan, rng: random.Random) -> int:
    if mentor is None or episode.failure is None:
        raise TrainingError(f"Arm {plan.arm} is matched to a mentor's price, found no mentor. Give the settings a [mentor].")
    prompt_tokens = episode.attempts[0].completion.usage.prompt_tokens or policy.count_tokens(episode.problem.prompt)
    mean_output = round(sum(len(a.completion.token_ids) for a in episode.attempts) / len(episode.attempts))
    call = mentor.price(episode.failure)
    follow_up = policy.price(prompt_tokens + call.output_tokens, mean_output)
    sample = policy.price(prompt_tokens, mean_output)
    k = plan.mentoring.follow_ups
    if plan.arm == "resample":
        share = (call.tokens + k * follow_up.tokens) / sample.tokens
    elif call.flops is None or follow_up.flops is None or not sample.flops:
        raise TrainingError(
            "Arm resample_flops needs the mentor's and the learner's FLOPs, found one of unknown size. Use arm resample, which is "
            "matched on tokens."
        )
    else:
        share = (call.flops + k * follow_up.flops) / sample.flops
    return int(share) + (rng.random() < share - int(share))


def _add_responses(episodes: Sequence[Episode], sampled: Sequence[list[Completion]], role: Role, grade: Grader) -> None:
    flat = [(e.problem, c) for e, completions in zip(episodes, sampled, strict=True) for c in completions]
    graded = iter(grade([p for p, _ in flat], [c for _, c in flat]))
    letter = "f" if role == "follow_up" else "x"
    for episode, completions in zip(episodes, sampled, strict=True):
        for i, completion in enumerate(completions):
            episode.responses.append(
                Sampled(
                    f"{episode.group_id}.{letter}{i}",
                    role,
                    i,
                    completion,
                    next(graded),
                    parent_attempt_id=episode.failure.attempt_id if episode.failure else None,
                    instruction_id=episode.instruction_id,
                )
            )


def verifier_grader(task: Task) -> Grader:
    """Reward 1 for verified correct, 0 for verified wrong, None without a verdict."""

    def grade(problems: Sequence[TaskProblem], completions: Sequence[Completion]) -> list[Grade]:
        verdicts = verify_all(task, [Answer(p, c.text, c.finish_reason) for p, c in zip(problems, completions, strict=True)])
        return [Grade(v, None if v.is_correct is None else float(v.is_correct)) for v in verdicts]

    return grade


def verify_all(task: Task, answers: Sequence[Answer]) -> list[Verdict]:
    """One verdict an answer, in one batch where the task can."""
    if isinstance(task, VerifiesBatches):
        return task.verify_batch(answers)
    return [task.verify(a.problem, a.completion, a.finish_reason) for a in answers]


def rows(episodes: Sequence[Episode], unit: Unit, task: Task, plan: Plan, mentor: Mentor | None) -> dict[str, list[Row]]:
    """Every row that these episodes give, by table; their costs included."""
    tables: dict[str, list[Row]] = {
        name: [] for name in ("attempt_group", "attempt", "diagnosis", "instruction", "diagnosis_audit", "cost")
    }
    for episode in episodes:
        tables["attempt_group"].append(_group_row(episode, unit))
        tables["attempt"] += [_attempt_row(a, episode, unit) for a in (*episode.attempts, *episode.responses)]
        if episode.reply is not None and mentor is not None:
            tables["diagnosis"].append(_diagnosis_row(episode, unit, mentor, plan))
            tables["diagnosis_audit"] += _audit_rows(episode, unit)
        if episode.draft is not None:
            tables["instruction"].append(_instruction_row(episode, unit, task, plan))
        tables["cost"] += _cost_rows(episode, unit)
    return tables


def _group_row(episode: Episode, unit: Unit) -> AttemptGroup:
    verdicts = [a.verdict for a in episode.attempts]
    truncated = sum(v.is_correct is None and v.status == "truncated" for v in verdicts)
    return AttemptGroup(
        **unit.columns,
        group_id=episode.group_id,
        problem_id=episode.problem.row.problem_id,
        num_generations=len(verdicts),
        num_correct=sum(v.is_correct is True for v in verdicts),
        num_incorrect=sum(v.is_correct is False for v in verdicts),
        num_truncated=truncated,
        num_unscored=sum(v.is_correct is None for v in verdicts) - truncated,
        zero_reward=episode.zero_reward,
        zero_reward_after=episode.zero_reward if episode.zero_reward_after is None else episode.zero_reward_after,
        triggered=episode.triggered,
        trigger_reason=episode.trigger_reason,
    )


def _attempt_row(a: Sampled, episode: Episode, unit: Unit) -> Attempt:
    return Attempt(
        **unit.columns,
        attempt_id=a.attempt_id,
        group_id=episode.group_id,
        problem_id=episode.problem.row.problem_id,
        role=a.role,
        position=a.position,
        parent_attempt_id=a.parent_attempt_id,
        instruction_id=a.instruction_id,
        prompt=a.completion.prompt_text,
        completion=a.completion.text,
        completion_ids=a.completion.token_ids,
        flags=list(a.completion.flags),
        finish_reason=a.completion.finish_reason,
        prompt_tokens=len(a.completion.prompt_ids),
        completion_tokens=len(a.completion.token_ids),
        extracted_answer=a.verdict.extracted,
        is_correct=a.verdict.is_correct,
        status=a.verdict.status,
        status_detail=a.verdict.why,
        reward=a.grade.reward,
        advantage=a.advantage,
        trained=a.trained,
        replaced_by=a.replaced_by,
        mean_logprob_original=a.mean_logprob_original,
        mean_logprob_instructed=a.mean_logprob_instructed,
    )


def _diagnosis_row(episode: Episode, unit: Unit, mentor: Mentor, plan: Plan) -> Diagnosis:
    failure, reply, diagnosis_id = episode.failure, episode.reply, episode.diagnosis_id
    assert failure is not None
    assert reply is not None
    assert diagnosis_id is not None
    return Diagnosis(
        **unit.columns,
        diagnosis_id=diagnosis_id,
        group_id=episode.group_id,
        attempt_id=failure.attempt_id,
        attempts_read=[failure.attempt_id, *(failure.sibling_ids if plan.mentor_sees == "all" else [])],
        mentor=mentor.name,
        mentor_model=mentor.model,
        prompt_template=mentor.prompt_template,
        saw_gold=mentor.saw_gold,
        raw_reply=reply.raw,
        parse_status=reply.parse_status,
        error=reply.error,
        location=reply.location,
        error_type=reply.error_type,
        claim=reply.claim,
        proposed_instruction=reply.instruction,
    )


def _audit_rows(episode: Episode, unit: Unit) -> list[DiagnosisAudit]:
    """The step checker's verdict on location and cause, where it knows the truth and the mentor named something."""
    reply, truth, diagnosis_id = episode.reply, episode.truth, episode.diagnosis_id
    if reply is None or truth is None or reply.location is None or diagnosis_id is None:
        return []
    claims: dict[Aspect, tuple[str | None, str]] = {
        "location": (reply.location, truth.location),
        "cause": (reply.error_type, truth.error_type),
    }
    return [
        DiagnosisAudit(
            **unit.columns,
            audit_id=f"{diagnosis_id}.{aspect}",
            diagnosis_id=diagnosis_id,
            auditor="step_checker",
            aspect=aspect,
            verdict=None if claimed is None else claimed == true,
            confidence=None,
            why=f"claimed {claimed}, found {true}",
        )
        for aspect, (claimed, true) in claims.items()
    ]


def _instruction_row(episode: Episode, unit: Unit, task: Task, plan: Plan) -> Instruction:
    failure, draft, instruction_id = episode.failure, episode.draft, episode.instruction_id
    assert failure is not None
    assert draft is not None
    assert instruction_id is not None
    fits = task.fits(episode.problem, failure.text, draft.text) if isinstance(task, ChecksSteps) else None
    return Instruction(
        **unit.columns,
        instruction_id=instruction_id,
        group_id=episode.group_id,
        attempt_id=failure.attempt_id,
        diagnosis_id=draft.diagnosis_id,
        arm=plan.arm,
        text=draft.text,
        source=draft.source,
        assignment_probability=episode.assignment_probability,
        is_fitting=fits,
    )


def _cost_rows(episode: Episode, unit: Unit) -> list[Cost]:
    """Rollout and extra samples belong to the group, the mentor's call to its diagnosis, follow-ups to their instruction."""
    moved = any(a.trained and a.advantage for a in (*episode.attempts, *episode.responses))
    used = moved or episode.triggered
    owner, responses = ("attempt_group", episode.group_id), [r.completion.usage for r in episode.responses]
    rollout = [a.completion.usage for a in episode.attempts]
    if unit.mode == "eval":
        return [cost_row(unit.columns, owner, "eval", "eval", rollout, used=True)]
    found = [cost_row(unit.columns, owner, "rollout", "learner", rollout, used)]
    if episode.reply is not None and episode.reply.usage is not None and episode.diagnosis_id is not None:
        usage: list[Usage] = [episode.reply.usage]
        diagnosis = ("diagnosis", episode.diagnosis_id)
        found.append(cost_row(unit.columns, diagnosis, "mentor", "mentor", usage, episode.draft is not None, episode.reply.error))
    if responses:
        trained = any(r.trained for r in episode.responses)
        if episode.instruction_id is not None:
            instruction = ("instruction", episode.instruction_id)
            found.append(cost_row(unit.columns, instruction, "follow_up", "learner", responses, trained))
        else:
            found.append(cost_row(unit.columns, owner, "extra_sample", "learner", responses, trained))
    return found


def _rng(plan: Plan, unit: Unit, episode: Episode, purpose: str) -> random.Random:
    """A stream of its own for each group and purpose, the same whichever launch or rank draws from it."""
    return random.Random(f"{plan.seed}:{unit.mode}{unit.step}.g{episode.index}:{purpose}")
