"""The compute-matched ablation report: where a gain came from, and how sure that is.

`build_report` reads a store through the queries in sql/report/, compares the arms at equal training compute, and writes report.html,
report.md and report.json. report.json's keys are listed in findings.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from mentor_audit.report.data import ReadsStore

Budget = Literal["flops", "tokens", "seconds"]


@dataclass(frozen=True)
class Report:
    """What was written. `paths`: html, md, json. `verdict`: the opening paragraphs, of training and of each replay. `findings`: the content of report.json."""

    paths: dict[str, Path]
    verdict: str
    findings: dict[str, Any]


def build_report(
    store: ReadsStore,
    out_dir: str | PathLike[str],
    *,
    budget: Budget | str = "flops",
    versions: Mapping[str, int] | None = None,
    seed: int = 0,
    suite: str | None = None,
) -> Report:
    """Write the report of one suite into `out_dir`.

    budget     what arms are matched on: flops, tokens or seconds
    versions   version of each table to read; None: the newest, read once for all queries
    seed       of the bootstrap: the same store, versions and seed give the same report
    suite      needed when the store holds several

    Raises ReportError for a store without runs, an unknown suite or budget, and a folder that can't be written.
    """
    from mentor_audit.errors import ReportError
    from mentor_audit.report import render
    from mentor_audit.report.data import load
    from mentor_audit.report.findings import find
    from mentor_audit.report.transfer import curves_of, mean_curve

    if budget not in get_args(Budget):
        raise ReportError(f"Expected budget to be flops, tokens or seconds, found {budget!r}. Choose one of them.")
    data = load(store, suite, versions)
    found = find(data, str(store.root), budget, seed)
    curves = curves_of(data, budget)[0]
    means = {arm: mean_curve([c for c in curves if c.arm == arm]) for arm in data.arms}
    said = [verdict["paragraph"] for verdict in (found["verdict"], *(r["verdict"] for r in found["replays"])) if verdict]
    return Report(render.write(found, means, Path(out_dir)), "\n".join(said), found)


__all__ = ["Report", "build_report"]
