"""What a world's numbers amount to: the expected rate of every arm, and so the true value of every contrast.

Expectations are over everything that chance decides: problems, failures, texts and responses, seeds and samples. Those over problems
are sums over a fine grid of ranks; nothing is drawn.
"""

from functools import lru_cache
from itertools import permutations

import numpy as np
from scipy import stats

from mentor_audit.config import ARMS_RESAMPLING
from mentor_audit.simulate.failures import chance, leak_chance, luck, right_chance
from mentor_audit.simulate.world import Failures, Randomised, Replays, World

GRID = 20_000
"""Ranks, each the middle of an equal share of all problems."""


def truth(world: World) -> dict[str, float]:
    """`<outcome>/<arm>` -> expected rate, and `<outcome>/<plus> - <minus>` -> difference, for every ordered pair of arms.

    transfer     held-out accuracy at the largest compute that every arm reaches, on straight lines between evaluations
    rescue       of the failures of a replay, the share with a correct response, were every response given a verdict
    success      of the responses of a replay, the share correct
    randomised   rescue in randomised training, over the failures of all its steps
    """
    found: dict[str, float] = {}
    outcomes = {"transfer": _transfer(world)}
    if world.replays is not None:
        outcomes["rescue"], outcomes["success"] = _replay(world.replays)
    if world.randomised is not None:
        outcomes["randomised"] = _randomised(world.randomised)
    for outcome, rates in outcomes.items():
        found |= {f"{outcome}/{arm}": rate for arm, rate in rates.items()}
        found |= {f"{outcome}/{a} - {b}": rates[a] - rates[b] for a, b in permutations(rates, 2)}
    return found


def mean_of_clipped_normal(mean: float, deviation: float) -> float:
    """Of a normal variable kept in 0 to 1: the mean of its part above 0 less that of its part above 1."""
    if deviation == 0:
        return float(np.clip(mean, 0, 1))

    def above(bound: float) -> float:
        z = (mean - bound) / deviation
        return float(deviation * stats.norm.pdf(z) + (mean - bound) * stats.norm.cdf(z))

    return above(0) - above(1)


def _transfer(world: World) -> dict[str, float]:
    if not world.gain:
        return {}
    flops = {arm: world.flops_a_step.get(arm, 1e9) for arm in world.gain}
    budget = min(flops.values()) * world.eval_steps[-1]
    return {arm: float(np.interp(budget, *_curve(world, arm, flops[arm]))) for arm in world.gain}


def _curve(world: World, arm: str, flops_a_step: float) -> tuple[list[float], list[float]]:
    """(compute, expected accuracy) at each evaluation."""
    spent = [flops_a_step * step for step in world.eval_steps]
    shares = [min(1.0, x / (1e9 * world.steps)) for x in spent]
    deviations = [float(np.hypot(world.problem_spread, world.seed_spread * share)) for share in shares]
    means = [world.start + world.gain[arm] * share for share in shares]
    return spent, [mean_of_clipped_normal(m, d) for m, d in zip(means, deviations, strict=True)]


def _replay(replays: Replays) -> tuple[dict[str, float], dict[str, float]]:
    """(rescue by arm, success of one response by arm that responds)."""
    failures, attempts = replays.failures, replays.attempts
    rescued, success = {}, {}
    for arm in replays.arms:
        number = replays.extra_samples if arm in ARMS_RESAMPLING else replays.follow_ups
        rescued[arm] = _rescued(failures, attempts, arm, number)
        if arm != "vanilla":
            success[arm] = _rescued(failures, attempts, arm, 1)
    return rescued, success


def _randomised(trained: Randomised) -> dict[str, float]:
    first = (trained.steps // 2) / trained.steps
    found = {}
    for arm in trained.first:
        number = trained.extra_samples if arm in ARMS_RESAMPLING else trained.follow_ups
        early, late = (_rescued(trained.failures, trained.attempts, arm, number, later) for later in (0.0, trained.later))
        found[arm] = first * early + (1 - first) * late
    return found


@lru_cache(maxsize=4096)
def _rescued(failures: Failures, attempts: int, arm: str, number: int, later: float = 0.0) -> float:
    """Over failed groups, the chance that one of `number` responses is correct; the responses to a failure share its text."""
    if arm == "vanilla":
        return 0.0
    ease = (np.arange(GRID) + 0.5) / GRID
    lucky = luck(failures, ease)
    weights = (1 - lucky) ** attempts
    is_right, leaks = right_chance(failures, arm, ease), leak_chance(failures, arm)
    total = np.zeros(GRID)
    for right in (0, 1):
        for leaking in (0, 1):
            share = (is_right if right else 1 - is_right) * (leaks if leaking else 1 - leaks)
            q = 1 - (1 - chance(failures, arm, ease, lucky, right, leaking)) * (1 - later)
            total += share * (1 - (1 - q) ** number)
    return float(np.average(total, weights=weights))
