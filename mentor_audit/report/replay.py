"""Rescue: what becomes of the same failures, of a frozen policy, under every arm.

The unit is the problem: several failures of one problem resemble each other. Two outcomes: *rescued*, any response to a failure
correct within what the arm buys (m follow-ups; the k samples of resample; vanilla has none and rescues nothing), and *success* of
one response. A failure of which a response lacks a verdict is unknown, and left out of the first: whether it was rescued is not
known, and keeping those that were would favour them. The second loses the response only.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from mentor_audit.report.contrasts import MARGIN, NOTHING
from mentor_audit.report.data import Data, arm_order, make_cells
from mentor_audit.report.ladder import BESIDE, MAIN, Rung, isolates, ladder, pairs
from mentor_audit.report.statistics import Cells, Estimate, equivalence_p, holm, joint_bootstrap, pass_at_k, upper_bound
from mentor_audit.report.transfer import resample_arm

PRICES = ("tokens", "flops", "seconds")


@dataclass(frozen=True)
class RescueContrast:
    """One arm minus another on the same failures. `rescued` and `success`: the two outcomes; `success` None where an arm has no response.

    p_holm         adjusted over all contrasts of the replay; None in a decomposition
    simultaneous   ends that hold for all steps of a decomposition together; None elsewhere
    """

    name: str
    plus: str
    minus: str
    isolates: str
    estimate: Estimate
    success: Estimate | None
    upper_95: float | None
    equivalence_p: float | None
    p_holm: float | None = None
    simultaneous: tuple[float, float] | None = None


@dataclass(frozen=True)
class Replay:
    """One replay run.

    arms            a row an arm: counts, rescue_rate, success, prices a failure, what a rescue cost
    contrasts       on the outcome rescued, by the names of ladder.CONTRASTS
    decomposition   steps that add up from vanilla to mentor; `trajectory` those from placebo to mentor by the shuffled arms
    equal_sampling  how many independent samples rescue as many; None without mentor and resample
    """

    run_id: str
    seed: int
    bank: str | None
    policy: str
    mentor: str
    mentor_accuracy: float | None
    num_problems: int
    num_failures: int
    arms: list[dict[str, Any]] = field(default_factory=list)
    contrasts: list[RescueContrast] = field(default_factory=list)
    decomposition: list[RescueContrast] = field(default_factory=list)
    trajectory: list[RescueContrast] = field(default_factory=list)
    equal_sampling: dict[str, Any] | None = None

    def contrast(self, name: str) -> RescueContrast | None:
        return next((c for c in self.contrasts if c.name == name), None)


def replays(data: Data, unit: str, seed: int) -> list[Replay]:
    """Every replay of the suite, in the order of their run ids. `unit` decides which resampling arm is the matched one."""
    frame = data.frames["replay"]
    runs = {run["run_id"]: run for run in data.runs if run["arm"] == "replay"}
    return [_replay(runs[run_id], frame.filter(pl.col("run_id") == run_id), unit, seed) for run_id in sorted(runs)]


def _replay(run: dict[str, Any], frame: pl.DataFrame, unit: str, seed: int) -> Replay:
    frame = with_outcome(frame)
    rescued, success = cells_of(frame, run["seed"], "rescued", "known"), cells_of(frame, run["seed"], "correct", "scored")
    config = json.loads(run["config"])
    mentor = config.get("mentor") or {}
    extra = resample_arm(list(rescued.arms), unit)
    groups = frame["source_group_id"].to_list()
    return Replay(
        run_id=run["run_id"],
        seed=run["seed"],
        bank=next((group.rpartition(".l")[0] for group in groups), None),
        policy=run["learner"],
        mentor=run["mentor"],
        mentor_accuracy=mentor.get("accuracy") if mentor.get("kind") == "scripted" else None,
        num_problems=frame["problem_id"].n_unique(),
        num_failures=frame["source_group_id"].n_unique(),
        arms=_arms(frame, rescued, success, seed),
        contrasts=_contrasts(rescued, success, extra, seed),
        decomposition=_steps(ladder(rescued.arms, MAIN, "vanilla", extra), rescued, success, seed),
        trajectory=_steps(ladder(rescued.arms, BESIDE, "placebo", extra), rescued, success, seed),
        equal_sampling=_equal_sampling(frame, extra),
    )


def with_outcome(frame: pl.DataFrame) -> pl.DataFrame:
    """The query's rows with `rescued` and `known`, 0 or 1."""
    return frame.with_columns(
        (pl.col("correct") > 0).cast(pl.Float64).alias("rescued"),
        (pl.col("scored") == pl.col("responses")).cast(pl.Float64).alias("known"),
    ).with_columns(pl.col("rescued") * pl.col("known"))


def cells_of(frame: pl.DataFrame, seed: int, numerator: str, denominator: str) -> Cells:
    """Sums by arm and problem."""
    sums = frame.group_by("arm", "problem_id").agg(pl.col(numerator, denominator).sum())
    rows = sums.select("arm", "problem_id", numerator, denominator).iter_rows()
    return make_cells([(arm, seed, problem, float(top), float(bottom)) for arm, problem, top, bottom in rows if bottom])


def _arms(frame: pl.DataFrame, rescued: Cells, success: Cells, seed: int) -> list[dict[str, Any]]:
    found = []
    rates = joint_bootstrap(rescued, {arm: (arm,) for arm in rescued.arms}, np.random.default_rng([seed, 20])).estimates
    successes = joint_bootstrap(success, {arm: (arm,) for arm in success.arms}, np.random.default_rng([seed, 21])).estimates
    for arm in sorted(frame["arm"].unique().to_list(), key=arm_order):
        mine = frame.filter(pl.col("arm") == arm)
        prices = {f"{name}_a_failure": _mean(mine[name]) for name in PRICES}
        num_rescued = int((mine["correct"] > 0).sum())
        found.append(
            {
                "arm": arm,
                "problems": mine["problem_id"].n_unique(),
                "failures": mine.height,
                "unknown": int((1 - mine["known"]).sum()),
                "unanswered": int((mine["responses"] == 0).sum()) if arm != "vanilla" else 0,
                "rescued": num_rescued,
                "responses": int(mine["responses"].sum()),
                "scored": int(mine["scored"].sum()),
                "correct": int(mine["correct"].sum()),
                "rescue_rate": rates.get(arm, NOTHING),
                "success": successes.get(arm, NOTHING),
                "rescue_rate_unknown_as_failed": num_rescued / mine.height,
                **prices,
                **{f"{name}_a_rescue": _ratio(mine[name], num_rescued) for name in PRICES},
            }
        )
    return found


def _contrasts(rescued: Cells, success: Cells, extra: str, seed: int) -> list[RescueContrast]:
    rungs = [Rung(name, plus, minus, isolates(name)) for name, plus, minus in pairs(rescued.arms, extra)]
    found = [_made(rung, *both) for rung, both in zip(rungs, _both(rungs, rescued, success, seed), strict=True)]
    adjusted = holm([c.estimate.p for c in found])
    return [replace(contrast, p_holm=p) for contrast, p in zip(found, adjusted, strict=True)]


def _both(rungs: Sequence[Rung], rescued: Cells, success: Cells, seed: int) -> list[tuple[Estimate, Estimate | None]]:
    """Of each rung its two outcomes; all from the same resamples."""
    named = {rung.name: (rung.plus, rung.minus) for rung in rungs}
    responding = {name: pair for name, pair in named.items() if set(pair) <= set(success.arms)}
    whole = joint_bootstrap(rescued, named, np.random.default_rng([seed, 20])).estimates
    apart = joint_bootstrap(success, responding, np.random.default_rng([seed, 21])).estimates
    return [(whole[name], apart.get(name)) for name in named]


def _steps(rungs: Sequence[Rung], rescued: Cells, success: Cells, seed: int) -> list[RescueContrast]:
    """All from the same resamples, with simultaneous intervals."""
    joint = joint_bootstrap(rescued, {rung.name: (rung.plus, rung.minus) for rung in rungs}, np.random.default_rng([seed, 22]))
    apart = _both(rungs, rescued, success, seed)
    return [
        replace(_made(rung, joint.estimates[rung.name], success_of), simultaneous=joint.simultaneous[rung.name])
        for rung, (_, success_of) in zip(rungs, apart, strict=True)
    ]


def _made(rung: Rung, estimate: Estimate, success: Estimate | None) -> RescueContrast:
    upper, equivalent = upper_bound(estimate), equivalence_p(estimate, MARGIN)
    return RescueContrast(rung.name, rung.plus, rung.minus, rung.isolates, estimate, success, upper, equivalent)


def _equal_sampling(frame: pl.DataFrame, extra: str) -> dict[str, Any] | None:
    """The least number k of independent samples that rescue as many of the failures as the mentor arm does, and its price.

    Of the failures' own extra samples, without a model: the chance that one of k is correct is 1 - C(n-c, k) / C(n, k) with n scored
    and c correct ones (Chen et al. 2021), averaged over failures, for k up to the least n. None with a reason beyond that.
    """
    mentor, sampled = (frame.filter((pl.col("arm") == arm) & (pl.col("known") > 0)) for arm in ("mentor", extra))
    sampled = sampled.filter(pl.col("scored") > 0)
    if mentor.is_empty() or sampled.is_empty():
        return None
    target, most = float(mentor["rescued"].mean()), int(sampled["scored"].min())  # type: ignore[arg-type]
    counts = list(zip(sampled["scored"].to_list(), sampled["correct"].to_list(), strict=True))
    by_k = {k: float(np.mean([pass_at_k(n, c, k) for n, c in counts])) for k in range(1, most + 1)}
    enough = next((k for k, rate in by_k.items() if rate >= target), None)
    price = {name: _ratio(sampled[name], int(sampled["responses"].sum())) for name in PRICES}
    times = {name: _times(enough, price[name], _mean(mentor[name])) for name in PRICES}
    reached = f"{most} samples rescue {100 * by_k[most]:.1f} %, the mentor arm {100 * target:.1f} %"
    return {
        "arm": extra,
        "mentor_rescue_rate": target,
        "samples": enough,
        "times_the_mentors_price": times,
        "rescue_rate_by_samples": [{"samples": k, "rate": rate} for k, rate in by_k.items()],
        "reason": None if enough is not None else f"not within the samples that were drawn: {reached}",
    }


def _times(samples: int | None, price: float | None, paid: float | None) -> float | None:
    return None if samples is None or price is None or not paid else samples * price / paid


def _mean(column: pl.Series) -> float | None:
    """None when any is not known."""
    return None if column.null_count() or column.is_empty() else float(column.mean())  # type: ignore[arg-type]


def _ratio(column: pl.Series, number: int) -> float | None:
    return None if column.null_count() or not number else float(column.sum()) / number
