"""Numbers in running text, read exactly, each with its place: digits, thousands, decimals, fractions, per cent, LaTeX, words.

Only what can be read in this process without algebra: every pattern is bounded, so the time is linear in the text's length. A
number that belongs to a name (`x2`, `s1`, `a_3`) is none.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Form = Literal["digits", "fraction", "words", "digits apart", "ordinal"]
MAX_DIGITS = 40

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINAL_UNITS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth "
    "seventeenth eighteenth nineteenth"
)
SMALL = {word: n for n, word in enumerate(_UNITS.split())}
TENS = {word: 10 * n for n, word in enumerate(_TENS.split(), 2)}
COUNTS = {"dozen": 12, "hundred": 100}
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
ORDINALS = {word: n for n, word in enumerate(_ORDINAL_UNITS.split(), 1)} | {
    f"{word[:-1]}ieth": value for word, value in TENS.items()
}
PARTS = {"half": 2, "halve": 2, "quarter": 4, **{word: n for word, n in ORDINALS.items() if n > 2}, "hundredth": 100}
"""Words of a fraction's denominator, in the singular."""

_D = rf"\d{{1,{MAX_DIGITS}}}"
_LATEX = rf"""(?P<mixed>{_D}\s?)?\\[dtc]?frac\s?
    (?:\{{\s?(?P<top>{_D})\s?\}}\s?\{{\s?(?P<bottom>{_D})\s?\}}|(?P<tight>\d\d)(?!\d))"""
_OVER = rf"(?P<whole>\d{{1,9}}(?:\s|\sand\s))?(?P<over>{_D})\s?/\s?(?P<under>{_D})(?![\d/])"
_APART = r"(?P<apart>(?<![\w.,])\d(?:\x20\d){1,9}(?![.,]\d|\w|\x20\d))"
_THOUSANDS = rf"\d{{1,3}}(?:(?:,|\{{,\}}|\\,|[\u00a0\u2009\u202f\x20])\d{{3}}(?!\d)){{1,9}}(?:\.{_D})?"
_POWER = r"""(?:[eE](?P<exponent>[+-]?\d{1,2})(?!\w))
    |\s?(?:\\times|\\cdot|[x×·*])\s?10\s?(?:\^|\*\*)\s?\{?(?P<power>-?\d{1,2})\}?"""
_PLAIN = rf"(?P<plain>{_THOUSANDS}|\d+(?:\.\d+)?|(?<!\d)\.\d+)(?:{_POWER})?"
_NUMBER = re.compile("|".join((_LATEX, _OVER, _APART, _PLAIN)), re.VERBOSE)
_SUFFIX = re.compile(
    r"\s?(?P<percent>\\?%|per\s?cent\b)|(?P<ordinal>st|nd|rd|th)\b|\s(?P<scale>dozen|hundred|thousand|million|billion)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_LINK = re.compile(r"(?:\s{1,2}|-)(?:and\s{1,2}(?:an?\s{1,2})?)?", re.IGNORECASE)
_OPERAND = re.compile(r"(?:[)\]}\d]\s?|\w|(?<![A-Za-z])[A-Za-z]\s)$")
_BELOW_ZERO = re.compile(r"(?:\b(?:minus|negative)\s|[-−])$", re.IGNORECASE)


@dataclass(frozen=True)
class Quantity:
    """`values`: what it may mean; `50%` is 50 and 1/2. `end` is exclusive."""

    start: int
    end: int
    text: str
    values: frozenset[Fraction]
    form: Form


def quantities(text: str) -> list[Quantity]:
    """Every number of the text, in the order of where it starts."""
    digits = _in_digits(text)
    ends = {q.end for q in digits}
    words = [q for q in _in_words(text) if q.end not in ends]  # the word in `3 million` belongs to the 3
    return sorted([*digits, *words], key=lambda q: (q.start, q.end))


def _in_digits(text: str) -> list[Quantity]:
    found = []
    for match in _NUMBER.finditer(text):
        if _is_of_a_name(text, match.start()):
            continue
        value, form = _value(match)
        if value is None:
            continue
        end = match.end()
        values = {value}
        suffix = _SUFFIX.match(text, end)
        if suffix and suffix["percent"]:
            values, end = {value, value / 100}, suffix.end()
        elif suffix and suffix["scale"]:
            values, end = {value * {**COUNTS, **SCALES}[suffix["scale"].lower()]}, suffix.end()
        elif suffix and form == "digits":
            form, end = "ordinal", suffix.end()
        elif match["plain"] and " " in match["plain"]:  # thousands, or a list of numbers
            values |= {Fraction(part) for part in re.findall(r"\d+(?:\.\d+)?", match["plain"])}
        start, values = _signed(text, match.start(), values)
        found.append(Quantity(start, end, text[start:end], frozenset(values), form))
    return found


def _value(match: "re.Match[str]") -> tuple[Fraction | None, Form]:
    """None: a fraction over zero, or more digits than are read."""
    groups = match.groupdict()
    if groups["tight"] or groups["top"] or groups["over"]:
        tight = groups["tight"] or "  "
        top, bottom = groups["top"] or groups["over"] or tight[0], groups["bottom"] or groups["under"] or tight[1]
        whole = groups["mixed"] or groups["whole"]
        if int(bottom) == 0:
            return None, "fraction"
        return Fraction(int(top), int(bottom)) + (int(whole.removesuffix("and ")) if whole else 0), "fraction"
    if groups["apart"]:
        return Fraction(int(groups["apart"].replace(" ", ""))), "digits apart"
    digits = re.sub(r"[^\d.]", "", groups["plain"])
    if len(digits) > 2 * MAX_DIGITS:
        return None, "digits"
    return Fraction(digits) * Fraction(10) ** int(groups["exponent"] or groups["power"] or 0), "digits"


def _signed(text: str, start: int, values: set[Fraction]) -> tuple[int, set[Fraction]]:
    """A sign counts where it can't be a subtraction: `x = -3` and `to -3`, not `5-3`, `5 -3` or `x - 3`."""
    sign = _BELOW_ZERO.search(text, max(0, start - 10), start)
    if sign is None or (sign[0] in "-−" and _OPERAND.search(text, max(0, sign.start() - 3), sign.start())):
        return start, values
    return sign.start(), {-value for value in values}


def _is_of_a_name(text: str, start: int) -> bool:
    before = text[max(0, start - 2) : start]
    return bool(re.search(r"[A-Za-z_]$|_\{$", before)) and not re.search(r"\\[nt]$", before)


@dataclass(frozen=True)
class _Word:
    word: str
    start: int
    end: int
    is_linked: bool  # only a space or a hyphen, with or without `and`, before it


def _in_words(text: str) -> list[Quantity]:
    found: list[Quantity] = []
    run: list[_Word] = []
    last_end = 0
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if not _counts(word):
            continue
        between = text[last_end : match.start()] if match.start() - last_end < 16 else "."
        is_linked = bool(run) and _LINK.fullmatch(between) is not None
        if run and not is_linked:
            found += _of_run(text, run)
            run = []
        run.append(_Word(word, match.start(), match.end(), is_linked))
        last_end = match.end()
    return found + _of_run(text, run)


def _counts(word: str) -> bool:
    return word in SMALL or word in TENS or word in SCALES or word in COUNTS or word in ORDINALS or _part(word) > 0


def _part(word: str) -> int:
    return PARTS.get(word.removesuffix("s"), 0) or (2 if word == "halves" else 0)


def _of_run(text: str, run: list[_Word]) -> list[Quantity]:
    """The numbers that words in a row spell: `two hundred and five`, `three quarters`, `one two` are one, one and two."""
    found = []
    at = 0
    while at < len(run):
        value, end = _cardinal(run, at)
        form: Form = "words"
        if end == at:
            value, end, form = _bare_part(text, run, at)
        elif end < len(run) and (bottom := _part(run[end].word)):
            joined = text[run[end - 1].end : run[end].start].lower()
            value = value + Fraction(1, bottom) if "and" in joined else value / bottom
            end += 1
        elif end < len(run) and run[end].word in ORDINALS and "-" in text[run[end - 1].end : run[end].start]:
            value, end, form = value + ORDINALS[run[end].word], end + 1, "ordinal"
        start, values = _signed(text, run[at].start, {value})
        found.append(Quantity(start, run[end - 1].end, text[start : run[end - 1].end], frozenset(values), form))
        at = end
    return found


def _bare_part(text: str, run: list[_Word], at: int) -> tuple[Fraction, int, Form]:
    """`a third` and `half` are fractions; `the third` is a place in an order; `a dozen` and `a hundred` are counts."""
    word = run[at].word
    counts = {**COUNTS, **SCALES}
    if word in counts:
        return Fraction(counts[word]), at + 1, "words"
    has_article = re.search(r"\b(?:an?|one)\s$", text[max(0, run[at].start - 4) : run[at].start], re.IGNORECASE)
    if word in ORDINALS and not has_article:
        return Fraction(ORDINALS[word]), at + 1, "ordinal"
    return (Fraction(1, bottom), at + 1, "words") if (bottom := _part(word)) else (Fraction(ORDINALS[word]), at + 1, "ordinal")


def _cardinal(run: list[_Word], at: int) -> tuple[Fraction, int]:
    """(value, where it ends) of the longest number of count words from `at`; an end of `at`: there is none."""
    total = current = 0
    room = 10**12  # what comes next has to be smaller, as in `twenty one` and not in `one twenty`
    start = at
    while at < len(run):
        word = run[at].word
        small = SMALL.get(word, TENS.get(word))
        if small is not None and small < room and (small or at == start):
            current, room = current + small, 10 if word in TENS else 1
        elif word == "hundred" and 0 < current < 100 and at > start:
            current, room = current * 100, 100
        elif word == "dozen" and 0 < current < 100 and at > start:
            return Fraction(total + current * 12), at + 1
        elif word in SCALES and at > start and current:
            total, current, room = total + current * SCALES[word], 0, 1000
        else:
            break
        at += 1
    return Fraction(total + current), at
