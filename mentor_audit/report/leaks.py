"""Leakage: how often instructions give the answer away, and what is left of an effect without those that do.

Leaving failures out by what their instruction says is a sensitivity analysis: it looks at what the mentor did, not at what it was made to
do. The causal comparison is the arm `scrubbed`, in the replay.
"""

from typing import Any

import numpy as np
import polars as pl

from mentor_audit.report.data import Data, arm_order
from mentor_audit.report.replay import cells_of, with_outcome
from mentor_audit.report.statistics import joint_bootstrap

COUNTS = ("instructions", "looked", "found", "known", "leaks", "asked", "answered")
MEANS = {"overlap": "compared", "logprob_change": "weighed"}
"""By sum, the count that it is of."""
EFFECTS = (("mentor", "resample"), ("mentor", "resample_flops"), ("mentor", "wrong"), ("mentor", "placebo"))


def leakage(data: Data, seed: int) -> dict[str, Any]:
    """rates: a row a kind of run (train or replay), arm and auditor; sensitivity: a row a replay and effect, `all` and `unflagged` estimates of
    the difference in failures rescued. A failure whose mentor instruction is flagged leaves every arm, so the pairing holds.
    """
    return {"rates": _rates(data.frames["leaks"]), "sensitivity": _sensitivity(data, seed)}


def _rates(frame: pl.DataFrame) -> list[dict[str, Any]]:
    if frame.is_empty():
        return []
    sums = frame.group_by("mode", "arm", "auditor").agg(pl.col(*COUNTS, *MEANS, *MEANS.values()).sum())
    rows = sorted(sums.to_dicts(), key=lambda r: (r["mode"] != "replay", arm_order(r["arm"]), r["auditor"]))
    return [
        {
            **{name: row[name] for name in ("mode", "arm", "auditor", *COUNTS)},
            **{f"mean_{name}": row[name] / row[of] if row[of] else None for name, of in MEANS.items()},
        }
        for row in rows
    ]


def _sensitivity(data: Data, seed: int) -> list[dict[str, Any]]:
    flags = data.frames["leaking"]
    found = []
    for run in sorted((run for run in data.runs if run["arm"] == "replay"), key=lambda run: run["run_id"]):
        mine = flags.filter(pl.col("run_id") == run["run_id"])
        flagged = mine.filter(pl.col("flagged"))["source_group_id"].to_list()
        if mine.is_empty() or not flagged:
            continue
        frame = with_outcome(data.frames["replay"].filter(pl.col("run_id") == run["run_id"]))
        rest = frame.filter(~pl.col("source_group_id").is_in(flagged))
        parts = {"all": frame, "unflagged": rest}
        cells = {name: cells_of(part, run["seed"], "rescued", "known") for name, part in parts.items()}
        for pair in EFFECTS:
            if all(set(pair) <= set(c.arms) for c in cells.values()):
                both = {
                    name: joint_bootstrap(c, {"it": pair}, np.random.default_rng([seed, 44])).estimates["it"]
                    for name, c in cells.items()
                }
                found.append(
                    {
                        "run_id": run["run_id"],
                        "plus": pair[0],
                        "minus": pair[1],
                        "flagged": len(flagged),
                        "looked": mine.height,
                        **both,
                    }
                )
    return found
