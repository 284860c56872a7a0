"""Power: components against planted ones, predicted power against simulated studies, prices by hand, and what a pilot can't tell."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from simulated import BOTH, SimulatedStore, simulate

from mentor_audit.errors import ReportError
from mentor_audit.report.power import plan_power
from mentor_audit.report.power_design import smallest
from mentor_audit.report.power_words import describe
from mentor_audit.report.variance import Crossed, Nested, crossed, crossed_variance, nested, power_of, underestimated
from mentor_audit.simulate import Causes, Failures, Replays, World

REPLAY = World(
    replays=Replays(
        Failures(Causes(context=0.1, form=0.05, residual=0.05, correctness=0.6), accuracy=0.7),
        ("vanilla", "resample", "wrong", "mentor"),
        problems=40,
        groups=4,
        follow_ups=3,
        extra_samples=2,
    )
)


# --- variance components


def test_nested_components_by_hand() -> None:
    # Two problems of two failures; differences 0.5, 0.5 and 0, -0.5 of two responses an arm.
    correct = np.array([[1, 0], [1, 0], [1, 1], [0, 1]], dtype=float)
    found = nested(["p", "p", "q", "q"], correct, np.full((4, 2), 2.0))
    # Means 0.5 and -0.25: between 2 x (0.375^2 x 2) = 0.5625; within (0.25^2 x 2) / 2 = 0.0625.
    # A response: rates 1/2, 1/2, 1/2, 0 of one arm and 0, 0, 1/2, 1/2 of the other, p (1 - p) 2 / 1: 0.375 and 0.25, half of it measured.
    assert found.problem == pytest.approx((0.5625 - 0.0625) / 2)
    assert found.response == pytest.approx(0.625)
    assert found.failure == 0.0, "0.0625 less 0.3125 of the responses"
    assert found.error(10, 5, 4) == pytest.approx(np.sqrt((0.25 + 0.625 / 4 / 5) / 10))


def test_one_response_or_one_failure_leaves_levels_together() -> None:
    ones = np.ones((4, 2))
    found = nested(["p", "p", "q", "q"], np.array([[1, 0], [1, 1], [0, 1], [0, 0]], dtype=float), ones)
    assert found.response is None and found.failure > 0
    alone = nested(["p", "q", "r", "s"], np.array([[1, 0], [1, 1], [0, 1], [0, 0]], dtype=float), ones)
    assert alone.failure == 0.0 and alone.problem == pytest.approx(np.var([1, 0, -1, 0], ddof=1))


def test_components_recover_what_was_planted() -> None:
    rng = np.random.default_rng(1)
    problem = np.repeat(rng.normal(0, 0.15, 3000), 3)
    chance = np.clip(0.5 + problem[:, None] / 2 * np.array([1, -1]) + rng.normal(0, 0.1, (9000, 2)), 0, 1)
    found = nested(
        [str(i) for i in np.repeat(np.arange(3000), 3)], rng.binomial(4, chance).astype(float), np.full((9000, 2), 4.0)
    )
    assert found.problem == pytest.approx(0.15**2, rel=0.15)
    assert found.failure == pytest.approx(2 * 0.1**2, rel=0.25)
    assert found.response == pytest.approx((chance * (1 - chance)).mean(axis=0).sum(), rel=0.05)

    cells = rng.normal(0, 0.1, (200, 1)) + rng.normal(0, 0.2, (1, 300)) + rng.normal(0, 0.3, (200, 300))
    both = crossed(cells, sample=0.16, measured=0.04)
    assert both.seed == pytest.approx(0.01, rel=0.3) and both.problem == pytest.approx(0.04, rel=0.3)
    assert both.both == pytest.approx(0.09 - 0.04, rel=0.05)


def test_crossed_by_hand() -> None:
    found = crossed(np.array([[0.0, 0.2], [0.1, 0.5]]), sample=None, measured=0.0)
    # Means of seeds 0.1, 0.3; of problems 0.05, 0.35; what is left is 0.05 in each cell, on one degree of freedom.
    assert found.both == pytest.approx(4 * 0.05**2)
    assert found.seed == pytest.approx(0.02 - 0.01 / 2) and found.problem == pytest.approx(0.045 - 0.01 / 2)


# --- predicted power against simulated studies


@pytest.mark.parametrize(("problems", "failures", "responses"), [(30, 2, 4), (60, 1, 1)])
def test_power_of_a_replay_is_what_simulated_replays_have(problems: int, failures: int, responses: int) -> None:
    spread, effect, rng = Nested(0.02, 0.03, 0.4, 0, 0), 0.12, np.random.default_rng(2)
    shape = (4000, problems, failures)
    differences = (
        effect
        + rng.normal(0, 0.02**0.5, (*shape[:2], 1))
        + rng.normal(0, 0.03**0.5, shape)
        + rng.normal(0, (0.4 / responses) ** 0.5, shape)
    ).mean(axis=2)
    found = (stats.ttest_1samp(differences, 0, axis=1).pvalue < 0.05).mean()
    predicted = power_of(effect, spread.error(problems, failures, responses), problems - 1, 0.05)
    assert 0.2 < predicted < 0.95
    assert found == pytest.approx(predicted, abs=0.03)


@pytest.mark.parametrize(("seeds", "problems"), [(4, 60), (8, 30)])
def test_power_of_training_is_what_simulated_suites_have(seeds: int, problems: int) -> None:
    spread, effect, rng = Crossed(0.001, 0.02, 0.01, 0.4, 0, 0), 0.08, np.random.default_rng(3)
    cells = (
        effect
        + rng.normal(0, 0.001**0.5, (4000, seeds, 1))
        + rng.normal(0, 0.02**0.5, (4000, 1, problems))
        + rng.normal(0, (0.01 + 0.4 / 4) ** 0.5, (4000, seeds, problems))
    )
    by_seeds, by_problems = cells.mean(axis=2).var(axis=1, ddof=1) / seeds, cells.mean(axis=1).var(axis=1, ddof=1) / problems
    rest = cells - cells.mean(axis=2, keepdims=True) - cells.mean(axis=1, keepdims=True) + cells.mean(axis=(1, 2), keepdims=True)
    cell = (rest**2).sum(axis=(1, 2)) / ((seeds - 1) * (problems - 1))
    squares = zip(by_seeds, by_problems, cell / (seeds * problems), strict=True)
    variance, freedom = np.array([crossed_variance(*square, seeds, problems) for square in squares]).T
    found = (2 * stats.t.sf(np.abs(cells.mean(axis=(1, 2))) / np.sqrt(variance), freedom) < 0.05).mean()
    predicted = power_of(effect, *spread.error(seeds, problems, 4), 0.05)
    assert 0.2 < predicted < 0.95
    assert found == pytest.approx(predicted, abs=0.05)


def test_power_of_nothing_is_alpha() -> None:
    assert power_of(0.0, 0.1, 20, 0.05) == pytest.approx(0.05)
    assert power_of(0.1, 0.0, 20, 0.05) == 1.0


def test_the_smallest_is_found() -> None:
    assert [smallest(lambda n, k=k: n >= k, 1000) for k in (1, 2, 3, 7, 64, 65, 1000)] == [2, 2, 3, 7, 64, 65, 1000]
    assert smallest(lambda n: n > 1000, 1000) is None


def test_a_variance_on_two_degrees_of_freedom_may_be_far_off() -> None:
    assert underestimated(2) == pytest.approx(2 / stats.chi2.ppf(0.2, 2))
    assert underestimated(2) > 4 > underestimated(20) > 1
    spread = Crossed(0.0, 0.02, 0.01, 0.4, 3, 50)
    assert spread.seed_at_most(4) == pytest.approx(np.sqrt((underestimated(2) - 1) * (0.01 + 0.1) / 50)), (
        "not 0 because the estimate is"
    )


# --- plans of a pilot


def test_a_replay_is_planned_with_its_own_prices() -> None:
    store = SimulatedStore(simulate(REPLAY, seed=3))
    found = plan_power(store, effect=0.1)
    assert [c.name for c in found.rescue] == ["mentor − wrong", "mentor − resample"]
    wrong = found.rescue[0]
    assert wrong.pilot["problems"] > 20 and wrong.pilot["responses a failure"] == 3
    assert all(value is not None for value in wrong.components.values())
    prices = [design.flops for design in wrong.designs]
    assert prices == sorted(prices)
    # A failure costs the bank's share of it, one diagnosis, and the responses of both arms.
    rows = simulate(REPLAY, seed=3)
    failures = len({r["source_group_id"] for r in rows["attempt_group"] if r["source_group_id"]})
    rollout = sum(r["flops"] for r in rows["cost"] if r["phase"] == "rollout")
    diagnosis = next(r["flops"] for r in rows["cost"] if r["owner_table"] == "diagnosis")
    follow_up = next(r["flops"] / r["sequences"] for r in rows["cost"] if r["phase"] == "follow_up")
    for design in wrong.designs:
        many = design.sizes["problems"] * design.sizes["failures a problem"]
        each = rollout / failures + diagnosis + 2 * follow_up * design.sizes["responses a failure"]
        assert design.flops == pytest.approx(many * each)
        assert 0.8 <= design.power < 0.9
    assert found.missing == ["no transfer contrast: it takes two arms with held-out evaluations over the same range of compute"]


def test_a_study_of_the_planned_size_has_the_planned_power() -> None:
    """A replay's own difference, tested on simulated replays of the size that the pilot plans for it."""
    pilot = plan_power(SimulatedStore(simulate(REPLAY, seed=3)), effect=0.15).rescue[0]
    design = next(d for d in pilot.designs if d.sizes["failures a problem"] == 1 and d.sizes["responses a failure"] == 1)
    rng, found = np.random.default_rng(4), []
    rows = simulate(replace(REPLAY, replays=replace(REPLAY.replays, problems=1500, groups=1, follow_ups=1)), seed=5)
    arm = {r["group_id"]: (r["source_group_id"], r["arm"]) for r in rows["attempt_group"] if r["source_group_id"]}
    verdicts: dict[str, dict[str, bool]] = {}
    for row in rows["attempt"]:
        if row["group_id"] in arm:
            failure, name = arm[row["group_id"]]
            verdicts.setdefault(failure, {})[name] = row["is_correct"]
    difference = np.array([float(v["mentor"]) - float(v["wrong"]) for v in verdicts.values()])
    difference += 0.15 - difference.mean()
    for _ in range(2000):
        drawn = rng.choice(difference, design.sizes["problems"])
        found.append(stats.ttest_1samp(drawn, 0).pvalue < 0.05)
    assert np.mean(found) == pytest.approx(0.8, abs=0.1)


def test_training_is_planned_over_seeds_and_problems() -> None:
    found = plan_power(SimulatedStore(simulate(replace(BOTH, heldout=40))), effect=0.1)
    assert [c.name for c in found.transfer] == ["mentor − vanilla", "mentor − resample", "mentor − wrong", "mentor − placebo"]
    gain = found.transfer[0]
    assert gain.pilot == {"seeds": 5, "problems": 40, "samples a problem": 2}
    known = [d for d in gain.designs if d.power is not None]
    assert known and all(d.power >= 0.8 for d in known)
    more = {(d.sizes["problems"], d.sizes["samples a problem"]): d.sizes["seeds"] for d in known}
    assert more[160, 2] <= more[40, 2], "more problems never take more seeds"
    # Training a run of either arm is 20 and 16 GFLOPs; an evaluation is 0.5 GFLOPs of 12 sequences, five times a run.
    design = next(d for d in known if (d.sizes["problems"], d.sizes["samples a problem"]) == (40, 2))
    assert design.flops == pytest.approx(design.sizes["seeds"] * (20e9 + 16e9 + 2 * 5 * 80 * 5e8 / 12))
    assert gain.cautions[0].startswith("5 seeds tell little of the spread between them")
    assert "no replay of this suite" in found.missing[0]


def test_a_pilot_that_is_too_small_says_so() -> None:
    tiny = simulate(replace(REPLAY, replays=replace(REPLAY.replays, problems=8, groups=2)))
    found = plan_power(SimulatedStore(tiny))
    assert found.rescue == [] and "are the least that tell how they spread" in found.missing[0]
    alone = plan_power(
        SimulatedStore(simulate(replace(REPLAY, replays=replace(REPLAY.replays, problems=60, groups=1, follow_ups=1))))
    )
    assert alone.rescue[0].components["failure"] is None and alone.rescue[0].components["response"] is None
    assert {design.sizes["failures a problem"] for design in alone.rescue[0].designs} == {1}
    assert len(alone.rescue[0].cautions) == 2 and "not known" in describe(alone)
    one = plan_power(SimulatedStore(simulate(replace(BOTH, seeds=(1,), heldout=20))))
    assert one.transfer == [] and "one seed tells nothing of others" in one.missing[-1]
    few = plan_power(SimulatedStore(simulate(replace(BOTH, heldout=5))))
    assert "5 held-out problems" in few.missing[-1]


def test_no_number_of_seeds_makes_up_for_too_few_problems() -> None:
    world = replace(BOTH, heldout=12, samples=8)
    gain = plan_power(SimulatedStore(simulate(world)), effect=0.01).transfer[0]
    assert gain.designs[-1].power is None and gain.designs[-1].flops is None
    assert "none is enough" in describe(plan_power(SimulatedStore(simulate(world)), effect=0.01))


def test_the_plan_in_words() -> None:
    text = describe(plan_power(SimulatedStore(simulate(REPLAY, seed=3)), effect=0.1))
    assert text.startswith(
        "Suite simulated: what it takes to find a difference of 10 points with 80.0 % power, two-sided at 5.0 %."
    )
    assert "mentor − wrong: success of one response in simulated-replay; problems are those with so many failures" in text
    assert "Cannot plan: no transfer contrast" in text
    assert "None" not in text and "nan" not in text


@pytest.mark.parametrize("bad", [{"effect": 0.0}, {"effect": 5.0}, {"power": 1.0}, {"alpha": -0.1}, {"power": 0.01}])
def test_numbers_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ReportError, match="Expected"):
        plan_power(SimulatedStore(simulate(replace(BOTH, heldout=1, seeds=(1,)))), **bad)
