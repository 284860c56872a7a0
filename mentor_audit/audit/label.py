"""People label diagnoses in a terminal, blind: no arm, no follow-up, no other verdict. Every answer is saved at once.

What a model wrote is shown as plain text, control codes made visible. Whoever comes again goes on where they were.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

from mentor_audit.audit.cases import ASPECTS, Case, choose_suite, read_cases
from mentor_audit.config import nearest
from mentor_audit.errors import ConfigError
from mentor_audit.records import Aspect, HumanLabel
from mentor_audit.store import Store
from mentor_audit.store.chain import plain

QUESTIONS: dict[Aspect, str] = {
    "detection": "Does the attempt have an error at all?",
    "location": "Does the diagnosis name the place where the attempt first goes wrong?",
    "cause": "Does it give the reason for that first error?",
    "fix": "Would an attempt that follows the instruction no longer make that error?",
}
VERDICTS: dict[str, bool | None] = {"y": True, "n": False, "u": None}
KEYS = "y yes, n no, u can't tell, s skip, b back, q quit"
_PERSON = re.compile(r"[\w.-][\w. -]{0,63}")


@dataclass(frozen=True)
class LabelSummary:
    """`num_saved` answers were given now; `num_left` diagnoses still lack one of this person's labels."""

    suite: str
    person: str
    num_saved: int
    num_left: int


def label_diagnoses(
    store: Store,
    person: str,
    *,
    reading: TextIO,
    writing: TextIO,
    suite: str | None = None,
    aspects: Sequence[str] = ASPECTS,
    limit: int | None = None,
    seed: int = 0,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> LabelSummary:
    """Ask about each readable diagnosis that this person has not labelled, one aspect after the other, in an order given by `seed`.

    `limit` diagnoses at most; None: all. The end of `reading` is `q`. Raises ConfigError for a name that can't stand in an id, an
    unknown aspect, and a suite that isn't there or that takes a choice.
    """
    if not _PERSON.fullmatch(person):
        raise ConfigError(
            f"Expected a person's name of up to 64 letters, digits, '.', '_', '-' and blanks, found {person!r}. Use another."
        )
    asked = [aspect for aspect in ASPECTS if aspect in aspects]
    for aspect in aspects:
        if aspect not in ASPECTS:
            raise ConfigError(f"Expected aspects among {', '.join(ASPECTS)}, found `{aspect}`{nearest(aspect, ASPECTS)}.")
    name = choose_suite(store, suite)
    cases = [case for case in read_cases(store, name, seed) if case.is_readable]
    known = _known(store, person)
    todo = _left(cases, asked, known)[:limit]
    items = [(case, aspect) for case in todo for aspect in asked if (case.diagnosis_id, aspect) not in known]
    saved = _ask(store, person, items, reading, writing, now)
    return LabelSummary(name, person, saved, len(_left(cases, asked, _known(store, person))))


def _ask(
    store: Store,
    person: str,
    items: Sequence[tuple[Case, Aspect]],
    reading: TextIO,
    writing: TextIO,
    now: Callable[[], datetime],
) -> int:
    """The answers that were saved."""
    saved, at, shown = 0, 0, None
    while at < len(items):
        case, aspect = items[at]
        if case != shown:
            writing.write(_page(case, at + 1, len(items)))
            shown = case
        writing.write(f"{aspect}: {QUESTIONS[aspect]} [{KEYS}] ")
        writing.flush()
        line = reading.readline()
        key = line.strip().lower()
        if not line or key == "q":
            break
        if key in VERDICTS:
            store.registry.add_label(_label(case, person, aspect, VERDICTS[key], now()))
            saved, at = saved + 1, at + 1
        elif key == "s":
            at += 1
        elif key == "b":
            at = max(0, at - 1)
        else:
            writing.write(f"Expected one of the keys {KEYS}; found {plain(key)!r}.\n")
    return saved


def _label(case: Case, person: str, aspect: Aspect, verdict: bool | None, when: datetime) -> HumanLabel:
    return HumanLabel(
        label_id=f"{case.diagnosis_id}.{person}.{aspect}",
        diagnosis_id=case.diagnosis_id,
        person=person,
        aspect=aspect,
        verdict=verdict,
        labelled_at=when,
    )


def _known(store: Store, person: str) -> set[tuple[str, str]]:
    return {(label.diagnosis_id, label.aspect) for label in store.registry.labels() if label.person == person}


def _left(cases: Sequence[Case], aspects: Sequence[Aspect], known: Collection[tuple[str, str]]) -> list[Case]:
    return [case for case in cases if any((case.diagnosis_id, aspect) not in known for aspect in aspects)]


def _page(case: Case, number: int, total: int) -> str:
    lines = case.attempt.split("\n")
    width = len(str(len(lines)))
    attempt = "\n".join(f"{i:>{width}} | {line}" for i, line in enumerate(lines, 1))
    said = "\n".join(
        f"{title}: {text if text is not None else '-'}"
        for title, text in (
            ("where", case.location),
            ("kind of error", case.error_type),
            ("what went wrong", case.claim),
            ("instruction", case.instruction),
        )
    )
    parts = [f"question {number} of {total}", f"Problem\n{case.problem}", f"Attempt\n{attempt}", f"Diagnosis\n{said}"]
    return f"\n{'-' * 72}\n" + "\n\n".join(plain(part) for part in parts) + "\n\n"
