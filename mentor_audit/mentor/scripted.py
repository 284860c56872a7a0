"""A program as mentor, right at a known rate, for tasks that know where an attempt first goes wrong.

It costs nothing to run, so by default it is charged what the learner would have paid to read the attempt and to write the reply:
otherwise its arm would win every comparison at equal compute.
"""

import random
from collections.abc import Sequence

from mentor_audit.protocols import ChecksSteps, Failure, MentorReply, Policy, Price, Rewords, Usage


class ScriptedMentor:
    """True diagnosis with probability `accuracy`, else a wrong one of the same form (the task's `altered`)."""

    name = "scripted"
    prompt_template: str | None = None
    saw_gold = False

    def __init__(self, task: ChecksSteps, learner: Policy, accuracy: float, charged: bool = True) -> None:
        self.model: str | None = learner.name if charged else None
        self._task = task
        self._learner = learner
        self._accuracy = accuracy
        self._charged = charged

    def diagnose(self, failures: Sequence[Failure], rng: random.Random) -> list[MentorReply]:
        replies = []
        for failure in failures:
            truth = self._task.first_error(failure.problem, failure.text)
            is_true = rng.random() < self._accuracy
            if truth is None:
                usage = self._usage(failure, "")
                replies.append(MentorReply("mentor_error", usage, error="the step checker found no error in this attempt"))
                continue
            error = truth if is_true else self._task.altered(failure.problem, truth, rng)
            instruction = self._task.instruction_for(error)
            replies.append(
                MentorReply(
                    parse_status="ok",
                    usage=self._usage(failure, instruction),
                    raw=instruction,
                    location=error.location,
                    error_type=error.error_type,
                    claim=error.claim,
                    instruction=instruction,
                )
            )
        return replies

    def hint(self, failures: Sequence[Failure], rng: random.Random) -> list[MentorReply]:
        """The task's own hint to each problem, where it has such."""
        return [
            self._control(f, self._task.hint_for(f.problem, rng) if isinstance(self._task, Rewords) else None) for f in failures
        ]

    def paraphrase(self, failures: Sequence[Failure], instructions: Sequence[str], rng: random.Random) -> list[MentorReply]:
        """The task's own rewording of each instruction, where it has such."""
        texts = [self._task.reworded(text, rng) if isinstance(self._task, Rewords) else None for text in instructions]
        return [self._control(f, text) for f, text in zip(failures, texts, strict=True)]

    def mislead(self, failures: Sequence[Failure], instructions: Sequence[str], rng: random.Random) -> list[MentorReply]:
        """What the task makes of the true error."""
        found = []
        for failure in failures:
            truth = self._task.first_error(failure.problem, failure.text)
            altered = None if truth is None else self._task.altered(failure.problem, truth, rng)
            found.append(self._control(failure, None if altered is None else self._task.instruction_for(altered)))
        return found

    def price(self, failure: Failure) -> Price:
        """With the reply that the truth would get."""
        truth = self._task.first_error(failure.problem, failure.text)
        return self._price(failure, self._task.instruction_for(truth) if truth else "")

    def _control(self, failure: Failure, text: str | None) -> MentorReply:
        usage = self._usage(failure, text or "")
        if text is None:
            return MentorReply("mentor_error", usage, error=f"task {type(self._task).__name__} has no such text")
        return MentorReply("ok", usage, raw=text, instruction=text)

    def _usage(self, failure: Failure, reply: str) -> Usage:
        price = self._price(failure, reply)
        call_id = f"{failure.attempt_id}.scripted"
        return Usage(call_id, self.model, price.prompt_tokens, 0, price.output_tokens, 0, price.flops, price.flops, 0.0)

    def _price(self, failure: Failure, reply: str) -> Price:
        if not self._charged:
            return Price(0, 0, 0.0)
        read = self._learner.count_tokens(failure.problem.prompt) + self._learner.count_tokens(failure.text)
        return self._learner.price(read, self._learner.count_tokens(reply) + 1)
