"""How large training suites must be: arms are compared on held-out problems, over seeds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from mentor_audit.report.curves import Curve, curves_of
from mentor_audit.report.data import Data
from mentor_audit.report.matching import at_budget, common_range
from mentor_audit.report.power_design import ContrastPlan, Design, Goal, by_price, deviations, share, smallest, times, total
from mentor_audit.report.transfer import resample_arm
from mentor_audit.report.variance import Crossed, crossed

MIN_PROBLEMS = 10
"""Fewer tell too little of how they spread."""
PROBLEMS_TIMES, SAMPLES_TIMES = (1, 2, 4, 8), (1, 4)
MOST_SEEDS = 1_000
SAMPLING = ("rollout", "extra_sample", "mentor", "follow_up")


def plan_training(data: Data, goal: Goal) -> tuple[list[ContrastPlan], list[str]]:
    """At the pilot's matched budget in FLOPs, or in tokens where FLOPs are not known."""
    curves, _, problems = curves_of(data, "flops")
    if not curves:
        curves, _, problems = curves_of(data, "tokens")
    common = common_range({c.run_id: c.compute_E for c in curves})
    arms = {c.arm for c in curves}
    if common is None or len(arms) < 2:
        return [], ["no transfer contrast: it takes two arms with held-out evaluations over the same range of compute"]
    if len(problems) < MIN_PROBLEMS:
        return [], [
            f"no transfer contrast: {len(problems)} held-out problems, and {MIN_PROBLEMS} are the least that tell how they spread"
        ]
    wanted = [("mentor", arm) for arm in ("vanilla", resample_arm(list(arms), "flops"), "wrong", "placebo")]
    found: list[ContrastPlan | str] = []
    for plus, minus in [pair for pair in wanted if set(pair) <= arms]:
        pairs = _pairs(curves, plus, minus)
        if len(pairs) < 2:
            found.append(
                f"no transfer contrast {plus} − {minus}: {len(pairs)} seed with both arms, and one seed tells nothing of others"
            )
        else:
            found.append(_plan(data, plus, minus, pairs, common.high, goal))
    return [plan for plan in found if not isinstance(plan, str)], [why for why in found if isinstance(why, str)]


def _pairs(curves: list[Curve], plus: str, minus: str) -> list[tuple[Curve, Curve]]:
    by_seed = {(c.arm, c.seed): c for c in curves}
    return [(c, other) for (arm, seed), c in by_seed.items() if arm == plus and (other := by_seed.get((minus, seed)))]


def _plan(data: Data, plus: str, minus: str, pairs: list[tuple[Curve, Curve]], budget: float, goal: Goal) -> ContrastPlan | str:
    """Text: why there is none."""
    spread, samples = _spread(pairs, budget)
    if spread.num_problems < MIN_PROBLEMS:
        return (
            f"no transfer contrast {plus} − {minus}: {spread.num_problems} held-out problems have a verdict in every run, and {MIN_PROBLEMS} "
            "are the least that tell how they spread"
        )
    if spread.seed == spread.problem == spread.both == 0 and not spread.sample:
        return f"no transfer contrast {plus} − {minus}: every cell had the same difference, and without a spread nothing can be planned"
    prices = [_run_prices(data, arm) for arm in (plus, minus)]
    designs = [
        _design(spread, part * spread.num_problems, more * samples, prices, goal)
        for part in PROBLEMS_TIMES
        for more in (SAMPLES_TIMES if spread.sample is not None else SAMPLES_TIMES[:1])
    ]
    cautions = [
        f"{spread.num_seeds} seeds tell little of the spread between them: its standard deviation may be up to "
        f"{100 * spread.seed_at_most(samples):.1f} points (with 80 % confidence)"
    ]
    if spread.sample is None:
        cautions.append("one sample a problem in the pilot: what more of them would spare is not known")
    return ContrastPlan(
        f"{plus} − {minus}",
        "held-out accuracy at the pilot's matched budget",
        deviations({"seed": spread.seed, "problem": spread.problem, "both": spread.both, "sample": spread.sample}),
        {"seeds": spread.num_seeds, "problems": spread.num_problems, "samples a problem": samples},
        goal.reached(*spread.error(spread.num_seeds, spread.num_problems, samples)),
        by_price(designs),
        cautions,
    )


def _spread(pairs: list[tuple[Curve, Curve]], budget: float) -> tuple[Crossed, int]:
    """Components of the difference on the problems that every run has a verdict for, and the samples that a problem had."""
    rates, singles, measured, samples = [], [], [], []
    for pair in pairs:
        found = [_at(curve, budget) for curve in pair]
        rates.append(found[0][0] - found[1][0])
        singles.append(found[0][1] + found[1][1])
        measured.append(found[0][2] + found[1][2])
        samples += [curve.samples_E_P.max() for curve in pair]
    rate_S_P, single_S_P, measured_S_P = np.array(rates), np.array(singles), np.array(measured)
    complete_P = np.isfinite(rate_S_P).all(axis=0)
    known = np.isfinite(single_S_P) & complete_P
    sample = float(single_S_P[known].mean()) if known.any() else None
    part = float(measured_S_P[known].mean()) if known.any() else 0.0
    return crossed(rate_S_P[:, complete_P], sample, part), int(max(samples))


def _at(curve: Curve, budget: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(P,) accuracy at the budget, variance of one sample, and the variance that the samples give the accuracy; NaN: not known."""
    weights_E = at_budget(curve.compute_E, budget)
    used = weights_E > 0
    correct, scored, weights = curve.correct_E_P[used], curve.scored_E_P[used], weights_E[used]
    rate = np.divide(correct, scored, out=np.full(correct.shape, np.nan), where=scored > 0)
    single = np.divide(rate * (1 - rate) * scored, scored - 1, out=np.full(correct.shape, np.nan), where=scored > 1)
    return weights @ rate, weights @ single, weights**2 @ (single / np.maximum(scored, 1))


def _design(spread: Crossed, problems: int, samples: int, prices: list["_RunPrice"], goal: Goal) -> Design:
    seeds = smallest(lambda n: goal.reached(*spread.error(n, problems, samples)) >= goal.power, MOST_SEEDS)
    sizes = {"problems": problems, "samples a problem": samples}
    if seeds is None:
        return Design(sizes, None, None, None)
    tokens, flops = (
        times(
            seeds,
            total(
                total((price.training[unit], times(price.evaluations * problems * samples, price.sample[unit])))
                for price in prices
            ),
        )
        for unit in (0, 1)
    )
    return Design({"seeds": seeds, **sizes}, goal.reached(*spread.error(seeds, problems, samples)), tokens, flops)


@dataclass(frozen=True)
class _RunPrice:
    """Tokens and FLOPs of one run's training, and of one held-out sample; and evaluations a run."""

    training: tuple[float | None, float | None]
    sample: tuple[float | None, float | None]
    evaluations: float


def _run_prices(data: Data, arm: str) -> _RunPrice:
    runs = [run for run in data.runs if run["arm"] == arm]
    rows = data.frames["compute"].filter(pl.col("run_id").is_in([run["run_id"] for run in runs])).to_dicts()
    training = [row for row in rows if row["mode"] == "train" and row["payer"] in ("learner", "mentor")]
    sampling = [row for row in training if row["phase"] in SAMPLING]
    evaluation = [row for row in rows if row["phase"] == "eval"]
    sequences = sum(row["sequences"] for row in evaluation)
    return _RunPrice(
        (
            share(total(_tokens(row) for row in sampling), len(runs)),
            share(total(row["flops"] for row in training), len(runs)),
        ),
        (
            share(total(_tokens(row) for row in evaluation), sequences),
            share(total(row["flops"] for row in evaluation), sequences),
        ),
        sum(run["evaluations"] for run in runs) / len(runs),
    )


def _tokens(row: dict[str, Any]) -> float | None:
    return total((row["prompt_tokens"], row["output_tokens"]))
