"""Where the spread of a paired difference comes from: variance components by analysis of variance, and the power that they leave.

Pure functions of numbers. Array names: S seeds, P problems. A component that comes out negative is 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Nested:
    """Variance of the difference of two arms on one failure: between problems, between failures of a problem, and of single responses.

    failure    without the responses' part where `response` is known, with it where that is None
    response   of one response of each arm; None: no failure has two scored responses of both arms
    """

    problem: float
    failure: float
    response: float | None
    num_problems: int
    num_failures: int

    def error(self, problems: int, failures: int, responses: int) -> float:
        """Standard error of the mean difference over `problems`, with that many failures each and that many responses a failure."""
        return float(np.sqrt((self.problem + (self.failure + (self.response or 0.0) / responses) / failures) / problems))


@dataclass(frozen=True)
class Crossed:
    """Variance of the difference of two arms' held-out accuracies: between seeds, between problems, of both together, of single samples.

    both       without the samples' part where `sample` is known, with it where that is None
    sample     of one sample of each arm; None: the pilot drew one sample a problem
    """

    seed: float
    problem: float
    both: float
    sample: float | None
    num_seeds: int
    num_problems: int

    def error(self, seeds: int, problems: int, samples: int) -> tuple[float, float]:
        """(standard error, degrees of freedom) of the mean difference, as `statistics.cluster_bootstrap` estimates them."""
        cell = self.both + (self.sample or 0.0) / samples
        by_seeds, by_problems = (self.seed + cell / problems) / seeds, (self.problem + cell / seeds) / problems
        variance, freedom = crossed_variance(by_seeds, by_problems, cell / (seeds * problems), seeds, problems)
        return float(np.sqrt(variance)), freedom

    def seed_at_most(self, samples: int) -> float:
        """Standard deviation between seeds that the pilot's own spread of seeds, with so many samples, leaves possible; see underestimated."""
        cell = (self.both + (self.sample or 0.0) / samples) / self.num_problems
        return float(np.sqrt(underestimated(self.num_seeds - 1) * (self.seed + cell) - cell))


def crossed_variance(by_seeds: float, by_problems: float, interaction: float, seeds: int, problems: int) -> tuple[float, float]:
    """(variance, degrees of freedom) of a mean over crossed seeds and problems, two of each at least.

    The arguments are mean squares over S P: of seeds and of problems, which both hold the interaction, and of the interaction. The variance
    is seeds + problems - interaction, and no less than either. Satterthwaite's degrees of freedom (1946, Biometrics Bulletin 2(6)),
    variance^2 / (seeds^2 / (S-1) + problems^2 / (P-1)), are right where seeds differ. Where they don't, they are too few, since "no less than"
    has paid for the noise of few seeds already. So the seeds' term counts by how sure it is that seeds differ: one minus the p of the
    F test of seeds against the interaction. `benchmarks/crossed.py` has how often the intervals hold.
    """
    variance = max(by_seeds + by_problems - interaction, by_seeds, by_problems)
    differ = 1.0
    if interaction > 0 and problems > 1:
        differ = float(stats.f.cdf(by_seeds / interaction, seeds - 1, (seeds - 1) * (problems - 1)))
    parts = differ * by_seeds**2 / (seeds - 1) + by_problems**2 / max(problems - 1, 1)
    return variance, max(variance**2 / parts, 1.0) if parts > 0 else float(problems - 1)


def nested(problem_N: Sequence[str], correct_N_2: np.ndarray, scored_N_2: np.ndarray) -> Nested:
    """Of N failures that both arms answered, from each arm's responses: unbalanced one-way analysis of variance of the differences.

    Searle, Casella and McCulloch 1992, "Variance components", 3.6: failures within problems. Where every problem has one failure the two
    can't be told apart, and all of it is counted as the problem's: more failures of a problem then spare nothing. Expects two problems.
    """
    rate_N_2 = correct_N_2 / scored_N_2
    difference_N = rate_N_2[:, 0] - rate_N_2[:, 1]
    _, place_N, failures_P = np.unique(np.asarray(problem_N), return_inverse=True, return_counts=True)
    num_failures, num_problems = len(difference_N), len(failures_P)
    mean_P = np.bincount(place_N, difference_N) / failures_P
    between = float(failures_P @ (mean_P - difference_N.mean()) ** 2) / (num_problems - 1)
    size = (num_failures - float((failures_P**2).sum()) / num_failures) / (num_problems - 1)
    if num_failures == num_problems:
        within, problem = 0.0, between
    else:
        within = float(((difference_N - mean_P[place_N]) ** 2).sum()) / (num_failures - num_problems)
        problem = max(0.0, (between - within) / size)
    response_2 = [_bernoulli_variance(correct_N_2[:, arm], scored_N_2[:, arm]) for arm in (0, 1)]
    if response_2[0] is None or response_2[1] is None:
        return Nested(problem, within, None, num_problems, num_failures)
    measured = sum(
        float((variance / scored_N_2[:, arm]).mean()) for arm, variance in enumerate(response_2) if variance is not None
    )
    if num_failures == num_problems:
        problem = max(0.0, problem - measured)
    return Nested(problem, max(0.0, within - measured), response_2[0] + response_2[1], num_problems, num_failures)


def crossed(difference_S_P: np.ndarray, sample: float | None, measured: float) -> Crossed:
    """Two-way analysis of variance without replication (Searle, Casella and McCulloch 1992, 4.3) of complete cells; two of each at least.

    sample     variance of one sample of each arm, None when not known; measured: the part of a cell's variance that samples make
    """
    num_seeds, num_problems = difference_S_P.shape
    mean_S, mean_P, mean = difference_S_P.mean(axis=1), difference_S_P.mean(axis=0), difference_S_P.mean()
    rest = difference_S_P - mean_S[:, None] - mean_P[None, :] + mean
    residual = float((rest**2).sum()) / ((num_seeds - 1) * (num_problems - 1))
    seed = max(0.0, float(mean_S.var(ddof=1)) - residual / num_problems)
    problem = max(0.0, float(mean_P.var(ddof=1)) - residual / num_seeds)
    return Crossed(seed, problem, residual if sample is None else max(0.0, residual - measured), sample, num_seeds, num_problems)


def interval(y_S_P: np.ndarray, confidence: float) -> tuple[float, float] | None:
    """Of the mean over seeds and problems, both drawn at random: Student's, from the components. NaN cells: their problem is left out.

    One seed: over problems only. None for fewer than two problems.
    """
    known = y_S_P[:, np.isfinite(y_S_P).all(axis=0)]
    if known.shape[1] < 2:
        return None
    if len(known) == 1:
        error, freedom = float(known.std(ddof=1)) / np.sqrt(known.shape[1]), float(known.shape[1] - 1)
    else:
        error, freedom = crossed(known, None, 0.0).error(len(known), known.shape[1], 1)
    reach = float(stats.t.ppf((1 + confidence) / 2, freedom)) * error
    mean = float(np.nanmean(y_S_P))
    return mean - reach, mean + reach


def power_of(effect: float, error: float, freedom: float, alpha: float) -> float:
    """Chance that a two-sided t test at `alpha` finds a true difference `effect`: the noncentral t distribution.

    Cohen 1988, "Statistical power analysis", 2; with problems as clusters as in Donner and Klar 2000, "Cluster randomization trials", 5.
    """
    if error == 0:
        return 1.0
    critical = float(stats.t.ppf(1 - alpha / 2, freedom))
    return float(stats.nct.sf(critical, freedom, effect / error) + stats.nct.cdf(-critical, freedom, effect / error))


def underestimated(freedom: int) -> float:
    """How many times larger a variance may be than its estimate on so few degrees of freedom, with 80 % confidence.

    Browne 1995, "On the use of a pilot sample for sample size determination", Stat. Med. 14(17).
    """
    return float(freedom / stats.chi2.ppf(0.2, freedom))


def _bernoulli_variance(correct_N: np.ndarray, scored_N: np.ndarray) -> float | None:
    """Unbiased variance of one response within a failure, over failures with two; None without any."""
    several = scored_N > 1
    if not several.any():
        return None
    rate_N = correct_N[several] / scored_N[several]
    return float((rate_N * (1 - rate_N) * scored_N[several] / (scored_N[several] - 1)).mean())
