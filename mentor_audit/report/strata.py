"""Strata: did responses succeed more often where the diagnosis was right? Descriptive: what is easy to diagnose is easy to rescue.

The difference is shown as it is and adjusted for an independent estimate of how hard the problem is: the success of extra samples,
which no mentor touched. What a confounder that was not measured would have to do to explain the rest away is VanderWeele and Ding's
E-value (2017, Ann. Intern. Med. 167(4)). None of this is causal; the arms are.
"""

from typing import Any

import numpy as np
import polars as pl

from mentor_audit.config import ARMS_RESAMPLING
from mentor_audit.report.data import Data, make_cells
from mentor_audit.report.statistics import Estimate, cluster_bootstrap, difference, level

MAX_BINS = 5
RIGHT, WRONG = "right", "wrong"
NOTE = (
    "Descriptive. A confounder that was not measured, tied to both a right diagnosis and a success by a risk ratio of the E-value each, "
    "could explain the adjusted difference away; a weaker one could not."
)


def strata(data: Data, seed: int) -> list[dict[str, Any]]:
    """A row a replay and auditor that called some of the mentor's diagnoses right and some wrong.

    right, wrong    responses scored, failures, success {estimate}
    unadjusted      difference of the two, an estimate clustered by problem
    adjusted        the same within bins of difficulty, weighted by all responses; None where no bin holds both
    bins            how many, with the range of each bin's difficulty (share of extra samples that were wrong, Jeffreys)
    risk_ratio, e_value, e_value_of_limit   of the adjusted difference and of the end of its interval nearest no effect; 1: it includes none.
                    The limit takes the success after wrong diagnoses as known, which makes it a little too large
    """
    frame = data.frames["replay_strata"]
    names = {run["run_id"]: run["seed"] for run in data.runs if run["arm"] == "replay"}
    found = []
    for run_id in sorted(names):
        hard = _difficulty(data, run_id)
        mine = frame.filter((pl.col("run_id") == run_id) & (pl.col("scored") > 0))
        for auditor in sorted(mine["auditor"].unique().to_list()):
            part = mine.filter(pl.col("auditor") == auditor)
            if part["is_right"].n_unique() == 2:
                found.append({"run_id": run_id, "auditor": auditor, **_strata(part, hard, names[run_id], seed)})
    return found


def e_value(risk_ratio: float) -> float:
    """Of a ratio of success chances; 1 for a ratio of 1, infinite for 0."""
    ratio = risk_ratio if risk_ratio >= 1 else (1 / risk_ratio if risk_ratio > 0 else np.inf)
    return float(ratio + np.sqrt(ratio * (ratio - 1)))


def _difficulty(data: Data, run_id: str) -> dict[str, float]:
    """Problem -> share of its extra samples that were wrong, half a success and half a failure added."""
    extra = data.frames["replay"].filter((pl.col("run_id") == run_id) & pl.col("arm").is_in(ARMS_RESAMPLING))
    sums = extra.group_by("problem_id").agg(pl.col("scored", "correct").sum())
    return {problem: 1 - (correct + 0.5) / (scored + 1) for problem, scored, correct in sums.iter_rows() if scored}


def _strata(part: pl.DataFrame, hard: dict[str, float], run_seed: int, seed: int) -> dict[str, Any]:
    sides = [RIGHT if right else WRONG for right in part["is_right"].to_list()]
    rows = list(zip(sides, part["problem_id"].to_list(), part["correct"].to_list(), part["scored"].to_list(), strict=True))
    whole = make_cells([(side, run_seed, problem, float(c), float(n)) for side, problem, c, n in rows])
    unadjusted = cluster_bootstrap(whole.of(RIGHT, WRONG), difference, np.random.default_rng([seed, 41]))
    adjusted, bins, ratio, limit = _adjusted(rows, hard, run_seed, seed)
    return {
        **{
            side: {
                "failures": sides.count(side),
                "responses": int(sum(n for s, _, _, n in rows if s == side)),
                "success": cluster_bootstrap(whole.of(side), level, np.random.default_rng([seed, 41])),
            }
            for side in (RIGHT, WRONG)
        },
        "unadjusted": unadjusted,
        "adjusted": adjusted,
        "bins": bins,
        "risk_ratio": ratio,
        "e_value": None if ratio is None else e_value(ratio),
        "e_value_of_limit": limit,
        "note": NOTE,
    }


def _adjusted(
    rows: list[tuple[str, str, int, int]], hard: dict[str, float], run_seed: int, seed: int
) -> tuple[Estimate | None, list[dict[str, Any]], float | None, float | None]:
    """(estimate, bins, risk ratio, E-value of the nearer end)."""
    known = [row for row in rows if row[1] in hard]
    if not known:
        return None, [], None, None
    levels = np.array([hard[row[1]] for row in known])
    place = _bins(levels)
    weights, kept, bins = [], [], []
    for b in range(int(place.max()) + 1):
        inside = [row for row, at in zip(known, place, strict=True) if at == b]
        if {row[0] for row in inside} == {RIGHT, WRONG}:
            kept.append(b)
            weights.append(sum(row[3] for row in inside))
            within = levels[place == b]
            bins.append({"low": float(within.min()), "high": float(within.max()), "responses": weights[-1]})
    if not kept:
        return None, [], None, None
    share_K = np.array(weights) / sum(weights)
    cells = make_cells(
        [
            (f"{side}{b}", run_seed, problem, float(c), float(n))
            for (side, problem, c, n), b in zip(known, place, strict=True)
            if b in kept
        ]
    )
    arms = [f"{side}{b}" for side in (RIGHT, WRONG) for b in kept]

    def standardised(rates_A: np.ndarray) -> np.ndarray:
        return np.asarray((rates_A[..., : len(kept)] - rates_A[..., len(kept) :]) @ share_K)

    estimate = cluster_bootstrap(cells.of(*arms), standardised, np.random.default_rng([seed, 42]))
    ordered = cells.of(*arms)
    rate_A = ordered.numerator_A_S_P.sum(axis=(1, 2)) / ordered.denominator_A_S_P.sum(axis=(1, 2))
    right, wrong = float(rate_A[: len(kept)] @ share_K), float(rate_A[len(kept) :] @ share_K)
    if wrong <= 0 or estimate.low is None or estimate.high is None:
        return estimate, bins, None, None
    nearer = estimate.low if right >= wrong else estimate.high
    crosses = (nearer <= 0) == (right >= wrong)
    return estimate, bins, right / wrong, 1.0 if crosses else e_value(max(0.0, (wrong + nearer) / wrong))


def _bins(levels: np.ndarray) -> np.ndarray:
    """The bin of each level: one a level where there are few, else at most MAX_BINS of about equal size."""
    different = np.unique(levels)
    if len(different) <= MAX_BINS:
        return np.searchsorted(different, levels)
    return np.searchsorted(np.unique(np.quantile(levels, np.linspace(0, 1, MAX_BINS + 1)[1:-1])), levels, side="left")
