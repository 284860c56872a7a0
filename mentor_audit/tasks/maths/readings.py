"""What an answer may mean: its type first, then its value.

`read` gives every reading that the text allows: `(1,2)` is a point or an open interval, `1,000` a number or two numbers. Two
answers agree when one reading of each agrees. A text that is not read to its end raises Unreadable.
"""

import re

import sympy

from mentor_audit.tasks.maths import units
from mentor_audit.tasks.maths.exact import equal
from mentor_audit.tasks.maths.kinds import (
    Based,
    Choice,
    Equation,
    Grid,
    Inequality,
    Items,
    Labelled,
    Ratio,
    Reading,
    Scalar,
    Words,
)
from mentor_audit.tasks.maths.ranges import Ranges, named_set, read_ranges
from mentor_audit.tasks.maths.scalar import Unreadable, read_scalar
from mentor_audit.tasks.maths.text import clean, closing, plain, split

_CHOICE = re.compile(r"\((?P<a>[A-Za-z])\)(?P<r>.*)|(?P<b>[A-Z])(?:[.):]\s*(?P<s>.*))?")
_BASED = re.compile(r"\(?([0-9A-Fa-f]+)\)?_\{?(\d+|\\text\{\s*(?:two|three|four|five|six|seven|eight|nine|ten)\s*\})\}?")
_BASES = {w: i for i, w in enumerate(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], start=2)}
_LABEL = re.compile(
    r"m?\\angle\s*[A-Z]+|\\overline\s*\{[A-Z]+\}|\\text\s*\{[^{}]*\}|"
    r"(?:\\[A-Za-z]+|[A-Z]{2,4}|[A-Za-z]|[A-Za-z]{4,})(?:_(?:\w|\{\w+\}))?"
    r"(?:\^\{-1\})?(?:\([A-Za-z](?:,[A-Za-z])*\))?'*|\([a-z](?:,[a-z])+\)"
)
_GRID = re.compile(
    r"\\begin\{[pbBv]?(?:small)?matrix\}(.*)\\end\{[pbBv]?(?:small)?matrix\}|\\begin\{array\}\{[^}]*\}(.*)\\end\{array\}"
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NOTHING = {"no solution", "no solutions", "empty set", "no real solution", "no real solutions", "there are no solutions"}
_AND = re.compile(
    r"\s*,?\s*(?:\\text\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])|\\lor|\\vee|\\land|\\wedge)\s*"
)


def read(answer: str) -> tuple[Reading, ...]:
    """Every reading of a text as people write it. Raises Unreadable."""
    return _read(clean(answer))


def _read(text: str) -> tuple[Reading, ...]:
    if not text:
        raise Unreadable("the text is empty")
    whole = re.fullmatch(r"\\text\s*\{([^{}]*)\}", text)
    if whole:
        return _read(clean(whole[1]))
    for reader in (_empty, _clock, _choice, _words, _based, _grid, _listed, _plus_minus, _related, _bracketed, _ratio):
        found = reader(text)
        if found is not None:
            return found
    return (_quantity(text),)


def _empty(text: str) -> tuple[Reading, ...] | None:
    if text in ("\\emptyset", "\\{\\}", "\\{ \\}") or plain(text) in _NOTHING:
        return (Items("set", ()),)
    named = named_set(text)
    return None if named is None else (named,)


def _clock(text: str) -> tuple[Reading, ...] | None:
    found = re.fullmatch(
        r"(\d{1,2})(?:\s*:\s*(\d{2}))?\s*([ap])\.?\s?m\.?", re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text), re.IGNORECASE
    )
    return (Words(f"{int(found[1])}:{found[2] or '00'} {found[3].lower()}m"),) if found else None


def _choice(text: str) -> tuple[Reading, ...] | None:
    bare = re.sub(r"^\\text\s*\{\s*(\(?[A-Za-z]\)?[.):]?)\s*\}", r"\1", text)
    found = _CHOICE.fullmatch(bare.strip())
    if not found or (found["a"] and found["r"] and not re.match(r"\s|\\(?:text|frac|sqrt|pi)|[A-Z0-9$]", found["r"])):
        return None
    if _AND.search(found["r"] or found["s"] or "") or re.search(r"\([A-Z]\)", found["r"] or ""):
        return None  # several choices
    choice = Choice((found["a"] or found["b"]), (found["r"] or found["s"] or "").strip() or None)
    if found["a"] and found["a"].islower() and choice.rest:
        return None
    is_symbol = choice.rest is None and len(bare.strip("()")) == 1
    return (choice, Scalar(read_scalar(bare.strip("()")))) if is_symbol else (choice,)


def _words(text: str) -> tuple[Reading, ...] | None:
    """Words without a formula beside them. Two or three letters with a vowel are a word, others a product."""
    unwrapped = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text).strip()
    if re.search(r"[\\^_=<>+*{}]", unwrapped) or not re.search(r"[A-Za-z]{2,}", unwrapped):
        return None
    if re.fullmatch(r"[A-Za-z]{2,3}", unwrapped) and "\\text" not in text and not re.search("[eiouEIOU]", unwrapped):
        return None
    if re.match(r"[-+.\d(\[]", unwrapped) and (units.split_unit(text) or not re.search(r"[A-Za-z]{3,}|[ap]\.?m", unwrapped)):
        return None
    if _AND.search(text) and all(re.match(r"[-+\d(\[]|[A-Za-z]$", p) for p in split(_AND.sub(" , ", text), ",") if p):
        return None
    return (Words(plain(text)),)


def _based(text: str) -> tuple[Reading, ...] | None:
    found = _BASED.fullmatch(text)
    if not found or not (found[1][0].isdigit() or len(found[1]) > 1):
        return None
    base = int(found[2]) if found[2].isdigit() else _BASES[plain(found[2])]
    if not 2 <= base <= 36 or any(int(d, 36) >= base for d in found[1]):
        raise Unreadable(f"`{text}` has a digit that base {base} lacks")
    return (Based(found[1].lstrip("0").upper() or "0", base),)


def _grid(text: str) -> tuple[Reading, ...] | None:
    found = _GRID.fullmatch(text.strip("()[]"))
    if not found:
        return None
    if "vmatrix" in text:
        raise Unreadable("a determinant is not evaluated")
    rows = [[cell.strip() for cell in split(row, "&")] for row in split((found[1] or found[2]).strip(), "\\\\") if row.strip()]
    if len({len(row) for row in rows}) != 1:
        raise Unreadable("a matrix whose rows differ in length")
    return (Grid(tuple(tuple(read_scalar(cell) for cell in row) for row in rows)),)


def _listed(text: str) -> tuple[Reading, ...] | None:
    """A list in no bracket: separated by commas, semicolons or words."""
    joined = _AND.sub(" ; ", text)
    if _THOUSANDS.fullmatch(text):
        number = Scalar(read_scalar(text.replace(",", "")))
        return (number, _items("bare", text.split(",")))
    parts = [p for p in (x.strip() for x in split(joined, ";", ",")) if p]
    if len(parts) < 2:
        return None
    measured = units.split_unit(text)
    if measured and _THOUSANDS.fullmatch(measured[0]):
        return (_quantity(text),)
    if any(re.search(r"(?<![=<>])[<>]|\\leq|\\geq|\\neq|\\in(?![A-Za-z])", p) for p in parts):
        found = read_ranges(text)
        if found is not None:
            return (found,)
    if ";" not in joined and split(text, "\\mid")[1:]:
        raise Unreadable(f"`{text}` is not read")
    if _unspaced_thousands(text):
        return (
            _items("bare", parts),
            _items("bare", [p.replace(",", "") for p in re.split(r"[,;]\s+|\s*;\s*", joined) if p.strip()]),
        )
    return (_items("set" if _AND.search(text) and "=" not in text else "bare", parts),)


def _unspaced_thousands(text: str) -> bool:
    """`1,000, 2,000`: numbers with thousands separators in a list whose separators are followed by a space."""
    parts = [p.strip() for p in re.split(r"[,;]\s+|\s*;\s*", _AND.sub(" ; ", text)) if p.strip()]
    return (
        len(parts) > 1
        and any(_THOUSANDS.fullmatch(p) for p in parts)
        and all("," not in p or _THOUSANDS.fullmatch(p) for p in parts)
    )


def _items(kind: str, parts: list[str]) -> Items:
    if any(p.strip() == "\\ldots" for p in parts):
        return Items("dots", tuple(None if p.strip() == "\\ldots" else _read(p.strip()) for p in parts))
    return Items(kind, tuple(i for p in parts for i in _spread(_read(p.strip()))))


def _spread(item: tuple[Reading, ...]) -> list[tuple[Reading, ...]]:
    """`\\pm 1` in a list is two of its items; `(x,y)=(1,2)` is one."""
    if len(item) == 1 and isinstance(item[0], Items) and item[0].kind == "bare":
        if len({r.label for i in item[0].items for r in i or () if isinstance(r, Labelled)}) > 1:
            return [item]
        return [i for i in item[0].items if i is not None]
    return [item]


def _plus_minus(text: str) -> tuple[Reading, ...] | None:
    """One plus-minus sign is two values; several may be tied to each other, which the text does not say."""
    if text.startswith("\\{"):
        return None
    count = len(re.findall(r"\\(?:pm|mp)(?![A-Za-z])", text))
    if not count:
        return None
    if count > 1:
        raise Unreadable("several plus-minus signs in one expression")
    signs = [re.sub(r"\\(?:pm|mp)(?![A-Za-z])", sign, text) for sign in "+-"]
    return (Items("bare", tuple(_read(re.sub(r"^\+|(?<=[=({,])\+", "", s.strip())) for s in signs)),)


def _related(text: str) -> tuple[Reading, ...] | None:
    """Equations, labels, chains, approximations, inequalities and memberships."""
    sides = split(text, "\\approx")
    if len(sides) == 2:
        return _approximate(*sides)
    if (text[0] in "([" and closing(text, 0) == len(text) - 1) or (text.startswith("\\{") and text.endswith("\\}")):
        return None
    member = re.fullmatch(r"[A-Za-z]\s*\\in\s*(\\\{.*\\\})", text)
    if member:
        return _read(member[1])
    found = read_ranges(text)
    if found is not None:
        return (found,)
    if re.search(r"\\leq|\\geq|[<>]", text):
        return (_inequality(text),)
    parts = split(text, "=")
    if len(parts) < 2:
        return None
    if any(not p for p in parts):
        raise Unreadable(f"`{text}` has nothing on one side")
    if len(parts) == 2 and _LABEL.fullmatch(parts[1]) and not _LABEL.fullmatch(parts[0]):
        parts.reverse()
    names = re.fullmatch(r"\(([a-z](?:,[a-z])+)\)", parts[0])
    if names and len(parts) == 2 and parts[1][:1] == "(":
        return (_named_point(names[1].split(","), parts[1]),)
    if len(parts) > 2 and all(re.fullmatch(r"[a-z]", p) for p in parts[:-1]):
        return (Items("bare", tuple((Labelled(name, _read(parts[-1])),) for name in parts[:-1])),)
    if _LABEL.fullmatch(parts[0]) and not _defines_itself(parts):
        labelled = Labelled(_spelled(parts[0]), _chain(parts[1:]))
        return (labelled, *_equation(parts))
    if len(parts) == 2:
        values = [_scalar_or_none(p) for p in parts]
        if None not in values and not any(v.free_symbols for v in values if v is not None):
            return _chain(parts)
        equation = _equation(parts)
        if not equation:
            raise Unreadable(f"`{text}` is no equation that is read")
        return equation
    return _chain(parts)


def _named_point(names: list[str], text: str) -> Items:
    """`(x,y)=(1,2)` as `x=1, y=2`."""
    values = split(text[1:-1], ",")
    if len(values) != len(names):
        raise Unreadable(f"`{text}` has not one value for each of {', '.join(names)}")
    return Items("bare", tuple((Labelled(n, _read(v)),) for n, v in zip(names, values, strict=True)))


def _defines_itself(parts: list[str]) -> bool:
    """`y = x - y`: no label, an equation."""
    values = [_scalar_or_none(p) for p in parts]
    return values[0] is not None and any(v is not None and v.free_symbols & values[0].free_symbols for v in values[1:])


def _equation(parts: list[str]) -> tuple[Reading, ...]:
    values = [_scalar_or_none(p) for p in parts]
    return (Equation(values[0], values[1]),) if len(values) == 2 and None not in values else ()  # type: ignore[arg-type]


def _chain(parts: list[str]) -> tuple[Reading, ...]:
    """a = b = c is one value when all are equal, and nothing otherwise."""
    last = _read(parts[-1])
    for part in parts[:-1]:
        value, end = _scalar_or_none(part), next((r.value for r in last if isinstance(r, Scalar)), None)
        if value is None or end is None or equal(value, end) is not True:
            raise Unreadable(f"`{' = '.join(parts)}` is not shown to be one value")
    return last


def _approximate(left: str, right: str) -> tuple[Reading, ...]:
    """The exact side counts; the rounded one too where it is a right rounding. A label or nothing on the left leaves the right
    side.
    """
    if not left:
        return _read(right)
    if _LABEL.fullmatch(left):
        return (Labelled(_spelled(left), _read(right)),)
    exact, rounded = _read(left), re.fullmatch(r"-?\d*\.(\d+)", right)
    value = next((r.value for r in exact if isinstance(r, Scalar)), None)
    if value is not None and rounded and not value.free_symbols and value.is_real:
        unit = sympy.Rational(1, 10 ** len(rounded[1]))
        if abs(value - read_scalar(right)).evalf(30) <= unit / 2:
            return (*exact, *_read(right))
    return exact


def _inequality(text: str) -> Inequality:
    parts = re.split(r"(\\leq|\\geq|<|>)", text)
    if len(parts) != 3:
        raise Unreadable(f"`{text}` is a chain of inequalities in several variables")
    left, sign, right = read_scalar(parts[0].strip()), parts[1], read_scalar(parts[2].strip())
    positive = left - right if sign in (">", "\\geq") else right - left
    return Inequality(positive, sign in "<>")


def _bracketed(text: str) -> tuple[Reading, ...] | None:
    """Sets, points, vectors and intervals."""
    if text.startswith("\\{") and text.endswith("\\}"):
        inner = text[2:-2].strip()
        condition = re.fullmatch(r"([A-Za-z])\s*(?:\\in\s*\\mathbb\{R\})?\s*[|:]\s*(.*)", inner)
        found = read_ranges(condition[2]) if condition else None
        if found is not None:
            return (Ranges(found.points),)
        if condition or ":" in inner:
            raise Unreadable("a set by this condition is not read")
        return (_items("set", split(inner, ",", ";")),)
    if text[0] == "⟨" and text[-1] == "⟩":
        return (_items("tuple", split(text[1:-1], ",")),)
    if text[0] not in "([" or closing(text, 0) != len(text) - 1:
        return None
    parts = split(text[1:-1], ",", ";")
    if len(parts) < 2:
        return None
    interval = read_ranges(text)
    if text[0] == "(" and text[-1] == ")":
        if interval is not None and ("\\infty" in text):
            return (interval,)
        point = _items("tuple", parts)
        return (point, interval) if interval is not None else (point,)
    if interval is not None:
        return (interval,)
    if text[0] == "[" and text[-1] == "]" and len(parts) > 2:
        return (_items("tuple", parts),)
    raise Unreadable(f"`{text}` is neither a point nor an interval")


def _ratio(text: str) -> tuple[Reading, ...] | None:
    parts = split(text, ":")
    if len(parts) < 2:
        return None
    clock = re.fullmatch(r"\d{1,2}:\d{2}(?::\d{2})?", text.replace(" ", "")) is not None
    return (Ratio(tuple(read_scalar(p) for p in parts), clock),)


def _quantity(text: str) -> Scalar:
    whole = units.split_unit(text)
    number, unit = whole if whole else (text, None)
    if _THOUSANDS.fullmatch(number):
        number = number.replace(",", "")
    return Scalar(read_scalar(number), unit)


def _scalar_or_none(text: str) -> sympy.Expr | None:
    try:
        found = _quantity(text)
    except Unreadable:
        return None
    return found.value if found.unit is None else None


def _spelled(label: str) -> str:
    return label.replace("{", "").replace("}", "").replace(" ", "")
