"""How far the auditors of a suite's diagnoses agree, and how often a diagnosis is right when an auditor's errors are taken out.

`audit_findings` gives the block `audits` of the findings. The partials templates/audits.html.j2 and audits.md.j2 read it as
`f.audits`; they need the macros `table` (HTML) and `from` (Markdown) of the page that includes them, and a source called `audits`:
query `audits`, function report.audits.audit_findings.
"""

from itertools import combinations
from typing import Any

from mentor_audit.audit.agreement import agreement, corrected_rate
from mentor_audit.audit.opinions import CANARIES_FOUND
from mentor_audit.report.data import Data
from mentor_audit.report.words import and_list

PROGRAMS = ("step_checker", "failing_test")
CANARIES = ("canaries_true_asked", "canaries_true_found", "canaries_false_asked", "canaries_false_found")


def audit_findings(data: Data, seed: int) -> dict[str, Any]:
    """Over the whole suite; each list is empty where no two auditors judged the same aspect.

    agreement   a row an aspect and pair of auditors that both judged a diagnosis, the more trusted as the reference
    corrected   a row an aspect, auditor and more trusted reference, of which both judged a diagnosis
    canaries    a row an auditor that was given some: the four counts, and a sentence where it failed them (None: it did not)

    People are trusted most, then the planted truth, then other programs, then models. A planted truth needs no correction.
    """
    rows = data.frames["audits"].to_dicts()
    auditors = sorted({row["auditor"] for row in rows}, key=lambda name: (_rank(name), name))
    by_aspect: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_aspect.setdefault(row["aspect"], []).append(row)
    agreements, corrected = [], []
    for aspect, found in sorted(by_aspect.items()):
        for reference, other in combinations(auditors, 2):
            both = agreement(found, reference, other, aspect, seed)
            if both.raw is None:
                continue
            agreements.append(both)
            if _rank(reference) < _rank(other) and other != "planted_truth":
                corrected.append(corrected_rate(found, other, reference, aspect, seed))
    return {"agreement": agreements, "corrected": corrected, "canaries": _canaries(rows)}


def _rank(auditor: str) -> int:
    if auditor.startswith("human:"):
        return 0
    if auditor == "planted_truth":
        return 1
    return 2 if auditor in PROGRAMS else 3


def _canaries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts = {row["auditor"]: {name: row[name] for name in CANARIES} for row in rows if row["canaries_true_asked"] is not None}
    return [
        {"auditor": auditor, **found, "warning": _warning(found)}
        for auditor, found in sorted(counts.items())
        if found["canaries_true_asked"] or found["canaries_false_asked"]
    ]


def _warning(counts: dict[str, int]) -> str | None:
    missed = []
    for kind, known in (("true", "right"), ("false", "wrong")):
        asked, right = counts[f"canaries_{kind}_asked"], counts[f"canaries_{kind}_found"]
        if asked and right < CANARIES_FOUND * asked:
            missed.append(f"{right} of {asked} that are known to be {known}")
    return f"it found only {and_list(missed)}" if missed else None
