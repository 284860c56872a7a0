"""Equalities that a solution claims: where they stand in its text, and whether each holds.

An equality is a claim when it needs nothing but itself to be true: arithmetic. One that defines or solves something, that is
only supposed, or that is not read to its end is no claim. A rounded decimal is no wrong claim.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import sympy
from sympy.functions.elementary.trigonometric import TrigonometricFunction

from mentor_audit.tasks.maths import units
from mentor_audit.tasks.maths.exact import equal, is_huge
from mentor_audit.tasks.maths.kinds import Scalar
from mentor_audit.tasks.maths.readings import read
from mentor_audit.tasks.maths.scalar import Unreadable
from mentor_audit.tasks.maths.text import clean, split

_ANNOTATION = re.compile(r"<<([^<>]*)>>")
_MATHS = re.compile(
    r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|(?<![\\$])\$(?!\s)([^$\n]+?)(?<![\s\\])\$(?!\d)|"
    r"(?<![\\$\w])\$[ \t]([^$\n]*\\[A-Za-z]+[^$\n]*)[ \t]\$(?!\w)",  # blanks inside the dollars: prices have them too, but no LaTeX
    re.DOTALL,
)
_RUN = re.compile(r"[-+*/×÷^().,$%=\d\s−]*=[-+*/×÷^().,$%=\d\s−]*")
_LATEX_WORDS = re.compile(
    r"\\text\s*\{\s*(?:and|or|so|then|thus|hence|which gives|,|;)\s*\}|"
    r"\\implies|\\Rightarrow|\\Longrightarrow|\\iff|\\to(?![a-z])|\\q?quad"
)
_SUPPOSED = re.compile(
    r"\b(?:if|suppose|assume|assuming|would|contradict\w*|impossible|not|isn't|doesn't|false|wrong|incorrect\w*|"
    r"let|unless|cannot|can't|never|mod|modulo|guess|try)\b|\?|≠|\\ne|\\equiv|≡|approx|round",
    re.IGNORECASE,
)
_FUNCTION = re.compile(r"\s*[A-Za-z]'*\(([a-z])\)\s*")
_BEFORE = re.compile(
    r"(?:^|[:;(>,.!]|\b(?:is|are|was|were|be|get|gets|got|have|has|had|so|then|thus|hence|therefore|that|means|"
    r"makes|made|makes|make|total|spend|spends|spent|sold|sells|sell|earn|earns|earned|pay|pays|paid|calculate|"
    r"compute|cost|costs|need|needs|needed|there|give|gives|used|uses|use|left|now|eats|ate|buys|bought|takes|"
    r"took|collects|collected|received|receives|saves|saved|bakes|baked|walked|walks|ran|runs|drove|drives|read|"
    r"reads|equals|since|because|as|know|find|obtain|wants|bring|brings|brought|wrote|writes|adds|added|do|does|"
    r"did))\s*$",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"\s*(?:more|less|fewer|times|of|x|dozen|hundred|thousand|million|billion|remainder|remaining|r|with|rounded|"
    r"percent|per cent|plus|minus|cents?|over|under|half|and a half|to|or|mod|squared|cubed|\*|/|\\|\^|=|≈|!|:\d|"
    r"\d|[a-zA-Z](?![a-zA-Z]))",
    re.IGNORECASE,
)
_CONVERSIONS = (7, 10, 12, 16, 24, 36, 52, 60, 100, 365, 1000, 3600)


@dataclass(frozen=True)
class Claim:
    """`holds` None: could not be checked."""

    text: str
    holds: bool | None
    why: str = ""


def claims(step: str) -> list[Claim]:
    """Every equality of the step, in order of where it is written: annotations, formulas, then arithmetic in running text."""
    supposed = _SUPPOSED.search(_ANNOTATION.sub("", step)) is not None
    found = []
    for left, right, argument in _equalities(step):
        text = f"{left} = {right}"
        found.append(Claim(text, None, "supposed or denied, not claimed") if supposed else _checked(text, left, right, argument))
    return found


def _equalities(step: str) -> Iterator[tuple[str, str, str | None]]:
    """(left, right, the argument of the function whose value both are said to be, None without one)."""
    for annotation in _ANNOTATION.findall(step):
        yield from ((a, b, None) for a, b in _pairs(annotation.split("=")))
    step = _ANNOTATION.sub("", step)
    for groups in _MATHS.findall(step):
        for chain in _chains(next(filter(None, groups))):
            function = _FUNCTION.fullmatch(chain[0])
            yield from ((a, b, function[1] if function else None) for a, b in _pairs(chain))
    plain = _MATHS.sub(" § ", step)
    for run in _RUN.finditer(plain):
        yield from ((a, b, None) for a, b in _pairs(_plain_sides(plain, run)))


def _pairs(sides: list[str]) -> list[tuple[str, str]]:
    return [(a.strip(), b.strip()) for a, b in itertools.pairwise(sides) if a.strip() and b.strip()]


def _chains(maths: str) -> Iterator[list[str]]:
    """The sides of each chain in a formula. A row of an alignment that starts with its sign goes on from the row above."""
    maths = re.sub(r"\\(?:begin|end)\{(?:align|aligned|gather|gathered|equation|split)\*?\}", "", maths).replace("&", "")
    rows = re.split(r"\\\\(?:\[[^\]]*\])?", maths)
    joined: list[str] = []
    for row in rows:
        if joined and row.strip().startswith("="):
            joined[-1] += row
        else:
            joined.append(row)
    for row in joined:
        for part in _LATEX_WORDS.split(row):
            for piece in split(part, ", ", ";"):
                exact = re.split(r"\\approx|≈|\\sim|\\leq?|\\geq?|<|>|\\in(?![a-z])", piece)[0]
                sides = split(exact, "=")
                if len(sides) > 1 and len(re.split(r"<|>|\\le|\\ge", piece)) == 1:
                    yield sides


def _plain_sides(text: str, run: "re.Match[str]") -> list[str]:
    """The sides of arithmetic in running text. Empty: what stands before or after may belong to it."""
    sides = [s.strip() for s in run[0].split("=")]
    first = re.split(r"[,.]\s+|^\s*\d+[.)]\s+", sides[0])
    before = text[: run.start()] if len(first) == 1 else ","
    sides[0] = first[-1].strip()
    if sides[0] and not _BEFORE.search(before.rstrip("$ ")):
        sides[0] = ""
    last = re.split(r"[,.](?:\s+|$)", sides[-1])
    after = text[run.end() :] if len(last) == 1 else ""
    sides[-1] = last[0].strip()
    glued = len(last) == 1 and run[0][-1:] not in (" ", "\n") and re.match(r"\w", after)
    if _AFTER.match(after) or glued or "§" in text[max(0, run.start() - 2) : run.start()]:
        sides.pop()
    return [s if not re.match(r"[*/×÷^)]|[-+]\s", s) else "" for s in sides]


def _checked(text: str, left: str, right: str, argument: str | None) -> Claim:
    """An equality with unknowns may hold for all of them; one that does not is an equation to solve, unless it rewrites f(x)."""
    try:
        a, b = _side(left), _side(right)
    except Unreadable as error:
        return Claim(text, None, str(error))
    if not (a.value.free_symbols or b.value.free_symbols) and _is_plain(left) and _is_plain(right) and not (a.unit and b.unit):
        return Claim(text, None, "it only names a number")
    holds, why = _holds(a, b)
    names = [{s.name for s in side.value.free_symbols} for side in (a, b)]
    if holds is False and any(names) and not (argument and argument in names[0] and names[0] == names[1]):
        return Claim(text, None, "it defines or solves something")
    if holds is False and _goes_on_from(right, a.value):
        return Claim(text, None, "it may be a running total")
    return Claim(text, holds, why)


def _goes_on_from(right: str, left: sympy.Expr) -> bool:
    """`100 + 20 = 120 - 5 = 115`: the right side starts with the left side's value and works on."""
    start = re.match(r"\s*\\?\$?(\d[\d,.]*\d|\d)\s*(?:[-+*/×÷−]|\\times|\\cdot|\\div)", right)
    return start is not None and left.is_Rational and left == sympy.Rational(start[1].replace(",", ""))


def _side(text: str) -> Scalar:
    text = re.sub(r"(?<=[\d)])\s*[xX]\s*(?=[\d(])", "*", text.replace("\\$", "").replace("$", ""))
    if re.search(r"\\log(?!_)|(?<![A-Za-z\\])log(?!_)", text):
        raise Unreadable("the base of the logarithm is not given")
    text = re.sub(r"(\d+(?:\.\d+)?)\s*\\?%(?=\s*(?:[-+*/×)]|\\cdot|\\times))", r"(\1/100)", text)
    text = re.sub(r"((?:[*×]|\\cdot|\\times)\s*)(\d+(?:\.\d+)?)\s*\\?%", r"\1(\2/100)", text)
    if re.search(r"\d,\d{3}(?!\d)", text):
        text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    found = [r for r in read(clean(text)) if isinstance(r, Scalar)]
    if len(found) != 1:
        raise Unreadable(f"`{text}` is no single number or expression")
    value = found[0].value
    if value.has(sympy.E, sympy.I, sympy.exp, sympy.oo) or is_huge(value):
        raise Unreadable(f"`{text}` may hold a variable named e or i")
    if any(
        not t.args[0].has(sympy.pi) and not t.args[0].free_symbols and t.args[0] != 0 for t in value.atoms(TrigonometricFunction)
    ):
        raise Unreadable(f"`{text}` may be in degrees")
    return found[0]


def _holds(a: Scalar, b: Scalar) -> tuple[bool | None, str]:
    if a.unit and b.unit and a.unit != b.unit:
        if not (a.unit.is_known and b.unit.is_known) or a.unit.dimension != b.unit.dimension:
            return None, "the units differ"
        a, b = Scalar(a.value * a.unit.factor), Scalar(b.value * b.unit.factor)
    same = equal(a.value, b.value)
    if same is not False:
        return same, "" if same else "neither equal nor different could be shown"
    unit = a.unit or b.unit
    if unit and not (a.unit and b.unit) and unit.is_known and unit not in (units.Unit("dollar"),):
        scaled = equal(a.value * (a.unit.factor if a.unit else 1), b.value * (b.unit.factor if b.unit else 1))
        return (True, "") if scaled else (None, "a unit on one side only")
    if not a.value.free_symbols and not b.value.free_symbols:
        if _is_rounding(a.value, b.value) or _is_rounding(b.value, a.value):
            return None, "one side is rounded"
        if _is_conversion(a.value, b.value):
            return None, "the sides may be in different units"
    return False, f"the left side is {_shown(a.value)}, the right side {_shown(b.value)}"


def _is_plain(text: str) -> bool:
    """A number as it stands: nothing in it is to be worked out."""
    return re.fullmatch(r"[-+−]?\s*\\?\$?\s*[\d.,{}]+\s*\\?%?\s*(?:\\text\s*\{[^{}]*\})?|\\pi", text.strip()) is not None


def _is_rounding(exact: sympy.Expr, rounded: sympy.Expr) -> bool:
    """`rounded` is the exact value, which has more digits, cut or rounded to its own decimals."""
    if not rounded.is_Rational or not exact.is_real:
        return False
    places = next((k for k in range(9) if (rounded * 10**k).is_Integer), None)
    if places is None or (exact.is_Rational and (exact * 10**places).is_Integer):
        return False
    return bool(abs(exact - rounded).evalf(30) < sympy.Rational(1, 10**places))


def _is_conversion(a: sympy.Expr, b: sympy.Expr) -> bool:
    if a == 0 or b == 0:
        return False
    ratio = sympy.simplify(a / b)
    return any(ratio in (k, sympy.Rational(1, k)) for k in _CONVERSIONS)


def _shown(value: sympy.Expr) -> str:
    text = str(value) if not value.is_Rational or max(abs(value.p), value.q) < 10**30 else "a number of more than 30 digits"
    return text if len(text) <= 60 else text[:57] + "..."
