"""The auditor that asks a model. Among its questions are canaries, diagnoses whose truth is known, posed in the same words."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mentor_audit.audit.canaries import CanaryMaker
from mentor_audit.audit.cases import ASPECTS, Case
from mentor_audit.audit.judge_prompt import TEMPLATE, cannot_tell, question, read_reply
from mentor_audit.audit.opinions import Audited, BatchAudit, CanaryCounts, unreadable
from mentor_audit.errors import ModelError
from mentor_audit.protocols import Usage
from mentor_audit.records import Aspect

CASES_A_CANARY = 8
"""One right and one wrong canary for so many diagnoses, at least one of each in a batch."""


@dataclass(frozen=True)
class JudgeAnswer:
    """`text` None: nothing came, `error` says why. `usage` None: no call was made."""

    text: str | None
    usage: Usage | None
    error: str | None = None


class Judge(Protocol):
    """A model that answers questions. `settings` is what its answers depend on beside the question, as JSON."""

    name: str
    settings: dict[str, Any]

    def ask(self, prompts: Sequence[str], seed: int) -> list[JudgeAnswer]:
        """One answer a prompt, in order. Never raises for what a model or a server does."""
        ...


class JudgeAuditor:
    """`judge:` and the judge's name; with `with_reference` it is shown the reference answer, and is another auditor."""

    def __init__(self, judge: Judge, canaries: CanaryMaker, with_reference: bool) -> None:
        self.name = f"judge:{judge.name}{'+reference' if with_reference else ''}"
        self.settings: dict[str, Any] = {
            "judge": judge.name,
            "judge_settings": judge.settings,
            "prompt_template": TEMPLATE,
            "with_reference": with_reference,
            "cases_a_canary": CASES_A_CANARY,
        }
        self._judge, self._canaries, self._with_reference = judge, canaries, with_reference

    def aspects_of(self, case: Case) -> tuple[Aspect, ...]:
        return ASPECTS

    def audit(self, cases: Sequence[Case], seed: int) -> BatchAudit:
        """Raises ModelError when every call of the batch failed: a server that is down must not become verdicts."""
        rng = random.Random(f"judge:{seed}")
        readable = [case for case in cases if case.is_readable]
        canaries = self._canaries.draw(readable, rng, math.ceil(len(readable) / CASES_A_CANARY))
        asked = [*readable, *(canary.case for canary in canaries)]
        given = self._ask(asked, rng)
        judged = dict(zip((case.diagnosis_id for case in readable), given[: len(readable)], strict=True))
        about_canaries = given[len(readable) :]
        counts = sum((c.count(a) for c, a in zip(canaries, about_canaries, strict=True)), CanaryCounts())
        return BatchAudit(
            [judged.get(case.diagnosis_id) or unreadable(ASPECTS) for case in cases],
            counts,
            [audited.usage for audited in about_canaries if audited.usage is not None],
        )

    def _ask(self, cases: Sequence[Case], rng: random.Random) -> list[Audited]:
        """In an order of chance, so that place tells nothing of what is asked; the answers are in the order of `cases`."""
        order = rng.sample(range(len(cases)), len(cases))
        questions = [question(cases[i], self._with_reference) for i in order]
        answers = self._judge.ask([q.text for q in questions], rng.getrandbits(31)) if questions else []
        if answers and all(answer.text is None for answer in answers):
            raise ModelError(
                f"Expected judge `{self._judge.name}` to answer, found that all {len(answers)} calls of a batch failed, the first "
                f"with: {answers[0].error}. What was audited before is kept: correct it and run the audit again."
            )
        found: dict[int, Audited] = {}
        for i, asked, answer in zip(order, questions, answers, strict=True):
            if answer.text is None:
                opinions = cannot_tell(f"the call of the judge failed: {answer.error}")
            else:
                opinions = read_reply(answer.text, asked.nonce, answer.error)
            found[i] = Audited(opinions, answer.usage, answer.error)
        return [found[i] for i in range(len(cases))]
