"""The live mentor: a language model that reads a failed attempt and replies in JSON.

The model is any `Policy`: the learner at its current weights (`self`), at its start weights (`frozen`) or another one (`hf`).
"""

import hashlib
import random
from collections.abc import Sequence
from importlib import resources

from mentor_audit.config import MentorSection
from mentor_audit.mentor.parse import parse_reply
from mentor_audit.protocols import Failure, MentorReply, Policy, Price, Prompt
from mentor_audit.tasks.prompting import fence_marker

TEMPLATE_NAME = "diagnose.txt"
TEMPLATE = resources.files("mentor_audit.mentor").joinpath("prompts", TEMPLATE_NAME).read_text(encoding="utf-8")


class ReadingMentor:
    """One call of `policy.sample` a `diagnose`, even without failures, so that ranks stay in lockstep."""

    def __init__(self, name: str, policy: Policy, settings: MentorSection) -> None:
        self.name = name
        self.model: str | None = policy.name
        self.saw_gold = settings.sees_gold
        self.prompt_template: str | None = f"{TEMPLATE_NAME}@{hashlib.sha256(TEMPLATE.encode()).hexdigest()[:12]}"
        self._policy = policy
        self._settings = settings

    def diagnose(self, failures: Sequence[Failure], rng: random.Random) -> list[MentorReply]:
        prompts = [self.prompt(failure) for failure in failures]
        sampled = self._policy.sample(
            prompts,
            1,
            seed=rng.getrandbits(63),
            max_tokens=self._settings.max_tokens,
            temperature=self._settings.temperature,
        )
        replies = []
        for (completion,) in sampled:
            parsed = parse_reply(completion.text)
            replies.append(
                MentorReply(
                    parse_status=parsed.status,
                    usage=completion.usage,
                    raw=completion.text,
                    error=parsed.error,
                    location=parsed.location,
                    error_type=parsed.error_type,
                    claim=parsed.claim,
                    instruction=parsed.instruction,
                )
            )
        return replies

    def price(self, failure: Failure) -> Price:
        """An upper bound: the reply is taken to use all of `mentor.max_tokens`."""
        return self._policy.price(self._policy.count_tokens(self.prompt(failure)), self._settings.max_tokens)

    def prompt(self, failure: Failure) -> Prompt:
        """What the mentor is given: chat messages when the problem is posed as chat, else plain text."""
        sections = [("Problem", failure.problem.row.prompt)]
        texts = [failure.text, *(failure.siblings if self._settings.sees == "all" else [])]
        sections += [("Failed attempt" if len(texts) == 1 else f"Failed attempt {i}", text) for i, text in enumerate(texts, 1)]
        if failure.verdict.why:
            sections.append(("What the verifier said", failure.verdict.why))
        if self.saw_gold and failure.problem.row.gold is not None:
            sections.append(("Reference answer", failure.problem.row.gold))
        marker = fence_marker("\n".join(text for _, text in sections))
        material = "\n\n".join(f"{title}\n{marker}\n{text}\n{marker}" for title, text in sections)
        text = TEMPLATE.replace("{{fence}}", marker, 1).replace("{{material}}", material, 1)
        return text if isinstance(failure.problem.prompt, str) else [{"role": "user", "content": text}]
