"""Labelling in a terminal: what is shown and what is not, every key, saved at once, going on, corrections."""

import io
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from test_audit import audited_store, case

from mentor_audit.audit import label as labelling
from mentor_audit.audit.cases import read_cases
from mentor_audit.audit.label import LabelSummary, label_diagnoses
from mentor_audit.errors import ConfigError
from mentor_audit.store import Store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return audited_store(tmp_path_factory.mktemp("made") / "store").root


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Store:
    shutil.copytree(made, tmp_path / "store")
    return Store.open(tmp_path / "store")


class Clock:
    """A second later each time."""

    def __init__(self) -> None:
        self.time = datetime(2026, 12, 3, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def answer(store: Store, keys: str, person: str = "anna", **settings: Any) -> tuple[LabelSummary, str]:
    """One key a line; the summary, and everything that was written."""
    writing = io.StringIO()
    reading = io.StringIO("".join(f"{key}\n" for key in keys.split()))
    settings.setdefault("now", Clock())
    return label_diagnoses(store, person, reading=reading, writing=writing, **settings), writing.getvalue()


def saved(store: Store) -> dict[tuple[str, str, str], bool | None]:
    return {(label.person, label.diagnosis_id, label.aspect): label.verdict for label in store.registry.labels()}


def test_answers_are_saved_under_their_diagnosis_and_aspect(store: Store) -> None:
    first, second = (c.diagnosis_id for c in read_cases(store, "s", 0)[:2])
    summary, text = answer(store, "y n u y n")
    assert saved(store) == {
        ("anna", first, "detection"): True, ("anna", first, "location"): False, ("anna", first, "cause"): None,
        ("anna", first, "fix"): True, ("anna", second, "detection"): False,
    }  # fmt: skip
    assert summary == LabelSummary("s", "anna", 5, 11), "one diagnosis is done, another begun"
    assert "question 1 of 48" in text and text.count("\nProblem\n") == 2, "a page a diagnosis, not an aspect"


def test_each_answer_is_there_before_the_next_question(store: Store) -> None:
    class Looks(io.StringIO):
        counts: list[int] = []  # noqa: RUF012

        def readline(self, size: int = -1, /) -> str:
            self.counts.append(len(store.registry.labels()))
            return super().readline(size)

    reading = Looks("y\ny\nq\n")
    label_diagnoses(store, "anna", reading=reading, writing=io.StringIO())
    assert reading.counts == [0, 1, 2]


def test_whoever_comes_again_goes_on_and_another_person_begins_anew(store: Store) -> None:
    answer(store, "y y y")
    summary, text = answer(store, "n q")
    first = read_cases(store, "s", 0)[0].diagnosis_id
    assert saved(store)["anna", first, "fix"] is False and len(saved(store)) == 4 and summary.num_saved == 1
    assert "question 1 of 45" in text
    answer(store, "n", person="ben")
    assert saved(store)["ben", first, "detection"] is False and saved(store)["anna", first, "detection"] is True


def test_skip_back_and_quit(store: Store) -> None:
    first, second = (c.diagnosis_id for c in read_cases(store, "s", 0)[:2])
    summary, text = answer(store, "s y b n b b b y q y", aspects=["location"])
    assert saved(store) == {("anna", first, "location"): True, ("anna", second, "location"): False}, "the later answer wins"
    assert summary.num_saved == 3 and summary.num_left == 10
    assert text.count("\nProblem\n") == 8


def test_an_unknown_key_asks_again_and_the_end_of_the_input_is_quit(store: Store) -> None:
    summary, text = answer(store, "maybe \x1b[2J y", limit=1, aspects=["fix", "cause"])
    assert summary.num_saved == 1 and [key[2] for key in saved(store)] == ["cause"]
    assert text.count("Expected one of the keys") == 2 and "\x1b" not in text and "\\x1b[2j" in text


def test_a_limit_counts_diagnoses(store: Store) -> None:
    summary, text = answer(store, "y " * 40, limit=3)
    assert (summary.num_saved, summary.num_left) == (12, 9) and "of 12" in text


def test_nothing_of_arm_outcome_and_other_verdicts_is_shown(store: Store) -> None:
    _, text = answer(store, "s " * 48)
    follow_ups = set(store.sql("SELECT completion FROM attempt WHERE role = 'follow_up'")["completion"])
    assert follow_ups and not [t for t in follow_ups if t in text]
    assert not [word for word in ("mentor", "s-replay", "planted_truth", "incorrect", "right\n") if word in text]


def test_another_seed_gives_another_order(store: Store) -> None:
    pages = [answer(store, "q", seed=seed)[1] for seed in range(4)]
    assert len(set(pages)) > 1 and answer(store, "q", seed=1)[1] == pages[1]


def test_what_a_model_wrote_is_shown_as_numbered_plain_text() -> None:
    hostile = case(attempt="one\n\x1b[31mtwo\u202e", claim="bell\a", location=None)
    page = labelling._page(hostile, 1, 4)
    assert "1 | one\n2 | \\x1b[31mtwo\\x202e" in page and "bell\\x07" in page and "where: -" in page
    assert not set(page) & {"\x1b", "\a", "\u202e"}
    assert "10 | line" in labelling._page(replace(hostile, attempt="line\n" * 10), 1, 4)


def test_names_and_aspects_that_can_not_be_are_refused(store: Store) -> None:
    for person in ("", "a/b", "x" * 65, " anna"):
        with pytest.raises(ConfigError, match="Expected a person's name"):
            answer(store, "y", person=person)
    with pytest.raises(ConfigError, match="found `locaton`; did you mean `location`"):
        answer(store, "y", aspects=["locaton"])
    with pytest.raises(ConfigError, match="found `other`"):
        answer(store, "y", suite="other")
    assert saved(store) == {}
