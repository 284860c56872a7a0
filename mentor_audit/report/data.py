"""What the report reads: its own queries in sql/report/, run on one version of the store, cut to one suite.

Owns no number: what leaves here is what a query returned. Everything later names the queries that it stands on.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from mentor_audit.config import ARMS
from mentor_audit.errors import ReportError
from mentor_audit.records import RUNS_WITHOUT_TRAINING
from mentor_audit.report.statistics import Cells

SEPARATOR = "\x1f"
"""Between an arm and what is told apart within it; no name holds it."""
SQL = resources.files("mentor_audit") / "sql" / "report"


class ReadsStore(Protocol):
    """What the report needs of a store."""

    root: Path

    def arrow(self, text: str, versions: dict[str, int] | None = None) -> pa.Table: ...

    def versions(self, *, pinned: bool = False) -> dict[str, int]: ...


@dataclass(frozen=True)
class Query:
    """A question with its SQL. `note` is None or a warning to readers."""

    name: str
    question: str
    grain: str
    units: str
    note: str | None
    sql: str


@dataclass(frozen=True)
class Data:
    """Query results of one suite.

    runs       the suite's runs, one for each arm and seed, arms in their canonical order
    left_out   run id -> why it takes no part
    frames     query name -> its rows, of `runs` only
    versions   version of each table that was read
    """

    suite: str
    runs: list[dict[str, Any]]
    left_out: dict[str, str]
    frames: dict[str, pl.DataFrame]
    queries: list[Query]
    versions: dict[str, int]

    @property
    def trained(self) -> list[dict[str, Any]]:
        """The runs that trained something: no bank, replay or audit."""
        return [run for run in self.runs if run["arm"] not in RUNS_WITHOUT_TRAINING]

    @property
    def arms(self) -> list[str]:
        """Of the runs that trained something."""
        return list(dict.fromkeys(run["arm"] for run in self.trained))

    @property
    def seeds(self) -> list[int]:
        return sorted({run["seed"] for run in self.trained})

    def cells(self, frame: pl.DataFrame, numerator: str, denominator: str, label: str | None = None) -> Cells:
        """Sums of two columns by arm, seed and problem. With `label`, a column's value is joined to the arm."""
        names = {run["run_id"]: run for run in self.runs}
        rows = [
            (
                names[row["run_id"]]["arm"] if label is None else f"{names[row['run_id']]['arm']}{SEPARATOR}{row[label]}",
                names[row["run_id"]]["seed"],
                row["problem_id"],
                row[numerator],
                row[denominator],
            )
            for row in frame.iter_rows(named=True)
        ]
        return make_cells([row for row in rows if row[4]])


def load(store: ReadsStore, suite: str | None, versions: Mapping[str, int] | None) -> Data:
    """Run every query. Raises ReportError when the store holds no run, or several suites and none is named."""
    read = dict(versions or store.versions(pinned=os.access(store.root, os.W_OK)))
    found = queries()
    frames = {query.name: _frame(store.arrow(query.sql, read)) for query in found}
    everything = frames["runs"].to_dicts()
    chosen = _suite({run["suite"] for run in everything}, suite)
    runs, left_out = _one_a_seed([run for run in everything if run["suite"] == chosen])
    ids = [run["run_id"] for run in runs]
    cut = {name: frame.filter(pl.col("run_id").is_in(ids)) for name, frame in frames.items()}
    return Data(chosen, runs, left_out, cut, found, read)


def queries() -> list[Query]:
    """The report's own queries, by name."""
    files = sorted((p for p in SQL.iterdir() if p.name.endswith(".sql")), key=lambda p: p.name)
    return [_parse(p.name.removesuffix(".sql"), p.read_text(encoding="utf-8")) for p in files]


def make_cells(rows: Sequence[tuple[str, int, str, float, float]]) -> Cells:
    """From (arm, seed, problem, numerator, denominator), summed where a key repeats."""
    arms = sorted({row[0] for row in rows}, key=lambda arm: (arm_order(arm.partition(SEPARATOR)[0]), arm))
    seeds, problems = sorted({row[1] for row in rows}), sorted({row[2] for row in rows})
    at: list[dict[Any, int]] = [{name: i for i, name in enumerate(axis)} for axis in (arms, seeds, problems)]
    top = np.zeros((len(arms), len(seeds), len(problems)))
    bottom = np.zeros_like(top)
    for arm, seed, problem, numerator, denominator in rows:
        place = (at[0][arm], at[1][seed], at[2][problem])
        top[place] += numerator
        bottom[place] += denominator
    return Cells(tuple(arms), tuple(seeds), tuple(problems), top, bottom)


def arm_order(arm: str) -> tuple[int, str]:
    """The arms that this package knows, in the order in which they add to one another; others after them."""
    return (ARMS.index(arm), arm) if arm in ARMS else (len(ARMS), arm)


def _suite(suites: set[str], named: str | None) -> str:
    if not suites:
        raise ReportError("Expected at least one run in the store, found none. Train a suite first: mentor-audit suite CONFIG.")
    if named is None and len(suites) > 1:
        raise ReportError(
            f"Expected one suite in the store, found {', '.join(sorted(suites))}: arms of different suites can't be compared. "
            "Name the one to report on."
        )
    if named is not None and named not in suites:
        raise ReportError(f"Expected one of the suites {', '.join(sorted(suites))}, found {named}. Name one of them.")
    return named or suites.pop()


def _one_a_seed(runs: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The latest run of each arm and seed, and every run that trained nothing; the others with the reason."""
    latest: dict[tuple[str, Any], dict[str, Any]] = {}
    left_out = {}
    for run in sorted(runs, key=lambda r: (r["created_at"], r["run_id"])):
        key = (run["arm"], run["run_id"] if run["arm"] in RUNS_WITHOUT_TRAINING else run["seed"])
        if key in latest:
            left_out[latest[key]["run_id"]] = f"a later run, {run['run_id']}, has the same arm and seed"
        latest[key] = run
    return sorted(latest.values(), key=lambda r: (arm_order(r["arm"]), r["seed"])), left_out


def _frame(table: pa.Table) -> pl.DataFrame:
    frame: Any = pl.from_arrow(table)
    return frame


def _parse(name: str, text: str) -> Query:
    head: dict[str, list[str]] = {}
    for key, words in re.findall(r"^-- (question|grain|units|note): (.+)$", text, re.MULTILINE):
        head.setdefault(key, []).append(words)
    note = " ".join(head["note"]) if "note" in head else None
    return Query(name, " ".join(head["question"]), " ".join(head["grain"]), " ".join(head["units"]), note, text)
