"""Hand-worked numbers for every statistic and for the matching of budgets, and a seeded simulation of the bootstrap's error rate."""

import numpy as np
import pytest

from mentor_audit.audit.agreement import rogan_gladen
from mentor_audit.errors import ReportError
from mentor_audit.report.matching import at_budget, common_range, over_range, widest_gap
from mentor_audit.report.statistics import (
    Cells,
    Estimate,
    cluster_bootstrap,
    difference,
    equivalence_p,
    holm,
    iqm,
    joint_bootstrap,
    level,
    mcnemar_p,
    pass_at_k,
    probability_of_improvement,
    upper_bound,
)
from mentor_audit.report.variance import crossed_variance


def cells(numerator_A_S_P: np.ndarray, denominator: float = 1.0) -> Cells:
    arms, seeds, problems = numerator_A_S_P.shape
    return Cells(
        tuple("xyz"[:arms]),
        tuple(range(seeds)),
        tuple(f"p{i}" for i in range(problems)),
        numerator_A_S_P.astype(float),
        np.full(numerator_A_S_P.shape, denominator),
    )


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_one_seed_gives_the_standard_error_of_a_mean_over_problems() -> None:
    found = cluster_bootstrap(cells(np.array([[[0, 1, 1, 0]]])), level, rng(), 20_000)
    assert found.value == 0.5
    assert found.standard_error == pytest.approx(0.25, rel=0.03)  # sqrt(0.25 / 4)
    assert found.degrees_of_freedom == 3
    assert found.high == pytest.approx(0.5 + 3.182 * 0.25, rel=0.03)  # Student's t with 3 degrees of freedom


def test_the_variance_counts_seeds_problems_and_their_interaction_once_each() -> None:
    """Against the two-way formula by hand: var(seed means)/S + var(problem means)/P - var(residuals)/(SP)."""
    y_S_P = np.random.default_rng(3).normal(size=(6, 30)) + np.arange(6)[:, None] * 0.2 + np.linspace(0, 2, 30)[None, :]
    by_seed, by_problem = y_S_P.mean(axis=1), y_S_P.mean(axis=0)
    residual = y_S_P - by_seed[:, None] - by_problem[None, :] + y_S_P.mean()
    by_hand = by_seed.var(ddof=1) / 6 + by_problem.var(ddof=0) / 30 - (residual**2).sum() / (5 * 30) / 180
    found = cluster_bootstrap(cells(y_S_P[None]), level, rng(), 20_000)
    assert found.standard_error == pytest.approx(np.sqrt(by_hand), rel=0.03)


def test_seeds_that_differ_have_their_few_degrees_of_freedom() -> None:
    """F = 40 on 3 and 117 degrees of freedom: p < 1e-17, so the seeds' term counts whole."""
    variance, freedom = crossed_variance(40.0, 1.0, 1.0, 4, 40)
    assert variance == 40.0
    assert freedom == pytest.approx(40**2 / (40**2 / 3 + 1 / 39))


def test_seeds_that_hardly_differ_do_not_cost_the_degrees_of_freedom_of_problems() -> None:
    """F = 1 on 3 and 117 degrees of freedom: the seeds' term counts by 1 - p, p = 0.3956."""
    variance, freedom = crossed_variance(1.0, 1.0, 1.0, 4, 40)
    assert variance == 1.0
    assert freedom == pytest.approx(1 / ((1 - 0.3956) / 3 + 1 / 39), rel=1e-3)
    assert crossed_variance(0.2, 1.0, 1.0, 4, 40)[1] > 25  # below what the interaction makes: only problems count
    assert crossed_variance(1.0, 1.0, -0.1, 4, 40)[1] == pytest.approx(2.1**2 / (1 / 3 + 1 / 39))  # no interaction: they differ
    assert crossed_variance(0.0, 0.0, 0.0, 4, 40) == (0.0, 39.0)
    assert crossed_variance(1.0, 0.0, 0.1, 4, 1)[1] == 3.0  # one problem: seeds only


def test_what_both_arms_share_does_not_widen_their_difference() -> None:
    shared_S_P = np.random.default_rng(1).normal(size=(4, 25)) * 10
    same = cluster_bootstrap(cells(np.stack([shared_S_P, shared_S_P])), difference, rng())
    unseen = 1 - 0.05 ** (1 / 25)
    assert (same.value, same.p) == (0.0, 1.0) and (same.low, same.high) == pytest.approx((-unseen, unseen))
    shifted = cluster_bootstrap(cells(np.stack([shared_S_P + 0.5, shared_S_P])), difference, rng())
    assert (shifted.low, shifted.high) == pytest.approx((0.5 - unseen, 0.5 + unseen))


def test_without_any_spread_the_interval_is_that_of_the_rule_of_three() -> None:
    none = cluster_bootstrap(cells(np.zeros((1, 1, 100))), level, rng())
    assert none.value == 0.0 and none.high == pytest.approx(3 / 100, rel=0.02)
    assert upper_bound(none) < none.high


def test_a_rate_weighs_problems_by_their_denominators() -> None:
    one = Cells(("x",), (1,), ("a", "b"), np.array([[[1.0, 0.0]]]), np.array([[[1.0, 3.0]]]))
    assert cluster_bootstrap(one, level, rng()).value == 0.25


def test_a_cell_without_data_is_not_a_zero() -> None:
    one = Cells(("x",), (1,), ("a", "b", "c"), np.array([[[1.0, 1.0, 0.0]]]), np.array([[[1.0, 1.0, 0.0]]]))
    found = cluster_bootstrap(one, level, rng())
    assert (found.value, found.num_problems) == (1.0, 2)
    nothing = Cells(("x",), (), (), np.zeros((1, 0, 0)), np.zeros((1, 0, 0)))
    assert cluster_bootstrap(nothing, level, rng()).value is None


def test_arms_are_compared_on_the_seeds_that_both_have() -> None:
    top, bottom = np.ones((2, 3, 2)), np.ones((2, 3, 2))
    bottom[1, 0] = 0
    both = Cells(("x", "y"), (7, 8, 9), ("a", "b"), top, bottom)
    assert both.of("x", "y").seeds == (8, 9)
    assert both.of("x").seeds == (7, 8, 9)
    with pytest.raises(ReportError, match="found z"):
        both.of("z")


def test_the_same_generator_gives_the_same_interval_and_another_does_not() -> None:
    some = cells(np.random.default_rng(5).integers(0, 2, size=(2, 3, 20)))
    assert cluster_bootstrap(some, difference, rng(1)) == cluster_bootstrap(some, difference, rng(1))
    assert cluster_bootstrap(some, difference, rng(1)) != cluster_bootstrap(some, difference, rng(2))


@pytest.mark.parametrize(("num_seeds", "seed_spread", "rollouts_give"), [(5, 0.3, 0.25), (3, 0.15, 0.14)])
def test_false_positives_are_near_5_percent_where_resampling_rollouts_gives_many_more(
    num_seeds: int, seed_spread: float, rollouts_give: float
) -> None:
    """Two arms without a difference in the long run; problems differ in difficulty and in what an arm's runs learn of them."""
    generator, num_worlds, num_problems, n = np.random.default_rng(11), 400, 60, 4
    by_cluster = by_rollout = 0
    for _ in range(num_worlds):
        base_P = generator.normal(0, 1.5, num_problems)
        logits = base_P + generator.normal(0, 0.6, (2, 1, num_problems)) + generator.normal(0, seed_spread, (2, num_seeds, 1))
        correct = generator.binomial(n, 1 / (1 + np.exp(-logits)))
        found = cluster_bootstrap(cells(correct, n), difference, generator, 300)
        assert found.p is not None
        by_cluster += found.p < 0.05
        rollouts = num_seeds * num_problems * n
        rates = correct.sum(axis=(1, 2)) / rollouts
        resampled = generator.binomial(rollouts, rates[:, None], size=(2, 300)) / rollouts
        low, high = np.quantile(resampled[0] - resampled[1], [0.025, 0.975])
        by_rollout += not low <= 0 <= high
    assert 0.02 <= by_cluster / num_worlds <= 0.085
    assert by_rollout / num_worlds > rollouts_give


def test_a_real_difference_is_found() -> None:
    generator = np.random.default_rng(2)
    chance = np.array([0.6, 0.4])[:, None, None] + generator.normal(0, 0.02, (2, 5, 1))
    found = cluster_bootstrap(cells(generator.binomial(4, np.broadcast_to(chance, (2, 5, 80))), 4), difference, generator)
    assert found.low is not None and found.high is not None
    assert 0 < found.low < 0.2 < found.high


def estimate(value: float, error: float, freedom: float = 1e9) -> Estimate:
    return Estimate(value, None, None, error, freedom, None, 5, 100)


def test_equivalence_needs_both_sides() -> None:
    assert equivalence_p(estimate(0.0, 0.02), 0.05) == pytest.approx(0.00621, abs=1e-5)  # 1 - Phi(2.5)
    assert equivalence_p(estimate(0.03, 0.02), 0.05) == pytest.approx(0.15866, abs=1e-5)  # 1 - Phi(1)
    assert equivalence_p(estimate(-0.2, 0.02), 0.05) == pytest.approx(1.0)
    assert equivalence_p(estimate(0.0, 0.0), 0.05) == 0.0
    assert equivalence_p(Estimate(0.0, None, None, None, None, None, 1, 1), 0.05) is None


def test_upper_bound_is_one_sided() -> None:
    assert upper_bound(estimate(0.1, 0.02)) == pytest.approx(0.1 + 1.64485 * 0.02)
    assert upper_bound(estimate(0.1, 0.02, 2)) == pytest.approx(0.1 + 2.91999 * 0.02)


def test_holm_steps_down_and_never_decreases() -> None:
    assert holm([0.01, 0.04, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), pytest.approx(0.06)]
    assert holm([0.01, None, 0.6]) == [pytest.approx(0.02), None, pytest.approx(0.6)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_mcnemar_by_hand() -> None:
    assert mcnemar_p(1, 9) == pytest.approx(22 / 1024)  # 2 (1 + 10) / 2^10
    assert mcnemar_p(0, 0) == 1.0


def test_pass_at_k_is_unbiased_and_unknown_for_too_few_samples() -> None:
    assert pass_at_k(4, 2, 2) == pytest.approx(5 / 6)
    assert pass_at_k(4, 4, 4) == 1.0
    assert pass_at_k(4, 0, 1) == 0.0
    assert pass_at_k(3, 3, 4) is None


def test_over_runs() -> None:
    assert iqm([0, 1, 2, 3, 4, 5, 6, 100]) == 3.5
    assert iqm([0.0, 0.1, 0.8]) == pytest.approx(0.3)
    assert iqm([]) is None
    assert probability_of_improvement([1, 2, 3], [1, 1, 5]) == pytest.approx(5 / 9)
    assert probability_of_improvement([], [1]) is None


def test_rogan_gladen_corrects_a_judge() -> None:
    assert rogan_gladen(0.5, 0.9, 0.8) == pytest.approx(3 / 7)
    assert rogan_gladen(0.1, 0.9, 0.8) == 0.0
    assert np.isnan(rogan_gladen(0.5, 0.5, 0.5))


def test_a_budget_is_read_from_a_straight_line() -> None:
    assert at_budget([0, 10, 20], 15).tolist() == [0, 0.5, 0.5]
    assert at_budget([0, 10, 20], 10).tolist() == [0, 1, 0]
    assert at_budget([0, 10, 20], 20).tolist() == [0, 0, 1]
    assert at_budget([0, 10, 10, 20], 10).tolist() == [0, 0, 1, 0]  # evaluated again after a resume
    assert widest_gap([0, 10, 20], 15) == 10
    assert widest_gap([0, 10, 20], 20) == 0


@pytest.mark.parametrize("budget", [-1, 21])
def test_nothing_is_extrapolated(budget: float) -> None:
    with pytest.raises(ReportError, match="evaluated range 0 to 20"):
        at_budget([0, 10, 20], budget)


def test_the_mean_under_a_curve_is_by_trapezoids() -> None:
    curve = np.array([0.0, 1.0, 1.0])
    assert over_range([0, 10, 20], 0, 20) @ curve == pytest.approx(0.75)
    assert over_range([0, 10, 20], 5, 15) @ curve == pytest.approx((0.75 + 1) / 2)
    assert over_range([0, 10, 20], 5, 15).sum() == pytest.approx(1)


def test_the_common_range_ends_with_the_first_run_to_end() -> None:
    found = common_range({"a": np.array([0.0, 10.0]), "b": np.array([2.0, 8.0])})
    assert found is not None
    assert (found.low, found.high, found.limited_by) == (2.0, 8.0, "b")
    assert common_range({"a": np.array([0.0, 1.0]), "b": np.array([1.0, 2.0])}) is None
    assert common_range({}) is None


def test_joint_contrasts_are_those_of_the_single_bootstrap_with_wider_intervals() -> None:
    rng = np.random.default_rng(3)
    solved_A_S_P = (rng.random((4, 3, 80)) < np.array([0.2, 0.3, 0.5, 0.6])[:, None, None]).astype(float)
    cells = Cells(("a", "b", "c", "d"), (1, 2, 3), tuple(map(str, range(80))), solved_A_S_P, np.ones_like(solved_A_S_P))
    pairs = {"first": ("b", "a"), "second": ("c", "b"), "third": ("d", "c")}
    joint = joint_bootstrap(cells, pairs, np.random.default_rng(1))
    whole = cluster_bootstrap(cells.of("d", "a"), difference, np.random.default_rng(1))
    assert sum(e.value for e in joint.estimates.values()) == pytest.approx(whole.value, abs=1e-12)
    assert joint.critical is not None and joint.critical > 2.2
    for name, pair in pairs.items():
        alone = cluster_bootstrap(cells.of(*pair), difference, np.random.default_rng(1))
        assert joint.estimates[name].value == alone.value
        assert joint.estimates[name].standard_error == pytest.approx(alone.standard_error, rel=0.05)
        low, high = joint.simultaneous[name]
        assert low < joint.estimates[name].low and high > joint.estimates[name].high


def test_critical_value_of_equal_contrasts_is_students_and_of_independent_ones_sidaks() -> None:
    rng = np.random.default_rng(5)
    solved_A_S_P = (rng.random((6, 1, 4000)) < 0.5).astype(float)
    cells = Cells(tuple("abcdef"), (1,), tuple(map(str, range(4000))), solved_A_S_P, np.ones_like(solved_A_S_P))
    same = joint_bootstrap(cells, {"one": ("a", "b"), "again": ("a", "b")}, np.random.default_rng(1))
    apart = joint_bootstrap(cells, {"one": ("a", "b"), "two": ("c", "d"), "three": ("e", "f")}, np.random.default_rng(1))
    assert same.critical == pytest.approx(1.960, abs=0.02)
    assert apart.critical == pytest.approx(2.388, abs=0.02)  # normal quantile of (1 + 0.95 ** (1 / 3)) / 2


def test_joint_contrasts_without_data_are_not_known() -> None:
    cells = Cells(
        ("a", "b"), (1, 2), ("p",), np.array([[[1.0], [0.0]], [[0.0], [1.0]]]), np.array([[[1.0], [0.0]], [[0.0], [1.0]]])
    )
    joint = joint_bootstrap(cells, {"never": ("a", "b")}, np.random.default_rng(1))
    assert joint.estimates["never"].value is None and joint.simultaneous["never"] is None and joint.critical is None
    assert joint_bootstrap(cells, {}, np.random.default_rng(1)).estimates == {}
