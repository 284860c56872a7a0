"""What is odd about the tokens of a completion: it changes counts and comparisons, so the row says so."""

from collections.abc import Sequence
from typing import Any, Literal

TokenFlag = Literal["double_bos", "retokenization_drift"]


def token_flags(
    tokenizer: Any, prompt_ids: Sequence[Sequence[int]], token_ids: Sequence[Sequence[int]], texts: Sequence[str]
) -> list[tuple[TokenFlag, ...]]:
    """One tuple a completion.

    double_bos   the prompt begins with more than one beginning-of-sequence token: the chat template added one and the tokenizer another
    retokenization_drift   encoding the decoded text gives other ids than the sampled ones (special tokens left out)
    """
    special, bos = set(tokenizer.all_special_ids), tokenizer.bos_token_id
    encoded = tokenizer(list(texts), add_special_tokens=False)["input_ids"] if texts else []
    found: list[tuple[TokenFlag, ...]] = []
    for prompt, sampled, again in zip(prompt_ids, token_ids, encoded, strict=True):
        flags: list[TokenFlag] = []
        if bos is not None and list(prompt[:2]) == [bos, bos]:
            flags.append("double_bos")
        if [i for i in sampled if i not in special] != [i for i in again if i not in special]:
            flags.append("retokenization_drift")
        found.append(tuple(flags))
    return found
