"""Do two answers agree: by the type of each first, then within the type. True, False, or None for "can't tell"; the order does
not matter.
"""

from collections.abc import Callable, Iterable
from typing import Any

import sympy

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
from mentor_audit.tasks.maths.ranges import Ranges
from mentor_audit.tasks.maths.readings import read
from mentor_audit.tasks.maths.scalar import Unreadable
from mentor_audit.tasks.maths.text import plain
from mentor_audit.tasks.maths.zerosets import same_side, same_zeros

Readings = tuple[Reading, ...]


def same(a: Readings, b: Readings) -> bool | None:
    """Some reading of one agrees with some reading of the other. Two that are solved for the same letter differ when their
    values do.
    """
    labels = [next((r for r in side if isinstance(r, Labelled)), None) for side in (a, b)]
    if labels[0] is not None and labels[1] is not None and labels[0].label == labels[1].label:
        return _labelled(labels[0], labels[1])
    return _any(_pair(x, y) for x in a for y in b)


def _any(found: Iterable[bool | None]) -> bool | None:
    verdicts = set(found)
    return True if True in verdicts else None if None in verdicts else False


def _all(found: Iterable[bool | None]) -> bool | None:
    verdicts = set(found)
    return False if False in verdicts else None if None in verdicts else True


def _pair(a: Reading, b: Reading) -> bool | None:
    if type(a) is type(b):
        return _WITHIN[type(a)](a, b)
    first, second = sorted((a, b), key=lambda r: _ORDER.get(type(r), len(_ORDER)))
    return _mixed(first, second)


def _scalars(a: Scalar, b: Scalar) -> bool | None:
    if a.unit is None and b.unit is None:
        return equal(a.value, b.value)
    if a.unit is None or b.unit is None:
        bare, named = (a, b) if a.unit is None else (b, a)
        assert named.unit is not None
        meanings = [named.value, named.value * named.unit.factor] if named.unit.is_scale else [named.value]
        return _any([equal(bare.value, m) for m in meanings])
    if a.unit.dimension == b.unit.dimension:
        return equal(a.value * a.unit.factor, b.value * b.unit.factor)
    if a.unit.is_known and b.unit.is_known:
        return False
    return None if equal(a.value, b.value) is not False else False


def _choices(a: Choice, b: Choice) -> bool | None:
    if a.letter == b.letter:
        clash = a.rest is not None and b.rest is not None and plain(a.rest) != plain(b.rest)
        return None if clash and _rests(a, b) is not True else True
    return None if a.letter.lower() == b.letter.lower() else False


def _rests(a: Choice, b: Choice) -> bool | None:
    try:
        return same(read(a.rest or ""), read(b.rest or ""))
    except Unreadable:
        return None


def _words(a: Words, b: Words) -> bool | None:
    if a.text == b.text:
        return True
    if sorted(a.text) == sorted(b.text) and len(a.text) < 4:
        return None  # a product of letters in another order, or another word
    some, others = set(a.text.split()), set(b.text.split())
    return None if some <= others or others <= some else False


def _based(a: Based, b: Based) -> bool | None:
    if a.base == b.base:
        return a.digits == b.digits
    return None if a.value == b.value else False


def _ratios(a: Ratio, b: Ratio) -> bool | None:
    if len(a.parts) != len(b.parts):
        return False
    if a.parts == b.parts:
        return True
    proportional = _all([equal(x * b.parts[0], y * a.parts[0]) for x, y in zip(a.parts, b.parts, strict=True)])
    return None if proportional and (a.is_clock or b.is_clock) else proportional


def _equations(a: Equation, b: Equation) -> bool | None:
    return same_zeros(a.left - a.right, b.left - b.right)


def _inequalities(a: Inequality, b: Inequality) -> bool | None:
    return same_side(a.positive, b.positive, a.is_strict == b.is_strict)


def _labelled(a: Labelled, b: Labelled) -> bool | None:
    inside = same(a.readings, b.readings)
    return inside if a.label == b.label else None if inside is not False else False


def _grids(a: Grid, b: Grid) -> bool | None:
    if (len(a.rows), len(a.rows[0])) != (len(b.rows), len(b.rows[0])):
        return False
    return _all([equal(x, y) for r, s in zip(a.rows, b.rows, strict=True) for x, y in zip(r, s, strict=True)])


def _ranges(a: Ranges, b: Ranges) -> bool | None:
    found = _sets(a.points, b.points)
    return None if found and a.variable and b.variable and a.variable != b.variable else found


def _sets(a: sympy.Set, b: sympy.Set) -> bool | None:
    if a == b:
        return True
    if sympy.EmptySet in (a, b):
        return (b if a is sympy.EmptySet else a).is_empty
    pieces = [
        sorted(s.args if isinstance(s, sympy.Union) else [s], key=lambda p: sympy.default_sort_key(p.inf.evalf())) for s in (a, b)
    ]
    if all(isinstance(p, sympy.Interval) for side in pieces for p in side):
        if len(pieces[0]) != len(pieces[1]):
            return False
        pairs = list(zip(*pieces, strict=True))
        if any((p.left_open, p.right_open) != (q.left_open, q.right_open) for p, q in pairs):
            return False
        return _all([equal(x, y) for p, q in pairs for x, y in ((p.start, q.start), (p.end, q.end))])
    inside = (a.is_subset(b), b.is_subset(a))
    return False if False in inside else None if None in inside else True


def _items(a: Items, b: Items) -> bool | None:
    if "dots" in (a.kind, b.kind):
        return _with_dots(a, b) if a.kind == b.kind else None
    kinds = {a.kind, b.kind}
    if kinds == {"set", "tuple"}:
        return None if len(a.items) == len(b.items) == 1 else False
    if "tuple" in kinds and (_same_base(a) or _same_base(b)):
        return None  # values of one unknown against a point
    if (
        "set" in kinds
        and (_one_letter_several_names(a) or _one_letter_several_names(b))
        and (_names(a) is None) != (_names(b) is None)
    ):
        return False
    if "tuple" in kinds:
        ordered = _in_order(a, b)
        by_name = None if kinds == {"tuple"} else _by_name(a, b)
        return ordered if by_name is None else by_name
    by_name = _by_name(a, b)
    if by_name is not None and not _same_base(a) and not _same_base(b):
        return by_name
    if a.kind == "set":
        a = Items("set", _distinct(a))
    if b.kind == "set":
        b = Items("set", _distinct(b))
    if _one_letter_several_names(a) != _one_letter_several_names(b) and (_names(a) is None) != (_names(b) is None):
        return _in_order(a, b)
    return _matched(a, b)


def _with_dots(a: Items, b: Items) -> bool | None:
    """The same written terms are the same sequence. Other first or last terms are another one; else the text does not say."""
    if len(a.items) == len(b.items) and _in_order(a, b):
        return True
    ends = []
    for x, y in ((a.items[0], b.items[0]), (a.items[-1], b.items[-1])):
        ends.append(None if x is None or y is None else same(x, y))
    return False if False in ends else None


def _in_order(a: Items, b: Items) -> bool | None:
    if len(a.items) != len(b.items):
        return False
    return _all([x is y if x is None or y is None else same(x, y) for x, y in zip(a.items, b.items, strict=True)])


def _names(a: Items) -> list[str] | None:
    """The labels, when every item has one."""
    found = [next((r.label for r in item or () if isinstance(r, Labelled)), None) for item in a.items]
    return None if None in found else [name for name in found if name is not None]


def _one_letter_several_names(a: Items) -> bool:
    """`x=1, y=2`: values of different unknowns, not several values of one."""
    names = _names(a)
    return names is not None and len({n.split("_")[0] for n in names}) > 1


def _same_base(a: Items) -> bool:
    """`x=1, x=2` or `x_1=1, x_2=2`: several values of one unknown."""
    names = _names(a)
    return names is not None and len({n.split("_")[0] for n in names}) == 1


def _by_name(a: Items, b: Items) -> bool | None:
    """`x=1, y=2` against the same names, or against a point or list in the order of the alphabet; None: names do not decide."""
    mine, theirs = _names(a), _names(b)
    for names in (mine, theirs):
        if names is not None and len(set(names)) != len(names):
            return None
    if mine is not None and theirs is not None:
        if sorted(mine) != sorted(theirs):
            return None
        return _in_order(_sorted(a, mine), _sorted(b, theirs))
    if mine is not None:
        return _in_order(_sorted(a, mine), b)
    if theirs is not None:
        return _in_order(a, _sorted(b, theirs))
    return None


def _sorted(a: Items, names: list[str]) -> Items:
    return Items(a.kind, tuple(item for _, item in sorted(zip(names, a.items, strict=True), key=lambda pair: pair[0])))


def _distinct(a: Items) -> tuple:
    kept: list[Readings] = []
    for item in a.items:
        if item is not None and not any(same(item, k) for k in kept):
            kept.append(item)
    return tuple(kept)


def _matched(a: Items, b: Items) -> bool | None:
    """Each item of one has a partner of its own in the other, in any order."""
    if len(a.items) != len(b.items):
        return False
    left, unsure = [item for item in b.items if item is not None], False
    for item in a.items:
        verdicts = [same(item or (), other) for other in left]
        if True in verdicts:
            left.pop(verdicts.index(True))
        elif None in verdicts:
            left.pop(verdicts.index(None))
            unsure = True
        else:
            return False
    return None if unsure else True


def _mixed(a: Reading, b: Reading) -> bool | None:
    """Two types that can name one thing."""
    if isinstance(a, Labelled):
        return same(a.readings, (b,))
    if isinstance(a, Items):
        return _items_with(a, b)
    if isinstance(a, Based) and isinstance(b, Scalar):
        is_same_text = b.value.is_Integer and a.digits.isdigit() and b.value == int(a.digits)
        return None if b.value == a.value or is_same_text else False
    if isinstance(a, Ratio) and isinstance(b, Scalar):
        return equal(a.parts[0] / a.parts[1], b.value) if len(a.parts) == 2 and not a.is_clock and a.parts[1] != 0 else False
    return False


def _items_with(a: Items, b: Reading) -> bool | None:
    if isinstance(b, Grid) and a.kind == "tuple" and 1 in (len(b.rows), len(b.rows[0])):
        flat = tuple((Scalar(x),) for row in b.rows for x in row)
        return _in_order(a, Items("tuple", flat))
    if isinstance(b, Ranges):
        if not a.items:
            return bool(b.points.is_empty)
        values = [next((r.value for r in item or () if isinstance(r, Scalar)), None) for item in a.items]
        is_real = all(v is not None and v.is_real for v in values)
        return _sets(sympy.FiniteSet(*values), b.points) if a.kind == "set" and is_real else False
    if len(a.items) == 1 and a.kind == "set" and a.items[0] is not None:
        return same(a.items[0], (b,))
    return False


_ORDER = {Labelled: 0, Items: 1, Based: 2, Ratio: 3}
_WITHIN: dict[type, Callable[[Any, Any], bool | None]] = {
    Scalar: _scalars, Choice: _choices, Words: _words, Based: _based, Ratio: _ratios, Equation: _equations, Inequality:
    _inequalities, Labelled: _labelled, Grid: _grids, Ranges: _ranges, Items: _items,
}  # fmt: skip
