"""Units at the end of a quantity: which they are, and what one is in base units (by sympy.physics.units)."""

import re
from dataclasses import dataclass
from functools import lru_cache

import sympy


@dataclass(frozen=True)
class Unit:
    """`dimension` is the product of base units, or `?` and the text of a unit that is not known. `factor` is one of it in base
    units.
    """

    dimension: str
    factor: sympy.Expr = sympy.S.One

    @property
    def is_known(self) -> bool:
        return not self.dimension.startswith("?")

    @property
    def is_scale(self) -> bool:
        """Per cent and degrees: the number may be meant with the factor or without."""
        return self.dimension in ("percent", "angle")


PERCENT = Unit("percent", sympy.Rational(1, 100))
DEGREE = Unit("angle", sympy.pi / 180)
_SPECIAL = {
    "%": PERCENT, "percent": PERCENT, "pct": PERCENT, "percentage": PERCENT, "percentage points": PERCENT, "^\\circ": DEGREE,
    "degree": DEGREE, "degrees": DEGREE, "deg": DEGREE, "radian": Unit("angle"), "radians": Unit("angle"), "rad": Unit("angle"),
    "^\\circ C": Unit("celsius"), "^\\circ F": Unit("fahrenheit"), "degrees celsius": Unit("celsius"),
    "degrees fahrenheit": Unit("fahrenheit"),
    "dollar": Unit("dollar"), "dollars": Unit("dollar"), "usd": Unit("dollar"), "us dollars": Unit("dollar"),
    "cent": Unit("dollar", sympy.Rational(1, 100)), "cents": Unit("dollar", sympy.Rational(1, 100)), "euro": Unit("euro"),
    "euros": Unit("euro"), "pounds sterling": Unit("pound sterling"),
}  # fmt: skip
_ALIASES = {
    "sec": "second", "secs": "second", "s": "second", "hr": "hour", "hrs": "hour", "h": "hour", "min": "minute",
    "mins": "minute", "in": "inch",
    "inches": "inch", "feet": "foot", "ft": "foot", "lbs": "pound", "lb": "pound", "metre": "meter", "metres": "meter",
    "litre": "liter",
    "litres": "liter", "centimetre": "centimeter", "centimetres": "centimeter", "kilometre": "kilometer",
    "kilometres": "kilometer",
    "millimetre": "millimeter", "millimetres": "millimeter", "yr": "year", "yrs": "year", "ml": "milliliter", "yd": "yard",
    "mi": "mile",
    "kph": "km/hour", "mph": "mile/hour", "kmh": "km/hour", "gm": "gram", "cc": "cm^3", "l": "liter", "hectare": "hectare",
    "gram": "gram",
    "kilogram": "kilogram", "kilometer": "kilometer", "centimeter": "centimeter", "millimeter": "millimeter", "wk": "week",
}  # fmt: skip
_LENGTHS = {"week": ("day", 7), "fortnight": ("day", 14), "hectare": ("m^2", 10_000), "acre": None}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_NOT_UNITS = {"is", "are", "was", "were", "be", "than", "less", "more", "times", "not", "no", "or", "and", "if", "for",
    "when", "where", "each", "to", "from", "mod", "over", "plus", "minus", "half", "third", "thirds", "halves", "quarters",
    "fifths", "am", "pm", "st", "nd", "rd", "th", "e", "i", "x", "y", "z", "n", "k"}  # fmt: skip
_TAIL = re.compile(
    r"(.*?(?:[\d})]|\S(?=\s*(?:\\text|%|\^\\circ))))"
    r"\s*((?:\\text\s*\{[^{}]*\}|%|\^\\circ(?:\s*(?:\\text\{)?[CF]\}?)?|/|\^\{?-?\d\}?|\s+|\\cdot|/\s*[a-z]|[A-Za-z.]{2,})+)"
)
_LETTER = re.compile(r"([-+]?[\d.,/]*\d) ([mgsh])")


def split_unit(text: str) -> tuple[str, Unit] | None:
    """(number text, unit) of a cleaned quantity; None: it ends in no unit. Scale words such as `million` stay with the number."""
    letter = _LETTER.fullmatch(text)
    found = letter or _TAIL.fullmatch(text)
    if not found or (not letter and not re.search(r"\\text|%|\\circ|[A-Za-z]{2,}", found[2])):
        return None
    number, words = found[1].strip(), _words(found[2])
    if re.search(r"\\(?:arc)?(?:sin|cos|tan|sec|csc|cot)", number) and "\\circ" in found[2]:
        return None
    if not re.match(r"[-+\d.\\({]", number) or re.search(r"[A-Za-z]{2,}", re.sub(r"\\[A-Za-z]+", "", number)):
        return None
    if "\\circ" in number:
        return None  # a sum of angles
    is_bare = "\\text" not in found[2]
    if is_bare and re.search(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", number)):
        return None
    if words.split(" ")[-1] in _SCALES:
        words = " ".join([words.split(" ")[-1], *words.split(" ")[:-1]])
    first, _, rest = words.partition(" ")
    if first in _SCALES:
        number, words = f"({number})\\cdot {_SCALES[first]}".replace(",", ""), rest
    if not words:
        return (number, Unit("?")) if first in _SCALES else None
    unit = _unit(words)
    if unit is None or (is_bare and not unit.is_known and min(map(len, re.findall(r"[a-z]+", words.lower()))) < 4):
        return None
    return number, unit


def _words(tail: str) -> str:
    if tail.startswith("^\\circ"):
        return " ".join(re.sub(r"\\text\{|\}", "", tail).replace("^\\circ", "^\\circ ").split())
    spaced = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", tail).replace("\\cdot", " ")
    return " ".join(re.sub(r"\s+\^(?!\\)", "^", spaced).split())


@lru_cache(maxsize=1024)
def _unit(words: str) -> Unit | None:
    """None: the words are no unit."""
    lowered = words.lower().strip(" .")
    special = _SPECIAL.get(words) or _SPECIAL.get(lowered)
    if special:
        return special
    spelled = re.sub(r"\bper\b", "/", lowered)
    spelled = re.sub(r"\b(?:square|sq\.?) (\w+)", r"\1^2", spelled)
    spelled = re.sub(r"\b(?:cubic|cu\.?) (\w+)", r"\1^3", spelled)
    spelled = re.sub(r"\b(\w+) squared", r"\1^2", spelled)
    total: sympy.Expr | None = sympy.Integer(1)
    for sign, factor in re.findall(r"(/?)\s*([^\s/]+)", spelled.replace("{", "").replace("}", "")):
        name, _, power = factor.partition("^")
        one = _quantity(name.rstrip("."))
        total = None if one is None or total is None else total * one ** ((-1 if sign else 1) * int(power or 1))
    if total is not None and total != 1:
        return _based(total)
    names = re.findall(r"[a-z]+", spelled)
    if not names or len(names) > 3 or set(names) & _NOT_UNITS or re.search(r"\d", re.sub(r"\^\{?-?\d\}?", "", words)):
        return None
    return Unit(
        "?" + " ".join(n.removesuffix("es").removesuffix("s") for n in names) + "".join(re.findall(r"\^\{?(-?\d)", words))
    )


def _quantity(name: str) -> sympy.Expr | None:
    """A unit that sympy knows, in the singular or plural; None: it knows none of this name."""
    from sympy.physics import units as known

    name = _ALIASES.get(name, _ALIASES.get(name.removesuffix("s"), name))
    if "/" in name:
        above, below = name.split("/")
        return getattr(known, above) / getattr(known, below)
    if "^" in name:
        return getattr(known, name.split("^")[0]) ** int(name.split("^")[1])
    if name in _LENGTHS or name.removesuffix("s") in _LENGTHS:
        same = _LENGTHS[name if name in _LENGTHS else name.removesuffix("s")]
        inner = None if same is None else _quantity(same[0])
        return None if same is None or inner is None else inner * same[1]
    for spelling in (name, name.removesuffix("s")):
        unit = getattr(known, spelling, None)
        if len(spelling) > 1 and isinstance(unit, known.Quantity):
            return unit
    return {"m": known.meter, "g": known.gram}.get(name)


def _based(total: sympy.Expr) -> Unit:
    from sympy.physics import units as known

    in_base = known.convert_to(total, [known.meter, known.kilogram, known.second, known.ampere, known.kelvin, known.mole])
    factor, dimension = in_base.as_independent(known.Quantity)
    return Unit(str(dimension), sympy.nsimplify(factor, rational=True))
