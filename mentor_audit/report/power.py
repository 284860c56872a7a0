"""Power: how large a study must be, from the spread and the prices of a pilot store.

Two designs, as the report judges them: a replay, where arms answer the same failures and the problem is the unit; and training suites,
where arms are compared on held-out problems over seeds. The effect to be found is the reader's to name; the pilot's own effect is never
taken for it.
"""

from dataclasses import dataclass
from importlib import resources
from typing import Any

import polars as pl

from mentor_audit.errors import ReportError
from mentor_audit.report.data import ReadsStore, load
from mentor_audit.report.power_design import ContrastPlan, Goal
from mentor_audit.report.power_replay import plan_replays
from mentor_audit.report.power_training import plan_training

SQL = resources.files("mentor_audit") / "sql" / "power"


@dataclass(frozen=True)
class PowerPlan:
    """`rescue`: contrasts of the suite's replays; `transfer`: of its training; `missing`: what can't be planned, and why."""

    suite: str
    effect: float
    power: float
    alpha: float
    rescue: list[ContrastPlan]
    transfer: list[ContrastPlan]
    missing: list[str]


def plan_power(
    store: ReadsStore, effect: float = 0.05, power: float = 0.8, alpha: float = 0.05, suite: str | None = None
) -> PowerPlan:
    """Sizes with which a true difference of `effect` (0.05: 5 points) is found with chance `power` at the two-sided level `alpha`.

    store   a pilot: a suite with a replay, with training of two arms or more, or both
    suite   needed when the store holds several

    Raises ReportError for numbers out of range, a store without runs and an unknown suite.
    """
    for name, value in (("effect", effect), ("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise ReportError(f"Expected {name} between 0 and 1, found {value:g}. 0.05 is 5 points, or 5 %.")
    if power <= alpha:
        raise ReportError(f"Expected power above alpha, {alpha:g}, found {power:g}. 0.8 is usual.")
    data = load(store, suite, None)
    goal = Goal(effect, power, alpha)
    treatments, prices = (_frame(store, name, data.suite) for name in ("treatments", "prices"))
    rescue, without = plan_replays(treatments, prices, goal)
    transfer, beside = plan_training(data, goal)
    return PowerPlan(data.suite, effect, power, alpha, rescue, transfer, [*without, *beside])


def _frame(store: ReadsStore, name: str, suite: str) -> pl.DataFrame:
    frame: Any = pl.from_arrow(store.arrow((SQL / f"{name}.sql").read_text(encoding="utf-8")))
    return frame.filter(pl.col("suite") == suite)
