"""Solution sets on the real line: intervals, unions of them, inequalities in one variable, named sets, all as sympy sets."""

import re
from dataclasses import dataclass

import sympy

from mentor_audit.tasks.maths.scalar import Unreadable, read_scalar
from mentor_audit.tasks.maths.text import closing, plain, split


@dataclass(frozen=True)
class Ranges:
    """`points` as a set; `variable` is the one whose values they are, None where the text names none."""

    points: sympy.Set
    variable: str | None = None


_SIGNS = {
    "<": sympy.StrictLessThan,
    ">": sympy.StrictGreaterThan,
    "\\leq": sympy.LessThan,
    "\\geq": sympy.GreaterThan,
    "=": sympy.Eq,
    "\\neq": sympy.Ne,
}
_SIGN = re.compile(r"\s*(\\leq|\\geq|\\neq|[<>=])\s*")
_OR = re.compile(r"\s*,?\s*(?:\\text\{\s*,?\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])|\\lor|\\vee)\s*")
_AND = re.compile(r"\s*(?:,?\s*(?:\\text\{\s*,?\s*and\s*\}|(?<![A-Za-z\\])and(?![A-Za-z])|\\land|\\wedge)|[,;])\s*")
_NAMED = {
    "\\mathbb{R}": sympy.S.Reals, "\\mathbb{Z}": sympy.S.Integers, "\\mathbb{N}": sympy.S.Naturals,
    "\\mathbb{Q}": sympy.S.Rationals,
    "\\mathbb{C}": sympy.S.Complexes, "\\mathbb{R}^+": sympy.Interval.open(0, sympy.oo),
    "\\mathbb{R}^{+}": sympy.Interval.open(0, sympy.oo),
}  # fmt: skip
_NAMES = {
    "all real numbers": sympy.S.Reals,
    "all reals": sympy.S.Reals,
    "real numbers": sympy.S.Reals,
    "all integers": sympy.S.Integers,
}


def named_set(text: str) -> Ranges | None:
    points = _NAMED.get(text) or _NAMES.get(plain(text))
    return None if points is None else Ranges(points)


def read_ranges(text: str) -> Ranges | None:
    """None: the text is not of this kind. Raises Unreadable when it is and can't be read fully."""
    member = re.fullmatch(r"([A-Za-z])\s*\\in(?![A-Za-z])\s*(.+)", text)
    if member:
        inner = read_ranges(member[2]) or named_set(member[2])
        return None if inner is None else Ranges(inner.points, member[1])
    if _is_union(text):
        return Ranges(_union(text))
    if text[:1] in ("(", "[", "]") and (text[0] == "]" or closing(text, 0) == len(text) - 1):
        return _interval(text)
    if not re.search(r"\\leq|\\geq|\\neq|[<>]", text):
        return None
    found = [[_relation(part) for part in _AND.split(side) if part] for side in _OR.split(text)]
    variables = {v for side in found for _, v in side}
    if None in variables or len(variables) != 1:
        return None
    points = sympy.Union(*(_all_of([p for p, _ in side if p is not None]) for side in found))
    return Ranges(points, variables.pop())


def _all_of(sets: list[sympy.Set]) -> sympy.Set:
    """Conditions side by side hold together; where nothing can meet all of them they are alternatives."""
    together = sympy.Intersection(*sets)
    return sympy.Union(*sets) if together.is_empty else together


def _is_union(text: str) -> bool:
    return len(split(text, "\\cup")) > 1 or len(split(text, "\\setminus", "\\backslash")) > 1 or len(split(text, "\\cap")) > 1


def _union(text: str) -> sympy.Set:
    for sign, build in (("\\cup", sympy.Union), ("\\cap", sympy.Intersection)):
        parts = split(text, sign)
        if len(parts) > 1:
            return build(*(_union(p) for p in parts))
    parts = split(text, "\\setminus", "\\backslash")
    if len(parts) > 1:
        return sympy.Complement(_union(parts[0]), sympy.Union(*(_union(p) for p in parts[1:])))
    if text.startswith("\\{") and text.endswith("\\}"):
        return sympy.FiniteSet(*(read_scalar(p) for p in split(text[2:-2], ",", ";")))
    found = named_set(text) or read_ranges(text)
    if found is None:
        raise Unreadable(f"`{text}` is no set that is read")
    return found.points


def _interval(text: str) -> Ranges | None:
    ends = split(text[1:-1], ",", ";")
    if len(ends) != 2 or text[-1] not in ")][":
        return None
    try:
        low, high = (read_scalar(e) for e in ends)
    except Unreadable:
        return None
    if not (low.is_extended_real and high.is_extended_real) or (not (low.free_symbols or high.free_symbols) and (low > high)):
        return None
    return Ranges(sympy.Interval(low, high, text[0] in "(]", text[-1] in ")["))


def _relation(text: str) -> tuple[sympy.Set | None, str | None]:
    """(values, variable) of a relation or chain of relations in one variable; (None, None): it has none or several."""
    pieces = _SIGN.split(text)
    sides = [read_scalar(p) for p in pieces[::2]]
    symbols = {s for side in sides for s in side.free_symbols}
    if len(symbols) != 1 or len(sides) < 2:
        return None, None
    x = symbols.pop()
    sets = [_solved(_SIGNS[sign](a, b, evaluate=False), x) for a, sign, b in zip(sides, pieces[1::2], sides[1:], strict=False)]
    return sympy.Intersection(*sets), x.name


def _solved(relation: sympy.Basic, x: sympy.Symbol) -> sympy.Set:
    left, right = relation.args
    if x in (left, right):
        other, flipped = (right, False) if left == x else (left, True)
        if not other.free_symbols:
            below, above = sympy.Interval.open(-sympy.oo, other), sympy.Interval.open(other, sympy.oo)
            kinds = {sympy.StrictLessThan: below, sympy.StrictGreaterThan: above}
            point = sympy.FiniteSet(other)
            kinds |= {sympy.LessThan: below + point, sympy.GreaterThan: above + point, sympy.Eq: point, sympy.Ne: below + above}
            kind = type(relation)
            mirrored = {sympy.StrictLessThan: sympy.StrictGreaterThan, sympy.LessThan: sympy.GreaterThan}
            mirrored |= {b: a for a, b in mirrored.items()}
            return kinds[mirrored.get(kind, kind) if flipped else kind]
    try:
        if isinstance(relation, (sympy.Eq, sympy.Ne)):
            roots = sympy.solveset(left - right, x, sympy.S.Reals)
            return sympy.S.Reals - roots if isinstance(relation, sympy.Ne) else roots
        return sympy.solve_univariate_inequality(relation, x, relational=False)
    except (NotImplementedError, ValueError, TypeError) as error:
        raise Unreadable(f"the inequality in {x} is not solved ({error})") from error
