"""Training health: what a learner's own curves say before any arm is compared, with a flag in words where something is off.

A series has a point for each tenth of the suite's longest training. The flags are rules of thumb that tell a reader where to look; no
verdict stands on them.
"""

import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from mentor_audit.records import RUNS_WITHOUT_TRAINING
from mentor_audit.report.data import Data
from mentor_audit.report.words import number, percent

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
ENTROPY_KEPT = 0.2
"""Of the entropy in the first tenth: less is called a collapse."""
CUT_FRACTION = 0.2
"""Of a tenth's attempts cut at the length limit."""
CLIP_FRACTION = 0.2
"""Of a tenth's tokens whose ratio was clipped."""
RATIO = 0.5
"""Median ratio a token of inserted follow-ups, without to with the instruction."""
DISTINCT_KEPT = 0.5
"""Of the share of distinct instructions in the first tenth."""
DIVERGENCE_BITS = 0.1
"""Jensen-Shannon divergence from the first tenth, where it is also twice what chance makes."""


def health(data: Data) -> list[dict[str, Any]]:
    """By arm that trained: a series over tenths, quantiles of the off-policy ratio, and flags.

    series      tenth, first_step, last_step, entropy (nats a token), completion_tokens, clip_fraction, cut_fraction, off_policy_ratio
                (median), instructions, instruction_words (mean), instruction_distinct (share), instruction_divergence (bits)
    off_policy  responses, and quantile -> exp(mean log-prob without less with the instruction); None without such follow-ups
    flags       what, sentence
    """
    found = []
    for arm in dict.fromkeys(run["arm"] for run in data.runs if run["arm"] not in RUNS_WITHOUT_TRAINING):
        runs = [run["run_id"] for run in data.runs if run["arm"] == arm]
        steps, ratios, texts = (
            data.frames[name].filter(pl.col("run_id").is_in(runs)) for name in ("health", "off_policy", "drift")
        )
        if steps.is_empty():
            continue
        series = _series(steps, ratios, texts)
        by_chance = _mean(texts.filter(pl.col("tenth") == pl.col("tenth").min().over("run_id", "arm")), "divergence_by_chance")
        found.append(
            {
                "arm": arm,
                "runs": len(runs),
                "series": series,
                "off_policy": _off_policy(ratios),
                "divergence_by_chance": by_chance,
                "flags": _flags(series, by_chance),
            }
        )
    return found


def _series(steps: pl.DataFrame, ratios: pl.DataFrame, texts: pl.DataFrame) -> list[dict[str, Any]]:
    known = ("entropy", "completion_tokens", "clip_fraction", "cut")
    sums = steps.group_by("tenth").agg(
        pl.min("first_step"), pl.max("last_step"), *(pl.sum(name) for name in known), *(pl.sum(f"{name}_known") for name in known)
    )
    points = []
    for row in sums.sort("tenth").iter_rows(named=True):
        here = texts.filter(pl.col("tenth") == row["tenth"])
        instructions = _total(here, "instructions")
        points.append(
            {
                "tenth": row["tenth"],
                "first_step": row["first_step"],
                "last_step": row["last_step"],
                "entropy": _share(row["entropy"], row["entropy_known"]),
                "completion_tokens": _share(row["completion_tokens"], row["completion_tokens_known"]),
                "clip_fraction": _share(row["clip_fraction"], row["clip_fraction_known"]),
                "cut_fraction": _share(row["cut"], row["cut_known"]),
                "off_policy_ratio": _quantile(ratios.filter(pl.col("tenth") == row["tenth"]), 0.5),
                "instructions": instructions,
                "instruction_words": _share(_total(here, "words"), instructions),
                "instruction_distinct": _share(_total(here, "distinct_texts"), instructions),
                "instruction_divergence": _mean(here, "divergence"),
            }
        )
    return points


def _off_policy(ratios: pl.DataFrame) -> dict[str, Any] | None:
    if ratios.is_empty():
        return None
    return {"responses": _total(ratios, "responses"), "quantiles": {str(q): _quantile(ratios, q) for q in QUANTILES}}


def _quantile(ratios: pl.DataFrame, share: float) -> float | None:
    """Of the ratio a token, to a hundredth of a nat: the smallest value that at least `share` of the responses do not exceed."""
    counts = ratios.group_by("log_ratio").agg(pl.sum("responses")).sort("log_ratio")
    if counts.is_empty():
        return None
    reached = counts.filter(pl.col("responses").cum_sum() >= share * _total(counts, "responses"))
    return math.exp(reached["log_ratio"][0] / 100)


def _flags(series: Sequence[dict[str, Any]], by_chance: float | None) -> list[dict[str, Any]]:
    found = []

    def flag(what: str, sentence: str) -> None:
        found.append({"what": what, "sentence": sentence})

    start, end = _ends(series, "entropy")
    if start is not None and end is not None and 0 <= end < ENTROPY_KEPT * start:
        flag(
            "entropy", f"Entropy fell to {percent(end / start)} of its start, from {number(start)} to {number(end)} nats a token."
        )
    cut = _highest(series, "cut_fraction")
    if cut is not None and cut["cut_fraction"] >= CUT_FRACTION:
        flag("length", f"{percent(cut['cut_fraction'])} of attempts were cut at the length limit in steps {_steps(cut)}.")
    clipped = _highest(series, "clip_fraction")
    if clipped is not None and clipped["clip_fraction"] >= CLIP_FRACTION:
        flag("clipping", f"{percent(clipped['clip_fraction'])} of tokens were clipped in steps {_steps(clipped)}.")
    low = min((p for p in series if p["off_policy_ratio"] is not None), key=lambda p: p["off_policy_ratio"], default=None)
    if low is not None and low["off_policy_ratio"] < RATIO:
        flag(
            "off_policy",
            f"Without its instruction the median inserted follow-up was {number(low['off_policy_ratio'], 2)} times as likely a token as "
            f"with it, in steps {_steps(low)}.",
        )
    start, end = _ends(series, "instruction_distinct")
    if start is not None and end is not None and end < DISTINCT_KEPT * start:
        flag("distinct", f"The share of distinct instructions fell from {percent(start)} to {percent(end)}.")
    _, end = _ends(series, "instruction_divergence")
    if end is not None and by_chance is not None and end > max(DIVERGENCE_BITS, 2 * by_chance):
        flag(
            "drift",
            f"The words of the last instructions diverge from those of the first by {number(end, 2)} bits (Jensen-Shannon), where "
            f"chance makes at most about {number(by_chance, 2)}.",
        )
    return found


def _ends(series: Sequence[dict[str, Any]], name: str) -> tuple[float | None, float | None]:
    """First and last known value; (None, None) unless there are two."""
    known = [point[name] for point in series if point[name] is not None]
    return (known[0], known[-1]) if len(known) > 1 else (None, None)


def _highest(series: Sequence[dict[str, Any]], name: str) -> dict[str, Any] | None:
    return max((point for point in series if point[name] is not None), key=lambda point: point[name], default=None)


def _steps(point: dict[str, Any]) -> str:
    return f"{point['first_step']} to {point['last_step']}"


def _mean(texts: pl.DataFrame, name: str) -> float | None:
    """Over runs and arms, weighted by instructions."""
    known = texts.filter(pl.col(name).is_not_null()).with_columns(weighted=pl.col(name) * pl.col("instructions"))
    return _share(_total(known, "weighted"), _total(known, "instructions"))


def _total(frame: pl.DataFrame, name: str) -> Any:
    return frame[name].sum()


def _share(total: float | None, known: int) -> float | None:
    return total / known if total is not None and known else None
