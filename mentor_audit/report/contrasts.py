"""Contrasts of arms on held-out accuracy: each by itself, and the steps that a gain is taken apart into, with simultaneous intervals."""

from dataclasses import dataclass, replace

import numpy as np

from mentor_audit.report.ladder import Rung, isolates, pairs
from mentor_audit.report.statistics import (
    Cells,
    Estimate,
    cluster_bootstrap,
    difference,
    equivalence_p,
    holm,
    joint_bootstrap,
    level,
    upper_bound,
)

MARGIN = 0.05
"""Accuracies that differ by less count as equal: 5 points."""
NOTHING = Estimate(None, None, None, None, None, None, 0, 0)


@dataclass(frozen=True)
class Contrast:
    """One arm minus another at the matched budget.

    p_holm         adjusted over all contrasts of the report; None in a decomposition
    simultaneous   ends that hold for all steps of a decomposition together, with 95 % confidence; None elsewhere, and without an interval
    """

    name: str
    plus: str
    minus: str
    isolates: str
    estimate: Estimate
    area: Estimate
    upper_95: float | None
    equivalence_p: float | None
    p_holm: float | None = None
    simultaneous: tuple[float, float] | None = None


def contrasts_of(end: Cells, area: Cells, extra: str, seed: int) -> list[Contrast]:
    """Every contrast of the arms that are there, Holm-adjusted together."""
    contrasts = [_contrast(name, plus, minus, isolates(name), end, area, seed) for name, plus, minus in pairs(end.arms, extra)]
    adjusted = holm([c.estimate.p for c in contrasts])
    return [replace(contrast, p_holm=p) for contrast, p in zip(contrasts, adjusted, strict=True)]


def steps_of(rungs: list[Rung], end: Cells, area: Cells, seed: int) -> list[Contrast]:
    """All from the same resamples, with simultaneous intervals."""
    named = {rung.name: (rung.plus, rung.minus) for rung in rungs}
    there = {arm for pair in named.values() for arm in pair} <= set(area.arms)
    ends = joint_bootstrap(end, named, np.random.default_rng([seed, 1]))
    areas = joint_bootstrap(area, named, np.random.default_rng([seed, 2])).estimates if there else dict.fromkeys(named, NOTHING)
    return [
        Contrast(
            rung.name,
            rung.plus,
            rung.minus,
            rung.isolates,
            ends.estimates[rung.name],
            areas[rung.name],
            upper_bound(ends.estimates[rung.name]),
            equivalence_p(ends.estimates[rung.name], MARGIN),
            simultaneous=ends.simultaneous[rung.name],
        )
        for rung in rungs
    ]


def _contrast(name: str, plus: str, minus: str, words: str, end: Cells, area: Cells, seed: int) -> Contrast:
    estimate, curve = estimate_of(end, (plus, minus), [seed, 1]), estimate_of(area, (plus, minus), [seed, 2])
    return Contrast(name, plus, minus, words, estimate, curve, upper_bound(estimate), equivalence_p(estimate, MARGIN))


def estimate_of(cells: Cells, arms: tuple[str, ...], seed: list[int]) -> Estimate:
    """The rate of one arm, or the difference of two; unknown where an arm has no verdict that it takes."""
    if not set(arms) <= set(cells.arms):
        return NOTHING
    return cluster_bootstrap(cells.of(*arms), difference if len(arms) == 2 else level, np.random.default_rng(seed))
