"""The learner as a `Policy`, sampling through its own GRPOTrainer: transformers' generate or vLLM, whatever the trainer uses."""

import contextlib
import copy
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from mentor_audit.cost.flops import ModelShape
from mentor_audit.cost.meter import generation_usages
from mentor_audit.policy.tokens import token_flags
from mentor_audit.protocols import Completion, Price, Prompt, Usage

if TYPE_CHECKING:
    from mentor_audit.training.trainer import MentorGRPOTrainer


class TrainerPolicy:
    """Samples at the live weights. Every rank has to call `sample` equally often.

    Under vLLM, FSDP and DeepSpeed the ranks must also ask for equally many prompts: short lists are filled up, and what the
    filling cost is recorded as discarded.
    """

    def __init__(self, trainer: "MentorGRPOTrainer", shape: ModelShape, name: str) -> None:
        self.name = name
        self.shape = shape
        self._trainer = trainer
        self._calls = 0
        self._prompt_texts: dict[tuple[int, ...], str] = {}

    @property
    def max_prompt_tokens(self) -> int | None:
        if self._trainer.use_vllm:
            longest = self._trainer.args.vllm_max_model_length
        else:
            config = self._trainer.accelerator.unwrap_model(self._trainer.model).config
            longest = getattr(config.get_text_config(), "max_position_embeddings", None)
        return None if longest is None else longest - self._trainer.max_completion_length

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
        prompt_ids = self.tokenize(prompts)
        repeated = [ids for ids in prompt_ids for _ in range(num_samples)]
        cached = [prompts_are_cached or i % num_samples > 0 for i in range(len(repeated))]
        with self._seeded(seed), self._settings(max_tokens, temperature):
            completions = self.generate(repeated, cached, num_samples)
        return [completions[i : i + num_samples] for i in range(0, len(completions), num_samples)]

    def generate(self, prompt_ids: list[list[int]], cached: list[bool], num_samples: int) -> list[Completion]:
        """One completion a row. `cached[i]`: prefix caching would spare row i its prompt."""
        filling = self._filling(len(prompt_ids), num_samples)
        rows = prompt_ids + filling
        if not rows:
            return []
        self._calls += 1
        started = time.perf_counter()
        with self._trainer.counted("rollout") as count:
            token_ids, logprobs = self._trainer.generate_rows(rows, num_samples)
        seconds = time.perf_counter() - started
        call_id = f"r{self._trainer.accelerator.process_index}.s{self._trainer.state.global_step}.c{self._calls}"
        usages = generation_usages(
            self.shape,
            call_id,
            [len(ids) for ids in rows],
            [len(ids) for ids in token_ids],
            cached + [False] * len(filling),
            seconds,
            self.name,
        )
        count(sum(u.flops for u in usages if u.flops is not None))
        self._trainer.record_filling(usages[len(prompt_ids) :])
        tokenizer, ends = self._trainer._tokenizer, set(self._trainer.eos_token_ids)
        texts = tokenizer.batch_decode(token_ids[: len(prompt_ids)], skip_special_tokens=True)
        flags = token_flags(tokenizer, prompt_ids, token_ids[: len(prompt_ids)], texts)
        return [
            Completion(
                self._prompt_text(rows[i]),
                rows[i],
                text,
                token_ids[i],
                "eos" if token_ids[i] and token_ids[i][-1] in ends else "length",
                usages[i],
                None if logprobs is None else logprobs[i],
                flags[i],
            )
            for i, text in enumerate(texts)
        ]

    def price(self, prompt_tokens: int, output_tokens: int) -> Price:
        usage: Usage = generation_usages(self.shape, "price", [prompt_tokens], [output_tokens], [False], 0.0, self.name)[0]
        return Price(prompt_tokens, output_tokens, usage.flops)

    def count_tokens(self, prompt: Prompt) -> int:
        return len(self.tokenize([prompt])[0])

    def tokenize(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """As the trainer does it: chat template for messages, the tokenizer alone for text."""
        texts: dict[int, list[Any]] = {True: [], False: []}
        for prompt in prompts:
            texts[isinstance(prompt, str)].append(prompt)
        ids = {kind: iter(self._trainer.tokenize_rows(group)) if group else iter(()) for kind, group in texts.items()}
        return [list(next(ids[isinstance(prompt, str)])) for prompt in prompts]

    def _prompt_text(self, ids: list[int]) -> str:
        key = tuple(ids)
        if key not in self._prompt_texts:
            if len(self._prompt_texts) > 4096:
                self._prompt_texts.clear()
            self._prompt_texts[key] = self._trainer._tokenizer.decode(ids, skip_special_tokens=False)
        return self._prompt_texts[key]

    def _filling(self, rows: int, num_samples: int) -> list[list[int]]:
        if not self._trainer.ranks_must_match:
            return []
        most = max(self._trainer.gather_list([rows]))
        return [self._trainer.filling_prompt] * (most - rows)

    @contextlib.contextmanager
    def _settings(self, max_tokens: int | None, temperature: float | None) -> Iterator[None]:
        """The trainer's sampling settings, replaced for one call."""
        trainer = self._trainer
        if max_tokens is None and temperature is None:
            yield
            return
        if trainer.use_vllm:
            engine = trainer.vllm_generation
            before = engine.max_completion_length, engine.temperature
            engine.max_completion_length = max_tokens or before[0]
            engine.temperature = before[1] if temperature is None else temperature
            try:
                yield
            finally:
                engine.max_completion_length, engine.temperature = before
            return
        before_config = trainer.generation_config
        config = copy.deepcopy(before_config)
        config.max_new_tokens = max_tokens or config.max_new_tokens
        if temperature == 0:
            config.update(do_sample=False, temperature=None, top_p=None, top_k=None, min_p=None)
        elif temperature is not None:
            config.temperature = temperature
        trainer.generation_config = config
        try:
            yield
        finally:
            trainer.generation_config = before_config

    @contextlib.contextmanager
    def _seeded(self, seed: int | None) -> Iterator[None]:
        """A stream of its own for one call; the training stream goes on as if it had not happened. vLLM draws in its own process."""
        if seed is None:
            yield
            return
        devices = [self._trainer.accelerator.device] if self._trainer.accelerator.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed % 2**63)
            yield
