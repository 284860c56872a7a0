"""The endpoint mentor: a model behind an OpenAI-compatible chat API reads the failed attempts and replies in JSON.

It asks by JSON schema where the server has it. Whatever comes back, each failure keeps its slot: `mentor_error` when there is no
whole reply, `unparsable` when there is one without an instruction. Each rank calls for its own failures.
"""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mentor_audit.config import MentorSection
from mentor_audit.mentor.chat_client import ChatAnswer, ChatClient, ChatRequest
from mentor_audit.mentor.endpoint_settings import endpoint_settings
from mentor_audit.mentor.parse import KEYS, NONCE_KEY, ParsedReply, parse_reply
from mentor_audit.mentor.reading import HINT, MISLEAD, PARAPHRASE, FilledPrompt, PromptTemplate
from mentor_audit.protocols import Failure, MentorReply, Policy, Price, Usage

TEMPLATE = PromptTemplate("diagnose_endpoint.txt")


def _response_format(name: str, fields: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {
            "name": name,
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {field: {"type": "string"} for field in fields},
                "required": list(fields),
                "additionalProperties": False,
            },
        },
    }


RESPONSE_FORMAT = _response_format("diagnosis", [NONCE_KEY, *KEYS])
CONTROL_FORMAT = _response_format("instruction", [NONCE_KEY, "instruction"])


class EndpointMentor:
    """`[mentor] kind = "endpoint"`. The model's size is unknown: its FLOPs are None.

    `folder` keeps what was paid for, of one run; None: nothing is kept, and a call made again is paid again. `learner` counts the
    tokens of prices. Raises ConfigError for settings that can't be and for a key that is not in the environment.
    """

    name = "endpoint"

    def __init__(
        self, section: MentorSection, learner: Policy, folder: Path | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.model: str | None = section.model
        self.saw_gold = section.sees_gold
        self.prompt_template: str | None = TEMPLATE.label
        self._section = section
        self._learner = learner
        self._client = ChatClient(endpoint_settings(section), folder, sleep)

    def diagnose(self, failures: Sequence[Failure], rng: random.Random) -> list[MentorReply]:
        return self._ask([TEMPLATE.fill(failure, self._section) for failure in failures], RESPONSE_FORMAT, rng)

    def hint(self, failures: Sequence[Failure], rng: random.Random) -> list[MentorReply]:
        return self._control(HINT, failures, [None] * len(failures), rng)

    def paraphrase(self, failures: Sequence[Failure], instructions: Sequence[str], rng: random.Random) -> list[MentorReply]:
        return self._control(PARAPHRASE, failures, instructions, rng)

    def mislead(self, failures: Sequence[Failure], instructions: Sequence[str], rng: random.Random) -> list[MentorReply]:
        return self._control(MISLEAD, failures, instructions, rng)

    def price(self, failure: Failure) -> Price:
        """An upper bound, in the learner's tokens, as the endpoint's tokenizer is not known: the reply takes all of `max_tokens`."""
        return self._price(TEMPLATE.fill(failure, self._section))

    def _control(
        self, template: PromptTemplate, failures: Sequence[Failure], advice: Sequence[str | None], rng: random.Random
    ) -> list[MentorReply]:
        filled = [template.fill_for_control(f, text, signed=True) for f, text in zip(failures, advice, strict=True)]
        return self._ask(filled, CONTROL_FORMAT, rng)

    def _ask(self, filled: Sequence[FilledPrompt], response_format: dict[str, Any], rng: random.Random) -> list[MentorReply]:
        started = time.perf_counter()
        requests = [self._request(prompt, response_format, rng.getrandbits(31)) for prompt in filled]
        answers = self._client.complete(requests)
        seconds = (time.perf_counter() - started) / max(1, len(filled))
        return [self._reply(prompt, answer, seconds) for prompt, answer in zip(filled, answers, strict=True)]

    def _price(self, prompt: FilledPrompt) -> Price:
        return Price(self._learner.count_tokens(prompt.text), self._section.max_tokens, None)

    def _request(self, prompt: FilledPrompt, response_format: dict[str, Any], seed: int) -> ChatRequest:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt.text}],
            "temperature": self._section.temperature,
            "max_tokens": self._section.max_tokens,
            "seed": seed,
            "response_format": response_format,
        }
        return ChatRequest(body, seed, self._price(prompt))

    def _reply(self, prompt: FilledPrompt, answer: ChatAnswer, wall_seconds: float) -> MentorReply:
        parsed = ParsedReply("mentor_error") if answer.failed else parse_reply(answer.text or "", prompt.nonce, prompt.quoted)
        return MentorReply(
            parse_status=parsed.status,
            usage=self._usage(answer, wall_seconds),
            raw=answer.text,
            error="; ".join(part for part in (parsed.error, answer.error) if part) or None,
            location=parsed.location,
            error_type=parsed.error_type,
            claim=parsed.claim,
            instruction=parsed.instruction,
        )

    def _usage(self, answer: ChatAnswer, wall_seconds: float) -> Usage | None:
        """None: no call was made. Tokens None: the server did not say. A reply from the cache costs no tokens now."""
        spent = answer.usage
        if spent is None:
            return None
        tokens = (spent.prompt_tokens, spent.cached_tokens, spent.output_tokens)
        return Usage(answer.call_id, self.model, *tokens, None, None, None, wall_seconds)
