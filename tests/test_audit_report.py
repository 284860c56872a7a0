"""Audits in the report: a judge of known error in a simulated suite, what is compared with what, and the partial pages."""

import html
import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from test_audit import TASK, audited_store
from test_audit_judge import ScriptedJudge, always

from mentor_audit.audit.cases import read_cases
from mentor_audit.audit.label import label_diagnoses
from mentor_audit.audit.run import run_audit
from mentor_audit.report.audits import audit_findings
from mentor_audit.report.data import Data, queries
from mentor_audit.report.findings import _plain
from mentor_audit.report.render import _environment, _escape_markdown
from mentor_audit.simulate import SimulatedStore, World, simulate
from mentor_audit.simulate.world import Failures, Replays

HTML = '{% macro table(block, caption, heads) %}<table>{{ caller() }}</table>{% endmacro %}{% include "audits.html.j2" %}'
MARKDOWN = '{% macro from(block) %}(from {{ block }}){% endmacro %}{% include "audits.md.j2" %}'


def data_of(store: Any, suite: str = "s") -> Data:
    query = next(q for q in queries() if q.name == "audits")
    frame: Any = pl.from_arrow(store.arrow(query.sql))
    return Data(suite, [], {}, {"audits": frame}, [query], {})


def world(judge: tuple[float, float] | None) -> World:
    failures = Failures(accuracy=0.6, judge=judge)
    return World(replays=Replays(failures, arms=("vanilla", "mentor"), problems=400, groups=2), seeds=(1,))


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    found: dict[str, Any] = _plain(audit_findings(data_of(SimulatedStore(simulate(world((0.85, 0.75))))), 0))
    return found


def test_a_judge_of_known_error_is_seen_through(simulated: dict[str, Any]) -> None:
    """The simulated judge errs on a diagnosis as its location is right or wrong."""
    both = {a["aspect"]: a for a in simulated["agreement"]}
    assert set(both) == {"location", "cause"} and {(a["reference"], a["other"]) for a in both.values()} == {
        ("planted_truth", "judge")
    }
    location = next(c for c in simulated["corrected"] if c["aspect"] == "location")
    assert location["sensitivity"]["value"] == pytest.approx(0.85, abs=0.05)
    assert location["specificity"]["value"] == pytest.approx(0.75, abs=0.07)
    true = both["location"]["reference_prevalence"]
    assert location["corrected"]["value"] == pytest.approx(true), (
        "where all is labelled, the correction gives the reference's rate"
    )
    assert location["corrected"]["interval"][0] < true < location["corrected"]["interval"][1]
    assert simulated["canaries"] == []


def test_one_auditor_alone_leaves_nothing_to_compare() -> None:
    found = audit_findings(data_of(SimulatedStore(simulate(world(None)))), 0)
    assert found == {"agreement": [], "corrected": [], "canaries": []}
    for template in (HTML, MARKDOWN):
        assert rendered(template, found).strip() == ""


def test_people_are_read_from_the_registry_and_trusted_most(tmp_path: Path) -> None:
    store = audited_store(tmp_path / "store")
    run_audit(store, "planted_truth", task=TASK)
    run_audit(store, "judge", task=TASK, judge=ScriptedJudge(always("true")))
    cases = read_cases(store, "s", 0)
    keys = "".join("y\n" if case.location != "bad-elsewhere" else "n\n" for case in cases)
    label_diagnoses(store, "anna", reading=io.StringIO(keys), writing=io.StringIO(), aspects=["location"])
    run_audit(store, "human")  # a copy, which must not count as another auditor
    label_diagnoses(store, "ben", reading=io.StringIO("y\n" * 12), writing=io.StringIO(), aspects=["location"])
    found = _plain(audit_findings(data_of(store), 0))
    pairs = {(a["reference"], a["other"]): a for a in found["agreement"] if a["aspect"] == "location"}
    names = ["human:anna", "human:ben", "planted_truth", "judge:scripted"]
    assert set(pairs) == {(a, b) for i, a in enumerate(names) for b in names[i + 1 :]}
    assert pairs["human:anna", "planted_truth"]["kappa"] == 1.0
    assert pairs["human:ben", "judge:scripted"]["kappa"] is None and "not defined" in pairs["human:ben", "judge:scripted"]["why"]
    references = {(c["judge"], c["reference"]) for c in found["corrected"] if c["aspect"] == "location"}
    assert references == {("judge:scripted", name) for name in names[:3]}
    assert [c["auditor"] for c in found["canaries"]] == ["judge:scripted"]
    assert found["canaries"][0]["canaries_false_found"] == 0
    assert found["canaries"][0]["warning"] == "it found only 0 of 4 that are known to be wrong"
    page = rendered(HTML, found)
    assert "it found only 0 of 4" in page and "human:anna" in page and "1.00 [" in page


def test_the_pages_say_what_was_found(simulated: dict[str, Any]) -> None:
    page, text = rendered(HTML, simulated), rendered(MARKDOWN, simulated)
    kappa = next(a for a in simulated["agreement"] if a["aspect"] == "location")["kappa"]
    for made in (page, text):
        assert f"{kappa:.2f} [" in made and "planted" in made
    assert page.count("<table>") == 2 and text.count("| location |") == 2


def test_a_name_from_outside_can_not_make_markup(simulated: dict[str, Any]) -> None:
    hostile = {**simulated, "agreement": [{**simulated["agreement"][0], "other": "<script>alert(1)</script>|x"}]}
    assert "<script>" not in rendered(HTML, hostile) and html.escape("<script>alert(1)</script>") in rendered(HTML, hostile)
    assert "<script>" not in rendered(MARKDOWN, hostile) and "\\|x" in rendered(MARKDOWN, hostile)


def rendered(template: str, found: dict[str, Any]) -> str:
    finalize = _escape_markdown if template is MARKDOWN else None
    return _environment(finalize).from_string(template).render(f={"audits": found})
