"""Randomised training: arms compared on the failed groups of runs in which every failed group drew its own arm.

A group counts with the inverse of its arm's recorded chance (Hajek's estimator, 1971; Horvitz and Thompson 1952 without its
normalisation), so arms are compared on the same population of failures although some were drawn more often.
"""

from typing import Any

import numpy as np
import polars as pl

from mentor_audit.config import RANDOMISED
from mentor_audit.report.contrasts import NOTHING
from mentor_audit.report.data import Data, make_cells
from mentor_audit.report.ladder import isolates, pairs
from mentor_audit.report.statistics import holm, joint_bootstrap


def randomised(data: Data, seed: int) -> dict[str, Any] | None:
    """None without such runs. Otherwise:

    refusal      why nothing can be compared, in words; else None
    runs, groups
    arms         arm, groups, chance [least, most], unknown (a response has no verdict), effective_groups (sum w)^2 / sum w^2,
                 rescue_rate; vanilla shows nothing and rescues nothing
    contrasts    name, plus, minus, isolates, estimate, p_holm: rescue, clustered by problem and seed
    """
    seeds = {run["run_id"]: run["seed"] for run in data.runs if run["arm"] == RANDOMISED}
    frame = data.frames["randomised"].filter(pl.col("run_id").is_in(list(seeds)))
    if not seeds:
        return None
    start: dict[str, Any] = {"refusal": None, "runs": len(seeds), "groups": frame.height, "arms": [], "contrasts": []}
    if frame.is_empty():
        return {**start, "refusal": "no group failed"}
    if number := frame["arm_probability"].null_count():
        return {**start, "refusal": f"{number} of {frame.height} failed groups lack the chance of their arm"}
    frame = frame.with_columns(
        (1 / pl.col("arm_probability")).alias("weight"),
        (pl.col("correct") > 0).cast(pl.Float64).alias("rescued"),
        (pl.col("scored") == pl.col("responses")).cast(pl.Float64).alias("known"),
    )
    cells = make_cells(
        [
            (arm, seeds[run], problem, weight * rescued * known, weight * known)
            for run, arm, problem, weight, rescued, known in frame.select(
                "run_id", "arm", "problem_id", "weight", "rescued", "known"
            ).iter_rows()
            if known
        ]
    )
    wanted = pairs(cells.arms)
    named: dict[str, tuple[str, ...]] = {arm: (arm,) for arm in cells.arms}
    rates = {name: _one(cells, pair, seed) for name, pair in named.items()}
    estimates = [_one(cells, (plus, minus), seed) for _, plus, minus in wanted]
    adjusted = holm([estimate.p for estimate in estimates])
    return {
        **start,
        "arms": [_arm(arm, frame.filter(pl.col("arm") == arm), rates.get(arm, NOTHING)) for arm in cells.arms],
        "contrasts": [
            {"name": name, "plus": plus, "minus": minus, "isolates": isolates(name), "estimate": estimate, "p_holm": p}
            for (name, plus, minus), estimate, p in zip(wanted, estimates, adjusted, strict=True)
        ],
    }


def _one(cells: Any, pair: tuple[str, ...], seed: int) -> Any:
    """By itself, on the seeds that its arms share."""
    return joint_bootstrap(cells, {"it": pair}, np.random.default_rng([seed, 43])).estimates["it"]


def _arm(arm: str, mine: pl.DataFrame, rate: Any) -> dict[str, Any]:
    weights = mine["weight"].to_numpy()
    return {
        "arm": arm,
        "groups": mine.height,
        "chance": [float(mine["arm_probability"].min()), float(mine["arm_probability"].max())],  # type: ignore[arg-type]
        "unknown": int((1 - mine["known"]).sum()),
        "effective_groups": float(weights.sum() ** 2 / (weights**2).sum()),
        "rescue_rate": rate,
    }
