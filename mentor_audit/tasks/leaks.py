"""The reference answer in a text: where it stands, and the text without it. docs/leakage.md has the rules as a table of cases.

Numbers are compared exactly, whichever way they are written; anything else as text, without what only changes its look. A short
answer, such as 2, `B` or `yes`, stands in many texts that do not give it away: it is found where the text says that it is the
answer. `scrub` asks less and removes every number of that value.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from mentor_audit.tasks.maths.extract import extract
from mentor_audit.tasks.quantities import Quantity, quantities

MARKER = "[removed]"
MAX_PASSES = 10
MAX_FORMULAS = 200
"""Formulas of a text that are compared by algebra; the text of more is not looked at beyond them."""
How = Literal["number", "number in words", "text", "literal", "formula"]
SameAnswer = Callable[[str, str], bool]
"""(reference, candidate) -> do they agree? For what no exact reading shows, such as `(x+1)^2` and `x^2+2x+1`."""

_DROPPED = r"\\(?:left|right|displaystyle|text|textbf|mathrm|mathbf)(?![A-Za-z])|\\[,;:!> ()\[\]]|[\s${}`]+"
_SAME = {
    "−": "-",
    "–": "-",
    "\\cdot": "*",
    "\\times": "*",
    "×": "*",
    "·": "*",
    "**": "^",
    "\\dfrac": "\\frac",
    "\\tfrac": "\\frac",
    '"': "'",
}
_TOKEN = re.compile(rf"(?P<dropped>{_DROPPED})|\\[A-Za-z]+|\*\*|.", re.DOTALL)
_LOOKS = re.compile(r"\\(?:left|right)(?![A-Za-z])|\\[,;:! ]")
_LABEL = re.compile(r"[A-Za-z](?:\([A-Za-z]\))?\s*=\s*")
_BEFORE_NUMBER = re.compile(r"[\s$€£{(*]*(?:\\[$(]|\\text\s?\{)?[\s$€£{(*]*(?:(?:about|approximately|US)\s?)?\\?[$€£]?")
_UNIT = r"""\^?\s?\{?\\circ\}?|°|(?:cm|mm|km|kg|mg|ml|mph)(?![A-Za-z])
    |(?<=[\s{])(?!(?:pi|sqrt|sin|cos|tan|log|ln)(?![A-Za-z]))(?:[A-Za-z]{2,20}|[mgshlLNJWV])(?:[ /-][A-Za-z]{1,20}){0,3}"""
_AFTER_NUMBER = re.compile(
    rf"[\s$}})*.]*(?:\\(?:text|mathrm|textbf)\s?\{{)?\s*(?:{_UNIT})?(?:\s?\^\{{?[23]\}}?)?[\s$}})*.]*", re.VERBOSE
)
_CHOICE = re.compile(r"(?:\\text\{)?\(?([A-Z])\)?\.?\}?")
_SAYS = r"""\b(?:answer|result|solution)\b[^.\n]{0,24}?(?:\b(?:is|be|been|was|equals|as)\b|[:=])
    |\b(?:final|correct|right|true)\s(?:answer|result|solution)\b,?
    |\\(?:boxed|fbox)\s?\{|\#{4}
    |\b(?:should|must|will|would|ought\sto)\s(?:then\s|now\s|finally\s)?
      (?:get|be|give|have|find|obtain|equal|return|print|yield|output|come\sout\s(?:as|to)|come\sto|arrive\sat|end\sup\s(?:with|at))
    |\b(?:returns?|returned|prints?|outputs?|yields?|expects?|expected)\b(?:\s(?:is|be|value|output|result))?[:=]?
    |\b(?:choose|pick|select|mark)\b"""
_FILLER = (
    r"[\s$*`\"'({\\:=]{0,6}(?:(?:the|an?|exactly|just|simply|only|option|choice|number|value)\s[\s$*`\"'({\\]{0,4}){0,2}[€£]?"
)
_STATED = re.compile(rf"(?:{_SAYS}){_FILLER}$", re.VERBOSE | re.IGNORECASE)
_LAST = re.compile(
    r"(?:=|≈|\b(?:is|are|gives?|giving|equals?|gets?|getting|leaves?|leaving|makes?|making|yields?"
    r"|(?:comes?|sums?|adds?\sup|simplif(?:y|ies)|reduces?|amounts?|evaluates?|equal)\sto|(?:left|leaves?\s\w{1,10})\swith))"
    r"[\s$*({]{0,4}[€£]?$",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"[\s$*)}\]`\"'.!]*")
_END = re.compile(
    rf"{_NOTHING.pattern}(?:\\?%|(?!(?:and|or|to|of|by|in|on|at|but|for)\b)[A-Za-z]{{1,20}})?{_NOTHING.pattern}", re.IGNORECASE
)
_DIGITS_APART = re.compile(r"(?:(?:^|\s)A|=\d\d)\s$")
_COUNTS_SOMETHING = re.compile(
    r"\s?-[A-Za-z]|\s?(?:digits?|decimals?|places?|significant|steps?|lines?|cases?|parts?|equations?|terms?|factors?|unknowns?|variables?"
    r"|numbers?|sides?|solutions?|roots?|times|ways|more|less|fewer|or)\b",
    re.IGNORECASE,
)
_COEFFICIENT = re.compile(r"[abcinpqtuvwxyz]\b|[\^_]")
_RIGHT = re.compile(
    r"[ )*`\"',$]{0,4}(?:(?:which|that)\s)?(?:is\s(?:the\s)?(?:correct|right|answer|true)|(?:as\s)?the\s(?:final\s|correct\s)?answer\b)",
    re.IGNORECASE,
)
_FORMULA = re.compile(r"\\\[(.{1,400}?)\\\]|\\\((.{1,400}?)\\\)|(?<![\\$])\$\$?([^$]{1,400})\$\$?", re.DOTALL)


@dataclass(frozen=True)
class Span:
    """`text[start:end]` and how it matches; `end` is exclusive."""

    start: int
    end: int
    text: str
    how: How


@dataclass(frozen=True)
class _Answer:
    """One form of the reference answer. `values` empty: it is no number and is looked for as text."""

    text: str
    values: frozenset[Fraction]
    is_ordinal: bool
    is_short: bool
    is_literal: bool


def find_answer(text: str, gold: str | None, expected: Sequence[str] = (), *, same: SameAnswer | None = None) -> list[Span]:
    """Where the text gives the answer away, in order; empty: nowhere, or there is no answer to look for.

    `gold` is an answer, or a solution that marks its answer; `expected` are Python literals that tests expect, each an answer
    of its own. `same` compares the text's formulas by algebra; without it they are compared as text. Never raises for hostile
    text, unless `same` does.
    """
    return _found(text, gold, expected, same, strict=True)


def scrub(text: str, gold: str | None, expected: Sequence[str] = (), *, same: SameAnswer | None = None) -> str:
    """The text with `MARKER` in place of every span that `find_answer` finds, and of every other number of that value.

    What is glued together (`two2`) comes apart when a piece is removed, so it looks again, MAX_PASSES times at most.
    """
    for _ in range(MAX_PASSES):
        spans = _found(text, gold, expected, same, strict=False)
        if not spans:
            break
        text = _without(text, spans)
    return text


def _without(text: str, spans: Sequence[Span]) -> str:
    parts, last = [], 0
    for span in spans:
        if span.end <= last:
            continue
        if span.start >= last:
            parts += [text[last : span.start], MARKER]
        last = span.end
    return "".join([*parts, text[last:]])


def marked_answer(gold: str) -> str:
    """The answer that a reference solution marks, as the verifier reads it; else the reference itself."""
    found = extract(gold)
    return found.answer if found.answer and found.source in ("box", "line") else gold.strip()


def _found(text: str, gold: str | None, expected: Sequence[str], same: SameAnswer | None, strict: bool) -> list[Span]:
    answers = _answers(gold, expected)
    if not answers or not text:
        return []
    numbers, spelled = quantities(text), (_Spelled(text, fold=False), _Spelled(text, fold=True))
    spans = {span for answer in answers for span in _of_answer(text, answer, numbers, spelled, strict)}
    if same is not None and gold is not None:
        spans |= set(_formulas(text, marked_answer(gold), same))
    return sorted(spans, key=lambda s: (s.start, -s.end, s.how))


def _answers(gold: str | None, expected: Sequence[str]) -> list[_Answer]:
    answers = []
    if gold is not None and (answer := marked_answer(gold)):
        answers.append(_answer(answer, is_literal=False))
    for literal in dict.fromkeys(expected):
        try:
            value = ast.literal_eval(literal) if len(literal) <= 2000 else literal
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = literal
        written = value if isinstance(value, str) else literal
        if written.strip():
            answers.append(_answer(written.strip(), is_literal=True))
    return answers


def _answer(text: str, is_literal: bool) -> _Answer:
    bare = _LOOKS.sub(" ", text[match.end() :] if (match := _LABEL.match(text)) else text)
    choice = _CHOICE.fullmatch(bare.strip())
    if choice:
        return _Answer(choice[1], frozenset(), False, True, is_literal)
    numbers = [number for number in quantities(bare) if not bare[: number.start].endswith(("^", "^{"))]
    if len(numbers) == 1 and _is_all_but(bare, numbers[0]):
        number = numbers[0]
        return _Answer(text, number.values, number.form == "ordinal", _is_short(max(number.values, key=abs)), is_literal)
    is_one_word = re.fullmatch(r"[^\W\d_]+", bare) is not None
    return _Answer(bare, frozenset(), False, is_one_word or len("".join(bare.split())) < 4, is_literal)


def _is_all_but(text: str, number: Quantity) -> bool:
    """Is the rest only what may stand around a number: a currency, a unit, markup? Not in `3\\pi`, `x^2` or `2ab`."""
    after = _AFTER_NUMBER.fullmatch(text, number.end)
    return _BEFORE_NUMBER.fullmatch(text[: number.start]) is not None and after is not None


def _is_short(value: Fraction) -> bool:
    """Two digits at most, as in 42, 1/2 and 0.5, or a power of ten."""
    if value.denominator == 1 and set(str(abs(value.numerator))[1:]) <= {"0"} and str(abs(value.numerator))[0] == "1":
        return True
    denominator = "" if value.denominator == 1 else str(value.denominator)
    return len(f"{abs(value.numerator)}{denominator}") <= 2


def _of_answer(
    text: str, answer: _Answer, numbers: Sequence[Quantity], spelled: "tuple[_Spelled, _Spelled]", strict: bool
) -> Iterator[Span]:
    if not answer.values:
        words = re.fullmatch(r"[A-Za-z' -]*", answer.text) is not None and len(answer.text) > 1
        for start, end in spelled[words].places(answer.text):
            if not answer.is_short or is_stated(text, start, end):
                yield Span(start, end, text[start:end], "literal" if answer.is_literal else "text")
        return
    for number in numbers:
        if not number.values & answer.values or (number.form == "ordinal") != answer.is_ordinal:
            continue
        if number.form == "fraction" and all(v.denominator == 1 for v in answer.values):
            continue  # 48/2 is work to do, not 24
        if strict and (_COEFFICIENT.match(text, number.end) or (answer.is_short and not _is_stated_number(text, number))):
            continue
        yield Span(number.start, number.end, number.text, "number" if re.search(r"\d", number.text) else "number in words")


def _is_stated_number(text: str, number: Quantity) -> bool:
    """As `is_stated`; digits apart also where the embedded task writes an answer: after `A`, or as the result of the last step."""
    if number.form == "digits apart":
        place = _DIGITS_APART.search(text, max(0, number.start - 8), number.start)
        if place is not None and (place[0].strip() == "A" or not text[number.end :].strip()):
            return True
    if _COUNTS_SOMETHING.match(text, number.end):
        return False
    return is_stated(text, number.start, number.end)


def is_stated(text: str, start: int, end: int) -> bool:
    """Does the text say that this place is the answer: `the answer is`, `you should get`, a box, or the last thing that it
    comes to?
    """
    before, after = text[max(0, start - 80) : start], text[end : end + 40]
    if _STATED.search(before) or _RIGHT.match(after):
        return True
    if len(text) - end > 40:
        return False
    if not before.strip(" $*`\"'({\n"):
        return _NOTHING.fullmatch(after) is not None
    return _END.fullmatch(after) is not None and _LAST.search(before) is not None


class _Spelled:
    """A text without spaces, dollar signs, braces and LaTeX that only changes its look, with the place of each character in the
    original.
    """

    def __init__(self, text: str, fold: bool) -> None:
        self.text, self.fold = text, fold
        kept: list[str] = []
        self.places_of: list[tuple[int, int]] = []
        for match in _TOKEN.finditer(text):
            if match["dropped"] is not None:
                continue
            same = _SAME.get(match[0], match[0])
            for character in same.lower() if fold else same:
                kept.append(character)
                self.places_of.append(match.span())
        self.spelled = "".join(kept)

    def places(self, answer: str) -> Iterator[tuple[int, int]]:
        """(start, end) in the original of each occurrence that is not a part of a longer word, number or formula."""
        wanted = _Spelled(answer, self.fold).spelled
        at = self.spelled.find(wanted) if wanted else -1
        while at >= 0:
            start, end = self.places_of[at][0], self.places_of[at + len(wanted) - 1][1]
            if _stands_alone(self.text, start, end):
                yield start, _closed(self.text, start, end)
            at = self.spelled.find(wanted, at + len(wanted))


def _closed(text: str, start: int, end: int) -> int:
    """The end, moved behind the braces that the span opens and that close right after it."""
    opened = text.count("{", start, end) - text.count("}", start, end)
    while opened > 0 and text.startswith("}", end):
        opened, end = opened - 1, end + 1
    return end


def _stands_alone(text: str, start: int, end: int) -> bool:
    before, after = text[max(0, start - 4) : start], text[end : end + 4]
    if text[start].isalnum() and re.search(r"\w$|\d[.,]\s?$", before):
        return False
    if text[end - 1].isalnum() and re.match(r"\w|[.,]\s?\d", after):
        return False
    return not (re.search(r"[+*/^_]\s?$|\d\s?-\s?$|[A-Za-z]$", before) or re.match(r"\s?[+*/^_]|\s?-\s?[\dA-Za-z]\b", after))


def _formulas(text: str, gold: str, same: SameAnswer) -> Iterator[Span]:
    """The text's formulas, and what the last side of an equation says, that agree with the reference by algebra."""
    if _answer(gold, is_literal=False).values or len(gold) > 400:
        return  # numbers were read exactly
    for match in list(_FORMULA.finditer(text))[:MAX_FORMULAS]:
        side = next(i for i in (1, 2, 3) if match[i] is not None)
        for start in dict.fromkeys([match.start(side), match.start(side) + match[side].rfind("=") + 1]):
            candidate = text[start : match.end(side)]
            if candidate.strip() and same(gold, candidate.strip()):
                yield Span(start, match.end(side), candidate, "formula")
                break
