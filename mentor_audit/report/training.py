"""What happened in training: rescue, diagnoses, instructions, zero-reward groups, and what all of it cost.

Rescue is not transfer: a follow-up that succeeds with an instruction says nothing yet of the learner without one. Here every arm's
rescue is measured on failures of its own, moving policy; nothing in this module compares arms on the same failures. Runs in which every
group drew its own arm, and replays, have sections of their own.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import polars as pl

from mentor_audit.config import RANDOMISED
from mentor_audit.report.data import SEPARATOR, Data, arm_order, make_cells
from mentor_audit.report.statistics import Cells, Estimate, cluster_bootstrap, difference, holm, level

SUMMED = (
    "cost_rows",
    "sequences",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "padded_tokens",
    "flops",
    "flops_prefix_cached",
    "wall_seconds",
    "discarded_flops",
    "superseded_flops",
)
NUM_BINS = 12


def rescue(data: Data, seed: int) -> dict[str, Any]:
    """Of the failed groups that an arm acted on, how many got a correct response; mentor against each other arm."""
    drawn = [run["run_id"] for run in data.runs if run["arm"] == RANDOMISED]
    frame = data.frames["rescue"].filter(~pl.col("run_id").is_in(drawn)).with_columns(known=pl.col("failed") - pl.col("unknown"))
    if frame.is_empty():
        return {"arms": [], "contrasts": []}
    groups = _cells(data, frame, "rescued", "known")
    arms = [
        {
            "arm": arm,
            **{name: total for name, total in sums.items() if name != "known"},
            "rescue_rate": _rate(data, frame, arm, ("rescued", "known"), [seed, 4]),
            "response_success": _rate(data, frame, arm, ("correct", "scored"), [seed, 5]),
        }
        for arm, sums in _sums_by_arm(
            frame, ("failed", "rescued", "unanswered", "unknown", "responses", "scored", "correct", "response_tokens")
        ).items()
    ]
    others = [arm for arm in groups.arms if arm != "mentor"] if "mentor" in groups.arms else []
    contrasts: list[dict[str, Any]] = [
        {
            "plus": "mentor",
            "minus": other,
            "estimate": cluster_bootstrap(groups.of("mentor", other), difference, np.random.default_rng([seed, 4])),
        }
        for other in others
    ]
    for contrast, p in zip(contrasts, holm([c["estimate"].p for c in contrasts]), strict=True):
        contrast["p_holm"] = p
    return {"arms": arms, "contrasts": contrasts}


def diagnoses(data: Data, seed: int) -> list[dict[str, Any]]:
    """By arm and auditor: how often location, cause and both are right, beside the accuracy that the mentor was set to."""
    columns = ("diagnoses", "unreadable", "repaired", "location_judged", "cause_judged", "both_judged")
    frame = _labelled(data.frames["diagnoses"].with_columns(pl.col("auditor").fill_null("none")), "auditor")
    found = []
    for label, sums in _sums_by_arm(frame, columns).items():
        arm, _, auditor = label.partition(SEPARATOR)
        found.append(
            {
                "arm": arm,
                "auditor": auditor,
                **sums,
                **{
                    part: _rate(data, frame, label, (f"{part}_right", f"{part}_judged"), [seed, 6])
                    for part in ("location", "cause", "both")
                },
                "set_accuracy": _set_accuracy(data, arm),
            }
        )
    return found


def instructions(data: Data, seed: int) -> list[dict[str, Any]]:
    """By arm, source and whether the instruction names the true first error: how many, and how follow-ups fared. Descriptive."""
    fits = (
        pl.when(pl.col("is_fitting"))
        .then(pl.lit("yes"))
        .when(~pl.col("is_fitting"))
        .then(pl.lit("no"))
        .otherwise(pl.lit("not known"))
    )
    frame = _labelled(data.frames["instructions"].with_columns(fits=fits), "source", "fits")
    if frame.is_empty():
        return []
    found: list[dict[str, Any]] = []
    for label, sums in _sums_by_arm(frame, ("instructions", "scored", "correct")).items():
        arm, source, names = label.split(SEPARATOR)
        success = _rate(data, frame, label, ("correct", "scored"), [seed, 7])
        found.append({"arm": arm, "source": source, "names_true_error": names, **sums, "success": success})
    for arm in {row["arm"] for row in found}:
        known = sum(r["instructions"] for r in found if r["arm"] == arm and r["names_true_error"] != "not known")
        right = sum(r["instructions"] for r in found if r["arm"] == arm and r["names_true_error"] == "yes")
        for row in (r for r in found if r["arm"] == arm):
            row["arm_fitting_fraction"] = right / known if known else None
    return found


def zero_reward(data: Data) -> list[dict[str, Any]]:
    """By arm: zero-reward fraction in the first and last tenth of training and overall, before and after insertion, and a series.

    The series has at most 12 bins of steps over all seeds of the arm, weighted by groups.
    """
    arm_of = {run["run_id"]: run["arm"] for run in data.runs}
    frame = data.frames["zero_reward"]
    found = []
    for arm in data.arms:
        part = frame.filter(pl.col("run_id").is_in([run for run, name in arm_of.items() if name == arm]))
        rows = [row for row in part.to_dicts() if row["before"] is not None]
        if not rows:
            continue
        steps = max(row["step"] for row in rows) + 1
        tenth, width = max(1, steps // 10), max(1, -(-steps // NUM_BINS))
        bins = [(i, [row for row in rows if i <= row["step"] < i + width]) for i in range(0, steps, width)]
        found.append(
            {
                "arm": arm,
                "steps": steps,
                "groups": sum(row["num_groups"] for row in rows),
                "inserted": sum(row["inserted"] for row in rows),
                "first_tenth": _fractions([row for row in rows if row["step"] < tenth]),
                "last_tenth": _fractions([row for row in rows if row["step"] >= steps - tenth]),
                "overall": _fractions(rows),
                "series": [{"step": start + (width - 1) / 2, **_fractions(inside)} for start, inside in bins if inside],
            }
        )
    return found


def compute(data: Data) -> dict[str, Any]:
    """Every cost row, by arm, payer and phase, summed over seeds; and each arm's training total a run."""
    arm_of = {run["run_id"]: run["arm"] for run in data.runs}
    rows = [{**row, "arm": arm_of[row["run_id"]]} for row in data.frames["compute"].to_dicts()]
    keys = sorted(
        {(r["arm"], r["mode"], r["payer"], r["phase"]) for r in rows}, key=lambda k: (arm_order(k[0]), k[1] != "train", k)
    )
    lines = []
    for key in keys:
        mine = [r for r in rows if (r["arm"], r["mode"], r["payer"], r["phase"]) == key]
        lines.append(
            {**dict(zip(("arm", "mode", "payer", "phase"), key, strict=True)), **{n: _sum(r[n] for r in mine) for n in SUMMED}}
        )
    totals: list[dict[str, Any]] = []
    for arm in data.arms:
        training = [r for r in rows if r["arm"] == arm and r["mode"] == "train" and r["payer"] in ("learner", "mentor")]
        num_runs = len({r["run_id"] for r in training})
        if not num_runs:
            continue
        per_run = {
            name: None if (total := _sum(r[name] for r in training)) is None else total / num_runs
            for name in ("flops", "wall_seconds", "discarded_flops", "superseded_flops")
        }
        mentor = _sum(r["flops"] for r in training if r["payer"] == "mentor")
        totals.append(
            {"arm": arm, "runs": num_runs, **per_run, "mentor_fraction": _ratio(mentor, _sum(r["flops"] for r in training))}
        )
    vanilla = next((t["flops"] for t in totals if t["arm"] == "vanilla"), None)
    for total in totals:
        total["times_vanilla"] = _ratio(total["flops"], vanilla)
    return {
        "lines": lines,
        "training_per_run": totals,
        "all": {name: _sum(r[name] for r in rows) for name in SUMMED},
        "calibration": [
            {"run_id": run["run_id"], "phase": phase, **counts}
            for run in data.runs
            if run["flop_calibration"]
            for phase, counts in json.loads(run["flop_calibration"]).items()
        ],
    }


def statuses(data: Data) -> list[dict[str, Any]]:
    """How attempts ended, by arm and role."""
    arm_of = {run["run_id"]: run["arm"] for run in data.runs}
    counts: dict[tuple[str, str, str], int] = {}
    for row in data.frames["statuses"].iter_rows(named=True):
        key = (arm_of[row["run_id"]], row["role"], row["status"])
        counts[key] = counts.get(key, 0) + row["attempts"]
    order = sorted(counts, key=lambda k: (arm_order(k[0]), k[1:]))
    return [{"arm": arm, "role": role, "status": status, "attempts": counts[arm, role, status]} for arm, role, status in order]


def _labelled(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """`arm` joined with what is told apart within it."""
    return frame.with_columns(arm=pl.concat_str("arm", *columns, separator=SEPARATOR))


def _cells(data: Data, frame: pl.DataFrame, numerator: str, denominator: str) -> Cells:
    """Sums of two columns by arm (the row's own: a group of a randomised run has one of its own), seed of the run, and problem."""
    seeds = pl.DataFrame([{"run_id": run["run_id"], "seed": run["seed"]} for run in data.runs])
    known = frame.filter(pl.col(denominator) > 0).join(seeds, on="run_id")
    return make_cells(known.select("arm", "seed", "problem_id", numerator, denominator).rows())


def _rate(data: Data, frame: pl.DataFrame, arm: str, share: tuple[str, str], seed: list[int]) -> Estimate | None:
    """Of one arm, over the problems that it has; None without a denominator."""
    cells = _cells(data, frame.filter(pl.col("arm") == arm), *share)
    return cluster_bootstrap(cells, level, np.random.default_rng(seed)) if cells.arms else None


def _sums_by_arm(frame: pl.DataFrame, columns: Iterable[str]) -> dict[str, dict[str, int]]:
    """Arm, or arm and label, to the sums of columns, in canonical order."""
    sums = {row["arm"]: row for row in frame.group_by("arm").agg(pl.col(list(columns)).sum()).iter_rows(named=True)}
    order = sorted(sums, key=lambda n: (arm_order(n.partition(SEPARATOR)[0]), n))
    return {name: {column: sums[name][column] for column in columns} for name in order}


def _set_accuracy(data: Data, arm: str) -> float | None:
    """What the settings say of a scripted mentor; None for a mentor whose accuracy nobody set, or runs that differ."""
    found = set()
    for run in data.runs:
        if run["arm"] == arm:
            mentor = json.loads(run["config"]).get("mentor")
            found.add(mentor.get("accuracy") if isinstance(mentor, dict) and mentor.get("kind") == "scripted" else None)
    return found.pop() if len(found) == 1 else None


def _fractions(rows: list[dict[str, Any]]) -> dict[str, float | None]:
    """Mean over groups, before and after insertion."""
    return {name: _mean_over_groups(rows, lambda row, name=name: row[name]) for name in ("before", "after")}  # type: ignore[misc]


def _mean_over_groups(rows: list[dict[str, Any]], value: Callable[[dict[str, Any]], float | None]) -> float | None:
    known = [(row["num_groups"], v) for row in rows if (v := value(row)) is not None]
    groups = sum(n for n, _ in known)
    return sum(n * v for n, v in known) / groups if groups else None


def _sum(values: Iterable[Any]) -> Any:
    """None when any part is not known: a sum that leaves something out would look like a total."""
    parts = list(values)
    return None if any(part is None for part in parts) else sum(parts)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
