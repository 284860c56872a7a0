"""The training side of the report: health, curves, matched points, equal sampling; on rows whose answers can be worked out by hand."""

import json
import math
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from simulated import BOTH, SimulatedStore, World, simulate

from mentor_audit.report.data import load, queries
from mentor_audit.report.health import health

PLAIN = World(gain={"mentor": 0.0}, seeds=(1,), steps=10, eval_every=10, heldout=1, groups_a_step=2, train_problems=1)


def rows_of(world: World) -> dict[str, list[dict[str, Any]]]:
    """Ten steps, in each of which both groups fail, are shown `a b`, and answered by an inserted follow-up half as likely without it."""
    rows = simulate(replace(world, rescue={"mentor": 1.0}), seed=1)
    kept = {"attempt_group": [], "attempt": [], "instruction": []}
    template = next(row for row in rows["instruction"])
    parent = next(row for row in rows["attempt"] if row["role"] == "attempt")
    for step in range(10):
        unit = {"run_id": template["run_id"], "launch": 1, "step": step, "mode": "train", "rank": 0}
        for g in range(2):
            key = f"s{step}.g{g}"
            group = next(row for row in rows["attempt_group"] if row["mode"] == "train")
            kept["attempt_group"].append({**group, **unit, "group_id": key})
            kept["instruction"].append({**template, **unit, "instruction_id": f"{key}.i0", "group_id": key, "text": "A b"})
            kept["attempt"].append({**parent, **unit, "attempt_id": f"{key}.a0", "group_id": key})
            follow_up = {"role": "follow_up", "trained": True, "mean_logprob_original": -1.0, "mean_logprob_instructed": -0.9}
            kept["attempt"].append({**parent, **unit, "attempt_id": f"{key}.f0", "group_id": key, **follow_up})
    for table, made in kept.items():
        rows[table] = [row for row in rows[table] if row["mode"] != "train"] + made
    for row in rows["train_step"]:
        row.update(entropy=2.0, mean_completion_tokens=30.0, metrics=json.dumps({"clip_ratio/region_mean": 0.05, "kl": 1.0}))
    return rows


def found_health(rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    (row,) = health(load(SimulatedStore(rows), None, None))
    return row


def test_a_healthy_run_has_its_numbers_and_no_flag() -> None:
    row = found_health(rows_of(PLAIN))
    assert (row["arm"], row["runs"], row["flags"]) == ("mentor", 1, [])
    assert [point["tenth"] for point in row["series"]] == list(range(10))
    assert row["series"][3] == {
        "tenth": 3,
        "first_step": 3,
        "last_step": 3,
        "entropy": 2.0,
        "completion_tokens": 30.0,
        "clip_fraction": 0.05,
        "cut_fraction": 0.0,
        "off_policy_ratio": pytest.approx(math.exp(-0.1)),
        "instructions": 2,
        "instruction_words": 2.0,
        "instruction_distinct": 0.5,
        "instruction_divergence": 0.0,
    }
    assert row["off_policy"]["responses"] == 20
    assert row["divergence_by_chance"] == 0.0


def last_step(rows: dict[str, list[dict[str, Any]]], table: str) -> list[dict[str, Any]]:
    return [row for row in rows[table] if row["mode"] == "train" and row["step"] == 9]


def test_each_flag_has_its_number() -> None:
    rows = rows_of(PLAIN)
    for row in last_step(rows, "train_step"):
        row.update(entropy=0.1, metrics=json.dumps({"clip_ratio/region_mean": 0.25}))
    for row in last_step(rows, "attempt"):
        if row["role"] == "attempt" and row["group_id"] == "s9.g0":
            row.update(finish_reason="length")
        if row["role"] == "follow_up":
            row.update(mean_logprob_original=-3.0, mean_logprob_instructed=-1.0)
    for row in last_step(rows, "instruction"):
        row.update(text="a: C")
    row = found_health(rows)
    assert {flag["what"]: flag["sentence"] for flag in row["flags"]} == {
        "entropy": "Entropy fell to 5.0 % of its start, from 2.000 to 0.100 nats a token.",
        "length": "50.0 % of attempts were cut at the length limit in steps 9 to 9.",
        "clipping": "25.0 % of tokens were clipped in steps 9 to 9.",
        "off_policy": "Without its instruction the median inserted follow-up was 0.14 times as likely a token as with it, in steps 9 to 9.",
        "drift": "The words of the last instructions diverge from those of the first by 0.50 bits (Jensen-Shannon), where chance makes at most "
        "about 0.00.",
    }
    assert row["series"][-1]["instruction_divergence"] == pytest.approx(0.5), "a stays, b becomes c: half a bit"


def test_texts_that_become_one_are_flagged() -> None:
    rows = rows_of(PLAIN)
    more = []
    for n, row in enumerate(r for r in rows["instruction"] if r["step"] in (0, 9)):
        more += [
            {**row, "instruction_id": f"{row['instruction_id']}.{i}", "text": f"t{n} {i}" if row["step"] == 0 else "A b"}
            for i in range(4)
        ]
    rows["instruction"] += more
    flags = {flag["what"]: flag["sentence"] for flag in found_health(rows)["flags"]}
    assert flags["distinct"] == "The share of distinct instructions fell from 90.0 % to 10.0 %."


def test_chance_between_halves_of_the_first_tenth_keeps_a_small_sample_from_looking_like_drift() -> None:
    rows = rows_of(PLAIN)
    for n, row in enumerate(rows["instruction"]):
        row.update(text=f"w{n} x{n}")
    row = found_health(rows)
    assert row["series"][-1]["instruction_divergence"] == pytest.approx(1.0)
    assert row["divergence_by_chance"] == pytest.approx(1.0)
    assert "drift" not in {flag["what"] for flag in row["flags"]}


def test_what_was_not_recorded_is_not_known() -> None:
    rows = rows_of(PLAIN)
    for row in rows["train_step"]:
        row.update(entropy=None, metrics=json.dumps({"clip_ratio/region_mean": None}))
    for row in rows["attempt"]:
        row.update(mean_logprob_original=None)
    rows["instruction"] = []
    row = found_health(rows)
    assert row["off_policy"] is None and row["divergence_by_chance"] is None and row["flags"] == []
    for name in ("entropy", "clip_fraction", "off_policy_ratio", "instruction_words", "instruction_divergence"):
        assert row["series"][0][name] is None, name


def test_quantiles_are_of_the_responses_not_of_the_tenths() -> None:
    rows = rows_of(PLAIN)
    logs = [-1.0 - 0.01 * n for n in range(20)]
    for log, row in zip(logs, (r for r in rows["attempt"] if r["role"] == "follow_up"), strict=True):
        row.update(mean_logprob_original=log, mean_logprob_instructed=-1.0)
    quantiles = found_health(rows)["off_policy"]["quantiles"]
    assert quantiles["0.05"] == pytest.approx(math.exp(-0.19)) and quantiles["0.5"] == pytest.approx(math.exp(-0.10))
    assert quantiles["0.95"] == pytest.approx(math.exp(-0.01))


def test_every_arm_of_a_suite_has_a_row() -> None:
    data = load(SimulatedStore(simulate(replace(BOTH, heldout=2, steps=10, eval_every=10))), None, None)
    assert [row["arm"] for row in health(data)] == data.arms
    assert {"health", "off_policy", "drift"} <= {query.name for query in queries()}
    assert isinstance(data.frames["drift"], pl.DataFrame)
