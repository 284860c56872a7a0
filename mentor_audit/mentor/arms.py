"""Arms: what the learner is shown after a failure.

An arm sees the failures of the step and, where it calls the mentor, the replies; it returns one draft a failure, or None when it
shows nothing. The placebo, shuffled and wrong arms call the mentor as the mentor arm does, so that they cost the same and know
how long a real instruction is.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from mentor_audit.config import MentoringSection
from mentor_audit.protocols import ChecksSteps, Failure, MentorReply, Task

FIXED_ARMS = ("retry", "verdict_only")


@dataclass(frozen=True)
class OtherDiagnosis:
    """A diagnosis of this step, from any rank, that another problem's failure may be given."""

    problem_id: str
    diagnosis_id: str
    instruction: str


@dataclass(frozen=True)
class Draft:
    """`source` as in records.Instruction. `diagnosis_id` None: made from none."""

    text: str
    source: str
    diagnosis_id: str | None
    show_attempt: bool


def instruct(
    arm: str,
    failures: Sequence[Failure],
    replies: Sequence[MentorReply | None],
    diagnosis_ids: Sequence[str | None],
    others: Sequence[OtherDiagnosis],
    task: Task,
    settings: MentoringSection,
    fallback: str,
    rngs: Sequence[random.Random],
) -> list[Draft | None]:
    """One draft a failure, aligned. `others` are all diagnoses of the step; `rngs` one generator a failure."""
    drafts: list[Draft | None] = []
    for failure, reply, diagnosis_id, rng in zip(failures, replies, diagnosis_ids, rngs, strict=True):
        draft = _draft(arm, failure, reply, diagnosis_id, others, task, settings, rng)
        drafts.append(draft if draft is not None else _fallback(fallback, failure, reply, diagnosis_id, task, settings, rng))
    return drafts


def _draft(
    arm: str,
    failure: Failure,
    reply: MentorReply | None,
    diagnosis_id: str | None,
    others: Sequence[OtherDiagnosis],
    task: Task,
    settings: MentoringSection,
    rng: random.Random,
) -> Draft | None:
    show = settings.show_attempt
    if arm == "retry":
        return Draft("", "attempt", None, True)
    if arm == "verdict_only":
        return Draft(task.verdict_only(failure.problem), "template", None, show)
    if arm == "oracle":
        truth = task.first_error(failure.problem, failure.text) if isinstance(task, ChecksSteps) else None
        return Draft(task.instruction_for(truth), "truth", None, show) if truth and isinstance(task, ChecksSteps) else None
    text = shown_text(reply, settings)
    if text is None:
        return None
    if arm == "mentor":
        return Draft(text, "diagnosis", diagnosis_id, show)
    if arm == "placebo":
        return Draft(task.placebo(failure.problem, text, rng), "template", None, show)
    if arm == "shuffled_other":
        foreign = [other for other in others if other.problem_id != failure.problem.row.problem_id]
        if not foreign:
            return None
        nearest = min(abs(len(other.instruction.split()) - len(text.split())) for other in foreign)
        alike = [o for o in foreign if abs(len(o.instruction.split()) - len(text.split())) == nearest]
        other = alike[rng.randrange(len(alike))]
        return Draft(other.instruction, "other_problem", other.diagnosis_id, show)
    if arm == "wrong":
        truth = task.first_error(failure.problem, failure.text) if isinstance(task, ChecksSteps) else None
        if truth is None or not isinstance(task, ChecksSteps):
            return None
        return Draft(task.instruction_for(task.altered(failure.problem, truth, rng)), "altered", diagnosis_id, show)
    raise ValueError(f"arm {arm!r} shows nothing")


def shown_text(reply: MentorReply | None, settings: MentoringSection) -> str | None:
    """What the learner would be shown of a reply. None: nothing in it that can be shown."""
    if reply is None or reply.instruction is None:
        return None
    if settings.learner_sees == "diagnosis_and_instruction" and reply.claim:
        return f"{reply.claim}\n{reply.instruction}"
    return reply.instruction


def _fallback(
    fallback: str,
    failure: Failure,
    reply: MentorReply | None,
    diagnosis_id: str | None,
    task: Task,
    settings: MentoringSection,
    rng: random.Random,
) -> Draft | None:
    if fallback == "placebo":
        return Draft(task.placebo(failure.problem, "", rng), "fallback", diagnosis_id, settings.show_attempt)
    if fallback == "raw_reply" and reply is not None and reply.raw and reply.parse_status == "unparsable":
        return Draft(reply.raw, "fallback", diagnosis_id, settings.show_attempt)
    return None
