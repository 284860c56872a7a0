"""A Hugging Face model as `Policy`: batched sampling with transformers' generate, each sequence's usage, and log-probs.

The sampling settings are the ones given here: a checkpoint's generation_config adds nothing but its end-of-sequence tokens, so that
temperature 1 and top_p 1 sample from the model's own distribution.
"""

import contextlib
import copy
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from transformers import GenerationConfig

from mentor_audit.cost.flops import ModelShape, generation_true, shape_of
from mentor_audit.cost.meter import generation_usages, pass_usage
from mentor_audit.errors import ModelError
from mentor_audit.policy.tokens import token_flags
from mentor_audit.protocols import Completion, Price, Prompt, Usage

LOGITS_AT_A_TIME = 2**27
"""Numbers in the logits of one log-prob batch: 512 MB as float32."""


class HFPolicy:
    """Samples from `model` as it is at each call.

    A prompt longer than `max_prompt_tokens` is not shown to the model: its completions are empty, with finish reason "length" and
    a usage of 0, so the row keeps its slot; nothing is cut off quietly. Temperature 0 is greedy.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        batch_size: int = 64,
        name: str | None = None,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.max_new_tokens, self.temperature, self.top_p, self.batch_size = max_new_tokens, temperature, top_p, batch_size
        self.shape: ModelShape = shape_of(model)
        self.name = name or self.shape.name
        self._positions: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._end_ids = _end_ids(model, tokenizer)
        self._pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else next(iter(sorted(self._end_ids)), 0)
        self._calls = 0

    @property
    def max_prompt_tokens(self) -> int | None:
        return self._longest_prompt(self.max_new_tokens)

    def sample(
        self,
        prompts: Sequence[Prompt],
        num_samples: int,
        *,
        seed: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        prompts_are_cached: bool = False,
    ) -> list[list[Completion]]:
        """As `Policy.sample`. With a seed the global random streams are left as they were.

        Raises ModelError for a prompt without tokens, and when `max_tokens` leaves no room for any prompt.
        """
        max_tokens = self.max_new_tokens if max_tokens is None else max_tokens
        limit = self._longest_prompt(max_tokens)
        texts, ids = self._tokenize(prompts)
        fits = [i for i in range(len(prompts)) if limit is None or len(ids[i]) <= limit]
        rows = [(i, k) for i in sorted(fits, key=lambda i: -len(ids[i])) for k in range(num_samples)]
        found: dict[tuple[int, int], tuple[list[int], Usage]] = {}
        with self._settings(max_tokens, self.temperature if temperature is None else temperature), _seeded(self.model, seed):
            for start in range(0, len(rows), self.batch_size):
                batch = rows[start : start + self.batch_size]
                cached = [prompts_are_cached or k > 0 for _, k in batch]
                found.update(zip(batch, self._generate([ids[i] for i, _ in batch], cached), strict=True))
        for i in set(range(len(prompts))) - set(fits):
            found.update({(i, k): ([], self._no_usage()) for k in range(num_samples)})
        return [[self._completion(texts[i], ids[i], *found[i, k]) for k in range(num_samples)] for i in range(len(prompts))]

    def mean_logprobs(
        self, prompts: Sequence[Prompt], completions_ids: Sequence[Sequence[int]]
    ) -> tuple[list[float | None], list[Usage]]:
        """Mean log-prob a token (nats, temperature 1) of each completion after its prompt, and what each cost.

        None, at no cost, for a completion without tokens or one that doesn't fit in the model's context with its prompt.
        """
        _, ids = self._tokenize(prompts)
        means: list[float | None] = [None] * len(ids)
        usages = [self._no_usage() for _ in ids]
        lengths = [len(p) + len(c) for p, c in zip(ids, completions_ids, strict=True)]
        rows = [i for i, c in enumerate(completions_ids) if len(c) and (self._positions is None or lengths[i] <= self._positions)]
        rows.sort(key=lambda i: -lengths[i])
        longest = max((len(completions_ids[i]) for i in rows), default=0)
        vocabulary = self.model.config.get_text_config().vocab_size
        size = max(1, min(self.batch_size, LOGITS_AT_A_TIME // ((longest + 1) * vocabulary)))
        with self._settings(self.max_new_tokens, self.temperature):
            for start in range(0, len(rows), size):
                batch = rows[start : start + size]
                scored = self._score([ids[i] for i in batch], [list(completions_ids[i]) for i in batch])
                for i, (mean, usage) in zip(batch, scored, strict=True):
                    means[i], usages[i] = mean, usage
        return means, usages

    def price(self, prompt_tokens: int, output_tokens: int) -> Price:
        return Price(prompt_tokens, output_tokens, float(generation_true(self.shape, prompt_tokens, output_tokens, False)))

    def count_tokens(self, prompt: Prompt) -> int:
        return len(self._tokenize([prompt])[1][0])

    def _tokenize(self, prompts: Sequence[Prompt]) -> tuple[list[str], list[list[int]]]:
        """Text as the model is given it, special tokens included, and its ids. Chat messages go through the chat template."""
        texts, ids = [], []
        for position, prompt in enumerate(prompts):
            is_text = isinstance(prompt, str)
            text = prompt if is_text else self._chat_text(prompt)
            texts.append(str(text))
            ids.append(list(self.tokenizer(text, add_special_tokens=is_text)["input_ids"]))
            if not ids[-1]:
                raise ModelError(
                    f"Expected a prompt with at least one token, found an empty one at position {position}. Check the problem's text."
                )
        return texts, ids

    def _chat_text(self, messages: Any) -> str:
        if not getattr(self.tokenizer, "chat_template", None):
            raise ModelError(
                f"Expected the tokenizer of {self.name} to have a chat template for chat messages, found none. Pose the problems as "
                "plain text, or use an instruction-tuned model."
            )
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _generate(self, prompt_ids: list[list[int]], cached: list[bool]) -> list[tuple[list[int], Usage]]:
        """Sampled ids, up to and with the end-of-sequence token, and usage of each row of one batch."""
        started = time.perf_counter()
        inputs, mask = self._padded(prompt_ids, [[] for _ in prompt_ids])
        with torch.no_grad():
            output = self.model.generate(input_ids=inputs, attention_mask=mask)
        sampled = [self._until_end(row) for row in output[:, inputs.size(1) :].tolist()]
        seconds = time.perf_counter() - started
        lengths = [len(ids) for ids in prompt_ids]
        usages = generation_usages(self.shape, self._call_id(), lengths, [len(s) for s in sampled], cached, seconds, self.name)
        return list(zip(sampled, usages, strict=True))

    def _score(self, prompt_ids: list[list[int]], completions: list[list[int]]) -> list[tuple[float, Usage]]:
        """Mean log-prob and usage of each row of one batch."""
        started = time.perf_counter()
        longest = max(len(c) for c in completions)
        inputs, mask = self._padded(prompt_ids, completions)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            logits = self.model(
                input_ids=inputs, attention_mask=mask, position_ids=positions, use_cache=False, logits_to_keep=longest + 1
            ).logits[:, :-1]
            targets = inputs[:, -longest:]
            logprobs_B_T = logits.float().log_softmax(-1).gather(2, targets[..., None])[..., 0]
        means = [float(row[: len(c)].mean()) for row, c in zip(logprobs_B_T.cpu(), completions, strict=True)]
        seconds = (time.perf_counter() - started) / len(completions)
        call_id = self._call_id()
        usages = [
            pass_usage(
                self.shape,
                call_id,
                [len(p) + len(c)],
                [len(c)],
                inputs.size(1),
                longest + 1,
                self.name,
                backward=False,
                gradient_checkpointing=False,
                wall_seconds=seconds,
                scored="kept",
            )
            for p, c in zip(prompt_ids, completions, strict=True)
        ]
        return list(zip(means, usages, strict=True))

    def _padded(self, prompt_ids: list[list[int]], completions: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Prompts padded on the left, completions on the right, so that all completions begin in one column; and the mask."""
        before, after = max(len(p) for p in prompt_ids), max(len(c) for c in completions)
        inputs, mask = [], []
        for prompt, completion in zip(prompt_ids, completions, strict=True):
            left, right = before - len(prompt), after - len(completion)
            inputs.append([self._pad_id] * left + prompt + completion + [self._pad_id] * right)
            mask.append([0] * left + [1] * (len(prompt) + len(completion)) + [0] * right)
        return torch.tensor(inputs, device=self.model.device), torch.tensor(mask, device=self.model.device)

    def _until_end(self, sampled: list[int]) -> list[int]:
        ends = (i for i, token in enumerate(sampled) if token in self._end_ids)
        return sampled[: next(ends, len(sampled)) + 1]

    def _completion(self, prompt_text: str, prompt_ids: list[int], sampled: list[int], usage: Usage) -> Completion:
        text = str(self.tokenizer.decode(sampled, skip_special_tokens=True))
        finish_reason: Literal["eos", "length"] = "eos" if sampled and sampled[-1] in self._end_ids else "length"
        (flags,) = token_flags(self.tokenizer, [prompt_ids], [sampled], [text])
        return Completion(prompt_text, prompt_ids, text, sampled, finish_reason, usage, flags=flags)

    def _longest_prompt(self, max_tokens: int) -> int | None:
        if self._positions is None:
            return None
        if max_tokens >= self._positions:
            raise ModelError(
                f"Expected the completion's token limit to leave room for a prompt, found {max_tokens} in the {self._positions} "
                f"positions of {self.name}. Lower max_completion_tokens (or mentor.max_tokens)."
            )
        return self._positions - max_tokens

    def _no_usage(self) -> Usage:
        """Of a sequence that the model was not called for."""
        return Usage(f"{self.name}.none", self.name, 0, 0, 0, 0, 0.0, 0.0, 0.0)

    def _call_id(self) -> str:
        self._calls += 1
        together = torch.distributed.is_available() and torch.distributed.is_initialized()
        return f"{self.name}.r{torch.distributed.get_rank() if together else 0}.c{self._calls}"

    @contextlib.contextmanager
    def _settings(self, max_tokens: int, temperature: float) -> Iterator[None]:
        """The model in eval mode, with our generation settings in place of its own; afterwards both are as before."""
        sampling: dict[str, Any] = {"do_sample": False}
        if temperature > 0:
            sampling = {"do_sample": True, "temperature": temperature, "top_p": self.top_p, "top_k": 0}
        was_training, before = self.model.training, self.model.generation_config
        self.model.eval()
        self.model.generation_config = GenerationConfig(
            max_new_tokens=max_tokens, pad_token_id=self._pad_id, eos_token_id=sorted(self._end_ids) or None, **sampling
        )
        try:
            yield
        finally:
            self.model.generation_config = before
            self.model.train(was_training)


def frozen_copy(model: Any) -> Any:
    """A copy of the model at its present weights, in eval mode and without gradients.

    A `forward` that was put on an instance, as TRL's fused head is, stays bound to the original's weights when it is copied; the copy
    runs its class's own.
    """
    copied = copy.deepcopy(model)
    for module in copied.modules():
        module.__dict__.pop("forward", None)
    return copied.eval().requires_grad_(False)


def _end_ids(model: Any, tokenizer: Any) -> set[int]:
    """Every id that ends a sequence: the checkpoint's own list, and the tokenizer's."""
    generation_config = getattr(model, "generation_config", None)
    found = getattr(generation_config, "eos_token_id", None)
    ids = found if isinstance(found, list) else [found]
    return {int(i) for i in [*ids, tokenizer.eos_token_id] if i is not None}


@contextlib.contextmanager
def _seeded(model: Any, seed: int | None) -> Iterator[None]:
    """A random stream of its own for one call; None: the global one goes on."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(seed % 2**63)
        yield
