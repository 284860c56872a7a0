"""The replay section: verdicts on planted worlds, steps that add up, prices, missing verdicts, stores that hold replays only."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mentor_audit.report import build_report
from mentor_audit.report.data import load
from mentor_audit.report.findings import find
from mentor_audit.simulate import SimulatedStore, simulate
from mentor_audit.simulate.worlds import WORLDS


def rows_of(name: str, seed: int = 0, **changed: Any) -> dict[str, list[dict[str, Any]]]:
    world = WORLDS[name]
    return simulate(replace(world, gain={}, replays=replace(world.replays, **changed)), seed)


def replay_of(rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    (found,) = find(load(SimulatedStore(rows), None, None), "simulated", "flops", 0)["replays"]
    return found


@pytest.mark.parametrize(
    ("world", "code"),
    [
        ("correctness", {"correct_diagnoses", "both"}),
        ("leakage", {"leakage"}),
        ("sampling and correctness", {"both"}),
        ("nothing", {"no_gain", "extra_sampling", "cannot_tell"}),
        ("form", {"instruction_form", "cannot_tell"}),
    ],
)
def test_the_verdict_names_the_planted_cause(world: str, code: set[str]) -> None:
    found = replay_of(rows_of(world, 1, problems=200))
    assert found["verdict"]["code"] in code, found["verdict"]["paragraph"]
    assert re.match(r"(Gain explained by|No gain:|Can't tell:)", found["verdict"]["sentence"])


def test_both_ways_add_up() -> None:
    found = replay_of(rows_of("form, correctness and leakage"))
    value = {c["name"]: c["estimate"]["value"] for c in found["contrasts"]}
    assert [c["name"] for c in found["decomposition"]] == ["sampling", "context", "form", "residual", "correctness", "leakage"]
    assert sum(c["estimate"]["value"] for c in found["decomposition"]) == pytest.approx(value["gain"])
    assert [c["name"] for c in found["trajectory"]] == ["residual", "topic", "trajectory"]
    assert sum(c["estimate"]["value"] for c in found["trajectory"]) == pytest.approx(value["beyond form"])
    for step in found["decomposition"]:
        low, high = step["simultaneous"]
        assert low <= step["estimate"]["low"] and step["estimate"]["high"] <= high


def test_arms_that_were_not_replayed_join_the_next_step() -> None:
    found = replay_of(rows_of("correctness", arms=("vanilla", "resample", "wrong", "mentor")))
    assert [(c["name"], c["plus"], c["minus"]) for c in found["decomposition"]] == [
        ("sampling", "resample", "vanilla"),
        ("form and residual", "wrong", "resample"),
        ("correctness", "mentor", "wrong"),
    ]
    assert "Without the arm scrubbed" in found["verdict"]["paragraph"]


def test_a_missing_arm_is_named_and_nothing_is_claimed() -> None:
    found = replay_of(rows_of("correctness", arms=("vanilla", "wrong", "mentor")))
    assert found["verdict"]["code"] == "cannot_tell" and "resample" in found["verdict"]["sentence"]


def test_few_problems_can_not_tell() -> None:
    found = replay_of(rows_of("correctness", problems=15))
    assert found["verdict"]["code"] == "cannot_tell"
    assert "where at least 20 are needed" in found["verdict"]["sentence"]


def test_a_failure_with_a_response_without_a_verdict_is_unknown_even_when_another_is_correct() -> None:
    rows = rows_of("correctness", follow_ups=2, extra_samples=2)
    before = next(a for a in replay_of(rows)["arms"] if a["arm"] == "mentor")
    arms = {g["group_id"]: g["arm"] for g in rows["attempt_group"]}
    mine = [a for a in rows["attempt"] if arms[a["group_id"]] == "mentor" and a["role"] == "follow_up"]
    correct = next(a for a in mine if a["is_correct"])
    other = next(a for a in mine if a["group_id"] == correct["group_id"] and a is not correct)
    other.update(is_correct=None, status="truncated")
    after = next(a for a in replay_of(rows)["arms"] if a["arm"] == "mentor")
    assert (before["unknown"], after["unknown"]) == (0, 1)
    assert after["rescued"] == before["rescued"], "counted as it is seen"
    assert after["rescue_rate"]["value"] == pytest.approx((before["rescued"] - 1) / (before["failures"] - 1))


def test_the_diagnosis_is_charged_to_every_arm_that_stands_on_it() -> None:
    rows = rows_of("correctness")
    found = {arm["arm"]: arm for arm in replay_of(rows)["arms"]}
    spent = {c["owner_id"]: c["flops"] for c in rows["cost"] if c["mode"] == "replay"}
    groups = {g["group_id"]: g for g in rows["attempt_group"] if g.get("source_group_id")}
    shown = {i["group_id"]: i for i in rows["instruction"]}
    of_attempt = {(d["run_id"], d["attempt_id"]): d["diagnosis_id"] for d in rows["diagnosis"]}
    for arm in ("retry", "placebo", "wrong", "mentor"):
        total = 0.0
        for key in [k for k, g in groups.items() if g["arm"] == arm]:
            instruction = shown[key]
            total += spent[instruction["instruction_id"]]
            if arm != "retry":
                total += spent[of_attempt[groups[key]["run_id"], instruction["attempt_id"]]]
        assert found[arm]["flops_a_failure"] == pytest.approx(total / found[arm]["failures"]), arm
    assert found["vanilla"]["flops_a_failure"] == 0.0


def test_how_much_more_sampling_buys_the_same_is_read_from_the_samples_themselves() -> None:
    rows = rows_of("sampling, several follow-ups", extra_samples=8)
    found = replay_of(rows)
    equal = found["equal_sampling"]
    rates = [point["rate"] for point in equal["rescue_rate_by_samples"]]
    assert rates == sorted(rates) and len(rates) <= 8
    assert rates[equal["samples"] - 1] >= equal["mentor_rescue_rate"]
    assert equal["samples"] == 1 or rates[equal["samples"] - 2] < equal["mentor_rescue_rate"]


def test_a_store_of_replays_only_has_a_page_without_training(tmp_path: Path) -> None:
    made = build_report(SimulatedStore(rows_of("leakage")), tmp_path)
    page, text = made.paths["html"].read_text(), made.paths["md"].read_text()
    for words in (
        "This suite has no training, only replays.",
        "the same failures under every arm",
        "Answers that instructions give away",
    ):
        assert words in page
    assert "Health of training" not in page and "Rescue: what followed a failed group in training" not in page
    assert made.findings["verdict"] is None and made.verdict.startswith(("Gain explained", "Can't tell", "No gain"))
    assert page.count("<svg") == 2 and "<script" not in page
    assert "points of failures rescued" in text


def test_a_suite_with_both_shows_both_and_same_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    rows = simulate(WORLDS["correctness"], 2)
    first, again = (build_report(SimulatedStore(rows), tmp_path / name).findings for name in ("a", "b"))
    assert first["replays"] == again["replays"] and first["verdict"] is not None
    assert "bank" not in first["arms"] and "replay" not in first["arms"]
    assert first["transfer"]["left_out"] == {}
