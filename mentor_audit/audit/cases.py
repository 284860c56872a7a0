"""What an auditor is given: a diagnosis and the failed attempt that it is about.

Arm, the instruction that was shown and follow-ups stay in the store.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from mentor_audit.errors import ConfigError
from mentor_audit.protocols import Task, TaskProblem
from mentor_audit.records import Aspect
from mentor_audit.store import Store

ASPECTS: tuple[Aspect, ...] = ("detection", "location", "cause", "fix")
"""The attempt has an error; it first goes wrong there; for that reason; and the proposed instruction would put it right."""


@dataclass(frozen=True)
class Case:
    """One diagnosis. `location`, `error_type`, `claim` and `instruction` are the mentor's words; None: it gave none.

    attempt_is_correct   the verifier's verdict, for programs only; None: it gave none
    is_readable          the mentor's reply could be parsed
    """

    diagnosis_id: str
    problem_id: str
    problem: str
    gold: str | None
    attempt: str
    attempt_is_correct: bool | None
    is_readable: bool
    location: str | None
    error_type: str | None
    claim: str | None
    instruction: str | None


def choose_suite(store: Store, suite: str | None) -> str:
    """The suite that is named, or the only one with diagnoses. Raises ConfigError when there is none, or it takes a choice."""
    rows = store.arrow("SELECT DISTINCT r.suite FROM diagnosis d JOIN run r USING (run_id) ORDER BY ALL").to_pylist()
    found = [row["suite"] for row in rows]
    if suite in found:
        return str(suite)
    if not found:
        raise ConfigError(f"Expected diagnoses in {store.root}, found none. Run an arm with a mentor, or a replay, first.")
    if suite is not None or len(found) > 1:
        named = "none named" if suite is None else f"`{suite}`"
        raise ConfigError(
            f"Expected one of the suites with diagnoses ({', '.join(found)}), found {named}. Name one with --suite."
        )
    return str(found[0])


def read_cases(store: Store, suite: str, seed: int) -> list[Case]:
    """Every diagnosis of the suite, in an order that depends on seed and ids alone: more diagnoses don't change it."""
    name = suite.replace("'", "''")
    rows = store.arrow(
        "SELECT d.diagnosis_id, a.problem_id, p.prompt AS problem, p.gold, a.completion AS attempt, "
        "a.is_correct AS attempt_is_correct, d.parse_status IN ('ok', 'repaired') AS is_readable, "
        "d.location, d.error_type, d.claim, "
        "d.proposed_instruction AS instruction "
        "FROM diagnosis d JOIN run r USING (run_id) JOIN attempt a USING (attempt_id) JOIN problem p USING (problem_id) "
        f"WHERE r.suite = '{name}'"
    ).to_pylist()
    return sorted((Case(**row) for row in rows), key=lambda case: _draw(seed, case.diagnosis_id))


def audited(store: Store, auditor: str) -> set[tuple[str, str]]:
    """(diagnosis id, aspect) that an auditor of this name has given an opinion on, in whatever run."""
    name = auditor.replace("'", "''")
    rows = store.arrow(f"SELECT DISTINCT diagnosis_id, aspect FROM diagnosis_audit WHERE auditor = '{name}'").to_pylist()
    return {(row["diagnosis_id"], row["aspect"]) for row in rows}


def task_problems(task: Task, cases: Collection[Case]) -> dict[str, TaskProblem]:
    """The task's problem of each case, by id. Raises ConfigError when one is not the task's."""
    known = {problem.row.problem_id: problem for split in ("train", "heldout") for problem in task.problems(split)}
    missing = sorted({case.problem_id for case in cases} - known.keys())
    if missing:
        raise ConfigError(
            f"Expected the audited problems among those of task `{task.name}`, found {missing[0]} ({len(missing)} in all), "
            "which is not. Use the settings of [task] that the suite was made with."
        )
    return {problem_id: known[problem_id] for problem_id in {case.problem_id for case in cases}}


def _draw(seed: int, diagnosis_id: str) -> tuple[str, str]:
    return hashlib.sha256(f"{seed}:{diagnosis_id}".encode()).hexdigest(), diagnosis_id
