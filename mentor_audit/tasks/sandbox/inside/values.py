"""Values between processes: JSON that keeps the exact built-in types, and a comparison that knows nothing but them.

Lists, text, true, false, null, floats and integers of up to 64 bits are themselves; the rest is an object with one key:
`t` tuple, `s` set, `z` frozenset, `d` dict (a list of pairs), `b` bytes (hex), `c` complex, `f` a float that isn't finite, `i` a big
integer (hex). What arrives is plain, whatever the other side meant it to be: it has no methods of its own.
"""

import collections
import json
import math
from typing import Any

_DICTS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
_OWN_COMPARISON = (
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__hash__",
    "__bool__",
    "__abs__",
    "__sub__",
    "__rsub__",
)


class NotPlain(Exception):
    """A value that is not made of built-in types. `overrides` names the comparison that its class redefines; None: none."""

    def __init__(self, what: str, overrides: str | None = None) -> None:
        super().__init__(what)
        self.overrides = overrides


def dumps(value: Any) -> str:
    """Raises NotPlain; a subclass of a built-in type isn't plain, but for the dictionaries of `collections`, which become dicts."""
    try:
        return json.dumps(_packed(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise NotPlain("a value that is nested too deeply, or within itself") from None


def loads(text: str) -> Any:
    """Raises ValueError for anything that `dumps` doesn't write."""
    try:
        return _unpacked(json.loads(text, parse_constant=_refuse))
    except (RecursionError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"not a value: {type(error).__name__}") from None


def same(a: Any, b: Any) -> bool:
    """Python's `==` on plain values, but that a truth value equals no number. Lists are not tuples; nan equals nothing."""
    return bool(_marked(a) == _marked(b))


def _packed(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else {"i": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"f": repr(value)}
    if kind is list:
        return [_packed(v) for v in value]
    if kind is tuple:
        return {"t": [_packed(v) for v in value]}
    if kind is set or kind is frozenset:
        return {"s" if kind is set else "z": [_packed(v) for v in value]}
    if kind in _DICTS:
        return {"d": [[_packed(k), _packed(v)] for k, v in dict.items(value)]}
    if kind is bytes:
        return {"b": value.hex()}
    if kind is complex:
        return {"c": [_packed(value.real), _packed(value.imag)]}
    classes = [c for c in kind.__mro__ if c.__module__ != "builtins"]
    overrides = [name for c in classes for name in _OWN_COMPARISON if name in vars(c)]
    raise NotPlain(f"a value of class {kind.__module__}.{kind.__qualname__}"[:200], overrides[0] if overrides else None)


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(v) for v in value]
    if not isinstance(value, dict):
        return value
    ((tag, inner),) = value.items()
    if tag == "t":
        return tuple(_unpacked(v) for v in inner)
    if tag == "s":
        return {_unpacked(v) for v in inner}
    if tag == "z":
        return frozenset(_unpacked(v) for v in inner)
    if tag == "d":
        return {_unpacked(k): _unpacked(v) for k, v in inner}
    if tag == "b":
        return bytes.fromhex(inner)
    if tag == "c":
        return complex(*(_unpacked(v) for v in inner))
    if tag == "f":
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[inner]
    if tag == "i":
        return int(inner, 16)
    raise ValueError(f"not a value: unknown tag {tag!r}")


class _Truth:
    """Stands for a truth value where it must not equal 0 or 1."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Truth) and self.value == other.value

    def __hash__(self) -> int:
        return hash((_Truth, self.value))


def _marked(value: Any) -> Any:
    if isinstance(value, bool):
        return _Truth(value)
    if isinstance(value, float) and math.isnan(value):
        return float("nan")  # a new one: containers take the same object for equal
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(_marked(v) for v in value)
    if isinstance(value, dict):
        return {_marked(k): _marked(v) for k, v in value.items()}
    return value


def _refuse(token: str) -> Any:
    raise ValueError(f"not a value: {token}")
