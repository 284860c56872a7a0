"""Chance rescue, strata, randomised training and leakage: closed forms by hand, and stores whose truth is planted."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from mentor_audit.report.chance import fit, rescue_chance, samples_for
from mentor_audit.report.data import load, queries
from mentor_audit.report.findings import find
from mentor_audit.report.leaks import _rates
from mentor_audit.report.strata import e_value
from mentor_audit.simulate import SimulatedStore, simulate, truth
from mentor_audit.simulate.world import Causes, Failures, Randomised, World
from mentor_audit.simulate.worlds import WORLDS


def findings(world: Any, seed: int = 0, change: Any = None) -> dict[str, Any]:
    rows = simulate(world, seed)
    if change is not None:
        change(rows)
    return find(load(SimulatedStore(rows), None, None), "simulated", "flops", 0)


def only_replay(name: str, **changed: Any) -> Any:
    """A world's replay without its training."""
    world = WORLDS[name]
    return replace(world, gain={}, replays=replace(world.replays, **changed))


# --- chance rescue


def test_after_failures_a_fresh_sample_succeeds_with_the_posterior_mean() -> None:
    # Beta(1, 1) and 3 failures: Beta(1, 4), mean 1/5; of two samples 1 - (4/5)(5/6) = 1/3
    assert rescue_chance(1.0, 1.0, 3, 1) == pytest.approx(1 / 5)
    assert rescue_chance(1.0, 1.0, 3, 2) == pytest.approx(1 / 3)
    assert rescue_chance(1.0, 1.0, 3, 0) == pytest.approx(0.0)


def test_the_samples_that_reach_a_rate_are_the_least_that_do() -> None:
    # 1 - 4 / (4 + k) >= 0.5 from k = 4 on
    failed = np.array([3.0])
    assert samples_for(1.0, 1.0, failed, 0.5) == 4
    assert samples_for(1.0, 1.0, failed, 0.51) == 5
    assert samples_for(1.0, 1.0, failed, 0.0) == 0
    assert samples_for(1e-6, 1e6, failed, 0.9) is None


def test_the_fit_finds_what_groups_were_drawn_with() -> None:
    rng = np.random.default_rng(5)
    scored = np.full(6000, 8)
    correct = rng.binomial(8, rng.beta(0.5, 2.0, 6000))
    a, b = fit(scored, correct)  # type: ignore[misc]
    assert (a, b) == (pytest.approx(0.5, rel=0.15), pytest.approx(2.0, rel=0.2))
    assert fit(scored, np.zeros(6000)) is None and fit(scored, scored) is None


def test_the_prediction_covers_what_resampling_does() -> None:
    world = only_replay("sampling")
    true = truth(world)["rescue/resample"]
    found = [findings(world, seed)["chance"][0] for seed in range(8)]
    assert sum(row["predicted"]["low"] <= true <= row["predicted"]["high"] for row in found) >= 5
    assert sum(row["agrees"] for row in found) >= 6
    assert np.mean([row["predicted"]["value"] for row in found]) == pytest.approx(true, abs=0.05)


def test_a_bank_without_a_success_gives_a_bound_and_no_fit() -> None:
    def nothing_right(rows: dict[str, list[dict[str, Any]]]) -> None:
        for group in rows["attempt_group"]:
            group.update(num_incorrect=group["num_correct"] + group["num_incorrect"], num_correct=0)

    (row,) = findings(only_replay("correctness"), 1, nothing_right)["chance"]
    assert (row["a"], row["correct"], row["samples_for_mentor"]) == (None, 0, None)
    assert row["predicted"]["value"] == 0.0
    assert row["predicted"]["high"] == pytest.approx(1 - 0.05 ** (1 / row["attempts"]), rel=1e-6), "one sample"


# --- strata


def test_e_values_by_hand() -> None:
    assert e_value(2.0) == pytest.approx(2 + np.sqrt(2))
    assert e_value(0.5) == pytest.approx(e_value(2.0)) and e_value(1.0) == 1.0


def test_strata_mislead_where_easy_failures_are_diagnosed_right_and_are_never_called_causal() -> None:
    world = only_replay("form, easy failures diagnosed right")
    assert truth(world)["rescue/mentor - wrong"] == pytest.approx(0.0), "a right diagnosis does nothing in this world"
    found = [row for seed in range(4) for row in findings(world, seed)["strata"] if row["auditor"] == "planted_truth"]
    assert np.mean([row["unadjusted"]["value"] for row in found]) > 0.15
    for row in found:
        assert row["note"].startswith("Descriptive.")
        assert row["right"]["responses"] + row["wrong"]["responses"] > 0
        assert row["e_value"] is None or row["e_value"] >= row["e_value_of_limit"] >= 1.0


def test_within_one_bin_the_adjusted_difference_is_the_plain_one() -> None:
    def same_extra_samples(rows: dict[str, list[dict[str, Any]]]) -> None:
        for attempt in rows["attempt"]:
            if attempt["role"] == "extra_sample":
                attempt.update(is_correct=False, status="incorrect")

    row = findings(only_replay("correctness", groups=1), 2, same_extra_samples)["strata"][0]
    assert len(row["bins"]) == 1
    assert row["adjusted"]["value"] == pytest.approx(row["unadjusted"]["value"])


def test_bins_of_difficulty_take_out_what_difficulty_explains() -> None:
    # Easy problems: right 4 of 4 and wrong 2 of 2 correct; hard ones: right 0 of 2, wrong 0 of 4. Plain 2/3 - 1/3, within bins 0.
    from mentor_audit.report.strata import _adjusted

    rows = [("right", f"e{i}", 1, 1) for i in range(4)] + [("wrong", f"e{i}", 1, 1) for i in range(2)]
    rows += [("right", f"h{i}", 0, 1) for i in range(2)] + [("wrong", f"h{i}", 0, 1) for i in range(4)]
    hard = {f"e{i}": 0.1 for i in range(4)} | {f"h{i}": 0.9 for i in range(4)}
    estimate, bins, ratio, _ = _adjusted(rows, hard, 1, 0)
    assert [b["responses"] for b in bins] == [6, 6]
    assert estimate.value == pytest.approx(0.0) and ratio == pytest.approx(1.0)


# --- leakage


def test_without_flagged_instructions_a_leaked_gain_is_gone() -> None:
    found = findings(only_replay("leakage", problems=150), 3)
    rates = {(row["arm"], row["auditor"]): row for row in found["leakage"]["rates"]}
    leaking = rates["mentor", "program"]
    assert 0.4 < leaking["leaks"] / leaking["instructions"] < 0.8
    assert rates["scrubbed", "program"]["leaks"] == 0
    (row,) = [r for r in found["leakage"]["sensitivity"] if r["minus"] == "resample"]
    assert row["flagged"] == leaking["leaks"]
    assert row["all"]["low"] > 0.1
    assert row["unflagged"]["low"] < 0.05
    assert found["replays"][0]["verdict"]["code"] == "leakage"


def test_a_mean_over_replays_is_of_the_instructions_that_have_the_value() -> None:
    """One of 4 values known in the one replay and 2 of 2 in the other: each value weighs the same."""
    rows = simulate(only_replay("leakage", problems=8), 3)
    of_mentor = {row["instruction_id"]: row for row in rows["instruction"] if row["arm"] == "mentor"}
    rows["leak_audit"] = [row for row in rows["leak_audit"] if row["instruction_id"] in of_mentor][:6]
    for row, value in zip(rows["leak_audit"], (0.9, None, None, None, 0.1, 0.2), strict=True):
        row.update(reference_overlap=value, logprob_change=value and 10 * value)
    for row in rows["leak_audit"][4:]:
        of_mentor[row["instruction_id"]]["run_id"] = "another-replay"
    (sql,) = (each.sql for each in queries() if each.name == "leaks")
    (rates,) = _rates(pl.DataFrame(SimulatedStore(rows).arrow(sql)))
    assert rates["instructions"] == 6
    assert (rates["mean_overlap"], rates["mean_logprob_change"]) == (pytest.approx(0.4), pytest.approx(4.0))


# --- randomised training


def world_of_draws() -> World:
    """The mentor is drawn more often in the second half, when every response is rescued more easily."""
    first = {"vanilla": 0.2, "resample": 0.3, "wrong": 0.3, "mentor": 0.2}
    second = {"vanilla": 0.1, "resample": 0.15, "wrong": 0.15, "mentor": 0.6}
    failures = Failures(Causes(correctness=0.5), lucky=(0.5, 3.0))
    return World(gain={}, randomised=Randomised(failures, first, second, later=0.5))


def test_inverse_probability_weights_undo_what_was_drawn_more_often_late() -> None:
    world = world_of_draws()
    true = truth(world)
    found = [findings(world, seed)["randomised"] for seed in range(6)]
    for one in found:
        assert one["refusal"] is None
        assert all(arm["effective_groups"] <= arm["groups"] + 1e-9 for arm in one["arms"])
    covered = [
        contrast["estimate"]["low"]
        <= true[f"randomised/{contrast['plus']} - {contrast['minus']}"]
        <= contrast["estimate"]["high"]
        for one in found
        for contrast in one["contrasts"]
        if contrast["estimate"]["low"] is not None
    ]
    assert np.mean(covered) > 0.8
    beyond = [c["estimate"]["value"] for one in found for c in one["contrasts"] if c["name"] == "beyond sampling"]
    assert np.mean(beyond) == pytest.approx(true["randomised/mentor - resample"], abs=0.05)


def test_a_group_without_its_chance_is_refused_in_words() -> None:
    def forget(rows: dict[str, list[dict[str, Any]]]) -> None:
        next(g for g in rows["attempt_group"] if g.get("arm") is not None)["assignment_probability"] = None

    found = findings(world_of_draws(), 1, forget)["randomised"]
    assert "1 of" in found["refusal"] and "lack the chance" in found["refusal"]
    assert found["contrasts"] == []
