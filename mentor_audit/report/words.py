"""Numbers in words: percent, points, compute. A number that is not known says so, and is never 0."""

from collections.abc import Sequence
from typing import Any

from mentor_audit.report.statistics import Estimate

UNKNOWN = "not known"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def points(value: float | None) -> str:
    """A difference of fractions in percentage points, signed; minus is a true minus."""
    return UNKNOWN if value is None else f"{100 * value:+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")


def points_interval(estimate: Estimate | dict[str, Any]) -> str:
    value, low, high = _parts(estimate)
    if low is None:
        return f"{points(value)} [interval not known]" if value is not None else UNKNOWN
    return f"{points(value)} [{points(low)}, {points(high)}]"


def ends(interval: Sequence[float] | None) -> str:
    """The two ends of an interval of differences, in points."""
    return UNKNOWN if interval is None else f"[{points(interval[0])}, {points(interval[1])}]"


def percent_interval(estimate: Estimate | dict[str, Any]) -> str:
    """Of a rate; the interval is cut at 0 and 100 %."""
    value, low, high = _parts(estimate)
    if value is None:
        return UNKNOWN
    if low is None or high is None:
        return f"{percent(value)} [interval not known]"
    return f"{percent(value)} [{100 * max(low, 0):.1f}, {100 * min(high, 1):.1f}]"


def compute_words(value: float | None, unit: str) -> str:
    if value is None:
        return UNKNOWN
    return {"tokens": f"{count(value)} tokens", "seconds": f"{count(value)} seconds"}.get(unit, f"{scientific(value)} FLOPs")


def scientific(value: float | None) -> str:
    """1.23 × 10⁴; 0 is plain."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(SUPERSCRIPT)}"


def count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}".replace(",", " ")


def number(value: float | None, digits: int = 3) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}".replace("-", "−")


def p_value(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def and_list(parts: Sequence[str]) -> str:
    """a, b and c."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _parts(estimate: Estimate | dict[str, Any]) -> tuple[float | None, float | None, float | None]:
    if isinstance(estimate, Estimate):
        return estimate.value, estimate.low, estimate.high
    return estimate["value"], estimate["low"], estimate["high"]
