"""`examples/endpoint.toml` trained for real: a tiny random learner in place of SmolLM2, the fault server in place of the endpoint."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from fault_server import Answer, Asked, FaultServer, chat, diagnosis, error
from tiny import tiny_model, tiny_tokenizer

from mentor_audit.config import SuiteConfig, parse_config
from mentor_audit.errors import ConfigError
from mentor_audit.mentor.endpoint_settings import endpoint_settings
from mentor_audit.store import Store
from mentor_audit.suite import train_run, validate

ROOT = Path(__file__).parents[1]


def example() -> dict[str, Any]:
    return tomllib.loads((ROOT / "examples" / "endpoint.toml").read_text(encoding="utf-8"))


def settings(folder: Path, url: str) -> SuiteConfig:
    """The example with a learner, a task and a server that are here. `[mentoring] trigger` is wider: a random learner is often cut off."""
    values = example()
    values["task"] = {"name": "table", "path": str(ROOT / "data" / "word_sums.jsonl")}
    values["learner"] |= {"model": str(learner(folder)), "device": "cpu"}
    values["mentoring"] = {"trigger": "always"}
    values["store"]["path"] = str(folder / "store")
    values["mentor"]["options"]["base_url"] = url
    return parse_config(values)


def learner(folder: Path) -> Path:
    place = folder / "tiny"
    if not place.exists():
        tiny_model(hidden=32, layers=1, heads=2, vocab_size=27, positions=512).save_pretrained(place)
        tiny_tokenizer(27).save_pretrained(place)
    return place


def answer(asked: Asked, number: int) -> Answer:
    """A good reply, but the third call is refused and the fourth has none."""
    if number == 2:
        return error(401, "who are you?")
    return chat(None) if number == 3 else chat(diagnosis(asked, f"advice {number}"))


def test_the_example_is_valid() -> None:
    config = parse_config(example())
    validate(config)
    assert endpoint_settings(config.mentor).base_url == "http://127.0.0.1:8000/v1"


def test_a_key_among_the_settings_is_refused_before_a_run_records_it(tmp_path: Path) -> None:
    values = example()
    values["mentor"]["options"]["api_key"] = "sk-secret"
    with pytest.raises(ConfigError) as caught:
        validate(parse_config(values))
    assert "sk-secret" not in str(caught.value)


def test_an_arm_matched_in_flops_is_refused(tmp_path: Path) -> None:
    values = example()
    values["suite"]["arms"] = ["resample_flops", "mentor"]
    with pytest.raises(ConfigError, match="nobody knows the FLOPs of an endpoint"):
        validate(parse_config(values))


def test_a_run_with_an_endpoint_has_its_texts_and_tokens_in_the_store_and_no_flops(tmp_path: Path) -> None:
    with FaultServer(answer) as server:
        config = settings(tmp_path, server.url)
        run = train_run(config, "mentor", 1)
    store = Store.open(tmp_path / "store")
    assert store.check() == []
    rows = store.arrow("SELECT * FROM diagnosis ORDER BY step, diagnosis_id").to_pylist()
    assert len(rows) == len(server.asked) >= 5
    assert {(r["mentor"], r["mentor_model"]) for r in rows} == {("endpoint", "Qwen/Qwen2.5-7B-Instruct")}
    good = [r for r in rows if r["parse_status"] == "ok"]
    assert len(good) == len(rows) - 2
    assert sorted(r["proposed_instruction"] for r in good) == sorted(f"advice {i}" for i in range(len(rows)) if i not in (2, 3))
    failed = {r["error"] for r in rows if r["parse_status"] == "mentor_error"}
    assert {e[:8] for e in failed} == {"HTTP 401", "expected"}

    shown = store.arrow("SELECT completion, prompt, text FROM attempt JOIN instruction USING (instruction_id)").to_pylist()
    assert {r["text"] for r in shown} == {r["proposed_instruction"] for r in good}
    chained = store.arrow(
        "SELECT instruction_text, diagnosis_claim, mentor_tokens, mentor_flops FROM chain WHERE response_id IS NOT NULL"
    ).to_pylist()
    assert sorted(r.pop("instruction_text") for r in chained) == sorted(r["proposed_instruction"] for r in good)
    assert chained == [{"diagnosis_claim": "lost a carry", "mentor_tokens": 120, "mentor_flops": None}] * len(good)

    costs = store.arrow("SELECT * FROM cost WHERE phase = 'mentor'").to_pylist()
    assert len(costs) == len(rows)
    assert {(c["prompt_tokens"], c["cached_tokens"], c["output_tokens"]) for c in costs} == {(100, 64, 20), (None, None, None)}
    assert [c["prompt_tokens"] for c in costs].count(None) == 1, "the refused call; the reply without text was paid for"
    assert {c["flops"] for c in costs} == {None}
    assert {c["disposition"] for c in costs if c["error"] is not None} == {"discarded"}
    assert all(c["flops"] is not None for c in store.arrow("SELECT flops FROM cost WHERE payer = 'learner'").to_pylist())
    totals = {(t["phase"], t["flops"] is None) for t in store.query("cost_by_arm").iter_rows(named=True)}
    assert {phase for phase, is_unknown in totals if is_unknown} == {"mentor"}
    (row,) = store.registry.runs()
    assert (row.run_id, row.mentor) == (run, "endpoint:Qwen/Qwen2.5-7B-Instruct")


def test_a_run_that_is_trained_again_pays_the_endpoint_nothing(tmp_path: Path) -> None:
    with FaultServer() as server:
        config = settings(tmp_path, server.url)
        train_run(config, "mentor", 1)
        paid = len(server.asked)
        train_run(config, "mentor", 1)
    assert paid == len(server.asked) >= 5
    store = Store.open(tmp_path / "store")
    found = store.arrow(
        "SELECT launch, count(*) AS calls, sum(prompt_tokens)::INT AS prompt, sum(output_tokens)::INT AS output, "
        "bool_and(starts_with(call_id, 'cache:')) AS hit FROM cost_raw WHERE phase = 'mentor' GROUP BY launch ORDER BY launch"
    ).to_pylist()
    assert found == [
        {"launch": 1, "calls": paid, "prompt": 100 * paid, "output": 20 * paid, "hit": False},
        {"launch": 2, "calls": paid, "prompt": 0, "output": 0, "hit": True},
    ]
    texts = store.arrow("SELECT launch, list(text ORDER BY step, instruction_id) AS texts FROM instruction_raw GROUP BY launch")
    assert len({tuple(row["texts"]) for row in texts.to_pylist()}) == 1
