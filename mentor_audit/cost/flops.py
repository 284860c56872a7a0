"""FLOPs of a decoder-only transformer by formula: generation, log-prob passes and training, one sequence at a time.

Counted: every matrix product, a multiplication and an addition each (2 FLOPs a parameter and token), padding included.
Ignored: norms, softmax, activations, rotary embeddings, sampling, the optimizer's own arithmetic; together under 0.5 %.

n = matmul_params, v = head_params, a = attention_per_token = 4 x layers x heads x head size: a token that attends to one key costs
one multiplication and addition a channel for the score and one for the value. Causal masks are counted as the full square,
which is what eager attention executes and what torch's counter counts for fused kernels. The formulas are Kaplan et al. (2020, arXiv
2001.08361, table 1) with padding, head and attention kept apart; `tests/test_flops.py` holds them to torch's FlopCounterMode.

Every function gives the share of one sequence as an int, so the shares of a batch add up to the batch exactly. This module imports
no torch: `shape_of` only reads the attributes of the model that it is given.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mentor_audit.errors import ModelError

EXPERTS = re.compile(r"(^|\.)experts(\.|$)")
EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
ACTIVE_EXPERT_COUNTS = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts")


@dataclass(frozen=True)
class ModelShape:
    """What the formulas need to know of a model.

    matmul_params             parameters that every token is multiplied with: no embedding, norm, bias or head; adapters included; of a
                              mixture's experts the active ones
    head_params               of the output projection, tied or not
    attention_per_token       FLOPs of one token attending to one key, over all layers
    total_params              every parameter once, experts and tied weights included
    trainable_matmul_params   of matmul_params; the others are passed through backwards but get no gradient of their own
    last_matmul_params        of matmul_params, what non-reentrant gradient checkpointing need not compute again: the last
                              product of each layer, whose result nothing in the layer reads
    attention_backward_products   matrix products of attention's backward pass for the 2 of its forward pass: 4 eager, 5 in fused
                              kernels, which compute the scores again
    assumptions               what could not be read from the model and was assumed, in words
    """

    name: str
    matmul_params: int
    head_params: int
    attention_per_token: int
    num_layers: int
    total_params: int
    trainable_matmul_params: int
    head_is_trainable: bool = True
    last_matmul_params: int = 0
    attention_backward_products: int = 5
    assumptions: tuple[str, ...] = ()


def generation(shape: ModelShape, prompt_padded: int, completion_padded: int) -> int:
    """Of one sequence in a batch whose longest prompt and longest completion are given, with a key-value cache.

    The prompt in one pass with one scored position, then a pass for every sampled token but the last.
    """
    n, v, a = shape.matmul_params, shape.head_params, shape.attention_per_token
    later_tokens = max(completion_padded - 1, 0)
    keys = later_tokens * prompt_padded + later_tokens * (later_tokens + 1) // 2
    return prefill(shape, prompt_padded) + 2 * v + later_tokens * 2 * (n + v) + a * keys


def generation_true(shape: ModelShape, prompt: int, completion: int, prompt_cached: bool) -> int:
    """Of one sequence on its own, without padding. `prompt_cached`: an earlier sequence of the group already paid for the prompt.

    A cached prompt is spared whole; its last position is still projected to the vocabulary for every sequence.
    """
    return generation(shape, prompt, completion) - (prefill(shape, prompt) if prompt_cached else 0)


def prefill(shape: ModelShape, prompt: int) -> int:
    """The layers over the whole prompt, without the head."""
    return 2 * shape.matmul_params * prompt + shape.attention_per_token * prompt**2


def logprob(shape: ModelShape, length_padded: int, scored: int) -> int:
    """One forward pass over a sequence of which `scored` positions are projected to the vocabulary."""
    return prefill(shape, length_padded) + 2 * shape.head_params * scored


def training(
    shape: ModelShape, length_padded: int, scored: int, *, gradient_checkpointing: bool = False, recomputes_head: bool = True
) -> int:
    """Forward and backward pass over one sequence.

    Backward, a matrix product passes the gradient on (once the forward cost) and, where its weights are trained, computes their
    gradient (once more). `recomputes_head`: as TRL's fused head does, which keeps no logits and projects again in the backward
    pass. `gradient_checkpointing` computes the layers' forward pass again, except `last_matmul_params` (with `use_reentrant=True`
    those as well, which is not counted).
    """
    n, v, a, length = shape.matmul_params, shape.head_params, shape.attention_per_token, length_padded
    layers = 2 * length * (n + shape.trainable_matmul_params) + a // 2 * shape.attention_backward_products * length**2
    head = 2 * v * scored * (1 + shape.head_is_trainable + recomputes_head)
    again = prefill(shape, length) - 2 * length * shape.last_matmul_params if gradient_checkpointing else 0
    return logprob(shape, length, scored) + layers + head + again


def shape_of(model: Any) -> ModelShape:
    """Read the shape from a torch model of the transformers library. Raises ModelError when it has no `config`."""
    if not hasattr(model, "config"):
        raise ModelError(
            f"Expected a transformers model with a `config` to compute FLOPs for, found {type(model).__name__}. Load it with "
            "mentor_audit.policy.load.load_model or transformers' AutoModelForCausalLM."
        )
    config = model.config.get_text_config()
    assumptions: list[str] = []
    head = model.get_output_embeddings()
    head_modules = set(head.modules()) if head is not None else set()
    active = _active_experts(config)
    total = matmul = trainable = expert_params = 0
    for name, module, parameter_name, parameter, size in _weights(model):
        total += size
        if module in head_modules or parameter_name.endswith("bias") or not _is_matmul(module, parameter):
            continue
        if EXPERTS.search(f"{name}.{parameter_name}"):
            expert_params += size
            size = size * active[0] // active[1] if active else size
        matmul += size
        trainable += size if parameter.requires_grad else 0
    if expert_params and not active:
        assumptions.append("every expert is counted for every token: the config does not say how many are active")
    if head is None:
        assumptions.append("no head: the model has no output embeddings")
    heads, layers = getattr(config, "num_attention_heads", None), getattr(config, "num_hidden_layers", 0)
    head_size = getattr(config, "head_dim", None) or (config.hidden_size // heads if heads else 0)
    score_size, value_size = getattr(config, "qk_head_dim", None) or head_size, getattr(config, "v_head_dim", None) or head_size
    if not heads:
        assumptions.append("attention is not counted: the config has no num_attention_heads")
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        assumptions.append("sliding-window attention is counted as full attention")
    if any(key.startswith(("mamba_", "linear_")) and value for key, value in vars(config).items()):
        assumptions.append("every layer is counted as attention: state-space and linear-attention layers have other products")
    if getattr(config, "kv_lora_rank", None):
        assumptions.append("latent attention: expanding the cache again at every sampled token is not counted")
    implementation = getattr(config, "_attn_implementation", None) or "eager"
    head_weights = [(m, p) for m in head_modules for p in m.parameters(recurse=False) if p.ndim >= 2]
    return ModelShape(
        name=str(getattr(model.config, "_name_or_path", "") or type(model).__name__),
        matmul_params=matmul,
        head_params=sum(_size(m, p) for m, p in head_weights),
        attention_per_token=2 * layers * (heads or 0) * (score_size + value_size),
        num_layers=layers,
        total_params=total,
        trainable_matmul_params=trainable,
        head_is_trainable=any(p.requires_grad for _, p in head_weights),
        last_matmul_params=_last_matmul_params(model, layers),
        attention_backward_products=4 if implementation == "eager" else 5,
        assumptions=tuple(assumptions),
    )


def _weights(model: Any) -> Iterator[tuple[str, Any, str, Any, int]]:
    """Module name, module, parameter name, parameter, size; a parameter that several modules share comes once."""
    seen: set[int] = set()
    for name, module in model.named_modules():
        for parameter_name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, module, parameter_name, parameter, _size(module, parameter)


def _is_matmul(module: Any, parameter: Any) -> bool:
    """A weight that tokens are multiplied with; looking a row up in an embedding is no product."""
    return parameter.ndim >= 2 and not hasattr(module, "num_embeddings")


def _size(module: Any, parameter: Any) -> int:
    """Parameters before quantization or sharding packed them, where the module or DeepSpeed tells."""
    if parameter.ndim >= 2 and hasattr(module, "in_features") and hasattr(module, "out_features"):
        return int(module.in_features * module.out_features)
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def _active_experts(config: Any) -> tuple[int, int] | None:
    """Experts a token visits, of how many."""
    active = next((getattr(config, k) for k in ACTIVE_EXPERT_COUNTS if getattr(config, k, None)), None)
    experts = next((getattr(config, k) for k in EXPERT_COUNTS if getattr(config, k, None)), None)
    return (int(active), int(experts)) if active and experts else None


def _last_matmul_params(model: Any, num_layers: int) -> int:
    """Of the last product of every layer, when a layer ends with it: not in mixtures, nor where a norm follows it."""
    stacks = [m for m in model.modules() if type(m).__name__ == "ModuleList" and len(m) == num_layers]
    layers = list(max(stacks, key=lambda m: sum(p.numel() for p in m.parameters()), default=()))
    last = 0
    for layer in layers:
        names = [name for name, _ in layer.named_modules()]
        if any("post_feedforward" in n or "post_mlp" in n or EXPERTS.search(n) for n in names):
            return 0
        products = [_size(m, p) for m in layer.modules() for p in m.parameters(recurse=False) if _is_matmul(m, p)]
        last += products[-1] if products else 0
    return last
