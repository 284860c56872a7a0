"""The straight line: attempt -> grade -> diagnose -> instruct -> follow up -> grade.

`attempt` and `rescue` work on aligned lists of episodes, one an episode a group. They see actors through their protocols only:
neither torch nor trl. An actor's failure is data and keeps its slot; an error of ours is an exception. `rows` turns finished
episodes into the store's rows.

Lockstep: with several ranks every rank calls `rescue` on its own groups, and each stage makes the same number of
`policy.sample` and `gather` calls on every rank, with empty lists where a rank has no failure. Which stages there are follows from
the arms that the plan allows, not from those that a rank happens to have. Within a stage all arms share one call.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import cos, pi
from typing import Any

from mentor_audit.config import ARMS_RESAMPLING, ARMS_WITH_MENTOR, RANDOMISED, MentoringSection
from mentor_audit.cost.ledger import cost_row
from mentor_audit.errors import TrainingError
from mentor_audit.mentor.arms import WRITTEN, Draft, OtherDiagnosis, Treatment, instruct, shown_text, written_by_mentor
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
    WritesControls,
)
from mentor_audit.records import (
    Aspect,
    Attempt,
    AttemptGroup,
    Cost,
    Diagnosis,
    DiagnosisAudit,
    Instruction,
    Mode,
    Phase,
    Role,
    Row,
)

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
    batch: int = 0
    """In a replay: which failures of the bank, whatever the step is that they are committed as."""

    def group_id(self, index: int) -> str:
        return f"{self.run_id}.l{self.launch}.{self.mode[0]}{self.step}.g{index}"

    @property
    def columns(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "launch": self.launch, "step": self.step, "mode": self.mode, "rank": self.rank}


@dataclass(frozen=True)
class Plan:
    """What happens after a failure: the arm, its knobs, and the seed that every draw derives from.

    `chances`: arm -> probability, when every failed group draws its own (arm `randomised`), or which arms a replay gives.
    """

    arm: str
    mentoring: MentoringSection
    seed: int
    fallback: str = "nothing"
    mentor_sees: str = "one"
    chances: Mapping[str, float] = field(default_factory=dict)

    @property
    def arms(self) -> tuple[str, ...]:
        """Every arm that a group may have."""
        return tuple(self.chances) or (self.arm,)


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
    """A group and everything that followed from it.

    arm              what the group got; None: it drew none, because nothing failed
    arm_probability  chance of that arm; assignment_probability: of that arm and of acting
    failure          the failed attempt that is answered; `read`: the one that the mentor reads, another only for shuffled_same
    written          the mentor's second text, for the arms that need one
    source_group_id  in a replay: the bank's group. Its attempts are in `attempts` and get no rows here
    shares_diagnosis the diagnosis is another episode's as well, which has its row
    """

    index: int
    group_id: str
    problem: TaskProblem
    attempts: list[Sampled]
    arm: str | None = None
    arm_probability: float = 1.0
    source_group_id: str | None = None
    triggered: bool = False
    trigger_reason: str = "arm without a trigger"
    assignment_probability: float = 1.0
    failure: Failure | None = None
    read: Failure | None = None
    reply: MentorReply | None = None
    diagnosis_id: str | None = None
    shares_diagnosis: bool = False
    written: MentorReply | None = None
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
    answer([e for e in episodes if e.triggered], policy, task, mentor, grade, plan, unit, gather)


def answer(
    failed: Sequence[Episode],
    policy: Policy,
    task: Task,
    mentor: Mentor | None,
    grade: Grader,
    plan: Plan,
    unit: Unit,
    gather: Gather = list,
) -> None:
    """Diagnose, instruct and follow up failures whose arm is decided; those that have a reply already keep it."""
    having = {arm: [e for e in failed if e.arm == arm] for arm in plan.arms}
    calling = [arm for arm in plan.arms if arm in ARMS_WITH_MENTOR]
    showing = [arm for arm in plan.arms if arm not in ("vanilla", *ARMS_RESAMPLING)]
    if calling:
        _diagnose([e for e in failed if e.arm in calling], task, mentor, plan, unit)
    for arm in WRITTEN:
        if arm in plan.arms and written_by_mentor(arm, task):
            _write(arm, having[arm], mentor, plan, unit)
    if showing:
        instructed = [e for e in failed if e.arm in showing]
        _instruct(instructed, task, plan, unit, gather)
        _follow_up([e for e in instructed if e.draft is not None], policy, task, grade, plan, unit)
    for arm in ARMS_RESAMPLING:
        if arm in plan.arms:
            _resample(having[arm], policy, mentor, grade, plan, unit)


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
    episode.trigger_reason = f"{knobs.trigger}: {counts}"
    if plan.arm != RANDOMISED:
        episode.arm = plan.arm
    elif acts:
        draw = _rng(plan, unit, episode, "arm")
        episode.arm = draw.choices(list(plan.chances), list(plan.chances.values()))[0]
        episode.arm_probability = plan.chances[episode.arm]
        episode.trigger_reason += f"; drew {episode.arm}, chance {episode.arm_probability:.3f}"
    if episode.arm == "vanilla":
        episode.trigger_reason += "; vanilla never acts"
        return
    probability = _activity(knobs, unit.step)
    if acts and probability < 1 and rng.random() >= probability:
        episode.trigger_reason += f"; not acted on, chance {probability:.3f} at step {unit.step} ({knobs.stop})"
        return
    episode.triggered = acts
    if acts:
        episode.assignment_probability = probability * episode.arm_probability
        choose_failure(episode, rng)


def choose_failure(episode: Episode, rng: random.Random) -> None:
    """Draw the failed attempt that is answered, and what the mentor reads: the same, or for shuffled_same another one."""
    drawn = rng.choice(episode.failed)
    episode.failure = episode.read = _failure(episode, drawn)
    if episode.arm == "shuffled_same":
        others = [a for a in episode.failed if a is not drawn]
        episode.read = _failure(episode, rng.choice(others)) if others else None


def _failure(episode: Episode, drawn: Sampled) -> Failure:
    siblings = [a for a in episode.failed if a is not drawn]
    return Failure(
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
    """One call for every attempt that has to be read; episodes that read the same one share its diagnosis."""
    first: dict[str, Episode] = {}
    for episode in failed:
        if episode.read is None:
            episode.trigger_reason += "; no other failed attempt to read"
        elif episode.reply is None:
            first.setdefault(episode.read.attempt_id, episode)
    asked = list(first.values())
    rng = random.Random(f"{plan.seed}:{unit.mode}{unit.step}:r{unit.rank}:g{asked[0].index if asked else 0}:mentor")
    replies = _need(mentor, plan).diagnose([e.read for e in asked if e.read is not None], rng)
    for episode, reply in zip(asked, replies, strict=True):
        episode.reply, episode.diagnosis_id = reply, f"{episode.group_id}.d0"
    for episode in failed:
        if episode.read is None:
            continue
        if isinstance(task, ChecksSteps):
            episode.truth = task.first_error(episode.problem, episode.read.text)
        source = first.get(episode.read.attempt_id)
        if episode.reply is None and source is not None:
            episode.reply, episode.diagnosis_id, episode.shares_diagnosis = source.reply, source.diagnosis_id, True


def _write(arm: str, failed: Sequence[Episode], mentor: Mentor | None, plan: Plan, unit: Unit) -> None:
    """The mentor's second text for one arm; an episode without an instruction to write from gets none."""
    writer = _need(mentor, plan)
    if not isinstance(writer, WritesControls):
        raise TrainingError(
            f"Arm {arm} needs a mentor that can write it (hint, paraphrase, mislead), found {writer.name}. Use a language model as mentor, or "
            "leave the arm out."
        )
    texts = [shown_text(e.reply, plan.mentoring) for e in failed]
    ready = [(e, text) for e, text in zip(failed, texts, strict=True) if text is not None or arm == "problem_hint"]
    failures = [e.failure for e, _ in ready if e.failure is not None]
    rng = random.Random(f"{plan.seed}:{unit.mode}{unit.step}:r{unit.rank}:g{ready[0][0].index if ready else 0}:{arm}")
    if arm == "problem_hint":
        replies = writer.hint(failures, rng)
    else:
        write = writer.paraphrase if arm == "paraphrase" else writer.mislead
        replies = write(failures, [text or "" for _, text in ready], rng)
    for (episode, _), reply in zip(ready, replies, strict=True):
        episode.written = reply


def _need(mentor: Mentor | None, plan: Plan) -> Mentor:
    if mentor is None:
        raise TrainingError(f"Arm {plan.arm} calls a mentor, found none. Pass one, or choose another arm.")
    return mentor


def _instruct(failed: Sequence[Episode], task: Task, plan: Plan, unit: Unit, gather: Gather) -> None:
    mine = {
        e.diagnosis_id: OtherDiagnosis(e.problem.row.problem_id, e.diagnosis_id, e.reply.instruction)
        for e in failed
        if e.reply is not None and e.reply.instruction is not None and e.diagnosis_id is not None
    }
    treatments = [
        Treatment(e.arm or "", e.failure, e.reply, e.diagnosis_id, e.written, _rng(plan, unit, e, "instruct"))
        for e in failed
        if e.failure is not None
    ]
    drafts = instruct(treatments, gather(list(mine.values())), task, plan.mentoring, plan.fallback)
    for episode, draft in zip(failed, drafts, strict=True):
        episode.draft = draft
        if draft is None:
            reply = episode.written or episode.reply
            status = f" (mentor's reply: {reply.parse_status})" if reply else ""
            episode.trigger_reason += f"; nothing to show{status}"
        else:
            episode.instruction_id = f"{episode.group_id}.i0"


def _follow_up(instructed: Sequence[Episode], policy: Policy, task: Task, grade: Grader, plan: Plan, unit: Unit) -> None:
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
    sampled = policy.sample(prompts, plan.mentoring.follow_ups, seed=_sampling_seed(plan, unit, "follow_up"))
    _add_responses(fitting, sampled, "follow_up", grade)


def _resample(failed: Sequence[Episode], policy: Policy, mentor: Mentor | None, grade: Grader, plan: Plan, unit: Unit) -> None:
    """Extra samples for what the mentor's call and the follow-ups would have cost, rounded at random so that the mean is exact."""
    counts = [_affordable(e, policy, mentor, plan, _rng(plan, unit, e, "resample")) for e in failed]
    prompts = [e.problem.prompt for e, n in zip(failed, counts, strict=True) for _ in range(n)]
    purpose = failed[0].arm or "" if failed else ""
    flat = iter(policy.sample(prompts, 1, seed=_sampling_seed(plan, unit, purpose), prompts_are_cached=True))
    sampled = [[next(flat)[0] for _ in range(n)] for n in counts]
    _add_responses(failed, sampled, "extra_sample", grade)


def _sampling_seed(plan: Plan, unit: Unit, purpose: str) -> int | None:
    """In a replay every call has a seed of its own, so that a batch comes out alike whatever went before it; training has its stream."""
    if unit.mode != "replay":
        return None
    return random.Random(f"{plan.seed}:{unit.mode}:{unit.batch}:{','.join(plan.arms)}:{purpose}").getrandbits(48)


def _affordable(episode: Episode, policy: Policy, mentor: Mentor | None, plan: Plan, rng: random.Random) -> int:
    if mentor is None or episode.failure is None:
        raise TrainingError(f"Arm {episode.arm} is matched to a mentor's price, found no mentor. Give the settings a [mentor].")
    prompt_tokens = episode.attempts[0].completion.usage.prompt_tokens or policy.count_tokens(episode.problem.prompt)
    mean_output = round(sum(len(a.completion.token_ids) for a in episode.attempts) / len(episode.attempts))
    call = mentor.price(episode.failure)
    follow_up = policy.price(prompt_tokens + call.output_tokens, mean_output)
    sample = policy.price(prompt_tokens, mean_output)
    k = plan.mentoring.follow_ups
    if episode.arm == "resample":
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
        sampled = episode.responses if episode.source_group_id else [*episode.attempts, *episode.responses]
        tables["attempt"] += [_attempt_row(a, episode, unit) for a in sampled]
        if episode.reply is not None and mentor is not None and not episode.shares_diagnosis:
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
        arm=episode.arm,
        assignment_probability=None if episode.arm is None else episode.arm_probability,
        source_group_id=episode.source_group_id,
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
    read, reply, diagnosis_id = episode.read, episode.reply, episode.diagnosis_id
    assert read is not None
    assert reply is not None
    assert diagnosis_id is not None
    return Diagnosis(
        **unit.columns,
        diagnosis_id=diagnosis_id,
        group_id=episode.source_group_id or episode.group_id,
        attempt_id=read.attempt_id,
        attempts_read=[read.attempt_id, *(read.sibling_ids if plan.mentor_sees == "all" else [])],
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
    """A program's verdict on location and cause, where it knows the truth and the mentor named something."""
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
            auditor="planted_truth",
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
        arm=episode.arm or plan.arm,
        text=draft.text,
        source=draft.source,
        assignment_probability=episode.assignment_probability,
        is_fitting=fits,
    )


def _cost_rows(episode: Episode, unit: Unit) -> list[Cost]:
    """Rollout and extra samples belong to the group, the mentor's call to its diagnosis, follow-ups to their instruction."""
    moved = any(a.trained and a.advantage for a in (*episode.attempts, *episode.responses))
    used = moved or episode.triggered or unit.mode == "replay"
    owner, responses = ("attempt_group", episode.group_id), [r.completion.usage for r in episode.responses]
    if unit.mode == "eval":
        return [cost_row(unit.columns, owner, "eval", "eval", _rollout(episode), used=True)]
    found = [] if episode.source_group_id else [cost_row(unit.columns, owner, "rollout", "learner", _rollout(episode), used)]
    instruction = owner if episode.instruction_id is None else ("instruction", episode.instruction_id)
    reply, diagnosis_id = episode.reply, episode.diagnosis_id
    if reply is not None and reply.usage is not None and diagnosis_id is not None and not episode.shares_diagnosis:
        of_reply = episode.draft is not None
        found.append(
            cost_row(unit.columns, ("diagnosis", diagnosis_id), "mentor", "mentor", [reply.usage], of_reply, reply.error)
        )
    if episode.written is not None and episode.written.usage is not None:
        shown = episode.draft is not None
        found.append(
            cost_row(unit.columns, instruction, "mentor", "mentor", [episode.written.usage], shown, episode.written.error)
        )
    if responses:
        reached = any(r.trained for r in episode.responses) or unit.mode == "replay"
        phase: Phase = "extra_sample" if episode.instruction_id is None else "follow_up"
        found.append(cost_row(unit.columns, instruction, phase, "learner", responses, reached))
    return found


def _rollout(episode: Episode) -> list[Usage]:
    return [a.completion.usage for a in episode.attempts]


def _rng(plan: Plan, unit: Unit, episode: Episode, purpose: str) -> random.Random:
    """A stream of its own for each group and purpose, the same whichever launch or rank draws from it."""
    return random.Random(f"{plan.seed}:{unit.mode}{unit.step}.g{episode.index}:{purpose}")
