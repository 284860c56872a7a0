"""The leak audit of a store: every instruction of a suite, whichever run wrote it. Flags and records; nothing is dropped.

A run of its own (`SUITE-audit-leakage-AUDITOR`, mode `audit`), in batches; what this auditor has looked at is not looked at
again.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from mentor_audit.audit.leakage import NGRAM, program_leaks
from mentor_audit.audit.leakage_model import Advice, model_leaks
from mentor_audit.cost.ledger import cost_row
from mentor_audit.errors import ConfigError
from mentor_audit.protocols import KnowsExpected, Policy, Task, TaskProblem
from mentor_audit.records import LeakAudit, Problem, Row
from mentor_audit.store import Store
from mentor_audit.store.batches import BatchRun
from mentor_audit.store.run_row import make_run
from mentor_audit.tasks.maths import MathVerifier

PROGRAM = "program"


@dataclass(frozen=True)
class ArmLeaks:
    """What one auditor found of one arm's instructions; a count is of `instructions`.

    answers_known      the problem has a reference answer, so that it could be looked for
    mean_overlap       of reference_overlap; mean_logprob_change in nats a token. None: of none
    asked, answered    instructions with a verdict on tier 4, and those that a model could answer from
    """

    arm: str
    instructions: int
    answers_known: int
    found: int
    leaks: int
    mean_overlap: float | None
    asked: int
    answered: int
    mean_logprob_change: float | None


@dataclass(frozen=True)
class LeakSummary:
    """`num_new` instructions were audited now; `arms` counts all that this auditor has looked at in the suite, by arm."""

    suite: str
    auditor: str
    run_id: str
    num_new: int
    arms: tuple[ArmLeaks, ...]


@dataclass(frozen=True)
class _Case:
    instruction_id: str
    problem_id: str
    text: str
    attempt: str
    problem: Problem


def run_leak_audit(
    store: Store,
    *,
    suite: str | None = None,
    task: Task | None = None,
    policy: Policy | None = None,
    auditor: str | None = None,
    seed: int = 0,
    batch: int = 256,
    progress: Callable[[int, int], None] | None = None,
) -> LeakSummary:
    """Audit what this auditor has not looked at yet. Without a policy tiers 1 to 3, by program; with one tiers 4 and 5, which
    need the task.

    `suite` None: the only one with instructions. `task` lets the program know what a problem's tests expect. `auditor` None:
    `program`, or the policy's name. `progress` gets (audited, of so many). Raises ConfigError for a suite that isn't there or
    that takes a choice, for a policy without a task, and for a task that lacks an audited problem.
    """
    if policy is not None and task is None:
        raise ConfigError(
            "Expected the task with the model that answers its instructions, found none. Name the suite's --config."
        )
    name = _choose_suite(store, suite)
    who = auditor or (PROGRAM if policy is None else policy.name)
    settings = {"auditor": who, "tiers": [1, 2, 3] if policy is None else [4, 5], "ngram": NGRAM, "seed": seed, "batch": batch}
    run = make_run(
        f"{name}-audit-leakage-{re.sub(r'[^A-Za-z0-9._-]', '-', who)}",
        suite=name,
        arm="audit",
        seed=seed,
        config={"leakage": settings},
        learner="-",
        learner_params=None,
        mentor="-",
        task=task.name if task is not None else "-",
        device="cpu" if policy is None else str(getattr(policy, "device", "unknown")),
    )
    cases = _cases_left(store, name, who, seed)
    problems = _task_problems(task, cases) if task is not None else {}
    if cases:
        with BatchRun(store, run, "audit") as audit, MathVerifier() if policy is None else nullcontext() as verifier:
            for start in range(0, len(cases), batch):
                part, started = cases[start : start + batch], time.perf_counter()
                if policy is not None and task is not None:
                    rows = list(_by_model(part, problems, task, policy, seed, who, audit))
                else:
                    assert verifier is not None
                    rows = [_by_program(case, problems, task, verifier, who, audit) for case in part]
                audit.commit(_tables(rows), time.perf_counter() - started)
                if progress is not None:
                    progress(start + len(part), len(cases))
    return LeakSummary(name, who, run.run_id, len(cases), leaks_by_arm(store, name, who))


def leaks_by_arm(store: Store, suite: str, auditor: str) -> tuple[ArmLeaks, ...]:
    """What an auditor of this name has found in the suite's instructions so far, by the arm that showed them."""
    rows = store.arrow(
        "SELECT i.arm, count(*) AS instructions, count(l.answer_found) AS answers_known, "
        "count(*) FILTER (l.answer_found) AS found, count(*) FILTER (l.is_leak) AS leaks, avg(l.reference_overlap) AS mean_overlap, count(l.answered) AS asked, "
        "count(*) FILTER (l.answered) AS answered, avg(l.logprob_change) AS mean_logprob_change "
        "FROM leak_audit l JOIN instruction i USING (instruction_id) JOIN run r ON r.run_id = i.run_id "
        f"WHERE r.suite = {_quoted(suite)} AND l.auditor = {_quoted(auditor)} GROUP BY i.arm ORDER BY i.arm"
    ).to_pylist()
    return tuple(ArmLeaks(**row) for row in rows)


def _by_program(
    case: _Case, problems: dict[str, TaskProblem], task: Task | None, verifier: MathVerifier, who: str, audit: BatchRun
) -> LeakAudit:
    problem = problems.get(case.problem_id)
    expected = task.expected_answers(problem) if isinstance(task, KnowsExpected) and problem is not None else ()
    found = program_leaks(
        case.problem,
        case.attempt,
        case.text,
        expected=expected,
        same=lambda gold, candidate: verifier.verify(gold, f"\\boxed{{{candidate}}}").is_correct is True,
    )
    detail = {"ngram": NGRAM, "expected_values": len(expected), **({"how": found.how} if found.how else {})}
    if found.answer_found is None:
        detail["why"] = "the problem has no reference answer"
    return _row(case, who, audit, found.columns(), detail)


def _by_model(
    part: Sequence[_Case], problems: dict[str, TaskProblem], task: Task, policy: Policy, seed: int, who: str, audit: BatchRun
) -> Iterator[Row]:
    advice = [Advice(problems[case.problem_id], case.text) for case in part]
    draw = int.from_bytes(hashlib.sha256(f"{seed}:{part[0].instruction_id}".encode()).digest()[:6], "big")
    for case, found in zip(part, model_leaks(advice, task, policy, draw), strict=True):
        columns = {"answered": found.answered, "answered_text": found.answered_text, "logprob_change": found.logprob_change}
        row = _row(case, who, audit, columns, {"why": found.why} if found.why else {})
        yield row
        yield cost_row(audit.columns(), ("leak_audit", row.leak_audit_id), "audit", "audit", found.usages, used=True)


def _row(case: _Case, who: str, audit: BatchRun, columns: dict[str, Any], detail: dict[str, Any]) -> LeakAudit:
    return LeakAudit(
        **audit.columns(),
        leak_audit_id=f"{case.instruction_id}.leak.{who}",
        instruction_id=case.instruction_id,
        auditor=who,
        detail=json.dumps(detail, sort_keys=True) if detail else None,
        **columns,
    )


def _tables(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return {
        "leak_audit": [row for row in rows if isinstance(row, LeakAudit)],
        "cost": [row for row in rows if not isinstance(row, LeakAudit)],
    }


def _choose_suite(store: Store, suite: str | None) -> str:
    rows = store.arrow("SELECT DISTINCT r.suite FROM instruction i JOIN run r USING (run_id) ORDER BY ALL").to_pylist()
    found = [str(row["suite"]) for row in rows]
    if suite in found:
        return str(suite)
    if not found:
        raise ConfigError(f"Expected instructions in {store.root}, found none. Run an arm that shows one, or a replay, first.")
    if suite is not None or len(found) > 1:
        named = "none named" if suite is None else f"`{suite}`"
        raise ConfigError(f"Expected one of the suites with instructions ({', '.join(found)}), found {named}. Name one.")
    return found[0]


def _cases_left(store: Store, suite: str, who: str, seed: int) -> list[_Case]:
    """In an order that depends on seed and ids alone."""
    rows = store.arrow(
        "SELECT i.instruction_id, i.text, a.completion AS attempt, p.* FROM instruction i JOIN run r ON r.run_id = i.run_id "
        "JOIN attempt a ON a.attempt_id = i.attempt_id JOIN problem p ON p.problem_id = a.problem_id "
        f"WHERE r.suite = {_quoted(suite)} AND NOT EXISTS (SELECT 1 FROM leak_audit l WHERE l.instruction_id = i.instruction_id "
        f"AND l.auditor = {_quoted(who)})"
    ).to_pylist()
    cases = [
        _Case(
            row["instruction_id"],
            row["problem_id"],
            row["text"],
            row["attempt"],
            Problem(**{k: row[k] for k in Problem.model_fields}),
        )
        for row in rows
    ]
    return sorted(cases, key=lambda c: (hashlib.sha256(f"{seed}:{c.instruction_id}".encode()).hexdigest(), c.instruction_id))


def _task_problems(task: Task, cases: Sequence[_Case]) -> dict[str, TaskProblem]:
    known = {problem.row.problem_id: problem for split in ("train", "heldout") for problem in task.problems(split)}
    missing = sorted({case.problem_id for case in cases} - known.keys())
    if missing:
        raise ConfigError(
            f"Expected the instructions' problems among those of task `{task.name}`, found {missing[0]} ({len(missing)} in all), which is "
            "not. Use the settings of [task] that the suite was made with."
        )
    return known


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
