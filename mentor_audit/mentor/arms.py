"""Arms: what the learner is shown after a failure.

An arm sees the failures of the step and, where it calls the mentor, the replies; it returns one draft a failure, or None when it
shows nothing. The placebo, shuffled, wrong, scrubbed and paraphrase arms call the mentor as the mentor arm does, so that they cost
at least as much and know how long a real instruction is. What else a mentor has to write for a control is in `WRITTEN`.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mentor_audit.config import MentoringSection
from mentor_audit.protocols import ChecksSteps, Failure, HasDemonstration, KnowsExpected, MentorReply, StatesAnswer, Task
from mentor_audit.tasks.leaks import scrub
from mentor_audit.tasks.prompting import answer_only

WRITTEN = ("paraphrase", "problem_hint", "wrong")
"""Arms for which the mentor writes a second text: see `written_by_mentor`."""


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


@dataclass(frozen=True)
class Treatment:
    """One failure and what its arm has to go by. `reply` is the mentor's, `written` its second text; None: it was not asked."""

    arm: str
    failure: Failure
    reply: MentorReply | None
    diagnosis_id: str | None
    written: MentorReply | None
    rng: random.Random


def instruct(
    treatments: Sequence[Treatment],
    others: Sequence[OtherDiagnosis],
    task: Task,
    settings: MentoringSection,
    fallback: str,
) -> list[Draft | None]:
    """One draft a treatment, aligned. `others` are all diagnoses of the step."""
    drafts: list[Draft | None] = []
    for treatment in treatments:
        draft = _draft(treatment, others, task, settings)
        drafts.append(draft if draft is not None else _fallback(fallback, treatment, task, settings))
    return drafts


def written_by_mentor(arm: str, task: Task) -> bool:
    """Does this arm need a second text of the mentor? A wrong diagnosis comes from the task where a program knows the true one."""
    return arm in WRITTEN and not (arm == "wrong" and isinstance(task, ChecksSteps))


def _draft(t: Treatment, others: Sequence[OtherDiagnosis], task: Task, settings: MentoringSection) -> Draft | None:
    without_mentor = _WITHOUT_MENTOR.get(t.arm)
    if without_mentor is not None:
        return without_mentor(t, task, settings)
    show, text = settings.show_attempt, shown_text(t.reply, settings)
    if text is None:
        return None
    if t.arm == "mentor":
        return Draft(text, "diagnosis", t.diagnosis_id, show)
    if t.arm == "shuffled_same":
        return Draft(text, "other_attempt", t.diagnosis_id, show)
    if t.arm == "placebo":
        return Draft(task.placebo(t.failure.problem, text, t.rng), "template", None, show)
    if t.arm == "paraphrase":
        return _written(t, "reworded", t.diagnosis_id, show)
    if t.arm == "scrubbed":
        expected = task.expected_answers(t.failure.problem) if isinstance(task, KnowsExpected) else ()
        return Draft(scrub(text, t.failure.problem.row.gold, expected), "scrubbed", t.diagnosis_id, show)
    if t.arm == "shuffled_other":
        return _nearest_other(t, text, others, show)
    if t.arm == "wrong":
        return _wrong(t, task, show)
    raise ValueError(f"arm {t.arm!r} shows nothing")


def _retry(t: Treatment, task: Task, settings: MentoringSection) -> Draft:
    return Draft("", "attempt", None, True)


def _verdict_only(t: Treatment, task: Task, settings: MentoringSection) -> Draft:
    return Draft(task.verdict_only(t.failure.problem), "template", None, settings.show_attempt)


def _oracle(t: Treatment, task: Task, settings: MentoringSection) -> Draft | None:
    if not isinstance(task, ChecksSteps):
        return None
    truth = task.first_error(t.failure.problem, t.failure.text)
    return None if truth is None else Draft(task.instruction_for(truth), "truth", None, settings.show_attempt)


def _problem_hint(t: Treatment, task: Task, settings: MentoringSection) -> Draft | None:
    return _written(t, "problem", None, settings.show_attempt)


def _answer_only(t: Treatment, task: Task, settings: MentoringSection) -> Draft | None:
    problem = t.failure.problem
    if isinstance(task, StatesAnswer):
        return Draft(task.answer_only(problem), "gold", None, settings.show_attempt)
    return None if problem.row.gold is None else Draft(answer_only(problem.row.gold), "gold", None, settings.show_attempt)


def _fixed_demo(t: Treatment, task: Task, settings: MentoringSection) -> Draft | None:
    text = settings.demonstration or (task.demonstration() if isinstance(task, HasDemonstration) else None)
    return None if text is None else Draft(text, "demonstration", None, settings.show_attempt)


_WITHOUT_MENTOR: dict[str, Callable[[Treatment, Task, MentoringSection], Draft | None]] = {
    "retry": _retry,
    "verdict_only": _verdict_only,
    "oracle": _oracle,
    "problem_hint": _problem_hint,
    "answer_only": _answer_only,
    "fixed_demo": _fixed_demo,
}


def _nearest_other(t: Treatment, text: str, others: Sequence[OtherDiagnosis], show: bool) -> Draft | None:
    """Of the diagnoses of other problems, one that is nearest in length."""
    foreign = [other for other in others if other.problem_id != t.failure.problem.row.problem_id]
    if not foreign:
        return None
    nearest = min(abs(len(other.instruction.split()) - len(text.split())) for other in foreign)
    alike = [o for o in foreign if abs(len(o.instruction.split()) - len(text.split())) == nearest]
    other = alike[t.rng.randrange(len(alike))]
    return Draft(other.instruction, "other_problem", other.diagnosis_id, show)


def _wrong(t: Treatment, task: Task, show: bool) -> Draft | None:
    if not isinstance(task, ChecksSteps):
        return _written(t, "altered", t.diagnosis_id, show)
    truth = task.first_error(t.failure.problem, t.failure.text)
    if truth is None:
        return None
    return Draft(task.instruction_for(task.altered(t.failure.problem, truth, t.rng)), "altered", t.diagnosis_id, show)


def _written(t: Treatment, source: str, diagnosis_id: str | None, show: bool) -> Draft | None:
    if t.written is None or t.written.instruction is None:
        return None
    return Draft(t.written.instruction, source, diagnosis_id, show)


def shown_text(reply: MentorReply | None, settings: MentoringSection) -> str | None:
    """What the learner would be shown of a reply. None: nothing in it that can be shown."""
    if reply is None or reply.instruction is None:
        return None
    if settings.learner_sees == "diagnosis_and_instruction" and reply.claim:
        return f"{reply.claim}\n{reply.instruction}"
    return reply.instruction


def _fallback(fallback: str, t: Treatment, task: Task, settings: MentoringSection) -> Draft | None:
    if fallback == "placebo":
        return Draft(task.placebo(t.failure.problem, "", t.rng), "fallback", t.diagnosis_id, settings.show_attempt)
    if fallback == "raw_reply" and t.reply is not None and t.reply.raw and t.reply.parse_status == "unparsable":
        return Draft(t.reply.raw, "fallback", t.diagnosis_id, settings.show_attempt)
    return None
