"""The report on simulated stores: few false verdicts, intervals that hold the truth, and naive analyses that don't. A small version of
benchmarks/validity.py, whose own arithmetic is checked by hand."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mentor_audit.simulate import truth
from mentor_audit.simulate.worlds import WORLDS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import naive  # noqa: E402
import validity  # noqa: E402
import validity_tables  # noqa: E402

MISLED = "form, easy failures diagnosed right"
UNEQUAL = "sampling, unequal prices"
STORES = {MISLED: 40, UNEQUAL: 20}


@pytest.fixture(scope="module")
def judged() -> dict[str, list[dict[str, Any]]]:
    return {world: [validity.judge(world, seed) for seed in range(number)] for world, number in STORES.items()}


def parts(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Outcome -> what the report says of it, store by store."""
    return {outcome: [record["parts"][outcome] for record in records] for outcome in records[0]["parts"]}


@pytest.mark.slow
def test_verdicts_are_rarely_false(judged: dict[str, list[dict[str, Any]]]) -> None:
    for world, records in judged.items():
        for outcome, found in parts(records).items():
            most = stats.binom.ppf(0.997, len(found), 0.05)  # more is rarer than 3 in 1000 at 5 %
            assert sum(part.get("false", False) for part in found) <= most, (world, outcome)


@pytest.mark.slow
def test_intervals_hold_the_truth(judged: dict[str, list[dict[str, Any]]]) -> None:
    for world, records in judged.items():
        for outcome, found in parts(records).items():
            covers = validity_tables.covering(part["contrasts"] for part in found)
            assert len(covers) >= 8
            assert 0.88 < np.mean([flag for flags in covers.values() for flag in flags]) < 0.995, (world, outcome)


@pytest.mark.slow
def test_naive_analyses_are_misled_on_the_same_stores(judged: dict[str, list[dict[str, Any]]]) -> None:
    def bias(world: str, analysis: str) -> float:
        return float(np.mean([record["naive"][analysis]["error"] for record in judged[world]]))

    assert bias(MISLED, "right against wrong diagnoses, by program") > 0.1
    assert bias(MISLED, "right against wrong diagnoses, by a judge who errs") > 0.05
    ours = [record["parts"]["rescue"]["contrasts"]["mentor - wrong"] for record in judged[MISLED]]
    assert abs(np.mean([c["value"] - c["true"] for c in ours])) < 0.05
    ours = [record["parts"]["transfer"]["contrasts"]["mentor - resample"] for record in judged[UNEQUAL]]
    assert abs(np.mean([c["value"] - c["true"] for c in ours])) < 0.02 < bias(UNEQUAL, "arms at equal steps, not equal compute")


# --- the arithmetic


def test_a_verdict_is_false_when_the_truth_contradicts_a_claim() -> None:
    known = truth(WORLDS["leakage"])
    assert known["transfer/mentor - wrong"] > 0.2
    assert validity.is_false("correct_diagnoses", "transfer", known)
    assert validity.is_false("no_gain", "transfer", known)
    assert validity.is_false("extra_sampling", "transfer", known)
    assert not validity.is_false("cannot_tell", "transfer", known)
    assert not validity.is_false("both", "transfer", truth(WORLDS["sampling and correctness"]))
    alone = truth(WORLDS["correctness"])
    assert validity.is_false("both", "transfer", alone)  # sampling adds nothing there
    assert not validity.is_false("correct_diagnoses", "transfer", alone, little_sampling=True)
    assert validity.is_false("correct_diagnoses", "transfer", truth(WORLDS["sampling and correctness"]), little_sampling=True)


def test_every_world_deserves_the_verdict_that_its_name_says() -> None:
    right = {world: validity.right_code("transfer", truth(WORLDS[world])) for world in WORLDS if WORLDS[world].gain}
    rescue = {world: validity.right_code("rescue", truth(WORLDS[world])) for world in WORLDS if WORLDS[world].replays}
    assert rescue["context"] == rescue[MISLED] == "instruction_form"
    assert right["leakage"] == rescue["leakage"] == "leakage"
    assert right["nothing"] == right["nothing, seeds differ"] == "no_gain"
    assert right["sampling"] == right[UNEQUAL] == "extra_sampling"
    assert right["form"] == "instruction_form"
    assert right["correctness"] == right["correctness, few problems"] == "correct_diagnoses"
    assert right["sampling and correctness"] == "both"


def record(code: str, false: bool, right: bool, low: float, high: float, world: str = "nothing") -> dict[str, Any]:
    contrasts = {
        "mentor - resample": {"true": 0.0, "value": (low + high) / 2, "low": low, "high": high},
        "mentor - wrong": {"true": 0.0, "value": None, "low": None, "high": None},
    }
    part = {"code": code, "false": false, "right": right, "contrasts": contrasts}
    return {
        "world": world,
        "seed": 0,
        "parts": {"transfer": part},
        "naive": {"chi-square over rollouts": {"error": 0.04, "false": false}},
    }


def test_the_tables_count_by_hand() -> None:
    records = [
        record("no_gain", False, True, -0.1, 0.1),
        record("no_gain", False, True, -0.2, 0.1),
        record("both", True, False, 0.1, 0.3),
        record("cannot_tell", False, False, -0.1, 0.1),
    ]
    text = validity_tables.tables(records)
    assert "| nothing | 4 | 25.0 % | 50.0 % | 25.0 % | no_gain 50.0 %, both 25.0 %, cannot_tell 25.0 % |" in text
    assert "| nothing | 1 | 75.0 % | 75.0 % (mentor - resample) | 75.0 % (mentor - resample) | - |" in text
    assert "| chi-square over rollouts | nothing | mentor - resample (transfer) | +4.0 | +3.8 | 25.0 % | 25.0 % |" in text


def test_naive_shares_are_compared_by_chi_square() -> None:
    """30 of 40 against 20 of 40: Pearson's statistic is 80 x (30 x 20 - 10 x 20)^2 / (40 x 40 x 50 x 30) = 5.333, p = 0.0209."""
    gap, p = naive._two_shares([True] * 30 + [False] * 10, [True] * 20 + [False] * 20)
    assert gap == pytest.approx(0.25)
    assert p == pytest.approx(0.0209, abs=1e-4)
    assert naive._two_shares([False, False], [False]) == (0.0, 1.0)


def test_the_page_has_every_world() -> None:
    page = (ROOT / "docs" / "validity.md").read_text(encoding="utf-8")
    written = page.split(validity.MARK)[1].split(validity.END)[0]
    named = set(re.findall(r"^\| ([^|]+) \| \d+ \|", written, re.MULTILINE))
    assert named == set(WORLDS)
