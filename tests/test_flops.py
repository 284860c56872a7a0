"""The FLOP formulas against torch's counter (within 0.5 %), on real generation, log-prob and TRL training passes."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from tiny import tiny_model, tiny_tokenizer
from trl import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from mentor_audit.cost.calibration import Calibration, counted_flops
from mentor_audit.cost.flops import ModelShape, generation, generation_true, logprob, shape_of, training
from mentor_audit.cost.meter import generation_usages, pass_usage
from mentor_audit.errors import ModelError

EMBEDDED: dict[str, Any] = {}
WIDER: dict[str, Any] = {
    "hidden": 192,
    "layers": 4,
    "heads": 6,
    "kv_heads": 2,
    "feed_forward": 512,
    "vocab_size": 1000,
    "tied": False,
}
MODELS = [
    pytest.param({**EMBEDDED, "attention": "sdpa"}, id="embedded-sdpa"),
    pytest.param({**EMBEDDED, "attention": "eager"}, id="embedded-eager"),
    pytest.param({**EMBEDDED, "kv_heads": 2, "tied": False, "attention": "sdpa"}, id="embedded-gqa-untied-sdpa"),
    pytest.param({**WIDER, "attention": "sdpa"}, id="wider-gqa-untied-sdpa"),
    pytest.param({**WIDER, "attention": "eager"}, id="wider-gqa-untied-eager"),
    pytest.param({**WIDER, "tied": True, "attention": "sdpa"}, id="wider-gqa-tied-sdpa"),
]


def within(computed: float, counted: float, tolerance: float = 0.005) -> None:
    assert counted > 0
    assert computed == pytest.approx(counted, rel=tolerance)


def counted_by_torch(work: Callable[[], Any]) -> int:
    with counted_flops() as count:
        work()
    return count.total


def left_padded(batch: int, longest: int, vocab_size: int) -> dict[str, torch.Tensor]:
    """Rows of different length; ids from 2 on, so that nothing ends early."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(2, vocab_size, (batch, longest), generator=generator)
    mask = torch.ones_like(ids)
    for row in range(1, batch):
        mask[row, : row * 2] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}


def test_shape_of_the_embedded_learner_worked_by_hand() -> None:
    shape = shape_of(tiny_model())
    attention, feed_forward = 4 * 96 * 96, 3 * 96 * 288
    assert shape.matmul_params == 2 * (attention + feed_forward)
    assert shape.head_params == 119 * 96
    assert shape.attention_per_token == 4 * 2 * 96
    assert shape.total_params == 2 * (attention + feed_forward + 2 * 96) + 119 * 96 + 96
    assert shape.last_matmul_params == 2 * 288 * 96
    assert shape.trainable_matmul_params == shape.matmul_params
    assert shape.assumptions == ()


def test_untied_head_is_counted_in_total_and_tied_once() -> None:
    tied, untied = shape_of(tiny_model()), shape_of(tiny_model(tied=False))
    assert untied.total_params - tied.total_params == 119 * 96
    assert untied.head_params == tied.head_params
    assert untied.matmul_params == tied.matmul_params


def test_formulas_worked_by_hand() -> None:
    shape = ModelShape("m", 10, 3, 4, 1, 20, 10, last_matmul_params=2, attention_backward_products=5)
    # prompt of 5, 3 tokens: 2*10*5 + 4*25 + 2*3, then two passes of 2*13 that attend to 6 and 7 keys
    assert generation(shape, 5, 3) == 100 + 100 + 6 + 2 * 26 + 4 * (6 + 7)
    assert generation_true(shape, 5, 3, False) == generation(shape, 5, 3)
    assert generation_true(shape, 5, 3, True) == generation(shape, 5, 3) - 200
    assert logprob(shape, 8, 3) == 2 * 10 * 8 + 4 * 64 + 2 * 3 * 3
    # forward 434; layers backward 4*10*8 and 5 attention products of 2*64; head: two gradients and a second projection
    assert training(shape, 8, 3) == 434 + 320 + 640 + 3 * 18
    assert training(shape, 8, 3, recomputes_head=False) == 434 + 320 + 640 + 2 * 18
    assert training(shape, 8, 3, gradient_checkpointing=True) == training(shape, 8, 3) + 160 + 256 - 2 * 8 * 2


@pytest.mark.parametrize("model_settings", MODELS)
def test_generation_matches_the_counter(model_settings: dict[str, Any]) -> None:
    model = tiny_model(**model_settings)
    inputs = left_padded(6, 17, model.config.vocab_size)
    counted = counted_by_torch(lambda: model.generate(**inputs, max_new_tokens=26, min_new_tokens=26, do_sample=True))
    within(6 * generation(shape_of(model), 17, 26), counted)


@pytest.mark.parametrize("model_settings", MODELS)
def test_logprob_pass_matches_the_counter(model_settings: dict[str, Any]) -> None:
    model = tiny_model(**model_settings)
    inputs = left_padded(6, 43, model.config.vocab_size)
    with torch.no_grad():
        counted = counted_by_torch(lambda: model(**inputs, use_cache=False, logits_to_keep=27))
    within(6 * logprob(shape_of(model), 43, 27), counted)


@pytest.mark.parametrize("model_settings", MODELS)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_plain_training_matches_the_counter(model_settings: dict[str, Any], checkpointing: bool) -> None:
    model = tiny_model(**model_settings).train()
    if checkpointing:
        model.activation_checkpointing_enable()
    inputs = left_padded(6, 43, model.config.vocab_size)
    counted = counted_by_torch(lambda: model(**inputs, use_cache=False, labels=inputs["input_ids"]).loss.backward())
    shape = shape_of(model)
    within(6 * training(shape, 43, 43, gradient_checkpointing=checkpointing, recomputes_head=False), counted)


def trl_passes(model: Any, checkpointing: bool, scored: str) -> tuple[int, float, int, float]:
    """Counted and computed FLOPs of TRL's own log-prob method, without and with gradient. 26 completion columns, some padded."""
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    model.train()
    if checkpointing:
        model.activation_checkpointing_enable()
    inputs = left_padded(6, 43, model.config.vocab_size)
    inputs["attention_mask"][1, 40:] = 0
    inputs["attention_mask"][4, 20:] = 0
    trainer: Any = SimpleNamespace(accelerator=Accelerator(cpu=True))

    def log_probs() -> torch.Tensor:
        values = (inputs["input_ids"], inputs["attention_mask"], 26)
        return GRPOTrainer._get_per_token_logps_and_entropies(trainer, model, *values, compute_entropy=True)[0]

    with torch.no_grad():
        forward = counted_by_torch(log_probs)
    both = counted_by_torch(lambda: log_probs().sum().backward())
    tokens = inputs["attention_mask"].sum(1).tolist()
    completion_tokens = inputs["attention_mask"][:, -26:].sum(1).tolist()
    flops = [
        pass_usage(
            shape_of(model),
            "c",
            tokens,
            completion_tokens,
            43,
            26,
            "m",
            backward=backward,
            gradient_checkpointing=backward and checkpointing,
            wall_seconds=0.0,
            scored=scored,
        ).flops
        or 0.0
        for backward in (False, True)
    ]
    return forward, flops[0], both, flops[1]


@pytest.mark.parametrize("model_settings", MODELS)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_trl_passes_match_the_counter(model_settings: dict[str, Any], checkpointing: bool) -> None:
    forward, forward_computed, both, both_computed = trl_passes(tiny_model(**model_settings), checkpointing, "every")
    within(forward_computed, forward)
    within(both_computed, both)


def test_trl_scores_only_completion_tokens_where_it_has_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CUDA: TRL's own selection of positions, its kernel replaced by the one for the CPU."""
    monkeypatch.setattr("trl.trainer.utils._use_triton", lambda device: True)
    forward, forward_computed, both, both_computed = trl_passes(tiny_model(), False, "completion")
    within(forward_computed, forward)
    within(both_computed, both)
    _, every, _, _ = trl_passes(tiny_model(), False, "every")
    assert every > forward * 1.01


def test_frozen_weights_get_no_gradient_of_their_own() -> None:
    """As with adapters: only q_proj is trained, and the gradient passes through everything above it."""
    model = tiny_model(layers=6, tied=False, feed_forward=512).train()
    model.requires_grad_(False)
    model.enable_input_require_grads()
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.requires_grad_(True)
    inputs = left_padded(6, 43, model.config.vocab_size)
    counted = counted_by_torch(lambda: model(**inputs, use_cache=False, labels=inputs["input_ids"]).loss.backward())
    shape = shape_of(model)
    assert shape.trainable_matmul_params == 6 * 96 * 96
    assert not shape.head_is_trainable
    within(6 * training(shape, 43, 43, recomputes_head=False), counted)


@pytest.mark.parametrize("implementation", ["eager", "grouped_mm"])
def test_mixture_of_experts_counts_the_active_ones(implementation: str) -> None:
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(0)
    settings = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
    }
    config = MixtralConfig(
        vocab_size=119, num_local_experts=8, num_experts_per_tok=2, experts_implementation=implementation, **settings
    )
    model = MixtralForCausalLM(config).eval()
    shape = shape_of(model)
    assert shape.matmul_params == 2 * (4 * 64 * 64 + 8 * 64 + 2 * 3 * 64 * 128)
    assert shape.total_params > 2 * 8 * 3 * 64 * 128
    ids = left_padded(4, 43, 119)["input_ids"]
    with torch.no_grad():
        counted = counted_by_torch(lambda: model(input_ids=ids, use_cache=False))
    within(4 * logprob(shape, 43, 43), counted)
    model.train()
    counted = counted_by_torch(lambda: model(input_ids=ids, use_cache=False, labels=ids).loss.backward())
    within(4 * training(shape, 43, 43, recomputes_head=False), counted)


def test_adapters_are_matmul_parameters() -> None:
    model = tiny_model()
    before = shape_of(model)
    model.requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.q_proj.lora_A = torch.nn.ModuleDict({"default": torch.nn.Linear(96, 8, bias=False)})
        layer.self_attn.q_proj.lora_B = torch.nn.ModuleDict({"default": torch.nn.Linear(8, 96, bias=False)})
    shape = shape_of(model)
    assert shape.matmul_params == before.matmul_params + 2 * 2 * 8 * 96
    assert shape.trainable_matmul_params == 2 * 2 * 8 * 96
    assert not shape.head_is_trainable


def test_a_model_without_config_is_refused() -> None:
    with pytest.raises(ModelError, match="found Linear"):
        shape_of(torch.nn.Linear(2, 2))


def test_shares_of_a_call_add_up_to_it() -> None:
    model = tiny_model()
    shape, rng = shape_of(model), random.Random(1)
    prompts = [p for p in (rng.randint(3, 40) for _ in range(7)) for _ in range(4)]
    completions = [rng.randint(1, 26) for _ in prompts]
    usages = generation_usages(shape, "c1", prompts, completions, [i % 4 > 0 for i in range(28)], 0.7, "m")
    longest_prompt, longest_completion = max(prompts), max(completions)
    assert sum(u.flops or 0 for u in usages) == 28 * generation(shape, longest_prompt, longest_completion)
    assert sum(u.prompt_tokens or 0 for u in usages) == sum(prompts)
    assert sum(u.output_tokens or 0 for u in usages) == sum(completions)
    positions = sum((u.prompt_tokens or 0) + (u.output_tokens or 0) + (u.padded_tokens or 0) for u in usages)
    assert positions == 28 * (longest_prompt + longest_completion)
    assert sum(u.wall_seconds for u in usages) == pytest.approx(0.7, rel=28 * 2**-52)
    assert [u.cached_tokens for u in usages[:5]] == [0, prompts[1], prompts[2], prompts[3], 0]
    assert all(u.flops_prefix_cached <= u.flops for u in usages if u.flops and u.flops_prefix_cached)
    assert {u.call_id for u in usages} == {"c1"}


def test_a_model_of_unknown_size_has_no_flops() -> None:
    assert generation_usages(None, "c", [], [], [], 0.0, None) == []
    (usage,) = generation_usages(None, "c", [3], [2], [False], 1.0, None)
    assert (usage.flops, usage.flops_prefix_cached, usage.prompt_tokens, usage.output_tokens) == (None, None, 3, 2)
    settings: dict[str, Any] = {"backward": True, "gradient_checkpointing": False, "wall_seconds": 1.0}
    assert pass_usage(None, "c", [3], [2], 4, 2, None, **settings).flops is None


def test_a_pass_counts_the_positions_that_were_scored() -> None:
    shape = shape_of(tiny_model())
    settings: dict[str, Any] = {"backward": False, "gradient_checkpointing": False, "wall_seconds": 1.0}
    usage = {
        s: pass_usage(shape, "c", [9, 12], [3, 5], 13, 6, "m", scored=s, **settings) for s in ("every", "completion", "kept")
    }
    assert usage["every"].flops == 2 * logprob(shape, 13, 12)
    assert usage["completion"].flops == logprob(shape, 13, 3) + logprob(shape, 13, 5)
    assert usage["kept"].flops == 2 * logprob(shape, 13, 6)
    assert usage["every"].flops_prefix_cached == logprob(shape, 9, 3) + logprob(shape, 12, 5)
    assert (usage["every"].prompt_tokens, usage["every"].output_tokens, usage["every"].padded_tokens) == (21, 0, 5)


def test_calibration_adds_up_and_tells_the_ratio() -> None:
    calibration = Calibration()
    calibration.add("rollout", 100, 99)
    calibration.add("rollout", 100, 101)
    calibration.add("logprob", 0, 0)
    assert calibration.inner == 200
    assert json.loads(calibration.to_json()) == {
        "rollout": {"counted": 200.0, "computed": 200.0, "ratio": 1.0},
        "logprob": {"counted": 0.0, "computed": 0.0, "ratio": None},
    }


def test_counting_nests() -> None:
    a = torch.ones(4, 5)
    with counted_flops() as outer:
        a @ a.T
        with counted_flops() as inner:
            a.T @ a
    assert inner.total == 2 * 5 * 4 * 5
    assert outer.total == inner.total + 2 * 4 * 5 * 4


def test_formulas_and_meter_load_no_torch() -> None:
    code = "import sys, mentor_audit.cost.flops, mentor_audit.cost.meter; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_tokenizer_and_model_agree_on_special_tokens() -> None:
    tokenizer, model = tiny_tokenizer(), tiny_model()
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (model.config.pad_token_id, model.config.eos_token_id)
    assert len(tokenizer) == model.config.vocab_size
