"""Does an instruction give the answer away? What a program can say of one instruction, tiers 1 to 3; docs/leakage.md has the
rules.

1  the reference answer stands in the instruction
2  it stands, by the same rules, in the problem or in the failed attempt too: known, so nothing was given away
3  how much of the instruction's wording is that of the reference solution

Pure functions of texts. `leakage_model` asks a model (tiers 4 and 5); `leakage_run` audits a store.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mentor_audit.protocols import TaskProblem
from mentor_audit.records import Problem
from mentor_audit.tasks.leaks import SameAnswer, find_answer, marked_answer

NGRAM = 4
"""Words; the length of the n-grams of tier 3. A shorter instruction is one n-gram."""
SHOWN = 200
"""Characters of a span that are kept."""
_WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+|[^\w\s]")


@dataclass(frozen=True)
class LeakFindings:
    """The columns of `records.LeakAudit` that a program can fill. `how`: how the answer matches, as in tasks.leaks; None: not
    found.
    """

    answer_found: bool | None
    answer_span: str | None
    how: str | None
    answer_known: bool | None
    answer_known_where: str | None
    is_leak: bool | None
    reference_overlap: float | None
    reference_span: str | None

    def columns(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "how"}


def program_leaks(
    problem: TaskProblem | Problem,
    attempt_text: str | None,
    instruction_text: str,
    reference_solution: str | None = None,
    *,
    expected: Sequence[str] = (),
    same: SameAnswer | None = None,
) -> LeakFindings:
    """`attempt_text` None: the failed attempt isn't known. `reference_solution` None: the problem's reference answer, where
    that is a solution.

    `expected` and `same` as in tasks.leaks.find_answer. Every column of tiers 1 and 2 is None where the problem has no
    reference answer.
    """
    row = problem.row if isinstance(problem, TaskProblem) else problem
    reference = reference_solution if reference_solution is not None else solution_of(row.gold)
    overlap, run = word_overlap(instruction_text, reference) if reference is not None else (None, None)
    answers: list[tuple[str | None, Sequence[str]]] = [(row.gold, ())] if row.gold and row.gold.strip() else []
    answers += [(None, (value,)) for value in expected]
    if not answers:
        return LeakFindings(None, None, None, None, None, None, overlap, run)
    found = [(spans[0], answer) for answer in answers if (spans := find_answer(instruction_text, *answer, same=same))]
    if not found:
        return LeakFindings(False, None, None, None, None, False, overlap, run)
    known = [_where_known(row.prompt, attempt_text or "", answer, same) for _, answer in found]
    first = known.index(None) if None in known else 0  # one answer that was not known is enough
    span, where = found[first][0], known[first]
    return LeakFindings(True, span.text[:SHOWN], span.how, where is not None, where, where is None, overlap, run)


def _where_known(prompt: str, attempt: str, answer: tuple[str | None, Sequence[str]], same: SameAnswer | None) -> str | None:
    for name, text in (("problem", prompt), ("attempt", attempt)):
        if spans := find_answer(text, *answer, same=same):
            return f"{name}: {spans[0].text[:SHOWN]}"
    return None


def solution_of(gold: str | None) -> str | None:
    """The reference, where it is a solution and not an answer alone: it marks its answer in more words, or has several lines."""
    if gold is None:
        return None
    text = gold.strip()
    return text if marked_answer(gold) != text or "\n" in text else None


def word_overlap(text: str, reference: str) -> tuple[float | None, str | None]:
    """(share of the text's word n-grams that stand in the reference, the longest run of words in both). None: no word, no
    common one.
    """
    words, theirs = _words(text), _words(reference)
    if not words:
        return None, None
    size = min(NGRAM, len(words))
    known = set(_ngrams(theirs, size))
    mine = _ngrams(words, size)
    start, length = longest_common_run(words, theirs)
    return sum(n in known for n in mine) / len(mine), " ".join(words[start : start + length])[:SHOWN] or None


def longest_common_run(words: Sequence[str], reference: Sequence[str]) -> tuple[int, int]:
    """(start, length) in `words` of the first longest run of words that stands in `reference`. Linear in both."""
    states = _suffix_automaton(reference)
    best, at, length = (0, 0), 0, 0
    for i, word in enumerate(words):
        while at and word not in states[at].following:
            at = states[at].suffix
            length = states[at].length
        if word in states[at].following:
            at, length = states[at].following[word], length + 1
        if length > best[1]:
            best = (i + 1 - length, length)
    return best


@dataclass
class _State:
    """`length`: of the longest run that leads here; `suffix`: the state of its longest suffix that is elsewhere too."""

    following: dict[str, int]
    suffix: int
    length: int


def _suffix_automaton(words: Sequence[str]) -> list[_State]:
    """Of every run of the words, by the construction of Blumer et al., The smallest automaton recognizing the subwords of a
    text (1985).
    """
    states = [_State({}, -1, 0)]
    last = 0
    for word in words:
        new, at = len(states), last
        states.append(_State({}, 0, states[last].length + 1))
        while at >= 0 and word not in states[at].following:
            states[at].following[word] = new
            at = states[at].suffix
        if at >= 0:
            old = states[at].following[word]
            if states[old].length == states[at].length + 1:
                states[new].suffix = old
            else:
                copy = len(states)
                states.append(_State(dict(states[old].following), states[old].suffix, states[at].length + 1))
                while at >= 0 and states[at].following.get(word) == old:
                    states[at].following[word] = copy
                    at = states[at].suffix
                states[old].suffix = states[new].suffix = copy
        last = new
    return states


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _ngrams(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]
