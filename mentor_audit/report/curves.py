"""Curves: a run's held-out accuracy over what it had spent, and an arm's mean of them with its band.

Owns which runs can be placed on a curve, and says why the others can't.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from mentor_audit.config import RANDOMISED
from mentor_audit.records import RUNS_WITHOUT_TRAINING
from mentor_audit.report.data import Data
from mentor_audit.report.matching import UNITS, at_budget, common_range
from mentor_audit.report.statistics import CONFIDENCE
from mentor_audit.report.variance import interval


@dataclass(frozen=True)
class Curve:
    """A run's held-out evaluations in the order of what it had spent. Arrays: E evaluations, P problems."""

    run_id: str
    arm: str
    seed: int
    steps_E: np.ndarray
    compute_E: np.ndarray
    correct_E_P: np.ndarray
    scored_E_P: np.ndarray
    samples_E_P: np.ndarray

    @property
    def accuracy_E(self) -> np.ndarray:
        """Mean over problems of the share correct among scored samples."""
        return np.nanmean(share(self.correct_E_P, self.scored_E_P), axis=1)

    def at(self, weights_E: np.ndarray) -> np.ndarray:
        """(P,) accuracy by problem, evaluations weighted; NaN where one that carries weight has no verdict."""
        return weighted(weights_E, share(self.correct_E_P, self.scored_E_P))


@dataclass(frozen=True)
class Point:
    """Of a mean curve, with its pointwise 95 % band over problems and seeds; low and high None: too few problems."""

    compute: float
    accuracy: float
    low: float | None
    high: float | None


def curves_of(data: Data, unit: str) -> tuple[list[Curve], dict[str, str], list[str]]:
    """(curves of the runs that can be compared, why others can't, the held-out problems that all of them were given).

    Runs that train nothing are neither compared nor left out.
    """
    left_out = dict(data.left_out)
    spent: dict[str, list[tuple[float, int, int]]] = {}
    runs = [run for run in data.runs if run["arm"] not in RUNS_WITHOUT_TRAINING]
    for run in runs:
        rows = data.frames["evaluations"].filter(pl.col("run_id") == run["run_id"]).to_dicts()
        if run["arm"] == RANDOMISED:
            left_out[run["run_id"]] = "each of its groups drew its own arm, so its policy stands for none"
        elif len(rows) < 2:
            left_out[run["run_id"]] = f"{len(rows)} held-out evaluation{'s' if len(rows) != 1 else ''}; a curve needs two"
        elif any(row[unit] is None for row in rows):
            left_out[run["run_id"]] = f"its {UNITS[unit]} are not known: a model of unknown size was called"
        else:
            spent[run["run_id"]] = sorted((row[unit], row["launch"], row["step"]) for row in rows)
    heldout = data.frames["heldout"].filter(pl.col("run_id").is_in(list(spent)))
    problems = _given_to_all(heldout)
    return [_curve(run, spent[run["run_id"]], heldout, problems) for run in runs if run["run_id"] in spent], left_out, problems


def _given_to_all(heldout: pl.DataFrame) -> list[str]:
    evaluations = heldout.select("run_id", "launch", "step").n_unique()
    times = heldout.group_by("problem_id").len()
    return sorted(times.filter(pl.col("len") == evaluations)["problem_id"])


def _curve(run: dict[str, Any], evaluations: list[tuple[float, int, int]], heldout: pl.DataFrame, problems: list[str]) -> Curve:
    order = pl.DataFrame(
        [(launch, step, i) for i, (_, launch, step) in enumerate(evaluations)],
        schema={"launch": pl.Int64, "step": pl.Int64, "e": pl.Int64},
        orient="row",
    )
    places = pl.DataFrame({"problem_id": problems, "p": range(len(problems))}, schema={"problem_id": pl.String, "p": pl.Int64})
    mine = heldout.filter(pl.col("run_id") == run["run_id"]).with_columns(pl.col("launch", "step").cast(pl.Int64))
    mine = mine.join(order, on=["launch", "step"]).join(places, on="problem_id")
    counts = np.zeros((3, len(evaluations), len(problems)))
    counted = mine.select("correct", scored=pl.col("correct") + pl.col("incorrect"), samples="samples")
    for i, column in enumerate(counted.get_columns()):
        counts[i, mine["e"].to_numpy(), mine["p"].to_numpy()] = column.to_numpy()
    compute_E, steps_E = np.array([spent for spent, _, _ in evaluations]), np.array([step for _, _, step in evaluations])
    return Curve(run["run_id"], run["arm"], run["seed"], steps_E, compute_E, *counts)


def mean_curve(curves: list[Curve]) -> list[tuple[float, float]]:
    """(compute, mean accuracy over the runs of one arm) where all of them were evaluated, without extrapolation."""
    return [(point.compute, point.accuracy) for point in band(curves)]


def band(curves: list[Curve]) -> list[Point]:
    """The mean curve of one arm's runs, at every evaluation of any of them where all were evaluated; nothing is extrapolated."""
    common = common_range({c.run_id: c.compute_E for c in curves})
    if common is None:
        return []
    points = []
    for x in sorted({float(x) for c in curves for x in c.compute_E if common.low <= x <= common.high}):
        weights = [at_budget(c.compute_E, x) for c in curves]
        y = float(np.mean([weighted(w, c.accuracy_E[:, None])[0] for c, w in zip(curves, weights, strict=True)]))
        if np.isfinite(y):
            ends = interval(np.array([c.at(w) for c, w in zip(curves, weights, strict=True)]), CONFIDENCE)
            points.append(Point(x, y, *(ends or (None, None))))
    return points


def no_overlap(curves: list[Curve], unit: str) -> str:
    arms = list(dict.fromkeys(c.arm for c in curves))
    spans = "; ".join(
        f"{arm} {min(c.compute_E[0] for c in curves if c.arm == arm):.3g} to {max(c.compute_E[-1] for c in curves if c.arm == arm):.3g}"
        for arm in arms
    )
    return f"the budgets don't overlap: evaluated {UNITS[unit]} were {spans}, and nothing is extrapolated"


def share(top_E_P: np.ndarray, bottom_E_P: np.ndarray) -> np.ndarray:
    return np.divide(top_E_P, bottom_E_P, out=np.full(top_E_P.shape, np.nan), where=bottom_E_P > 0)


def weighted(weights_E: np.ndarray, y_E_P: np.ndarray) -> np.ndarray:
    """(P,) only the evaluations that carry weight are asked for a value."""
    used = weights_E > 0
    return np.asarray(weights_E[used] @ y_E_P[used])
