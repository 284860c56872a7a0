"""Matching arms on compute: accuracy as a curve over what a run had spent, compared inside the range that all runs reached.

Straight lines between evaluations, nothing beyond the first or the last. Both the value at a budget and the area under the curve are
weighted sums of a run's evaluations, so that they can be taken problem by problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mentor_audit.errors import ReportError

UNITS = {"flops": "FLOPs", "tokens": "tokens", "seconds": "seconds"}
"""What arms can be matched on, and how it is written. Seconds are wall time: they compare arms only where the machine was the same and
nothing else ran on it."""
FRACTIONS = (0.25, 0.5, 0.75, 1.0)
"""Of the common range, where accuracies are put side by side."""


@dataclass(frozen=True)
class CommonRange:
    """Compute that every run covers with evaluations. `limited_by` is the run that ends it."""

    low: float
    high: float
    limited_by: str


def common_range(compute: dict[str, np.ndarray]) -> CommonRange | None:
    """Of each run's evaluated compute, ascending. None when the ranges share less than an interval, or there is no run."""
    if not compute:
        return None
    low = max(float(spent_E[0]) for spent_E in compute.values())
    limited_by = min(compute, key=lambda run: (float(compute[run][-1]), run))
    high = float(compute[limited_by][-1])
    return CommonRange(low, high, limited_by) if high > low else None


def matched_points(common: CommonRange) -> dict[float, float]:
    """Fraction of the common range -> compute."""
    return {fraction: common.low + fraction * (common.high - common.low) for fraction in FRACTIONS[:-1]} | {
        FRACTIONS[-1]: common.high
    }


def at_budget(compute_E: Sequence[float] | np.ndarray, budget: float) -> np.ndarray:
    """(E,) weights that sum to 1: the straight line between the two evaluations around `budget`.

    `compute_E` ascends; of equal entries the last counts. Raises ReportError outside the evaluated range: nothing is extrapolated.
    """
    spent = np.asarray(compute_E, dtype=float)
    if not spent[0] <= budget <= spent[-1]:
        raise ReportError(
            f"Expected a budget within the evaluated range {spent[0]:g} to {spent[-1]:g}, found {budget:g}. Compare at a budget that every "
            "run reached."
        )
    weights = np.zeros(len(spent))
    right = int(np.searchsorted(spent, budget, side="right")) - 1
    weights[right] = 1.0
    if right + 1 < len(spent):
        share = (budget - spent[right]) / (spent[right + 1] - spent[right])
        weights[right], weights[right + 1] = 1 - share, share
    return weights


def over_range(compute_E: Sequence[float] | np.ndarray, low: float, high: float) -> np.ndarray:
    """(E,) weights that sum to 1: the mean height of the curve from `low` to `high`, by trapezoids."""
    spent = np.asarray(compute_E, dtype=float)
    knots = np.unique(np.concatenate([[low], spent[(spent > low) & (spent < high)], [high]]))
    weights = np.zeros(len(spent))
    for left, right in pairwise(knots):
        weights += (right - left) / 2 * (at_budget(spent, left) + at_budget(spent, right))
    return weights / (high - low)


def widest_gap(compute_E: Sequence[float] | np.ndarray, budget: float) -> float:
    """Compute between the evaluations that a value at `budget` is read between; 0 when one stands at the budget itself."""
    spent = np.asarray(compute_E, dtype=float)
    used = spent[at_budget(spent, budget) > 0]
    return float(used[-1] - used[0])
