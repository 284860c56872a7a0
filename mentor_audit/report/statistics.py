"""Statistics: pure functions of numbers. Owns intervals and tests; knows nothing of stores, arms' meaning or budgets.

Array names carry axes: A arms, S seeds, P problems, B resamples. The unit is the problem and the seed, never the rollout: attempts at
one problem by one run resemble each other, and so do all attempts of one run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy import stats

from mentor_audit.errors import ReportError
from mentor_audit.report.variance import crossed_variance

NUM_RESAMPLES = 4000
CONFIDENCE = 0.95
NUM_T_DRAWS = 100_000
COUNTS_AT_ONCE = 4_000_000
"""Problems times resamples in memory: some 100 MB."""


@dataclass(frozen=True)
class Cells:
    """What each arm did with each seed on each problem: a rate is the sum of numerators over the sum of denominators.

    numerator_A_S_P, denominator_A_S_P   floats; a denominator of 0 says that there is nothing known in that cell
    """

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    problems: tuple[str, ...]
    numerator_A_S_P: np.ndarray
    denominator_A_S_P: np.ndarray

    def of(self, *arms: str) -> "Cells":
        """These arms, in this order, on the seeds that every one of them has. Raises ReportError for an arm that isn't here."""
        for arm in arms:
            if arm not in self.arms:
                raise ReportError(f"Expected one of the arms {', '.join(self.arms)}, found {arm}. Compare arms that were run.")
        rows = np.array([self.arms.index(arm) for arm in arms])
        has_A_S = self.denominator_A_S_P[rows].sum(axis=2) > 0
        kept = np.flatnonzero(has_A_S.all(axis=0))
        return Cells(
            arms,
            tuple(self.seeds[s] for s in kept),
            self.problems,
            self.numerator_A_S_P[np.ix_(rows, kept)],
            self.denominator_A_S_P[np.ix_(rows, kept)],
        )


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty. Everything is None when there are no data; the interval and p when there is no spread to judge by.

    p is two-sided against 0. num_seeds 1: the interval covers problems only, and says nothing of other seeds.
    """

    value: float | None
    low: float | None
    high: float | None
    standard_error: float | None
    degrees_of_freedom: float | None
    p: float | None
    num_seeds: int
    num_problems: int


Statistic = Callable[[np.ndarray], np.ndarray]
"""(..., A) rates of the arms -> (...) the reported number."""


def level(rates_A: np.ndarray) -> np.ndarray:
    """The first arm's rate itself."""
    return rates_A[..., 0]


def difference(rates_A: np.ndarray) -> np.ndarray:
    """First arm minus second."""
    return rates_A[..., 0] - rates_A[..., 1]


def cluster_bootstrap(
    cells: Cells,
    statistic: Statistic,
    rng: np.random.Generator,
    num_resamples: int = NUM_RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Paired cluster bootstrap over problems and seeds, jointly over arms; every resample recomputes the whole statistic.

    Problems and seeds are crossed, so the standard error is put together from three bootstraps with common machinery: seeds
    resampled, problems resampled, and both. Resampling both counts the seed-by-problem interaction three times, each alone once
    (Owen 2007, "The pigeonhole bootstrap", Ann. Appl. Stat. 1(2)), so the variance is 2 (V_seeds + V_problems) - V_both. S - 1 of S
    seeds are drawn, which makes the variance unbiased for few seeds (Rao and Wu 1988, JASA 83(401)). The interval is Student's with
    the degrees of freedom of `variance.crossed_variance`: three seeds must not look like thirty.

    Where no problem differs from another, a bootstrap sees no spread. Then the interval reaches as far as one problem in so many could
    be different and not have been drawn with 95 % confidence: 1 - 0.05^(1/P), some 3/P (the rule of three, Hanley and Lippman-Hand 1983).
    """
    num_seeds, num_problems = len(cells.seeds), _known_problems(cells)
    if not num_seeds or not num_problems:
        return Estimate(None, None, None, None, None, None, num_seeds, num_problems)
    value = float(statistic(_whole(cells))[0])
    if not np.isfinite(value):
        return Estimate(None, None, None, None, None, None, num_seeds, num_problems)
    variances = [
        _variance(statistic(_resampled(cells, rng, num_resamples, seeds, problems)))
        for seeds, problems in ((True, False), (False, True), (True, True))
    ]
    return _estimate(value, variances, num_seeds, num_problems, confidence)


@dataclass(frozen=True)
class Joint:
    """Several contrasts from the same resamples.

    estimates       name -> estimate, each with its own interval
    simultaneous    name -> (low, high): all of these hold together with the confidence; None where a contrast has no interval
    critical        what a standard error is multiplied with; None without two contrasts that vary
    """

    estimates: dict[str, Estimate]
    simultaneous: dict[str, tuple[float, float] | None]
    critical: float | None


def joint_bootstrap(
    cells: Cells,
    contrasts: Mapping[str, tuple[str, ...]],
    rng: np.random.Generator,
    num_resamples: int = NUM_RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Joint:
    """Every contrast `name: (plus, minus)`, or rate `name: (arm,)`, as `cluster_bootstrap` has it, on the seeds that all named arms have, from the
    same draws: many numbers of many problems cost no more than one.

    The simultaneous intervals are those of the largest |t|: its critical value is simulated from the multivariate t with the
    correlation of the resampled contrasts and the smallest of their degrees of freedom (Westfall and Young 1993, "Resampling-Based
    Multiple Testing"; Hothorn, Bretz and Westfall 2008, Biometrical Journal 50(3)). They are never narrower than a contrast's own.

    Raises ReportError for an arm that isn't in `cells`.
    """
    if not contrasts:
        return Joint({}, {}, None)
    arms = tuple(dict.fromkeys(arm for pair in contrasts.values() for arm in pair))
    shared = cells.of(*arms)
    weights_A_C = np.zeros((len(arms), len(contrasts)))
    for c, pair in enumerate(contrasts.values()):
        for arm, sign in zip(pair, (1.0, -1.0), strict=False):
            weights_A_C[arms.index(arm), c] = sign
    counts = [_known_problems(shared.of(*pair)) for pair in contrasts.values()]
    num_seeds = len(shared.seeds)
    if not num_seeds:
        empty = {name: Estimate(None, None, None, None, None, None, 0, 0) for name in contrasts}
        return Joint(empty, dict.fromkeys(contrasts), None)
    value_C = _contrasted(_whole(shared), weights_A_C)[0]
    drawn = []
    for seeds, problems in ((True, False), (False, True), (True, True)):
        rates_B_A = _resampled(shared, rng, num_resamples, seeds, problems)
        drawn.append(_contrasted(rates_B_A, weights_A_C))
    estimates = {
        name: _estimate(float(value_C[c]), [_variance(d[:, c]) for d in drawn], num_seeds, counts[c], confidence)
        if np.isfinite(value_C[c])
        else Estimate(None, None, None, None, None, None, num_seeds, counts[c])
        for c, name in enumerate(contrasts)
    }
    critical = _largest_t(list(estimates.values()), drawn[2], rng, confidence)
    return Joint(estimates, {name: _simultaneous(e, critical) for name, e in estimates.items()}, critical)


def upper_bound(estimate: Estimate, confidence: float = CONFIDENCE) -> float | None:
    """One-sided: the truth lies below it with this confidence."""
    if estimate.value is None or estimate.standard_error is None or estimate.degrees_of_freedom is None:
        return None
    return estimate.value + float(stats.t.ppf(confidence, estimate.degrees_of_freedom)) * estimate.standard_error


def equivalence_p(estimate: Estimate, margin: float) -> float | None:
    """Two one-sided tests (Schuirmann 1987): small when the truth lies within -margin to +margin. None without a standard error."""
    if estimate.value is None or estimate.standard_error is None or estimate.degrees_of_freedom is None:
        return None
    if estimate.standard_error == 0:
        return 0.0 if abs(estimate.value) < margin else 1.0
    below = stats.t.sf((estimate.value + margin) / estimate.standard_error, estimate.degrees_of_freedom)
    above = stats.t.cdf((estimate.value - margin) / estimate.standard_error, estimate.degrees_of_freedom)
    return float(max(below, above))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment (1979), in the given order. None stays None and is not counted."""
    known = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    running = 0.0
    for rank, (p, i) in enumerate(known):
        running = max(running, min(1.0, (len(known) - rank) * p))
        adjusted[i] = running
    return adjusted


def mcnemar_p(only_first: int, only_second: int) -> float:
    """Exact McNemar: pairs that only one of two solved, against a fair coin. 1.0 when they never differ."""
    if only_first + only_second == 0:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second).pvalue)


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float | None:
    """Unbiased chance that one of k samples is correct (Chen et al. 2021, arXiv 2107.03374). None when there are fewer than k samples."""
    if num_samples < k:
        return None
    return 1.0 - comb(num_samples - num_correct, k) / comb(num_samples, k)


def iqm(values: Sequence[float]) -> float | None:
    """Interquartile mean, as rliable has it: the mean without the lowest and highest quarter, rounded down (Agarwal et al. 2021).

    With fewer than four values nothing is cut. None for no values.
    """
    return float(stats.trim_mean(np.asarray(values, dtype=float), 0.25)) if len(values) else None


def probability_of_improvement(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Chance that a run of the first arm beats a run of the second, ties half (Agarwal et al. 2021). None for no values."""
    if not len(first) or not len(second):
        return None
    gaps = np.asarray(first, dtype=float)[:, None] - np.asarray(second, dtype=float)[None, :]
    return float(((gaps > 0) + 0.5 * (gaps == 0)).mean())


def _estimate(value: float, variances: Sequence[float], num_seeds: int, num_problems: int, confidence: float) -> Estimate:
    """From the variances over resampled seeds, problems, and both."""
    by_seeds, by_problems, by_both = variances
    if num_seeds == 1:
        variance, freedom = by_problems, float(num_problems - 1)
    else:
        interaction = by_both - by_seeds - by_problems
        variance, freedom = crossed_variance(by_seeds, by_problems, interaction, num_seeds, num_problems)
    if freedom < 1:
        return Estimate(value, None, None, None, None, None, num_seeds, num_problems)
    quantile = float(stats.t.ppf((1 + confidence) / 2, freedom))
    error = float(np.sqrt(variance))
    if error < 1e-12:
        error = (1 - (1 - confidence) ** (1 / num_problems)) / quantile
    reach = quantile * error
    p = float(2 * stats.t.sf(abs(value) / error, freedom))
    return Estimate(value, value - reach, value + reach, error, freedom, p, num_seeds, num_problems)


def _contrasted(rates_B_A: np.ndarray, weights_A_C: np.ndarray) -> np.ndarray:
    """(B, C) weighted sums; an arm that is not known spoils only the contrasts that it is part of."""
    known = np.where(np.isfinite(rates_B_A), rates_B_A, 0.0) @ weights_A_C
    spoilt = (~np.isfinite(rates_B_A)).astype(float) @ np.abs(weights_A_C) > 0
    return np.where(spoilt, np.nan, known)


def _largest_t(estimates: Sequence[Estimate], drawn_B_C: np.ndarray, rng: np.random.Generator, confidence: float) -> float | None:
    """The quantile of the largest |t| of the contrasts that vary; None for fewer than two."""
    moving = [c for c, e in enumerate(estimates) if e.standard_error and drawn_B_C[:, c].std() > 1e-12]
    if len(moving) < 2:
        return None
    whole = drawn_B_C[:, moving][np.isfinite(drawn_B_C[:, moving]).all(axis=1)]
    if len(whole) < 2 or (whole.std(axis=0) < 1e-12).any():
        return None
    size, power = np.linalg.eigh(np.corrcoef(whole, rowvar=False))
    root = power * np.sqrt(np.clip(size, 0.0, None))
    freedom = min(e.degrees_of_freedom for e in estimates if e.standard_error and e.degrees_of_freedom is not None)
    normal_D_C = rng.standard_normal((NUM_T_DRAWS, len(moving))) @ root.T
    t_D = np.abs(normal_D_C).max(axis=1) / np.sqrt(rng.chisquare(freedom, NUM_T_DRAWS) / freedom)
    return float(np.quantile(t_D, confidence))


def _simultaneous(estimate: Estimate, critical: float | None) -> tuple[float, float] | None:
    if estimate.value is None or estimate.low is None or estimate.high is None or estimate.standard_error is None:
        return None
    reach = max((critical or 0.0) * estimate.standard_error, estimate.high - estimate.value)
    return estimate.value - reach, estimate.value + reach


def _known_problems(cells: Cells) -> int:
    return int((cells.denominator_A_S_P.sum(axis=(0, 1)) > 0).sum())


def _variance(found_B: np.ndarray) -> float:
    known = found_B[np.isfinite(found_B)]
    return float(known.var()) if len(known) > 1 else 0.0


def _whole(cells: Cells) -> np.ndarray:
    """(1, A) rates of the data as they are."""
    return _rates(cells, np.ones((1, len(cells.seeds))), np.ones((1, len(cells.problems))))


def _resampled(cells: Cells, rng: np.random.Generator, num_resamples: int, seeds: bool, problems: bool) -> np.ndarray:
    """(B, A) rates, a few resamples at a time so that memory stays bounded."""
    num_seeds, num_problems = len(cells.seeds), len(cells.problems)
    seeds_B_S = np.ones((num_resamples, num_seeds))
    if seeds and num_seeds > 1:
        seeds_B_S = _draws(rng, num_resamples, num_seeds, num_seeds - 1)
    if not problems:
        return _rates(cells, seeds_B_S, np.ones((1, num_problems)))
    chunk = max(1, COUNTS_AT_ONCE // num_problems)
    return np.concatenate(
        [
            _rates(cells, part_B_S, _draws(rng, len(part_B_S), num_problems, num_problems))
            for part_B_S in (seeds_B_S[i : i + chunk] for i in range(0, num_resamples, chunk))
        ]
    )


def _rates(cells: Cells, seeds_B_S: np.ndarray, problems_B_P: np.ndarray) -> np.ndarray:
    """(B, A) weighted rates; NaN where a resample holds nothing of an arm. `problems_B_P` may have one row for all."""
    shape = (len(cells.arms), len(cells.seeds))

    def summed(cells_A_S_P: np.ndarray) -> np.ndarray:
        over_problems = (problems_B_P @ cells_A_S_P.reshape(shape[0] * shape[1], -1).T).reshape(-1, *shape)
        return np.asarray((over_problems * seeds_B_S[:, None, :]).sum(axis=2))

    top, bottom = summed(cells.numerator_A_S_P), summed(cells.denominator_A_S_P)
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)


def _draws(rng: np.random.Generator, num_resamples: int, num_units: int, num_drawn: int) -> np.ndarray:
    """(B, units) how often each unit was drawn, with replacement."""
    drawn = rng.integers(num_units, size=(num_resamples, num_drawn)) + num_units * np.arange(num_resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=num_resamples * num_units)
    return counts.reshape(num_resamples, num_units).astype(float)
