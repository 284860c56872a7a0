"""An instrumented GRPO update against the same update by TRL alone: same model, data, seed and settings, alternating runs.

The model is small and the step short, which is the hardest case: what recording costs does not grow with the model.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from mentor_audit.training import MentorGRPOTrainer


class Clock(TrainerCallback):
    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self._started = time.perf_counter()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.seconds.append(time.perf_counter() - self._started)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {"bare": [], "recorded": []}
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(options.pairs):
            for name in ("bare", "recorded"):
                seconds[name] += train(name, Path(folder) / f"{name}{pair}", options)
    bare, recorded = (statistics.median(seconds[name]) for name in ("bare", "recorded"))
    print(
        f"update of 64 completions of 64 tokens, median of {len(seconds['bare'])}: bare {bare:.3f} s, recorded {recorded:.3f} s"
    )
    print(f"ratio {recorded / bare:.3f} (aim 1.02)")


def train(name: str, folder: Path, options: argparse.Namespace) -> list[float]:
    clock = Clock()
    kind: Any = GRPOTrainer if name == "bare" else MentorGRPOTrainer
    more = {} if name == "bare" else {"store": folder / "store", "calibrate": False}
    trainer = kind(
        model=_model(options.hidden),
        reward_funcs=_reward,
        args=GRPOConfig(
            str(folder), per_device_train_batch_size=64, num_generations=8, max_steps=options.steps, max_completion_length=64,
            learning_rate=1e-5, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none", save_strategy="no",
            disable_tqdm=True, logging_steps=1000,
        ),
        train_dataset=Dataset.from_dict({"prompt": [f"w{i} w{i + 1}" for i in range(64)]}),
        processing_class=_tokenizer(),
        callbacks=[clock],
        **more,
    )  # fmt: skip
    trainer.train()
    return clock.seconds[2:]


def _reward(completions: list[str], **columns: Any) -> list[float]:
    return [float(len(text) % 2) for text in completions]


def _tokenizer() -> PreTrainedTokenizerFast:
    words = ["<pad>", "<eos>", *(f"w{i}" for i in range(500))]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", padding_side="left")


def _model(hidden: int) -> LlamaForCausalLM:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=502, hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=8,
        max_position_embeddings=256, pad_token_id=0, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    return LlamaForCausalLM(config)


if __name__ == "__main__":
    main()
