"""Which steps of a solution a diagnosis points at: by what it quotes, by an equality it repeats, or by a number.

Words are ambiguous: "step 3" may count labels, lines or sentences. So every reading is kept, as the set of steps that it covers,
and whoever compares them with the truth asks all of them.
"""

import re
from collections.abc import Iterator, Sequence

Region = frozenset[int]
"""Indices of steps, from 0."""

MIN_QUOTED = 3
"""Characters, blanks and markup left out: shorter quotes stand in too many places."""
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_LABEL = re.compile(r"\W*step\s*#?(\d+)\b", re.IGNORECASE)
_NUMBERED = re.compile(r"\b(step|line|sentence|equation)\s*#?\s*(\d+)\b", re.IGNORECASE)
_ORDINAL = re.compile(rf"\b({'|'.join(ORDINALS)}|last|final)\s+(step|line|sentence|equation)\b", re.IGNORECASE)
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|“([^”]+)”|\$([^$]+)\$|(?<!\w)'([^']+)'(?!\w)")
_EQUALITY = re.compile(r"[\d(][\d.()+\-*/^%]*(?:=[\d.()+\-*/^%]*[\d)%])+")
_MARKUP = re.compile(r"\\left|\\right|\\[(){}\[\],;! ]|\\(?:text|mathrm)\b|[\s${}]|(?<=\d),(?=\d{3})")
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"})


def readings(claim: str, steps: Sequence[str], text: str) -> list[Region]:
    """Every place in `steps`, which are those of the solution `text`, that `claim` may mean; empty: it names none."""
    return list(dict.fromkeys([*_by_quote(claim, steps), *_by_number(claim, steps, text)]))


def compact(text: str) -> str:
    """Without what only changes its look: blanks, dollar signs, braces, spacing commands, separators of thousands."""
    plain = re.sub(r"\\(?:times|cdot|ast)(?![a-zA-Z])", "*", text.translate(_SIGNS))
    return _MARKUP.sub("", plain.replace("\\div", "/")).lower()


def _by_quote(claim: str, steps: Sequence[str]) -> Iterator[Region]:
    """A step a reading. A quote that covers several steps is one reading of them all."""
    fragments = [compact(next(filter(None, found))) for found in _QUOTED.findall(claim)]
    if not fragments:
        apart = re.sub(r"\b(?:step|line|sentence|equation)\s*#?\s*\d+\s*[:.,)]?", " | ", claim, flags=re.IGNORECASE)
        fragments = _EQUALITY.findall(compact(apart))
    flat = [compact(step) for step in steps]
    for fragment in fragments:
        if len(fragment) < MIN_QUOTED:
            continue
        alone = re.compile(rf"(?<![\d.]){re.escape(fragment)}(?![\d]|\.\d)")
        yield from (Region([i]) for i, step in enumerate(flat) if alone.search(step))
        covered = Region(i for i, step in enumerate(flat) if len(step) >= MIN_QUOTED and step != fragment and step in fragment)
        if covered:
            yield covered


def _by_number(claim: str, steps: Sequence[str], text: str) -> Iterator[Region]:
    labels, lines = _labelled(steps), _lines(steps, text)
    for word, number in _mentions(claim):
        if labels and word == "step":
            yield from _nth(labels, number)
            continue
        if word in ("step", "sentence", "equation"):
            yield from _nth([Region([i]) for i in range(len(steps))], number)
        if word in ("step", "line", "equation"):
            yield from _nth([region for region in lines if region], number)
        if word == "line":
            yield from _nth(lines, number)


def _mentions(claim: str) -> Iterator[tuple[str, int]]:
    """(what is counted, which one from 1; -1: the last)."""
    for word, digits in _NUMBERED.findall(claim):
        yield word.lower(), int(digits)
    for ordinal, word in _ORDINAL.findall(claim):
        name = ordinal.lower()
        yield word.lower(), ORDINALS.index(name) + 1 if name in ORDINALS else -1


def _nth(regions: Sequence[Region], number: int) -> Iterator[Region]:
    index = number - 1 if number > 0 else len(regions) + number
    if number and 0 <= index < len(regions) and regions[index]:
        yield regions[index]


def _labelled(steps: Sequence[str]) -> list[Region]:
    """The solution's own steps, where it labels them 1, 2, 3 and so on; each reaches to the next label. Empty: it does not."""
    starts = [(int(found[1]), i) for i, step in enumerate(steps) if (found := _LABEL.match(step))]
    if not starts or [number for number, _ in starts] != list(range(1, len(starts) + 1)):
        return []
    ends = [i for _, i in starts[1:]] + [len(steps)]
    return [Region(range(start, end)) for (_, start), end in zip(starts, ends, strict=True)]


def _lines(steps: Sequence[str], text: str) -> list[Region]:
    """The steps of each line, an empty region for a blank one. A step may be longer than a line. Empty: they can't be matched."""
    regions, at = [], 0
    flat = [compact(step) for step in steps]
    for line in text.splitlines():
        rest, region = compact(line), set()
        while at < len(flat) and flat[at] and flat[at] in rest:
            rest = rest[rest.index(flat[at]) + len(flat[at]) :]
            region.add(at)
            at += 1
        if rest and at < len(flat) and rest in flat[at]:
            region.add(at)
            at += flat[at].endswith(rest)
        regions.append(Region(region))
    return regions if at == len(flat) else []
