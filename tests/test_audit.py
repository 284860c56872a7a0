"""An audit of a store by program and by people: every diagnosis once, going on after an interruption, refusals, aspects apart."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from scripted import CheckedWordTask, WordTask, problem
from test_leakage_run import InterruptedAfter
from test_replay import RulePolicy, play

from mentor_audit.audit.cases import Case, read_cases
from mentor_audit.audit.opinions import CanaryCounts
from mentor_audit.audit.planted_truth import PlantedTruth
from mentor_audit.audit.run import AspectCounts, run_audit
from mentor_audit.errors import ConfigError
from mentor_audit.mentor.scripted import ScriptedMentor
from mentor_audit.records import HumanLabel
from mentor_audit.replay import Actors
from mentor_audit.store import Store

NAMES = [str(n) for n in range(12)]
TASK = CheckedWordTask([problem(name) for name in NAMES])
ALL = ("cause", "detection", "fix", "location")
ROWS = (
    "SELECT audit_id, diagnosis_id, auditor, aspect, verdict, confidence, why "
    "FROM diagnosis_audit WHERE mode = 'audit' ORDER BY audit_id"
)


def who(accuracy: float) -> Actors:
    policy = RulePolicy([])
    facts = {"policy": {"name": policy.name, "revision": "1", "params": 1}}
    return Actors(TASK, policy, ScriptedMentor(TASK, policy, accuracy), facts)


def audited_store(root: Path, accuracy: float = 0.5, arms: tuple[str, ...] = ("mentor",)) -> Store:
    """A diagnosis of each of 12 problems' failures; a wrong one blames another place for the same kind of error."""
    return play(root, who(accuracy), arms=list(arms))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return audited_store(tmp_path_factory.mktemp("made") / "store").root


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Store:
    shutil.copytree(made, tmp_path / "store")
    return Store.open(tmp_path / "store")


def label(diagnosis_id: str, person: str, aspect: str, verdict: bool | None, hour: int = 1) -> HumanLabel:
    when = datetime(2026, 12, 3, hour, tzinfo=UTC)
    return HumanLabel(
        label_id=f"{diagnosis_id}.{person}.{aspect}",
        diagnosis_id=diagnosis_id, person=person, aspect=aspect, verdict=verdict, labelled_at=when,
    )  # fmt: skip


def test_planted_truth_judges_every_aspect_of_every_diagnosis(store: Store) -> None:
    summary = run_audit(store, "planted_truth", task=TASK)
    assert (summary.suite, summary.auditor, summary.run_id) == ("s", "planted_truth", "s-audit-planted_truth")
    assert (summary.num_new, summary.num_left, summary.warnings, summary.canaries) == (12, 0, (), CanaryCounts())
    rows = store.sql(
        "SELECT a.*, d.location FROM diagnosis_audit a JOIN diagnosis d USING (diagnosis_id) WHERE a.run_id LIKE '%audit%'"
    ).to_dicts()
    claims = {
        row["diagnosis_id"]: row["location"] for row in store.sql("SELECT diagnosis_id, location FROM diagnosis").to_dicts()
    }
    right = sum(location != "bad-elsewhere" for location in claims.values())
    assert 0 < right < 12, "the scripted mentor is wrong now and then"
    counts = {c.aspect: (c.right, c.wrong, c.cannot_tell) for c in summary.aspects}
    assert counts == {
        "cause": (12, 0, 0),
        "detection": (12, 0, 0),
        "fix": (right, 12 - right, 0),
        "location": (right, 12 - right, 0),
    }
    assert all(row["verdict"] == (row["location"] != "bad-elsewhere") for row in rows if row["aspect"] == "fix")
    assert {(row["mode"], row["auditor"], row["audit_id"]) for row in rows} == {
        ("audit", "planted_truth", f"{row['diagnosis_id']}.planted_truth.{row['aspect']}") for row in rows
    }
    assert store.sql("SELECT count(*) AS n FROM cost WHERE phase = 'audit'")["n"].item() == 0
    assert store.check() == []


def test_auditing_again_adds_nothing_and_new_diagnoses_are_added(store: Store) -> None:
    run_audit(store, "planted_truth", task=TASK)
    before = store.sql("SELECT * FROM diagnosis_audit ORDER BY audit_id")
    again = run_audit(store, "planted_truth", task=TASK)
    assert again.num_new == 0 and {c.aspect: c.right + c.wrong for c in again.aspects} == dict.fromkeys(ALL, 12)
    assert store.sql("SELECT * FROM diagnosis_audit ORDER BY audit_id").equals(before)
    play(store.root, who(1.0), arms=["mentor"], name="second")
    assert run_audit(store, "planted_truth", task=TASK).num_new == 12
    assert store.check() == []


def test_what_was_judged_in_line_under_the_same_name_is_not_judged_again(store: Store) -> None:
    run_audit(store, "planted_truth", task=TASK)
    given = store.sql(
        "SELECT run_id, aspect, count(DISTINCT diagnosis_id) AS n, count(*) AS m FROM diagnosis_audit GROUP BY ALL ORDER BY ALL"
    )
    audit = "s-audit-planted_truth"
    assert given.rows() == [
        (audit, "detection", 12, 12),
        (audit, "fix", 12, 12),
        ("s-replay", "cause", 12, 12),
        ("s-replay", "location", 12, 12),
    ]


def test_an_interrupted_audit_goes_on_and_ends_with_the_same_rows(store: Store, made: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_audit(store, "planted_truth", task=TASK, batch=5, progress=InterruptedAfter(1))
    assert store.sql("SELECT count(DISTINCT diagnosis_id) AS n FROM diagnosis_audit WHERE mode = 'audit'")["n"].item() == 5
    assert run_audit(store, "planted_truth", task=TASK, batch=5).num_new == 7
    shutil.copytree(made, tmp_path / "whole")
    whole = Store.open(tmp_path / "whole")
    run_audit(whole, "planted_truth", task=TASK)
    assert store.sql(ROWS).equals(whole.sql(ROWS))
    launches = store.sql("SELECT launch, step FROM train_step WHERE run_id = 's-audit-planted_truth' ORDER BY step")
    assert launches.rows() == [(1, 0), (2, 1), (2, 2)]
    assert store.check() == []


KILLED = """
import os, sys
from test_audit import TASK
from mentor_audit.audit.run import run_audit
from mentor_audit.store import Store

def progress(done, total):
    if done == 8:
        os.kill(os.getpid(), 9)

run_audit(Store.open(sys.argv[1]), "planted_truth", task=TASK, batch=4, progress=progress)
"""


def test_an_audit_whose_process_is_killed_keeps_what_it_reported(store: Store, made: Path, tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(store.root)], env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    )
    assert killed.returncode == -9
    assert store.sql("SELECT count(DISTINCT diagnosis_id) AS n FROM diagnosis_audit WHERE mode = 'audit'")["n"].item() == 8
    assert run_audit(store, "planted_truth", task=TASK, batch=4).num_new == 4
    shutil.copytree(made, tmp_path / "whole")
    whole = Store.open(tmp_path / "whole")
    run_audit(whole, "planted_truth", task=TASK, batch=4)
    assert store.sql(ROWS).equals(whole.sql(ROWS))
    assert [finding for finding in store.check() if finding.severity == "error"] == []


def test_a_limit_takes_the_first_in_the_order_of_the_seed(store: Store) -> None:
    order = [case.diagnosis_id for case in read_cases(store, "s", 7)]
    assert order != [case.diagnosis_id for case in read_cases(store, "s", 8)]
    summary = run_audit(store, "planted_truth", task=TASK, seed=7, limit=4)
    assert (summary.num_new, summary.num_left) == (4, 8)
    given = store.sql("SELECT DISTINCT diagnosis_id AS id FROM diagnosis_audit WHERE mode = 'audit'")["id"].to_list()
    assert sorted(given) == sorted(order[:4])


def test_a_case_shows_nothing_of_arm_and_follow_ups(store: Store) -> None:
    case = read_cases(store, "s", 0)[0]
    known = set(vars(case))
    assert known == {
        "diagnosis_id", "problem_id", "problem", "gold", "attempt", "attempt_is_correct", "is_readable",
        "location", "error_type", "claim", "instruction",
    }  # fmt: skip
    follow_ups = set(store.sql("SELECT completion FROM attempt WHERE role = 'follow_up'")["completion"])
    assert follow_ups and not follow_ups & set(map(str, vars(case).values()))


def case(**change: Any) -> Case:
    given: dict[str, Any] = {
        "diagnosis_id": "d", "problem_id": "words-1", "problem": "Q 1", "gold": "right", "attempt": "bad-1 so wrong",
        "attempt_is_correct": False, "is_readable": True,
        "location": "bad-1", "error_type": "slip", "claim": "it slips", "instruction": "fix bad-1",
    }  # fmt: skip
    return Case(**{**given, **change})


@pytest.mark.parametrize(
    ("change", "verdicts"),
    [
        ({}, (True, True, True, True)),
        ({"location": "bad-2"}, (True, False, True, True)),
        ({"error_type": "carry"}, (True, True, False, True)),
        ({"instruction": "fix bad-2"}, (True, True, True, False)),
        ({"location": None, "error_type": None, "instruction": None}, (True, None, None, None)),
        ({"is_readable": False}, (None, None, None, None)),
        ({"attempt": "no known error", "attempt_is_correct": None}, (None, None, None, None)),
        ({"attempt": "all right", "attempt_is_correct": True}, (False, False, False, False)),
    ],
)
def test_each_aspect_is_judged_apart(change: dict[str, Any], verdicts: tuple[bool | None, ...]) -> None:
    auditor = PlantedTruth(TASK, {"words-1": problem("1")})
    (found,) = auditor.audit([case(**change)], 0).audited
    assert tuple(opinion.verdict for opinion in found.opinions) == verdicts
    assert [opinion.aspect for opinion in found.opinions] == ["detection", "location", "cause", "fix"]
    assert all(opinion.why for opinion in found.opinions)


def test_labels_of_a_person_are_copied_once_and_a_correction_counts_where_labels_are_read(store: Store) -> None:
    first, second = (case.diagnosis_id for case in read_cases(store, "s", 0)[:2])
    for given in (
        label(first, "anna", "cause", True),
        label(first, "anna", "location", None),
        label(second, "anna", "cause", False),
    ):
        store.registry.add_label(given)
    summary = run_audit(store, "human")
    assert (summary.auditor, summary.run_id, summary.num_new) == ("human:anna", "s-audit-human-anna", 2)
    assert summary.aspects == (AspectCounts("cause", 1, 1, 0), AspectCounts("location", 0, 0, 1))
    store.registry.add_label(label(second, "anna", "fix", True))
    assert run_audit(store, "human:anna").aspects[1] == AspectCounts("fix", 1, 0, 0)
    assert run_audit(store, "human:anna").num_new == 0
    store.registry.add_label(label(first, "ben", "cause", True))
    with pytest.raises(ConfigError, match=r"\(anna, ben\), found none named"):
        run_audit(store, "human")
    with pytest.raises(ConfigError, match="found `eve`"):
        run_audit(store, "human:eve")
    assert store.check() == []


def test_a_newer_label_takes_the_place_of_an_older_one(store: Store) -> None:
    for verdict, hour in ((True, 1), (False, 3), (None, 2)):
        store.registry.add_label(label("d", "anna", "cause", verdict, hour))
    (kept,) = store.registry.labels()
    assert kept.verdict is False and kept.labelled_at.hour == 3


def test_what_can_not_be_audited_is_refused_in_words(store: Store, tmp_path: Path) -> None:
    for auditor, task, words in (
        ("planted_truht", None, "did you mean `planted_truth`"),
        ("planted_truth", None, "found none. Name the suite's --config"),
        ("planted_truth", WordTask(), "found `words`, which doesn't"),
        ("failing_test", TASK, "that runs programs"),
        ("judge", TASK, "Expected a judge with auditor `judge`"),
        ("planted_truth", CheckedWordTask([problem("1")]), "which is not. Use the settings of"),
        ("human", None, "Expected labels by people, found none"),
    ):
        with pytest.raises(ConfigError, match=words):
            run_audit(store, auditor, task=task)
    with pytest.raises(ConfigError, match="found `other`"):
        run_audit(store, "planted_truth", suite="other", task=TASK)
    with pytest.raises(ConfigError, match="Expected diagnoses in"):
        run_audit(Store.create(tmp_path / "empty"), "planted_truth", task=TASK)
    assert store.sql("SELECT count(*) AS n FROM run WHERE arm = 'audit'")["n"].item() == 0


def test_the_run_says_what_made_it(store: Store) -> None:
    run_audit(store, "planted_truth", task=TASK, seed=5, batch=4)
    run = store.sql("SELECT * FROM run WHERE arm = 'audit'").to_dicts()[0]
    assert (run["suite"], run["seed"], run["task"], run["mentor"]) == ("s", 5, "words", "-")
    assert json.loads(run["config"])["audit"] == {"auditor": "planted_truth", "seed": 5, "batch": 4}
