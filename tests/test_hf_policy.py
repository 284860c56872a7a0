"""HFPolicy: what it samples, in which order, and what each sequence cost."""

import copy
from typing import Any

import pytest
import torch
from tiny import tiny_model, tiny_tokenizer
from trl.trainer.utils import add_fused_lm_head

from mentor_audit.cost.calibration import counted_flops
from mentor_audit.cost.flops import generation, generation_true
from mentor_audit.errors import ModelError
from mentor_audit.policy.hf import HFPolicy, frozen_copy
from mentor_audit.protocols import Completion, Policy, Prompt

PROMPTS: list[Prompt] = ["Q 1 + 2 A", "Q 7 A", "Q 3 * 4 - 5 + 6 A hint check", "Q 0 A"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model(positions=64)


def policy(model: Any, tokenizer: Any, **settings: Any) -> HFPolicy:
    return HFPolicy(model, tokenizer, **({"max_new_tokens": 12, "name": "tiny"} | settings))


def ids(sampled: list[list[Completion]]) -> list[list[list[int]]]:
    return [[c.token_ids for c in group] for group in sampled]


def ending_model(**settings: Any) -> Any:
    """Samples `<eos>` with a probability near one half at every step."""
    model = tiny_model(tied=False, **settings)
    with torch.no_grad():
        model.lm_head.weight.zero_()
        model.lm_head.weight[1] = 1.0
        model.model.norm.weight.zero_()
    model.model.norm = _Constant(96, 4.8)
    return model


class _Constant(torch.nn.Module):
    """Hidden states whose channels add up to `total`, so that the logit of `<eos>` is `total` and every other one 0."""

    def __init__(self, hidden: int, total: float) -> None:
        super().__init__()
        self.each = total / hidden

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return torch.full_like(hidden_states, self.each)


def test_it_is_a_policy(model: Any, tokenizer: Any) -> None:
    as_protocol: Policy = policy(model, tokenizer)
    assert as_protocol.name == "tiny"


def test_batching_keeps_order_and_greedy_results(model: Any, tokenizer: Any) -> None:
    alone = [policy(model, tokenizer, temperature=0.0).sample([p], 1)[0] for p in PROMPTS]
    together = policy(model, tokenizer, temperature=0.0, batch_size=3).sample(PROMPTS, 2)
    assert [[g.token_ids for g in group] for group in together] == [[a[0].token_ids] * 2 for a in alone]
    assert [g[0].prompt_text for g in together] == PROMPTS
    assert [g[0].prompt_ids for g in together] == [tokenizer(p)["input_ids"] for p in PROMPTS]


def test_a_seed_repeats_and_leaves_the_global_stream_alone(model: Any, tokenizer: Any) -> None:
    sampler = policy(model, tokenizer)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = ids(sampler.sample(PROMPTS, 3, seed=11))
    assert torch.equal(torch.rand(3), expected)
    assert ids(sampler.sample(PROMPTS, 3, seed=11)) == first
    assert ids(sampler.sample(PROMPTS, 3, seed=12)) != first
    torch.manual_seed(6)
    unseeded = ids(sampler.sample(PROMPTS, 3))
    torch.manual_seed(6)
    assert ids(sampler.sample(PROMPTS, 3)) == unseeded
    assert ids(sampler.sample(PROMPTS, 3)) != unseeded


def test_completions_end_at_the_first_end_of_sequence_token(tokenizer: Any) -> None:
    sampled = [c for g in policy(ending_model(), tokenizer).sample(PROMPTS, 16, seed=0) for c in g]
    ended = [c for c in sampled if c.finish_reason == "eos"]
    assert all(c.token_ids[-1] == 1 and c.token_ids.count(1) == 1 for c in ended)
    assert all(len(c.token_ids) == 12 and 1 not in c.token_ids for c in sampled if c.finish_reason == "length")
    assert len({len(c.token_ids) for c in ended}) > 3
    assert all("<eos>" not in c.text and len(c.text.split()) == len(c.token_ids) - 1 for c in ended if 0 not in c.token_ids)
    assert all(c.usage.output_tokens == len(c.token_ids) for c in sampled)


def test_sampling_follows_the_models_own_distribution(tokenizer: Any) -> None:
    """The logit of `<eos>` is 4.8 and 118 others are 0: it ends at once with probability e^4.8 / (e^4.8 + 118)."""
    model = ending_model()
    model.generation_config.update(top_k=1, repetition_penalty=5.0, temperature=0.01, do_sample=True)
    sampled = policy(model, tokenizer, max_new_tokens=1).sample(["Q A"], 2000, seed=1)[0]
    expected = torch.tensor(4.8).exp() / (torch.tensor(4.8).exp() + 118)
    assert sum(c.finish_reason == "eos" for c in sampled) / 2000 == pytest.approx(float(expected), abs=0.04)
    assert model.generation_config.top_k == 1
    hotter = policy(model, tokenizer, max_new_tokens=1).sample(["Q A"], 2000, seed=1, temperature=4.0)[0]
    expected = torch.tensor(1.2).exp() / (torch.tensor(1.2).exp() + 118)
    assert sum(c.finish_reason == "eos" for c in hotter) / 2000 == pytest.approx(float(expected), abs=0.02)
    narrow = policy(model, tokenizer, max_new_tokens=1, top_p=0.3).sample(["Q A"], 50, seed=1)[0]
    assert all(c.finish_reason == "eos" for c in narrow)


def test_every_end_token_of_the_checkpoint_ends(tokenizer: Any) -> None:
    model = ending_model()
    with torch.no_grad():
        model.lm_head.weight[7] = 1.0
    model.generation_config.eos_token_id = [7, 1]
    sampled = policy(model, tokenizer).sample(["Q A"], 40, seed=0)[0]
    assert {c.token_ids[-1] for c in sampled if c.finish_reason == "eos"} == {1, 7}


def test_usage_of_one_call(model: Any, tokenizer: Any) -> None:
    sampler = policy(ending_model(), tokenizer)
    sampled = [c for g in sampler.sample(PROMPTS, 2, seed=3) for c in g]
    longest_prompt = max(len(c.prompt_ids) for c in sampled)
    longest = max(len(c.token_ids) for c in sampled)
    assert {c.usage.call_id for c in sampled} == {"tiny.r0.c1"}
    for i, c in enumerate(sampled):
        prompt, output = len(c.prompt_ids), len(c.token_ids)
        assert (c.usage.model, c.usage.prompt_tokens, c.usage.output_tokens) == ("tiny", prompt, output)
        assert c.usage.cached_tokens == (prompt if i % 2 else 0)
        assert c.usage.padded_tokens == longest_prompt + longest - prompt - output
        assert c.usage.flops == generation(sampler.shape, longest_prompt, longest)
        assert c.usage.flops_prefix_cached == generation_true(sampler.shape, prompt, output, i % 2 == 1)
        assert c.usage.wall_seconds > 0
    again = sampler.sample(PROMPTS, 2, seed=3, prompts_are_cached=True)
    assert all(c.usage.cached_tokens == len(c.prompt_ids) for g in again for c in g)
    assert again[0][0].usage.call_id == "tiny.r0.c2"


@pytest.mark.parametrize("batch_size", [64, 3])
def test_usage_matches_the_counter(tokenizer: Any, batch_size: int) -> None:
    sampler = policy(ending_model(), tokenizer, batch_size=batch_size)
    with counted_flops() as count:
        sampled = sampler.sample(PROMPTS, 4, seed=3)
    assert sum(c.usage.flops or 0 for g in sampled for c in g) == pytest.approx(count.total, rel=0.005)
    with counted_flops() as count:
        _, usages = sampler.mean_logprobs([p for p in PROMPTS for _ in range(4)], [c.token_ids for g in sampled for c in g])
    assert sum(u.flops or 0 for u in usages) == pytest.approx(count.total, rel=0.005)


def test_mean_logprobs_equal_those_of_each_sequence_alone(model: Any, tokenizer: Any) -> None:
    sampler = policy(model, tokenizer, batch_size=3)
    completions = [[5, 9, 1], [7], [], [20, 21, 22, 23, 24, 25, 1]]
    means, usages = sampler.mean_logprobs(PROMPTS, completions)
    for prompt, completion, mean, usage in zip(PROMPTS, completions, means, usages, strict=True):
        prompt_ids = tokenizer(prompt)["input_ids"]
        if not completion:
            assert mean is None
            assert (usage.prompt_tokens, usage.flops) == (0, 0.0)
            continue
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prompt_ids + completion])).logits[0, len(prompt_ids) - 1 : -1]
        alone = logits.log_softmax(-1)[range(len(completion)), completion].mean()
        assert mean == pytest.approx(float(alone), abs=1e-5)
        assert (usage.prompt_tokens, usage.output_tokens) == (len(prompt_ids) + len(completion), 0)


def test_training_mode_generation_settings_and_weights_are_left_as_they_were(tokenizer: Any) -> None:
    model = tiny_model().train()
    before = copy.deepcopy(model.generation_config.to_dict())
    sampler = policy(model, tokenizer)
    first = sampler.sample(["Q A"], 1, temperature=0.0)
    assert model.training
    assert model.generation_config.to_dict() == before
    assert all(p.grad is None for p in model.parameters())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    assert ids(sampler.sample(["Q A"], 1, temperature=0.0)) != ids(first)


def test_a_frozen_copy_stays_when_the_original_is_trained(tokenizer: Any) -> None:
    """With TRL's patched forward on the original, a plain deep copy would go on answering with the live weights."""
    model = tiny_model().train()
    add_fused_lm_head(model)
    frozen = frozen_copy(model)
    before = ids(policy(frozen, tokenizer, temperature=0.0).sample(PROMPTS, 1))
    assert before == ids(policy(model, tokenizer, temperature=0.0).sample(PROMPTS, 1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    assert ids(policy(frozen, tokenizer, temperature=0.0).sample(PROMPTS, 1)) == before
    assert ids(policy(model, tokenizer, temperature=0.0).sample(PROMPTS, 1)) != before
    assert model.training
    assert not any(p.requires_grad for p in frozen.parameters())


def test_a_prompt_that_does_not_fit_keeps_its_slot_and_costs_nothing(model: Any, tokenizer: Any) -> None:
    sampler = policy(model, tokenizer)
    assert sampler.max_prompt_tokens == 64 - 12
    long = "Q " + "1 " * 60 + "A"
    sampled = sampler.sample([PROMPTS[0], long, PROMPTS[1]], 2, seed=0)
    assert [[len(c.token_ids) > 0 for c in g] for g in sampled] == [[True] * 2, [False] * 2, [True] * 2]
    skipped = sampled[1][0]
    assert (skipped.finish_reason, skipped.text, len(skipped.prompt_ids)) == ("length", "", 62)
    assert (skipped.usage.prompt_tokens, skipped.usage.flops, skipped.usage.wall_seconds) == (0, 0.0, 0.0)
    assert len(sampler.sample([long], 1, max_tokens=2, seed=0)[0][0].token_ids) == 2
    means, _ = sampler.mean_logprobs([long, long], [[5, 1], [5, 6, 1]])
    assert means[0] is not None
    assert means[1] is None


def test_chat_messages_go_through_the_template(model: Any, tokenizer: Any) -> None:
    sampler = policy(model, tokenizer, temperature=0.0)
    chat: Prompt = [{"role": "user", "content": "Q 1 A"}]
    (completion,) = sampler.sample([chat], 1)[0]
    assert completion.prompt_text == "<user> Q 1 A <assistant>"
    assert completion.prompt_ids == tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
    assert sampler.count_tokens(chat) == 5
    bare = copy.deepcopy(tokenizer)
    bare.chat_template = None
    with pytest.raises(ModelError, match="chat template"):
        policy(model, bare).sample([chat], 1)


def test_nothing_asked_nothing_done(model: Any, tokenizer: Any) -> None:
    sampler = policy(model, tokenizer)
    assert sampler.sample([], 4) == []
    assert sampler.sample(["Q A"], 0) == [[]]
    assert sampler.mean_logprobs([], []) == ([], [])
    with pytest.raises(ModelError, match="empty one at position 1"):
        sampler.sample(["Q A", ""], 1)
    with pytest.raises(ModelError, match="leave room"):
        sampler.sample(["Q A"], 1, max_tokens=64)


def test_price_is_a_call_without_padding(model: Any, tokenizer: Any) -> None:
    price = policy(model, tokenizer).price(7, 5)
    (completion,) = policy(model, tokenizer, max_new_tokens=5, temperature=0.0).sample(["Q 1 + 2 - 3 A"], 1)[0]
    assert (len(completion.prompt_ids), len(completion.token_ids)) == (7, 5)
    assert (price.tokens, price.flops) == (12, completion.usage.flops)
