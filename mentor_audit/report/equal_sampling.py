"""How much more sampling buys the same: the compute at which extra sampling reaches what the mentor reaches at the matched budget."""

from typing import Any

import numpy as np

from mentor_audit.report.curves import Curve
from mentor_audit.report.matching import at_budget, common_range
from mentor_audit.report.statistics import CONFIDENCE
from mentor_audit.report.words import number, percent

NUM_RESAMPLES = 2000
CHUNK = 100
"""Resamples at once: bounds memory."""


def equal_sampling(curves: list[Curve], extra: str, budget: float, seed: int) -> dict[str, Any] | None:
    """None without both arms on a common seed. Otherwise:

    arm, mentor_accuracy     at the matched budget
    ratio, low, high         compute at which the mean curve of `arm` first reaches that accuracy, to the budget; by straight lines, inside
                             the range in which all its runs were evaluated. None: not within it, or it can't be told
    beyond                   the largest ratio that the range covers
    never_fraction           of the resamples in which it was not reached
    reason                   why `ratio` or an end is None, in words; else None
    sentence                 all of it in words

    Seeds and problems are resampled together, the same for both arms, and each resample reads both curves anew: Owen 2007, "The pigeonhole
    bootstrap", whose intervals are wide rather than narrow. The ends are percentiles; a resample that never reaches it counts as above all.
    """
    by = {(c.arm, c.seed): c for c in curves}
    seeds = sorted({seed for arm, seed in by if arm == "mentor"} & {seed for arm, seed in by if arm == extra})
    if not seeds:
        return None
    mentor, sampled = ([by[arm, s] for s in seeds] for arm in ("mentor", extra))
    common = common_range({c.run_id: c.compute_E for c in sampled})
    if common is None:
        return None
    knots_K = np.array(sorted({float(x) for c in sampled for x in c.compute_E if common.low <= x <= common.high}))
    target_S_P = np.array([c.at(at_budget(c.compute_E, budget)) for c in mentor])
    curve_S_K_P = np.array([[c.at(at_budget(c.compute_E, x)) for x in knots_K] for c in sampled])
    y_S_J_P = np.concatenate([target_S_P[:, None], curve_S_K_P], axis=1)
    whole = _means(y_S_J_P, np.ones((1, len(seeds))), np.ones((1, y_S_J_P.shape[2])))
    ratio = float(_first_reached(whole, knots_K)[0] / budget)
    drawn_B = _resampled(y_S_J_P, knots_K, np.random.default_rng([seed, 9])) / budget
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(np.quantile(drawn_B, q, method=how)) for q, how in ((tail, "lower"), (1 - tail, "higher")))  # type: ignore[call-overload]
    beyond, never = common.high / budget, float(np.isinf(drawn_B).mean())
    found = {
        "arm": extra,
        "mentor_accuracy": float(whole[0, 0]),
        "ratio": _known(ratio),
        "low": _known(low),
        "high": _known(high),
        "beyond": beyond,
        "never_fraction": never,
        "num_seeds": len(seeds),
        "num_problems": y_S_J_P.shape[2],
        "reason": _reason(extra, ratio, high, beyond, never),
    }
    return {**found, "sentence": _sentence(found)}


def _sentence(found: dict[str, Any]) -> str:
    goal = f"what mentor reaches at the matched budget, {percent(found['mentor_accuracy'])}"
    if found["ratio"] is None:
        return f"How much more sampling buys the same ({goal}) can't be told: {found['reason']}."
    low, high = (
        number(found[end], 2) if found[end] is not None else f"above {number(found['beyond'], 2)}" for end in ("low", "high")
    )
    more = f" Only {found['num_seeds']} seed: the interval covers problems only." if found["num_seeds"] == 1 else ""
    return f"{found['arm']} buys {goal}, for {number(found['ratio'], 2)} times the budget [{low}, {high}].{more}"


def _reason(extra: str, ratio: float, high: float, beyond: float, never: float) -> str | None:
    if np.isinf(ratio):
        return f"{extra} never gets there within its range: it would take more than {number(beyond, 2)} times the budget"
    if np.isinf(high):
        return f"in {percent(never)} of the resamples {extra} never gets there, so the upper end lies beyond {number(beyond, 2)} times the budget"
    return None


def _resampled(y_S_J_P: np.ndarray, knots_K: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(B,) compute, infinite where it is never reached."""
    num_seeds, _, num_problems = y_S_J_P.shape
    found = []
    for _ in range(NUM_RESAMPLES // CHUNK):
        seeds_B_S = rng.multinomial(num_seeds, np.full(num_seeds, 1 / num_seeds), size=CHUNK).astype(float)
        problems_B_P = rng.multinomial(num_problems, np.full(num_problems, 1 / num_problems), size=CHUNK).astype(float)
        found.append(_first_reached(_means(y_S_J_P, seeds_B_S, problems_B_P), knots_K))
    return np.concatenate(found)


def _means(y_S_J_P: np.ndarray, seeds_B_S: np.ndarray, problems_B_P: np.ndarray) -> np.ndarray:
    """(B, J) weighted means of the known cells: the mentor at the budget, then the extra-sampling arm at each knot. NaN: none is known."""
    known_S_J_P = np.isfinite(y_S_J_P)
    num_seeds, num_knots, num_problems = y_S_J_P.shape

    def summed(cells_S_J_P: np.ndarray) -> np.ndarray:
        flat = problems_B_P @ cells_S_J_P.reshape(num_seeds * num_knots, num_problems).T
        return np.einsum("bs,bsj->bj", seeds_B_S, flat.reshape(-1, num_seeds, num_knots))

    top_B_J, bottom_B_J = summed(np.where(known_S_J_P, y_S_J_P, 0.0)), summed(known_S_J_P.astype(float))
    return np.divide(top_B_J, bottom_B_J, out=np.full_like(top_B_J, np.nan), where=bottom_B_J > 0)


def _first_reached(means_B_J: np.ndarray, knots_K: np.ndarray) -> np.ndarray:
    """(B,) compute where the curve first is at least the target, on straight lines between knots; infinite: nowhere."""
    target_B, curve_B_K = means_B_J[:, 0], means_B_J[:, 1:]
    above_B_K = curve_B_K >= target_B[:, None]
    right_B = above_B_K.argmax(axis=1)
    left_B = np.maximum(right_B - 1, 0)
    rows = np.arange(len(target_B))
    rise_B = curve_B_K[rows, right_B] - curve_B_K[rows, left_B]
    share_B = np.divide(target_B - curve_B_K[rows, left_B], rise_B, out=np.zeros_like(target_B), where=rise_B > 0)
    reached_B = knots_K[left_B] + share_B * (knots_K[right_B] - knots_K[left_B])
    return np.where(above_B_K.any(axis=1), reached_B, np.inf)


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
