"""The types of answers. Each says what the text names; whether two agree is for `compare` to say."""

from dataclasses import dataclass

import sympy

from mentor_audit.tasks.maths.ranges import Ranges
from mentor_audit.tasks.maths.units import Unit


@dataclass(frozen=True)
class Scalar:
    """A number or an expression, with its unit if it names one."""

    value: sympy.Expr
    unit: Unit | None = None


@dataclass(frozen=True)
class Choice:
    """A letter of a multiple choice; `rest` is what stands beside it."""

    letter: str
    rest: str | None = None


@dataclass(frozen=True)
class Words:
    text: str


@dataclass(frozen=True)
class Based:
    """Digits in a base that the text names."""

    digits: str
    base: int

    @property
    def value(self) -> sympy.Integer:
        return sympy.Integer(int(self.digits, self.base))


@dataclass(frozen=True)
class Ratio:
    parts: tuple[sympy.Expr, ...]
    is_clock: bool


@dataclass(frozen=True)
class Equation:
    """`left` = `right`, as the set of points where they agree."""

    left: sympy.Expr
    right: sympy.Expr


@dataclass(frozen=True)
class Inequality:
    """`positive` > 0, or >= 0, in several variables."""

    positive: sympy.Expr
    is_strict: bool


@dataclass(frozen=True)
class Labelled:
    """`label` = one of the readings."""

    label: str
    readings: "tuple[Reading, ...]"


@dataclass(frozen=True)
class Items:
    """`kind`: bare (in no bracket), set (braces), tuple (order matters), or dots (a bare list with an ellipsis, which is None)."""

    kind: str
    items: "tuple[tuple[Reading, ...] | None, ...]"


@dataclass(frozen=True)
class Grid:
    rows: tuple[tuple[sympy.Expr, ...], ...]


Reading = Scalar | Choice | Words | Based | Ratio | Equation | Inequality | Labelled | Items | Grid | Ranges
