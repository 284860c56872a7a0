"""Statistics: pure functions of numbers. Owns intervals and tests; knows nothing of stores, arms' meaning or budgets.

Array names carry axes: A arms, S seeds, P problems, B resamples. The unit is the problem and the seed, never the rollout: attempts at
one problem by one run resemble each other, and so do all attempts of one run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy import stats

from mentor_audit.errors import ReportError

NUM_RESAMPLES = 4000
CONFIDENCE = 0.95


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
    Satterthwaite's degrees of freedom, from S - 1 and P - 1: three seeds must not look like thirty.
    """
    num_seeds, num_problems = len(cells.seeds), int((cells.denominator_A_S_P.sum(axis=(0, 1)) > 0).sum())
    if not num_seeds or not num_problems:
        return Estimate(None, None, None, None, None, None, num_seeds, num_problems)
    value = float(statistic(_rates(cells, np.ones((1, num_seeds)), np.ones((1, len(cells.problems)))))[0])
    if not np.isfinite(value):
        return Estimate(None, None, None, None, None, None, num_seeds, num_problems)
    by_seeds, by_problems, by_both = (
        _variance(cells, statistic, rng, num_resamples, seeds, problems)
        for seeds, problems in ((True, False), (False, True), (True, True))
    )
    if num_seeds == 1:
        variance, freedom = by_problems, float(num_problems - 1)
    else:
        variance = max(2 * (by_seeds + by_problems) - by_both, by_seeds, by_problems)
        parts = by_seeds**2 / (num_seeds - 1) + by_problems**2 / max(num_problems - 1, 1)
        freedom = (by_seeds + by_problems) ** 2 / parts if parts > 0 else float(num_problems - 1)
    if freedom < 1:
        return Estimate(value, None, None, None, None, None, num_seeds, num_problems)
    error = float(np.sqrt(variance))
    if error < 1e-12:
        return Estimate(value, value, value, 0.0, freedom, 1.0 if abs(value) < 1e-12 else 0.0, num_seeds, num_problems)
    reach = float(stats.t.ppf((1 + confidence) / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(value) / error, freedom))
    return Estimate(value, value - reach, value + reach, error, freedom, p, num_seeds, num_problems)


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


def rogan_gladen(apparent: float, sensitivity: float, specificity: float) -> float | None:
    """The true rate behind a rate that a judge of known error saw (Rogan and Gladen 1978), kept in 0 to 1.

    None when sensitivity + specificity <= 1: such a judge tells nothing.
    """
    if sensitivity + specificity <= 1:
        return None
    return float(np.clip((apparent + specificity - 1) / (sensitivity + specificity - 1), 0.0, 1.0))


def _variance(
    cells: Cells, statistic: Statistic, rng: np.random.Generator, num_resamples: int, seeds: bool, problems: bool
) -> float:
    num_seeds, num_problems = len(cells.seeds), len(cells.problems)
    seeds_B_S, problems_B_P = np.ones((num_resamples, num_seeds)), np.ones((num_resamples, num_problems))
    if seeds and num_seeds > 1:
        seeds_B_S = _draws(rng, num_resamples, num_seeds, num_seeds - 1)
    if problems:
        problems_B_P = _draws(rng, num_resamples, num_problems, num_problems)
    found = statistic(_rates(cells, seeds_B_S, problems_B_P))
    found = found[np.isfinite(found)]
    return float(found.var()) if len(found) > 1 else 0.0


def _rates(cells: Cells, seeds_B_S: np.ndarray, problems_B_P: np.ndarray) -> np.ndarray:
    """(B, A) weighted rates; NaN where a resample holds nothing of an arm."""
    rates = np.empty((len(seeds_B_S), len(cells.arms)))
    for a in range(len(cells.arms)):
        top = ((seeds_B_S @ cells.numerator_A_S_P[a]) * problems_B_P).sum(axis=1)
        bottom = ((seeds_B_S @ cells.denominator_A_S_P[a]) * problems_B_P).sum(axis=1)
        rates[:, a] = np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)
    return rates


def _draws(rng: np.random.Generator, num_resamples: int, num_units: int, num_drawn: int) -> np.ndarray:
    """(B, units) how often each unit was drawn, with replacement."""
    drawn = rng.integers(num_units, size=(num_resamples, num_drawn)) + num_units * np.arange(num_resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=num_resamples * num_units)
    return counts.reshape(num_resamples, num_units).astype(float)
