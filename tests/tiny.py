"""Small random models and a word-level tokenizer, as many tests need them. Nothing is downloaded."""

from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = [
    "<pad>",
    "<eos>",
    "<bos>",
    "<user>",
    "<assistant>",
    "Q",
    "A",
    "hint",
    "check",
    "again",
    "carry",
    "borrow",
    "+",
    "-",
    "*",
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
]

CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def tiny_tokenizer(vocab_size: int = 119) -> PreTrainedTokenizerFast:
    """One token a word, split at spaces; ids above the known words are `w<id>`. Has `<pad>` 0, `<eos>` 1 and a chat template."""
    words = (WORDS + [f"w{i}" for i in range(len(WORDS), vocab_size)])[:vocab_size]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="again"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        padding_side="left",
        chat_template=CHAT_TEMPLATE,
    )


def tiny_model(
    *,
    hidden: int = 96,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int | None = None,
    feed_forward: int = 288,
    vocab_size: int = 119,
    tied: bool = True,
    attention: str = "sdpa",
    positions: int = 256,
    seed: int = 0,
    **config: Any,
) -> LlamaForCausalLM:
    """A Llama with random weights, in the shape of the embedded learner unless told otherwise; ends on `<eos>` (1), pads with 0."""
    torch.manual_seed(seed)
    settings: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": hidden,
        "intermediate_size": feed_forward,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads or heads,
        "max_position_embeddings": positions,
        "tie_word_embeddings": tied,
        "initializer_range": 0.1,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 1,
        "attn_implementation": attention,
    }
    return LlamaForCausalLM(LlamaConfig(**(settings | config))).eval()
