"""Shares of model calls: what each sequence of a batch cost, as `Usage`.

Token counts and FLOPs are whole numbers, so the shares add up to the call exactly. Seconds are divided equally; their sum is the
call's up to rounding (one unit in the last place a sequence). A model of unknown size has FLOPs None, never 0.
"""

from collections.abc import Sequence

from mentor_audit.cost.flops import ModelShape, generation, generation_true, logprob, training
from mentor_audit.protocols import Usage


def generation_usages(
    shape: ModelShape | None,
    call_id: str,
    prompt_tokens: Sequence[int],
    completion_tokens: Sequence[int],
    prompt_cached: Sequence[bool],
    wall_seconds: float,
    model_name: str | None,
) -> list[Usage]:
    """One Usage a sequence of one batched call, in order; all three sequences have one value a row.

    `completion_tokens` are sampled tokens with the end-of-sequence one. `prompt_cached[i]`: prefix caching would have spared row i
    its prompt (an earlier row of its group paid for it).
    """
    if not prompt_tokens:
        return []
    longest_prompt, longest_completion = max(prompt_tokens), max(completion_tokens)
    executed = None if shape is None else float(generation(shape, longest_prompt, longest_completion))
    return [
        Usage(
            call_id=call_id,
            model=model_name,
            prompt_tokens=prompt,
            cached_tokens=prompt if cached else 0,
            output_tokens=completion,
            padded_tokens=(longest_prompt - prompt) + (longest_completion - completion),
            flops=executed,
            flops_prefix_cached=None if shape is None else float(generation_true(shape, prompt, completion, cached)),
            wall_seconds=wall_seconds / len(prompt_tokens),
        )
        for prompt, completion, cached in zip(prompt_tokens, completion_tokens, prompt_cached, strict=True)
    ]


def pass_usage(
    shape: ModelShape | None,
    call_id: str,
    tokens: Sequence[int],
    completion_tokens: Sequence[int],
    padded_length: int,
    logits_to_keep: int,
    model_name: str | None,
    *,
    backward: bool,
    gradient_checkpointing: bool,
    wall_seconds: float,
    scored: str = "every",
) -> Usage:
    """Of one log-prob pass (`backward` False) or one training pass over a micro-batch, all its sequences together.

    `tokens` are unpadded lengths, prompt and completion; `padded_length` is what every row was padded to. Nothing is sampled, so
    all tokens count as prompt tokens. `scored` says which positions were projected to the vocabulary:
    "every" position but the last of the padded row (TRL's fused head without Triton, as on CPU), the "completion" tokens that are not
    padding (the same with Triton, as on CUDA), or the padded "kept" positions (`logits_to_keep` of plain transformers).
    `flops_prefix_cached` is the same pass without padding; training shares no prompts.
    """
    flops = true_flops = None
    if shape is not None:

        def cost(length: int, positions: int) -> int:
            if backward:
                return training(shape, length, positions, gradient_checkpointing=gradient_checkpointing)
            return logprob(shape, length, positions)

        positions = {
            "every": [padded_length - 1] * len(tokens),
            "completion": completion_tokens,
            "kept": [logits_to_keep] * len(tokens),
        }
        flops = float(sum(cost(padded_length, p) for p in positions[scored]))
        true_flops = float(sum(cost(t, c) for t, c in zip(tokens, completion_tokens, strict=True)))
    return Usage(
        call_id=call_id,
        model=model_name,
        prompt_tokens=sum(tokens),
        cached_tokens=0,
        output_tokens=0,
        padded_tokens=padded_length * len(tokens) - sum(tokens),
        flops=flops,
        flops_prefix_cached=true_flops,
        wall_seconds=wall_seconds,
        sequences=len(tokens),
    )
