"""Chance rescue: how often fresh samples would have rescued a failure anyway, from the bank's independent samples.

The number of correct ones among the n scored attempts of a group is taken as beta-binomial (Skellam 1948, J. R. Stat. Soc. B 10(2)):
problems differ in their chance of success, Beta(a, b). Given that n attempts all failed, k fresh ones hold a success with chance
1 - B(a, b+n+k) / B(a, b+n).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import minimize
from scipy.special import betaln

from mentor_audit.report.data import Data
from mentor_audit.report.replay import Replay
from mentor_audit.report.statistics import CONFIDENCE

NUM_RESAMPLES = 300
MOST_SAMPLES = 10**6
ROUNDING = 1e-9
FLAT = 1e8
"""Of a + b: beyond it problems are as good as alike."""


def chance_rescue(data: Data, replays: Sequence[Replay], seed: int) -> list[dict[str, Any]]:
    """A row a replay whose bank is in the suite.

    a, b              the fit to all groups of the bank; None: none of its attempts was correct, so that nothing can be fitted
    samples           k, the samples that resample had on the mean failure, rounded; predicted {value, low, high}: their chance rescue, over the
                      replay's failures, by a bootstrap over problems. Without a success: 0, and as a bound what one success in as many
                      attempts as there are would give with 95 % confidence (the rule of three)
    observed          resample's rescue rate in the replay, an estimate; agrees: does its interval overlap the prediction's? A coarse check: that
                      it says no means much, that it says yes little
    samples_for_mentor  least k whose chance rescue reaches the mentor's rescue rate; None: more than a million, or no fit
    """
    found = []
    bank = data.frames["bank"]
    for replay in replays:
        groups = bank.filter((pl.col("run_id") == replay.bank) & (pl.col("scored") > 0))
        arms = {arm["arm"]: arm for arm in replay.arms}
        extra = arms.get("resample_flops") or arms.get("resample")
        if groups.is_empty():
            continue
        samples = max(1, round(extra["responses"] / extra["failures"])) if extra and extra["responses"] else 1
        fitted, predicted = _predict(groups, samples, np.random.default_rng([seed, 40]))
        mentor = arms["mentor"]["rescue_rate"].value if "mentor" in arms else None
        failed = groups.filter(pl.col("correct") == 0)["scored"].to_numpy()
        found.append(
            {
                "run_id": replay.run_id,
                "bank": replay.bank,
                "groups": groups.height,
                "attempts": int(groups["scored"].sum()),
                "correct": int(groups["correct"].sum()),
                "a": None if fitted is None else fitted[0],
                "b": None if fitted is None else fitted[1],
                "samples": samples,
                "predicted": predicted,
                "observed": extra["rescue_rate"] if extra else None,
                "agrees": _agrees(predicted, extra["rescue_rate"]) if extra else None,
                "samples_for_mentor": None if fitted is None or mentor is None else samples_for(*fitted, failed, mentor),
            }
        )
    return found


def fit(
    scored: np.ndarray, correct: np.ndarray, weights: np.ndarray | None = None, near: tuple[float, float] | None = None
) -> tuple[float, float] | None:
    """(a, b) by maximum likelihood, of groups with `correct` of `scored`; None without a success or without a failure.

    `near`: where to begin, for a resample of groups that were fitted before; None: from several places.
    """
    weights = np.ones(len(scored)) if weights is None else weights
    if not (weights @ correct) or not (weights @ (scored - correct)):
        return None
    rate = float(weights @ correct / (weights @ scored))

    def loss(theta: np.ndarray) -> float:
        mean, size = 1 / (1 + np.exp(-theta[0])), np.exp(np.clip(theta[1], -20, np.log(FLAT)))
        a, b = mean * size, (1 - mean) * size
        return -float(weights @ (betaln(a + correct, b + scored - correct) - betaln(a, b)))

    sizes = (-1.0, 1.0, 4.0) if near is None else (float(np.log(min(sum(near), FLAT))),)
    starts = [np.array([np.log(rate / (1 - rate)), size]) for size in sizes]
    best = min((minimize(loss, start, method="Nelder-Mead") for start in starts), key=lambda r: float(r.fun))
    mean, size = 1 / (1 + np.exp(-best.x[0])), np.exp(np.clip(best.x[1], -20, np.log(FLAT)))
    return float(mean * size), float((1 - mean) * size)


def rescue_chance(a: float, b: float, failed: np.ndarray | float, samples: float) -> np.ndarray:
    """Chance that one of `samples` fresh samples is correct, given that all of `failed` attempts at the problem were wrong."""
    return np.asarray(1 - np.exp(betaln(a, b + failed + samples) - betaln(a, b + failed)))


def samples_for(a: float, b: float, failed: np.ndarray, target: float) -> int | None:
    """The least number of fresh samples whose mean rescue chance over failures reaches `target`; None beyond MOST_SAMPLES."""
    if target <= 0:
        return 0

    def reached(k: int) -> bool:
        return float(rescue_chance(a, b, failed, k).mean()) >= target - ROUNDING

    low, high = 0, 1
    while not reached(high):
        if high >= MOST_SAMPLES:
            return None
        low, high = high, min(2 * high, MOST_SAMPLES)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _predict(groups: pl.DataFrame, samples: int, rng: np.random.Generator) -> tuple[tuple[float, float] | None, dict[str, float]]:
    """Groups of one problem are drawn together; equal groups are counted, so that a fit sees few different ones."""
    problems = groups["problem_id"].unique(maintain_order=True).to_list()
    place = {problem: i for i, problem in enumerate(problems)}
    kinds, kind_of = np.unique(groups.select("scored", "correct").to_numpy(), axis=0, return_inverse=True)
    counts_P_K = np.zeros((len(problems), len(kinds)))
    np.add.at(counts_P_K, (np.array([place[p] for p in groups["problem_id"].to_list()]), kind_of.ravel()), 1)
    scored, correct = kinds[:, 0].astype(float), kinds[:, 1].astype(float)

    def chance(weights_K: np.ndarray, near: tuple[float, float] | None = None) -> tuple[tuple[float, float] | None, float]:
        fitted, failed_K = fit(scored, correct, weights_K, near), (correct == 0) * weights_K
        if fitted is None or not failed_K.sum():
            return fitted, 0.0
        return fitted, float(np.average(rescue_chance(*fitted, scored, samples), weights=failed_K))

    fitted, value = chance(counts_P_K.sum(axis=0))
    if fitted is None:
        bound = 1 - (1 - CONFIDENCE) ** (1 / float(counts_P_K.sum(axis=0) @ scored))
        return None, {"value": 0.0, "low": 0.0, "high": 1 - (1 - bound) ** samples}
    draws = rng.multinomial(len(problems), np.full(len(problems), 1 / len(problems)), size=NUM_RESAMPLES)
    values = [chance(draw @ counts_P_K, fitted)[1] for draw in draws]
    tail = (1 - CONFIDENCE) / 2
    return fitted, {"value": value, "low": float(np.quantile(values, tail)), "high": float(np.quantile(values, 1 - tail))}


def _agrees(predicted: dict[str, float], observed: Any) -> bool | None:
    if observed.low is None or observed.high is None:
        return None
    return bool(predicted["low"] <= observed.high and observed.low <= predicted["high"])
