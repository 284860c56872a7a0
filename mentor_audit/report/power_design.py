"""What a planned study is, and the search for the smallest that reaches a power. Shared by both designs of power.py."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from mentor_audit.report.variance import power_of


@dataclass(frozen=True)
class Design:
    """One way to reach the power. sizes: what -> number; power None, and tokens and FLOPs: no such study reaches it.

    tokens   prompt + output; flops: as executed. None as well where a price is not known
    """

    sizes: dict[str, int]
    power: float | None
    tokens: float | None
    flops: float | None


@dataclass(frozen=True)
class ContrastPlan:
    """components: standard deviations by level, None: the pilot can't tell. pilot: its sizes. pilot_power: of a study of its size."""

    name: str
    outcome: str
    components: dict[str, float | None]
    pilot: dict[str, float]
    pilot_power: float
    designs: list[Design]
    cautions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Goal:
    """What a study should find, with which chance, at which two-sided level."""

    effect: float
    power: float
    alpha: float

    def reached(self, error: float, freedom: float) -> float:
        return power_of(self.effect, error, freedom, self.alpha)


def smallest(enough: Callable[[int], bool], most: int) -> int | None:
    """The least number from 2 that is enough; None when `most` is not. Every number above an enough one is enough."""
    high = 2
    while not enough(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def deviations(variances: dict[str, float | None]) -> dict[str, float | None]:
    return {name: None if value is None else float(np.sqrt(value)) for name, value in variances.items()}


def by_price(designs: list[Design]) -> list[Design]:
    """Cheapest first, by FLOPs or else tokens; those without a price, and those that never get there, last."""

    def key(design: Design) -> tuple[bool, bool, float]:
        price = design.flops if design.flops is not None else design.tokens
        return design.power is None, price is None, price or 0.0

    return sorted(designs, key=key)


def total(parts: Iterable[float | None]) -> float | None:
    """None when any part is not known."""
    known = list(parts)
    return None if any(part is None for part in known) else float(sum(part for part in known if part is not None))


def times(number: float, price: float | None) -> float | None:
    return None if price is None else number * price


def share(total: float | None, number: int) -> float | None:
    return None if total is None or not number else total / number
