"""The live mentor: a language model that reads a failed attempt and replies in JSON; and the prompt that such a mentor is given.

The model is any `Policy`: the learner at its current weights (`self`), at its start weights (`frozen`) or another one (`hf`).
"""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from mentor_audit.config import MentorSection
from mentor_audit.mentor.parse import parse_reply
from mentor_audit.protocols import Failure, MentorReply, Policy, Price, Prompt
from mentor_audit.tasks.prompting import fence_marker


@dataclass(frozen=True)
class FilledPrompt:
    """A template filled in. `quoted` are the texts in its fences; `nonce` stands in every fence and in none of the texts."""

    text: str
    nonce: str
    quoted: tuple[str, ...]


class PromptTemplate:
    """A file in `prompts/` with `{{fence}}`, `{{material}}` and, where the reply repeats it, `{{nonce}}`."""

    def __init__(self, name: str) -> None:
        self._text = resources.files("mentor_audit.mentor").joinpath("prompts", name).read_text(encoding="utf-8")
        self.label = f"{name}@{hashlib.sha256(self._text.encode()).hexdigest()[:12]}"
        """File and content hash, as every diagnosis row names it."""

    def fill(self, failure: Failure, settings: MentorSection) -> FilledPrompt:
        """Problem, attempt (with `sees = "all"`, every failed one), verifier's words and, with `sees_gold`, the answer, each fenced."""
        sections = [("Problem", failure.problem.row.prompt)]
        texts = [failure.text, *(failure.siblings if settings.sees == "all" else [])]
        sections += [("Failed attempt" if len(texts) == 1 else f"Failed attempt {i}", text) for i, text in enumerate(texts, 1)]
        if failure.verdict.why:
            sections.append(("What the verifier said", failure.verdict.why))
        if settings.sees_gold and failure.problem.row.gold is not None:
            sections.append(("Reference answer", failure.problem.row.gold))
        quoted = tuple(text for _, text in sections)
        marker = fence_marker("\n".join(quoted))
        nonce = marker.rsplit(" ", 1)[1]
        material = "\n\n".join(f"{title}\n{marker}\n{text}\n{marker}" for title, text in sections)
        frame = self._text.replace("{{fence}}", marker, 1).replace("{{nonce}}", nonce, 1)
        return FilledPrompt(frame.replace("{{material}}", material, 1), nonce, quoted)


TEMPLATE = PromptTemplate("diagnose.txt")


class ReadingMentor:
    """One call of `policy.sample` a `diagnose`, even without failures, so that ranks stay in lockstep."""

    def __init__(self, name: str, policy: Policy, settings: MentorSection) -> None:
        self.name = name
        self.model: str | None = policy.name
        self.saw_gold = settings.sees_gold
        self.prompt_template: str | None = TEMPLATE.label
        self._policy = policy
        self._settings = settings

    def diagnose(self, failures: Sequence[Failure], rng: random.Random) -> list[MentorReply]:
        sampled = self._policy.sample(
            [self.prompt(failure) for failure in failures],
            1,
            seed=rng.getrandbits(63),
            max_tokens=self._settings.max_tokens,
            temperature=self._settings.temperature,
        )
        replies = []
        for failure, (completion,) in zip(failures, sampled, strict=True):
            parsed = parse_reply(completion.text, quoted=TEMPLATE.fill(failure, self._settings).quoted)
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
        text = TEMPLATE.fill(failure, self._settings).text
        return text if isinstance(failure.problem.prompt, str) else [{"role": "user", "content": text}]
