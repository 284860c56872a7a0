"""The judge that a `[mentor]`-like section names: a Hugging Face model, a model behind an endpoint, or a class of your own."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mentor_audit.audit.judge import Judge, JudgeAnswer
from mentor_audit.audit.judge_prompt import response_format
from mentor_audit.config import MentorSection
from mentor_audit.errors import ConfigError
from mentor_audit.mentor import load_attribute
from mentor_audit.mentor.chat_client import ChatClient, ChatRequest
from mentor_audit.mentor.endpoint_settings import endpoint_settings
from mentor_audit.protocols import Policy, Price, Prompt, Usage

CHARACTERS_A_TOKEN = 3
"""For the bound of what a call can cost, where a server reports nothing: the endpoint's tokenizer is not known."""


def load_judge(section: MentorSection, *, folder: Path | None = None, as_chat: bool = True, device: str | None = None) -> Judge:
    """Kinds `hf`, `endpoint` and `module:attr`, which is called with `section.options`.

    `folder` keeps an endpoint's paid replies; None: they are not kept. `as_chat` and `device` are of `hf`: ask in chat messages,
    and where the model runs (None: on the CPU). Raises ConfigError for another kind and for impossible settings, ModelError for a
    model that can't be loaded.
    """
    if section.kind == "hf":
        return PolicyJudge(_load_policy(section, device), section, as_chat)
    if section.kind == "endpoint":
        return EndpointJudge(section, folder)
    if ":" in section.kind:
        judge: Judge = load_attribute(section.kind)(**section.options)
        return judge
    raise ConfigError(
        f'Expected a judge of kind "hf", "endpoint" or "module:attr", found "{section.kind}". A judge is a model of its own: '
        "the learner, at whatever weights, does not judge what it wrote."
    )


class PolicyJudge:
    """Asks a `Policy`, all prompts in one call. Of a model in a folder the name is the folder's."""

    def __init__(self, policy: Policy, section: MentorSection, as_chat: bool = True) -> None:
        self.name = policy.name
        self.settings = {**_settings(section), "as_chat": as_chat}
        self._policy, self._section, self._as_chat = policy, section, as_chat

    def ask(self, prompts: Sequence[str], seed: int) -> list[JudgeAnswer]:
        posed: list[Prompt] = [[{"role": "user", "content": text}] if self._as_chat else text for text in prompts]
        sampled = self._policy.sample(
            posed, 1, seed=seed, max_tokens=self._section.max_tokens, temperature=self._section.temperature
        )
        answers = []
        for (completion,) in sampled:
            cut = completion.finish_reason == "length"
            error = f"the reply was cut at {self._section.max_tokens} tokens, or the question was too long" if cut else None
            answers.append(JudgeAnswer(completion.text, completion.usage, error))
        return answers


class EndpointJudge:
    """Asks an OpenAI-compatible endpoint, by JSON schema where the server keeps to one. Its FLOPs are not known."""

    def __init__(self, section: MentorSection, folder: Path | None = None) -> None:
        self._client = ChatClient(endpoint_settings(section), folder)
        self.name = str(section.model)
        self.settings = _settings(section)
        self._section = section

    def ask(self, prompts: Sequence[str], seed: int) -> list[JudgeAnswer]:
        started = time.perf_counter()
        answers = self._client.complete([self._request(text, seed + i) for i, text in enumerate(prompts)])
        seconds = (time.perf_counter() - started) / max(1, len(prompts))
        found = []
        for answer in answers:
            usage = None
            if answer.usage is not None:
                tokens = (answer.usage.prompt_tokens, answer.usage.cached_tokens, answer.usage.output_tokens)
                usage = Usage(answer.call_id, self.name, *tokens, None, None, None, seconds)
            found.append(JudgeAnswer(None if answer.failed else answer.text, usage, answer.error))
        return found

    def _request(self, text: str, seed: int) -> ChatRequest:
        body = {
            "model": self.name,
            "messages": [{"role": "user", "content": text}],
            "temperature": self._section.temperature,
            "max_tokens": self._section.max_tokens,
            "seed": seed,
            "response_format": response_format(),
        }
        return ChatRequest(body, seed, Price(len(text) // CHARACTERS_A_TOKEN + 1, self._section.max_tokens, None))


def _settings(section: MentorSection) -> dict[str, Any]:
    names = ("kind", "model", "revision", "max_tokens", "temperature", "options")
    return {name: getattr(section, name) for name in names}


def _load_policy(section: MentorSection, device: str | None) -> Policy:
    from mentor_audit.policy.hf import HFPolicy
    from mentor_audit.policy.load import load_model

    assert section.model is not None  # the section refuses hf without one
    model, tokenizer, _ = load_model(section.model, revision=section.revision, device=device)
    name = Path(section.model).name if Path(section.model).is_dir() else section.model
    return HFPolicy(model, tokenizer, max_new_tokens=section.max_tokens, temperature=section.temperature, name=name)
