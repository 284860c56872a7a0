"""The training side of the report: health, curves, matched points, equal sampling, who takes part; on rows whose answers can be worked out by hand."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from simulated import BOTH, SimulatedStore, World, simulate

from mentor_audit.report.curves import Curve, band
from mentor_audit.report.data import load, queries
from mentor_audit.report.equal_sampling import equal_sampling
from mentor_audit.report.health import health
from mentor_audit.report.ladder import BESIDE, MAIN, ladder
from mentor_audit.report.matching import CommonRange, matched_points
from mentor_audit.report.transfer import Transfer, compare
from mentor_audit.report.variance import interval

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


# --- curves


def curve(arm: str, seed: int, compute: list[float], rates_E_P: list[list[float]], samples: int = 100) -> Curve:
    """A run with so many samples a problem; NaN: none of them has a verdict."""
    rates = np.array(rates_E_P)
    scored = np.where(np.isfinite(rates), samples, 0)
    correct = np.where(np.isfinite(rates), rates * samples, 0)
    return Curve(
        f"{arm}-s{seed}", arm, seed, np.arange(len(compute)), np.array(compute), correct, scored, np.full(rates.shape, samples)
    )


def test_a_band_stands_where_every_run_was_evaluated() -> None:
    first = curve("mentor", 1, [0, 10, 30], [[0.0, 0.2], [0.2, 0.4], [0.4, 0.6]])
    second = curve("mentor", 2, [5, 20], [[0.1, 0.1], [0.3, 0.5]])
    points = band([first, second])
    assert [p.compute for p in points] == [5, 10, 20]
    # At 10 the first run has 0.2 and 0.4; the second, a third of the way, 1/6 and 0.1 + 0.4/3.
    assert points[1].accuracy == pytest.approx((0.2 + 0.4 + 0.1 + 0.2 / 3 + 0.1 + 0.4 / 3) / 4)
    low, high = interval(np.array([[0.2, 0.4], [0.1 + 0.2 / 3, 0.1 + 0.4 / 3]]), 0.95)
    assert (points[1].low, points[1].high) == (pytest.approx(low), pytest.approx(high))
    assert low < points[1].accuracy < high


def test_the_band_covers_the_truth_as_often_as_it_says() -> None:
    rng, inside = np.random.default_rng(5), 0
    for _ in range(1000):
        y = 0.4 + rng.normal(0, 0.05, (4, 1)) + rng.normal(0, 0.2, (1, 30)) + rng.normal(0, 0.2, (4, 30))
        low, high = interval(y, 0.95)
        inside += low < 0.4 < high
    assert 0.92 < inside / 1000 < 0.985


def test_a_band_needs_problems_and_leaves_out_those_without_a_verdict() -> None:
    assert interval(np.array([[0.1], [0.2]]), 0.95) is None
    assert interval(np.array([[0.1, np.nan, 0.3], [0.2, 0.5, 0.1]]), 0.95) is not None
    one = interval(np.array([[0.0, 0.2, 0.4, 0.6]]), 0.95)
    assert one == (pytest.approx(0.3 - 3.182446 * np.std([0, 0.2, 0.4, 0.6], ddof=1) / 2), pytest.approx(0.6 - one[0]))


def test_matched_points_end_at_the_budget() -> None:
    assert matched_points(CommonRange(2.0, 10.0, "r")) == {0.25: 4.0, 0.5: 6.0, 0.75: 8.0, 1.0: 10.0}


def compared(world: World, unit: str = "flops") -> Transfer:
    return compare(load(SimulatedStore(simulate(world)), None, None), unit, 0)


def test_the_last_matched_point_is_the_accuracy_at_the_budget() -> None:
    found = compared(replace(BOTH, heldout=20))
    last = {row["arm"]: row["accuracy"] for row in found.matched if row["fraction"] == 1.0}
    assert last == {row["arm"]: row["accuracy"] for row in found.arms}
    rising = [row["accuracy"].value for row in found.matched if row["arm"] == "mentor"]
    assert rising == sorted(rising) and len(rising) == 4
    assert list(found.bands) == [row["arm"] for row in found.arms]


def test_seconds_are_a_budget() -> None:
    world = replace(BOTH, heldout=20)
    found = compared(world, "seconds")
    # Two learner rows of half a second a step, and one of the mentor: vanilla and resample end first, after 20 steps of one second.
    assert (found.budget, found.common.limited_by) == (20.0, "simulated-resample-s1")
    ends = {c.arm: c.compute_E[-1] for c in found.curves}
    assert (ends["vanilla"], ends["mentor"]) == (20.0, 30.0)


# --- how much more sampling buys the same


def test_equal_sampling_by_hand() -> None:
    mentor = [curve("mentor", s, [0, 10], [[0.0, 0.0], [0.3, 0.3]]) for s in (1, 2)]
    resample = [curve("resample", s, [0, 10, 40], [[0.0, 0.0], [0.1, 0.1], [0.4, 0.4]]) for s in (1, 2)]
    found = equal_sampling([*mentor, *resample], "resample", 10.0, 0)
    assert found["ratio"] == pytest.approx(3.0), "0.3 is reached two thirds of the way from 10 to 40"
    assert (found["low"], found["high"]) == (pytest.approx(3.0), pytest.approx(3.0)), "every cell is the same"
    assert (found["mentor_accuracy"], found["beyond"], found["never_fraction"], found["reason"]) == (
        pytest.approx(0.3),
        4.0,
        0.0,
        None,
    )


def test_sampling_that_never_gets_there_is_said() -> None:
    mentor = [curve("mentor", s, [0, 10], [[0.0, 0.0], [0.5, 0.5]]) for s in (1, 2)]
    resample = [curve("resample", s, [0, 40], [[0.0, 0.0], [0.4, 0.4]]) for s in (1, 2)]
    found = equal_sampling([*mentor, *resample], "resample", 10.0, 0)
    assert (found["ratio"], found["low"], found["high"], found["never_fraction"]) == (None, None, None, 1.0)
    assert found["reason"] == "resample never gets there within its range: it would take more than 4.00 times the budget"
    assert found["sentence"] == (
        "How much more sampling buys the same (what mentor reaches at the matched budget, 50.0 %) can't be told: resample never gets there "
        "within its range: it would take more than 4.00 times the budget."
    )


def test_an_upper_end_beyond_the_range_is_open() -> None:
    rng = np.random.default_rng(6)
    luck = rng.normal(0, 0.2, (2, 40))
    mentor = [curve("mentor", s, [0, 10], [[0.0] * 40, list(np.clip(0.38 + luck[s - 1], 0, 1))]) for s in (1, 2)]
    resample = [curve("resample", s, [0, 40], [[0.0] * 40, [0.4] * 40]) for s in (1, 2)]
    found = equal_sampling([*mentor, *resample], "resample", 10.0, 0)
    assert found["ratio"] is not None and found["low"] < found["ratio"] and found["high"] is None
    assert found["sentence"].endswith(f"times the budget [{found['low']:.2f}, above 4.00].")
    assert 0.025 < found["never_fraction"] < 1 and "of the resamples resample never gets there" in found["reason"]
    assert equal_sampling([*mentor, *resample], "resample", 10.0, 0) == found
    assert equal_sampling([*mentor, *resample], "resample", 10.0, 1)["low"] != found["low"]


def test_equal_sampling_skips_cells_without_a_verdict_and_needs_common_seeds() -> None:
    mentor = [curve("mentor", 1, [0, 10], [[0.0, 0.0, 0.0], [0.3, 0.3, np.nan]])]
    resample = [curve("resample", 1, [0, 10, 40], [[0.0, 0.0, 0.0], [0.1, 0.1, 0.1], [0.4, np.nan, 0.4]])]
    assert equal_sampling([*mentor, *resample], "resample", 10.0, 0)["ratio"] == pytest.approx(3.0)
    assert equal_sampling([*mentor, curve("resample", 2, [0, 40], [[0.0] * 3, [0.4] * 3])], "resample", 10.0, 0) is None
    assert equal_sampling(mentor, "resample", 10.0, 0) is None


def test_the_planted_ratio_lies_in_its_interval() -> None:
    # By the matched 20 GFLOPs the mentor has gained 0.2 and resample 0.4: half of them would have bought resample what the mentor got.
    world = World(gain={"vanilla": 0.0, "resample": 0.4, "mentor": 0.2}, flops_a_step={"resample": 2e9}, heldout=150, samples=4)
    found = compared(world).equal_sampling
    assert found["low"] < 0.5 < found["high"] and found["reason"] is None


# --- who takes part


def test_runs_that_train_nothing_are_neither_compared_nor_left_out() -> None:
    rows = simulate(replace(BOTH, heldout=5))
    run = rows["run"][0]
    rows["run"] += [{**run, "run_id": f"simulated-{arm}", "arm": arm, "seed": 0} for arm in ("bank", "replay", "audit")]
    rows["run"].append({**run, "run_id": "simulated-randomised-s1", "arm": "randomised"})
    found = compare(load(SimulatedStore(rows), None, None), "flops", 0)
    assert found.left_out == {"simulated-randomised-s1": "each of its groups drew its own arm, so its policy stands for none"}
    assert {row["arm"] for row in found.arms} == set(BOTH.gain)


# --- taking a gain apart


@pytest.mark.parametrize(
    ("arms", "steps"),
    [
        (
            "vanilla resample retry placebo wrong scrubbed mentor",
            "sampling: resample - vanilla; context: retry - resample; form: placebo - retry; residual: wrong - placebo; "
            "correctness: scrubbed - wrong; leakage: mentor - scrubbed",
        ),
        ("vanilla placebo wrong mentor", "sampling and form: placebo - vanilla; residual: wrong - placebo; correctness: mentor - wrong"),
        ("vanilla resample scrubbed mentor", "sampling: resample - vanilla; form, residual and correctness: scrubbed - resample; leakage: mentor - scrubbed"),
        ("vanilla mentor", "sampling, form, residual and correctness: mentor - vanilla"),
        ("resample mentor", ""),
        ("vanilla wrong", ""),
    ],
)  # fmt: skip
def test_the_ladder_merges_what_was_not_run(arms: str, steps: str) -> None:
    rungs = ladder(arms.split(), MAIN, "vanilla")
    assert "; ".join(f"{r.name}: {r.plus} - {r.minus}" for r in rungs) == steps


def test_the_ladder_beside_and_another_arm_of_samples() -> None:
    rungs = ladder(("placebo", "shuffled_other", "shuffled_same", "mentor"), BESIDE, "placebo")
    assert [(r.name, r.plus, r.minus) for r in rungs] == [
        ("residual", "shuffled_other", "placebo"),
        ("topic", "shuffled_same", "shuffled_other"),
        ("trajectory", "mentor", "shuffled_same"),
    ]
    first, *_ = ladder(("vanilla", "resample", "resample_flops", "mentor"), MAIN, "vanilla", extra="resample_flops")
    assert (first.name, first.plus) == ("sampling", "resample_flops")


def test_steps_add_up_and_their_simultaneous_intervals_are_wider() -> None:
    gain = {**BOTH.gain, "scrubbed": 0.5, "shuffled_same": 0.3, "paraphrase": 0.55}
    found = compared(replace(BOTH, gain=gain, heldout=30))
    for steps, bottom in ((found.decomposition, "vanilla"), (found.trajectory, "placebo")):
        rates = {row["arm"]: row["accuracy"].value for row in found.arms}
        assert sum(step.estimate.value for step in steps) == pytest.approx(rates["mentor"] - rates[bottom])
        for step in steps:
            low, high = step.simultaneous
            assert low < step.estimate.low < step.estimate.value < step.estimate.high < high, step.name
    names = [contrast.name for contrast in found.contrasts]
    assert {"context", "form", "topic", "trajectory", "correctness", "leakage", "noise floor"} <= set(names)
    assert all(contrast.simultaneous is None for contrast in found.contrasts)


def test_steps_stand_on_the_seeds_that_all_their_arms_have() -> None:
    rows = simulate(replace(BOTH, heldout=10))
    rows["run"] = [r for r in rows["run"] if (r["arm"], r["seed"]) != ("wrong", 5)]
    found = compare(load(SimulatedStore(rows), None, None), "flops", 0)
    assert {step.estimate.num_seeds for step in found.decomposition} == {4}
    assert found.contrast("gain").estimate.num_seeds == 5
