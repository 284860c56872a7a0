"""The audit of a suite's diagnoses by one auditor: a run of its own, in batches, that goes on where it was left.

What this auditor has judged, in whatever run, is not judged again. A verdict that can't be given is a row too, with its reason.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from mentor_audit.audit.canaries import CanaryMaker
from mentor_audit.audit.cases import Case, audited, choose_suite, read_cases, task_problems
from mentor_audit.audit.failing_test import Examines, FailingTest
from mentor_audit.audit.human import PREFIX, HumanAuditor, choose_person
from mentor_audit.audit.judge import Judge, JudgeAuditor
from mentor_audit.audit.opinions import CANARIES_FOUND, Auditor, BatchAudit, CanaryCounts
from mentor_audit.audit.planted_truth import PlantedTruth
from mentor_audit.audit.step_checker import StepChecker
from mentor_audit.config import nearest
from mentor_audit.cost.ledger import cost_row
from mentor_audit.errors import ConfigError
from mentor_audit.protocols import ChecksSteps, Task
from mentor_audit.records import Aspect, DiagnosisAudit, Row
from mentor_audit.store import Store
from mentor_audit.store.batches import BatchRun
from mentor_audit.store.run_row import make_run
from mentor_audit.tasks.maths import MathVerifier

AUDITORS = ("planted_truth", "step_checker", "failing_test", "judge", "human")


@dataclass(frozen=True)
class AspectCounts:
    """Verdicts of one aspect, over all that this auditor has judged in the suite."""

    aspect: Aspect
    right: int
    wrong: int
    cannot_tell: int


@dataclass(frozen=True)
class AuditSummary:
    """`num_new` diagnoses were judged now, `num_left` are still to be (a limit was set). `canaries`: of all launches."""

    suite: str
    auditor: str
    run_id: str
    num_new: int
    num_left: int
    aspects: tuple[AspectCounts, ...]
    canaries: CanaryCounts
    warnings: tuple[str, ...]


def run_audit(
    store: Store,
    auditor: str,
    *,
    suite: str | None = None,
    task: Task | None = None,
    judge: Judge | None = None,
    with_reference: bool = False,
    seed: int = 0,
    batch: int = 64,
    limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AuditSummary:
    """Judge what this auditor has not judged yet, in an order that depends on `seed` alone.

    auditor          one of AUDITORS; `human:NAME` for one person of several
    suite            None: the only one with diagnoses
    task             needed by planted_truth and failing_test; a judge gets better canaries with one
    with_reference   a judge is shown the reference answer
    limit            at most so many diagnoses now; None: all
    progress         gets (judged, of so many) after each batch

    Raises ConfigError for an auditor, suite or person that isn't there, and for a task that lacks what the auditor needs;
    ModelError when a judge answers nothing at all. What was committed before is kept.
    """
    name = choose_suite(store, suite)
    cases = read_cases(store, name, seed)
    with ExitStack() as stack:
        who = _auditor(store, auditor, cases, task, judge, with_reference, stack)
        done = audited(store, who.name)
        left = [case for case in cases if any((case.diagnosis_id, aspect) not in done for aspect in who.aspects_of(case))]
        todo = left if limit is None else left[:limit]
        run = make_run(
            run_id=f"{name}-audit-{re.sub(r'[^A-Za-z0-9._-]', '-', who.name)}",
            suite=name,
            arm="audit",
            seed=seed,
            config={"audit": {"auditor": who.name, "seed": seed, "batch": batch, **who.settings}},
            learner="-",
            learner_params=None,
            mentor="-",
            task=task.name if task is not None else "-",
            device="-",
        )
        if todo:
            with BatchRun(store, run, "audit") as audit:
                for start in range(0, len(todo), batch):
                    part, started = todo[start : start + batch], time.perf_counter()
                    judged = who.audit(part, _draw(seed, part[0]))
                    tables = _rows(part, judged, who, done, audit)
                    audit.commit(tables, time.perf_counter() - started, {"canaries": vars(judged.canaries)})
                    audit.flush()  # a judge was paid for it
                    if progress is not None:
                        progress(start + len(part), len(todo))
    return _summary(store, name, who.name, run.run_id, len(todo), len(left) - len(todo))


def _auditor(
    store: Store,
    name: str,
    cases: Sequence[Case],
    task: Task | None,
    judge: Judge | None,
    with_reference: bool,
    stack: ExitStack,
) -> Auditor:
    """`stack` closes what the auditor opened."""
    if (name == "judge") != (judge is not None):
        found = "none" if judge is None else f"`{judge.name}` with auditor `{name}`"
        raise ConfigError(f"Expected a judge with auditor `judge` and none with another, found {found}. Give both or neither.")
    if judge is not None:
        problems = task_problems(task, cases) if task is not None and isinstance(task, ChecksSteps) else {}
        return JudgeAuditor(judge, CanaryMaker(cases, task, problems), with_reference)
    if name == "planted_truth":
        if not isinstance(task, ChecksSteps):
            raise ConfigError(_lacking(name, "knows by program where an attempt goes wrong", task))
        return PlantedTruth(task, task_problems(task, cases))
    if name == "step_checker":
        return StepChecker(stack.enter_context(MathVerifier()))
    if name == "failing_test":
        if not isinstance(task, Examines):
            raise ConfigError(_lacking(name, "runs programs", task))
        return FailingTest(task, task_problems(task, cases))
    if name == "human" or name.startswith(PREFIX):
        labels = store.registry.labels()
        return HumanAuditor(choose_person(labels, name), labels)
    raise ConfigError(f"Expected one of the auditors {', '.join(AUDITORS)}, found `{name}`{nearest(name, AUDITORS)}.")


def _lacking(auditor: str, needed: str, task: Task | None) -> str:
    found = "none" if task is None else f"`{task.name}`, which doesn't"
    return f"Expected a task that {needed} for auditor `{auditor}`, found {found}. Name the suite's --config, or another auditor."


def _rows(
    cases: Sequence[Case], judged: BatchAudit, who: Auditor, done: Collection[tuple[str, str]], audit: BatchRun
) -> dict[str, list[Row]]:
    """The verdicts that are not there yet, each call's cost with the first of its diagnosis, canaries' with the first call's."""
    tables: dict[str, list[Row]] = {"diagnosis_audit": [], "cost": []}
    usages = [[found.usage] if found.usage is not None else [] for found in judged.audited]
    usages[next((i for i, spent in enumerate(usages) if spent), 0)] += judged.canary_usages
    for case, found, spent in zip(cases, judged.audited, usages, strict=True):
        rows = [
            DiagnosisAudit(
                **audit.columns(),
                audit_id=f"{case.diagnosis_id}.{who.name}.{opinion.aspect}",
                diagnosis_id=case.diagnosis_id,
                auditor=who.name,
                aspect=opinion.aspect,
                verdict=opinion.verdict,
                confidence=opinion.confidence,
                why=opinion.why,
            )
            for opinion in found.opinions
            if (case.diagnosis_id, opinion.aspect) not in done
        ]
        tables["diagnosis_audit"] += rows
        if spent:
            owner, used = ("diagnosis_audit", rows[0].audit_id), any(row.verdict is not None for row in rows)
            tables["cost"].append(cost_row(audit.columns(), owner, "audit", "audit", spent, used, found.error))
    return tables


def _summary(store: Store, suite: str, auditor: str, run_id: str, num_new: int, num_left: int) -> AuditSummary:
    given = store.arrow(
        "SELECT aspect, count(*) FILTER (verdict) AS right, count(*) FILTER (NOT verdict) AS wrong, "
        "count(*) FILTER (verdict IS NULL) AS cannot_tell FROM diagnosis_audit a JOIN diagnosis d USING (diagnosis_id) "
        f"JOIN run r ON r.run_id = d.run_id WHERE r.suite = {_quoted(suite)} AND a.auditor = {_quoted(auditor)} "
        "GROUP BY aspect ORDER BY aspect"
    ).to_pylist()
    units = store.arrow(f"SELECT metrics FROM train_step WHERE run_id = {_quoted(run_id)}").to_pylist()
    canaries = sum((CanaryCounts(**json.loads(unit["metrics"])["canaries"]) for unit in units), CanaryCounts())
    counts = tuple(AspectCounts(**row) for row in given)
    warnings = _warnings(canaries) if auditor.startswith("judge:") else ()
    return AuditSummary(suite, auditor, run_id, num_new, num_left, counts, canaries, warnings)


def _warnings(canaries: CanaryCounts) -> tuple[str, ...]:
    found = []
    for kind, asked, right in (
        ("right", canaries.true_asked, canaries.true_found),
        ("wrong", canaries.false_asked, canaries.false_found),
    ):
        if not asked:
            found.append(
                f"there was no canary whose verdict is known to be {kind}: whether the judge would know one is not known"
            )
        elif right < CANARIES_FOUND * asked:
            found.append(
                f"the judge found {right} of {asked} verdicts on canaries that are known to be {kind}: expected at least "
                f"{CANARIES_FOUND:.0%}. Correct its rates for its error, or use another judge"
            )
    return tuple(found)


def _draw(seed: int, first: Case) -> int:
    """The seed of a batch: that of the audit, and where the batch begins."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{first.diagnosis_id}".encode()).digest()[:6], "big")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
