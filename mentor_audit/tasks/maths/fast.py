"""Plain numbers compared without a worker. The verdict is the one that the worker gives; anything else is left to it."""

import re
from fractions import Fraction

_SIGNED = r"([+-]?)\s*"
_NUMBER = re.compile(_SIGNED + r"(\d{1,40}|\d{1,20}\.\d{1,20})\.?")
_FRACTION = re.compile(_SIGNED + r"(?:\\[dt]?frac\s*\{(\d{1,40})\}\s*\{(\d{1,40})\}|(\d{1,40})\s*/\s*(\d{1,40}))")
_DOLLARS = re.compile(r"\$([^$]*)\$")


def plain_number(text: str) -> Fraction | None:
    """An integer, a decimal or a fraction of integers, in dollars or not; None: leave it to the worker."""
    text = text.strip()
    inner = _DOLLARS.fullmatch(text)
    text = inner[1].strip() if inner else text
    if found := _NUMBER.fullmatch(text):
        return Fraction(found[1] + found[2])
    if found := _FRACTION.fullmatch(text):
        top, bottom = int(found[2] or found[4]), int(found[3] or found[5])
        return Fraction(-top if found[1] == "-" else top, bottom) if bottom else None
    return None
