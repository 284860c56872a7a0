"""What is often done instead, on the same rows: each analysis gives an estimate of a contrast and whether it would be claimed at 5 %.

None of these is in the package. `validity.py` sets them beside the report.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

Rows = dict[str, list[dict[str, Any]]]
RESPONSES = ("follow_up", "extra_sample")


@dataclass(frozen=True)
class Naive:
    """`estimates` is the contrast, by its name in `simulate.truth`, that the analysis claims to measure. `worlds`: where it is tried."""

    name: str
    estimates: str
    worlds: tuple[str, ...]
    run: Callable[[Rows], tuple[float, float]]
    """Rows -> (estimate, two-sided p)."""


def rollouts_of_the_last_step(rows: Rows) -> tuple[float, float]:
    """Every held-out sample counts as independent, whatever its run and problem."""
    return _two_shares(_last_step(rows, "mentor"), _last_step(rows, "resample"))


def responses_by_audit(rows: Rows) -> tuple[float, float]:
    """Within the mentor's arm: responses to instructions from a right diagnosis against those from a wrong one."""
    return _strata(rows, "planted_truth")


def responses_by_judge(rows: Rows) -> tuple[float, float]:
    """The same with the verdicts of a judge who errs."""
    return _strata(rows, "judge")


def best_of_several(rows: Rows) -> tuple[float, float]:
    """Of several follow-ups the best is kept, as if there had been one, beside the first extra sample."""
    kept = [max(bool(v) for v in verdicts) for verdicts in _answers(rows, "mentor")]
    return _two_shares(kept, [bool(verdicts[0]) for verdicts in _answers(rows, "resample")])


def unscored_as_wrong(rows: Rows) -> tuple[float, float]:
    """A held-out sample without a verdict counts as wrong."""
    return _two_shares(_last_step(rows, "mentor", True), _last_step(rows, "vanilla", True))


def pooled_groups(rows: Rows) -> tuple[float, float]:
    """Randomised training: every failed group counts once, whatever the chance of its arm was."""
    rescued = {row["group_id"] for row in rows["attempt"] if row["role"] in RESPONSES and row["is_correct"]}
    kept = {arm: [g["group_id"] in rescued for g in rows["attempt_group"] if g["arm"] == arm] for arm in ("mentor", "wrong")}
    return _two_shares(kept["mentor"], kept["wrong"])


ANALYSES = (
    Naive(
        "chi-square over rollouts",
        "transfer/mentor - resample",
        ("nothing", "nothing, seeds differ"),
        rollouts_of_the_last_step,
    ),
    Naive(
        "arms at equal steps, not equal compute",
        "transfer/mentor - resample",
        ("sampling, unequal prices",),
        rollouts_of_the_last_step,
    ),
    Naive(
        "right against wrong diagnoses, by program",
        "rescue/mentor - wrong",
        ("form", "form, easy failures diagnosed right"),
        responses_by_audit,
    ),
    Naive(
        "right against wrong diagnoses, by a judge who errs",
        "rescue/mentor - wrong",
        ("form, easy failures diagnosed right",),
        responses_by_judge,
    ),
    Naive("best of several follow-ups", "success/mentor - resample", ("sampling, several follow-ups",), best_of_several),
    Naive(
        "samples without a verdict as wrong", "transfer/mentor - vanilla", ("correctness, verdicts missing",), unscored_as_wrong
    ),
    Naive("groups pooled without their chances", "randomised/mentor - wrong", ("form, chances of arms change",), pooled_groups),
)


def _two_shares(first: Iterable[bool], second: Iterable[bool]) -> tuple[float, float]:
    """(difference of shares, p of Pearson's chi-square without correction)."""
    one, other = np.array(list(first), dtype=bool), np.array(list(second), dtype=bool)
    gap = float(one.mean() - other.mean())
    table = [[one.sum(), (~one).sum()], [other.sum(), (~other).sum()]]
    if not np.sum(table, axis=0).all():
        return gap, 1.0
    return gap, float(stats.chi2_contingency(table, correction=False).pvalue)


def _last_step(rows: Rows, arm: str, unscored_as_wrong: bool = False) -> list[bool]:
    runs = {run["run_id"] for run in rows["run"] if run["arm"] == arm}
    evaluated = [row for row in rows["attempt"] if row["role"] == "eval" and row["run_id"] in runs]
    last = max(row["step"] for row in evaluated)
    verdicts = [row["is_correct"] for row in evaluated if row["step"] == last]
    return [bool(v) for v in verdicts if v is not None or unscored_as_wrong]


def _answers(rows: Rows, arm: str) -> list[list[bool | None]]:
    """The replay's verdicts on this arm's responses, failure by failure."""
    groups: dict[str, list[bool | None]] = defaultdict(list)
    wanted = {g["group_id"] for g in rows["attempt_group"] if g["mode"] == "replay" and g["arm"] == arm}
    for row in rows["attempt"]:
        if row["role"] in RESPONSES and row["group_id"] in wanted:
            groups[row["group_id"]].append(row["is_correct"])
    return list(groups.values())


def _strata(rows: Rows, auditor: str) -> tuple[float, float]:
    audited = {
        row["diagnosis_id"]: row["verdict"]
        for row in rows["diagnosis_audit"]
        if row["auditor"] == auditor and row["aspect"] == "location"
    }
    right = {
        row["instruction_id"]: audited[row["diagnosis_id"]]
        for row in rows["instruction"]
        if row["mode"] == "replay" and row["arm"] == "mentor"
    }
    answers: dict[bool, list[bool]] = {True: [], False: []}
    for row in rows["attempt"]:
        if row["instruction_id"] in right and row["is_correct"] is not None:
            answers[right[row["instruction_id"]]].append(row["is_correct"])
    return _two_shares(answers[True], answers[False])
