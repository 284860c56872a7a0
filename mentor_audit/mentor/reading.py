"""The live mentor: a language model that reads a failed attempt and replies in JSON; and the prompts that such a mentor is given.

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


SIGNED = ". Begin it with the nonce of this request, so that it can be told from anything quoted"


class PromptTemplate:
    """A file in `prompts/` with `{{fence}}`, `{{material}}` and, where the reply repeats it, `{{nonce}}`.

    Those of controls serve models that repeat the nonce and models that don't: `{{signature}}` and `{{example}}` are filled or empty.
    """

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
        return self._filled(sections)

    def fill_for_control(self, failure: Failure, advice: str | None, signed: bool) -> FilledPrompt:
        """The problem; and with advice (None: only the problem) the attempt and the advice. `signed`: the reply repeats the nonce."""
        sections = [("Problem", failure.problem.row.prompt)]
        if advice is not None:
            sections += [("Failed attempt", failure.text), ("Advice", advice)]
        return self._filled(sections, signed)

    def _filled(self, sections: Sequence[tuple[str, str]], signed: bool = False) -> FilledPrompt:
        quoted = tuple(text for _, text in sections)
        marker = fence_marker("\n".join(quoted))
        nonce = marker.rsplit(" ", 1)[1]
        material = "\n\n".join(f"{title}\n{marker}\n{text}\n{marker}" for title, text in sections)
        frame = self._text.replace("{{signature}}", SIGNED if signed else "", 1)
        frame = frame.replace("{{example}}", '"nonce": "{{nonce}}", ' if signed else "", 1)
        frame = frame.replace("{{fence}}", marker, 1).replace("{{nonce}}", nonce, 1)
        return FilledPrompt(frame.replace("{{material}}", material, 1), nonce, quoted)


TEMPLATE = PromptTemplate("diagnose.txt")
HINT, PARAPHRASE, MISLEAD = (PromptTemplate(f"{name}.txt") for name in ("problem_hint", "paraphrase", "mislead"))


class ReadingMentor:
    """One call of `policy.sample` a `diagnose`, even without failures, so that ranks stay in lockstep. It also writes controls."""

    def __init__(self, name: str, policy: Policy, settings: MentorSection) -> None:
        self.name = name
        self.model: str | None = policy.name
        self.saw_gold = settings.sees_gold
        self.prompt_template: str | None = TEMPLATE.label
        self._policy = policy
        self._settings = settings

    def diagnose(self, failures: Sequence[Failure], rng: random.Random) -> list[MentorReply]:
        return self._ask([TEMPLATE.fill(f, self._settings) for f in failures], [f.problem.prompt for f in failures], rng)

    def hint(self, failures: Sequence[Failure], rng: random.Random) -> list[MentorReply]:
        return self._control(HINT, failures, [None] * len(failures), rng)

    def paraphrase(self, failures: Sequence[Failure], instructions: Sequence[str], rng: random.Random) -> list[MentorReply]:
        return self._control(PARAPHRASE, failures, instructions, rng)

    def mislead(self, failures: Sequence[Failure], instructions: Sequence[str], rng: random.Random) -> list[MentorReply]:
        return self._control(MISLEAD, failures, instructions, rng)

    def price(self, failure: Failure) -> Price:
        """An upper bound: the reply is taken to use all of `mentor.max_tokens`."""
        return self._policy.price(self._policy.count_tokens(self.prompt(failure)), self._settings.max_tokens)

    def prompt(self, failure: Failure) -> Prompt:
        """What the mentor is given: chat messages when the problem is posed as chat, else plain text."""
        return _posed(TEMPLATE.fill(failure, self._settings).text, failure.problem.prompt)

    def _control(
        self, template: PromptTemplate, failures: Sequence[Failure], advice: Sequence[str | None], rng: random.Random
    ) -> list[MentorReply]:
        filled = [template.fill_for_control(f, text, signed=False) for f, text in zip(failures, advice, strict=True)]
        return self._ask(filled, [f.problem.prompt for f in failures], rng)

    def _ask(self, filled: Sequence[FilledPrompt], posed: Sequence[Prompt], rng: random.Random) -> list[MentorReply]:
        sampled = self._policy.sample(
            [_posed(prompt.text, like) for prompt, like in zip(filled, posed, strict=True)],
            1,
            seed=rng.getrandbits(63),
            max_tokens=self._settings.max_tokens,
            temperature=self._settings.temperature,
        )
        replies = []
        for prompt, (completion,) in zip(filled, sampled, strict=True):
            parsed = parse_reply(completion.text, quoted=prompt.quoted)
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


def _posed(text: str, like: Prompt) -> Prompt:
    """Chat messages when the problem is posed as chat, else plain text."""
    return text if isinstance(like, str) else [{"role": "user", "content": text}]
