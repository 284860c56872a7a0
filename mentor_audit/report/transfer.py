"""Transfer: held-out accuracy without any instruction, arms compared at equal training compute.

Owns the matched budget and what is read at it. Curves are curves.py's part, differences between arms contrasts.py's; what follows from them
is verdict.py's.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from mentor_audit.report.contrasts import MARGIN, Contrast, contrasts_of, estimate_of, steps_of
from mentor_audit.report.curves import Curve, Point, band, curves_of, mean_curve, no_overlap, share, weighted
from mentor_audit.report.data import Data, make_cells
from mentor_audit.report.equal_sampling import equal_sampling
from mentor_audit.report.ladder import BESIDE, MAIN, ladder
from mentor_audit.report.matching import CommonRange, at_budget, common_range, matched_points, over_range, widest_gap
from mentor_audit.report.statistics import (
    Cells,
    iqm,
    mcnemar_p,
    pass_at_k,
    probability_of_improvement,
)


@dataclass(frozen=True)
class Transfer:
    """`budget` None: nothing can be compared, `refusal` says why.

    decomposition    steps that add up from vanilla to mentor, on the seeds that all of their arms have
    trajectory       steps that add up from placebo to mentor by the shuffled arms; empty without them
    bands            arm -> points of its mean curve with a pointwise 95 % band, see curves.band
    matched          arm, fraction of the common range, compute, accuracy
    equal_sampling   see equal_sampling.equal_sampling; None without the arms for it
    """

    unit: str
    curves: list[Curve]
    left_out: dict[str, str]
    problems: list[str]
    common: CommonRange | None
    budget: float | None
    refusal: str | None
    arms: list[dict[str, Any]] = field(default_factory=list)
    decomposition: list[Contrast] = field(default_factory=list)
    contrasts: list[Contrast] = field(default_factory=list)
    pass_at_k: list[dict[str, Any]] = field(default_factory=list)
    pairs: list[dict[str, Any]] = field(default_factory=list)
    bands: dict[str, list[Point]] = field(default_factory=dict)
    matched: list[dict[str, Any]] = field(default_factory=list)
    equal_sampling: dict[str, Any] | None = None
    trajectory: list[Contrast] = field(default_factory=list)

    def contrast(self, name: str) -> Contrast | None:
        return next((c for c in self.contrasts if c.name == name), None)


def compare(data: Data, unit: str, seed: int) -> Transfer:
    """Every comparison that the arms and evaluations in the store allow. `unit` is a key of matching.UNITS."""
    curves, left_out, problems = curves_of(data, unit)
    common = common_range({c.run_id: c.compute_E for c in curves})
    if not curves:
        reasons = sorted(set(left_out.values()))
        why = (
            f"no run can be placed on a curve ({'; '.join(reasons)})" if reasons else "no run was evaluated on held-out problems"
        )
        return Transfer(unit, curves, left_out, problems, None, None, why)
    if common is None:
        return Transfer(unit, curves, left_out, problems, None, None, no_overlap(curves, unit), bands=_bands(curves))
    if not problems:
        return Transfer(unit, curves, left_out, problems, common, None, "no held-out problem was given to every run")
    budget = common.high
    at = {c.run_id: at_budget(c.compute_E, budget) for c in curves}
    over = {c.run_id: over_range(c.compute_E, common.low, common.high) for c in curves}
    end, area = _cells(curves, problems, at), _cells(curves, problems, over)
    extra = resample_arm(end.arms, unit)
    beside = ladder(end.arms, BESIDE, "placebo") if {"shuffled_other", "shuffled_same"} & set(end.arms) else []
    return Transfer(
        unit,
        curves,
        left_out,
        problems,
        common,
        budget,
        None,
        _arms(curves, problems, end, area, at, budget, seed),
        steps_of(ladder(end.arms, MAIN, "vanilla", extra), end, area, seed),
        contrasts_of(end, area, extra, seed),
        _pass_at_k(curves, problems, at, seed),
        _pairs(data, curves, budget, unit),
        _bands(curves),
        _matched(curves, problems, common, seed),
        equal_sampling(curves, extra, budget, seed),
        steps_of(beside, end, area, seed),
    )


def resample_arm(arms: tuple[str, ...] | list[str], unit: str) -> str:
    """The extra-sampling arm whose samples were matched in this unit, or the other one where only that was run."""
    order = ("resample_flops", "resample") if unit == "flops" else ("resample", "resample_flops")
    return next((arm for arm in order if arm in arms), "resample")


def _bands(curves: list[Curve]) -> dict[str, list[Point]]:
    return {arm: band([c for c in curves if c.arm == arm]) for arm in dict.fromkeys(c.arm for c in curves)}


def _matched(curves: list[Curve], problems: list[str], common: CommonRange, seed: int) -> list[dict[str, Any]]:
    """Every arm's accuracy along the common range, its last point being the matched budget."""
    found = []
    for fraction, compute in matched_points(common).items():
        cells = _cells(curves, problems, {c.run_id: at_budget(c.compute_E, compute) for c in curves})
        found += [
            {"arm": arm, "fraction": fraction, "compute": compute, "accuracy": estimate_of(cells, (arm,), [seed, 1])}
            for arm in cells.arms
        ]
    return found


def _cells(curves: list[Curve], problems: list[str], weights: dict[str, np.ndarray]) -> Cells:
    """A cell is the weighted sum of a run's accuracies on one problem; unknown where an evaluation that it needs has no verdict."""
    rows = []
    for curve in curves:
        y_P = curve.at(weights[curve.run_id])
        rows += [(curve.arm, curve.seed, p, float(y), 1.0) for p, y in zip(problems, y_P, strict=True) if np.isfinite(y)]
    return make_cells(rows)


def _arms(
    curves: list[Curve], problems: list[str], end: Cells, area: Cells, at: dict[str, np.ndarray], budget: float, seed: int
) -> list[dict[str, Any]]:
    by_seed = {arm: _by_seed(end, arm) for arm in end.arms}
    found = []
    for arm in end.arms:
        mine = [c for c in curves if c.arm == arm]
        as_wrong = [weighted(at[c.run_id], share(c.correct_E_P, c.samples_E_P)) for c in mine]
        samples = sum(float(c.samples_E_P[-1].sum()) for c in mine)
        scored = sum(float(c.scored_E_P[-1].sum()) for c in mine)
        found.append(
            {
                "arm": arm,
                "seeds": [c.seed for c in mine],
                "accuracy": estimate_of(end, (arm,), [seed, 1]),
                "area": estimate_of(area, (arm,), [seed, 2]),
                "by_seed": by_seed[arm],
                "iqm": iqm(list(by_seed[arm].values())),
                "mentor_beats_it": probability_of_improvement(list(by_seed["mentor"].values()), list(by_seed[arm].values()))
                if "mentor" in by_seed and arm != "mentor"
                else None,
                "accuracy_unscored_as_wrong": _mean(np.concatenate(as_wrong)),
                "unscored_fraction_at_end": 1 - scored / samples if samples else None,
                "accuracy_at_start": _mean(np.array([c.accuracy_E[0] for c in mine])),
                "accuracy_at_end": _mean(np.array([c.accuracy_E[-1] for c in mine])),
                "compute_at_end": _mean(np.array([c.compute_E[-1] for c in mine])),
                "steps_at_budget": _mean(np.array([at[c.run_id] @ c.steps_E for c in mine])),
                "widest_gap": max(widest_gap(c.compute_E, budget) for c in mine),
            }
        )
    return found


def _pass_at_k(curves: list[Curve], problems: list[str], at: dict[str, np.ndarray], seed: int) -> list[dict[str, Any]]:
    """At the matched budget, for powers of two up to the samples that were drawn. Problems with fewer scored samples are unknown."""
    most = int(max((c.samples_E_P.max(initial=0) for c in curves), default=0))
    found = []
    for k in [k for k in (2, 4, 8, 16, 32, 64) if k <= most]:
        rows = []
        for curve in curves:
            pairs = zip(curve.scored_E_P.ravel(), curve.correct_E_P.ravel(), strict=True)
            y = np.array([np.nan if (v := pass_at_k(int(n), int(c), k)) is None else v for n, c in pairs])
            y_P = weighted(at[curve.run_id], y.reshape(curve.scored_E_P.shape))
            rows += [(curve.arm, curve.seed, p, float(v), 1.0) for p, v in zip(problems, y_P, strict=True) if np.isfinite(v)]
        cells = make_cells(rows)
        found += [{"arm": arm, "k": k, "pass": estimate_of(cells, (arm,), [seed, 3])} for arm in cells.arms]
    return found


def _pairs(data: Data, curves: list[Curve], budget: float, unit: str) -> list[dict[str, Any]]:
    """Mentor's run against resample's, seed by seed: the first sample of each problem at the last evaluation within the budget."""
    runs = {(c.arm, c.seed): c for c in curves}
    extra = resample_arm([c.arm for c in curves], unit)
    found = []
    for (arm, seed), first in sorted(runs.items()):
        second = runs.get((extra, seed))
        if arm != "mentor" or second is None:
            continue
        one, other = _first_samples(data, first, budget), _first_samples(data, second, budget)
        both = one.keys() & other.keys()
        only_first = sum(one[p] and not other[p] for p in both)
        only_second = sum(other[p] and not one[p] for p in both)
        found.append(
            {
                "seed": seed,
                "first": first.run_id,
                "second": second.run_id,
                "problems": len(both),
                "only_first": only_first,
                "only_second": only_second,
                "p": mcnemar_p(only_first, only_second),
            }
        )
    return found


def _first_samples(data: Data, curve: Curve, budget: float) -> dict[str, bool]:
    step = int(curve.steps_E[np.flatnonzero(curve.compute_E <= budget)[-1]])
    part = data.frames["heldout"].filter((pl.col("run_id") == curve.run_id) & (pl.col("step") == step))
    rows = part.sort("launch").select("problem_id", "first_is_correct").iter_rows()
    return {problem: correct for problem, correct in rows if correct is not None}


def _by_seed(cells: Cells, arm: str) -> dict[int, float]:
    mine = cells.of(arm)
    rates = mine.numerator_A_S_P[0].sum(axis=1) / mine.denominator_A_S_P[0].sum(axis=1)
    return {seed: float(rate) for seed, rate in zip(mine.seeds, rates, strict=True)}


def _mean(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


__all__ = ["MARGIN", "Contrast", "Curve", "Transfer", "compare", "curves_of", "mean_curve", "resample_arm"]
