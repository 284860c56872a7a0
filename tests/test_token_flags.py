"""Tokens that change counts and comparisons are marked in the row."""

from typing import Any

import pytest
from tiny import tiny_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mentor_audit.policy.tokens import token_flags


@pytest.fixture(scope="module")
def words() -> Any:
    tokenizer = tiny_tokenizer()
    tokenizer.bos_token = "<bos>"
    return tokenizer


@pytest.mark.parametrize(("prompt", "flagged"), [("<bos> <bos> Q 1 A", True), ("<bos> Q 1 A", False), ("Q 1 A", False)])
def test_a_second_beginning_of_sequence_is_flagged(words: Any, prompt: str, flagged: bool) -> None:
    ids = words(prompt)["input_ids"]
    (flags,) = token_flags(words, [ids], [words("3")["input_ids"]], ["3"])
    assert ("double_bos" in flags) is flagged


def test_sampled_ids_that_encode_otherwise_are_flagged() -> None:
    """`ab` is one token of its own; a policy may as well sample `a` and `b`, which decode to the same text."""
    vocabulary = {"<pad>": 0, "<eos>": 1, "a": 2, "b": 3, "ab": 4}
    made = Tokenizer(models.BPE(vocabulary, [("a", "b")]))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")
    found = token_flags(tokenizer, [[2]] * 2, [[2, 3, 1], [4, 1]], ["ab", "ab"])
    assert found == [("retokenization_drift",), ()]


def test_no_completions_give_no_flags(words: Any) -> None:
    assert token_flags(words, [], [], []) == []
