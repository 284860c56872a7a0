"""The auditor of programs: the attempt is run again, and the diagnosis compared with the case that failed and the lines that ran.

A line that did not run in the failing case can't be why it failed. That a named line ran is needed for the diagnosis to be right
and does not prove it; where every line ran, it says nothing.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from mentor_audit.audit.cases import Case
from mentor_audit.audit.opinions import Audited, BatchAudit, Opinion, unreadable
from mentor_audit.protocols import TaskProblem
from mentor_audit.records import Aspect
from mentor_audit.tasks.code.base import CodeProblem
from mentor_audit.tasks.code.extract import extract_code, function_program
from mentor_audit.tasks.sandbox.verify import Result

ASPECTS_CHECKED: tuple[Aspect, ...] = ("detection", "location")
MIN_QUOTED = 4
"""Characters, blanks left out, of a quoted part of a line or of an input: shorter ones stand anywhere."""
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”")
_LINE = re.compile(r"\bline\s*#?\s*(\d+)\b", re.IGNORECASE)


@runtime_checkable
class Examines(Protocol):
    """A task that can run a program once more and say what happened."""

    def examine(self, problem: TaskProblem, completion: str) -> Result | None: ...


class FailingTest:
    """`problems` holds the problem of every case, by id."""

    name = "failing_test"

    def __init__(self, task: Examines, problems: Mapping[str, TaskProblem]) -> None:
        self.settings: dict[str, Any] = {}
        self._task, self._problems = task, problems

    def aspects_of(self, case: Case) -> tuple[Aspect, ...]:
        return ASPECTS_CHECKED

    def audit(self, cases: Sequence[Case], seed: int) -> BatchAudit:
        return BatchAudit([self._one(case) for case in cases])

    def _one(self, case: Case) -> Audited:
        if not case.is_readable:
            return unreadable(ASPECTS_CHECKED)
        problem = self._problems[case.problem_id]
        code, result = extract_code(case.attempt), self._task.examine(problem, case.attempt)
        if result is None or code is None:
            return _unknown("the attempt holds no code")
        if result.status == "infra_error":
            return _unknown(f"the program could not be run: {result.why}")
        if result.status == "pass":
            why = f"the program passes: {result.why}"
            return Audited([Opinion("detection", False, why), Opinion("location", False, why)])
        return Audited(
            [
                Opinion("detection", True, f"{result.status}: {result.why}"),
                _location(case, _Program.of(problem, code, case.attempt), result),
            ]
        )


@dataclass(frozen=True)
class _Program:
    """What ran: the attempt's code, behind the head of the function where the attempt gave only the body.

    statements        line -> first line of the innermost statement that it belongs to
    before_code       lines of `source` before the attempt's code
    before_attempt    lines of the attempt before its code
    """

    source: str
    statements: Mapping[int, int]
    before_code: int
    before_attempt: int

    @classmethod
    def of(cls, problem: TaskProblem, code: str, attempt: str) -> "_Program":
        source, data = code, problem.data
        if isinstance(data, CodeProblem) and data.tests is not None:
            source = function_program(problem.row.prompt, code, data.tests.entry_point).source
        text = attempt.replace("\r\n", "\n")
        before_attempt = text[: max(text.rfind(code.rstrip("\n")), 0)].count("\n")
        return cls(source, _statements(source), source.count("\n") - code.count("\n"), before_attempt)

    def named(self, words: str) -> Iterator[int]:
        """First lines of the statements that `words` may mean. A number counts lines of program, code or attempt."""
        for number in map(int, _LINE.findall(words)):
            for at in {number, number + self.before_code, number + self.before_code - self.before_attempt}:
                if at in self.statements:
                    yield self.statements[at]
        for groups in _QUOTED.findall(words):
            quoted = _bare(next(filter(None, groups)))
            for at, line in enumerate(map(_bare, self.source.split("\n")), 1):
                is_part = len(quoted) >= MIN_QUOTED and quoted in line
                if (is_part or quoted == line) and at in self.statements:
                    yield self.statements[at]


def _unknown(why: str) -> Audited:
    return Audited([Opinion(aspect, None, why) for aspect in ASPECTS_CHECKED])


def _location(case: Case, program: _Program, result: Result) -> Opinion:
    """From `location`; where that names no line, from the claim; where neither does, from the input that either repeats."""
    for words in (case.location, case.claim):
        named = set(program.named(words or ""))
        if named:
            return _of_lines(named, program.statements, result)
    shown = result.failing_case.input if result.failing_case is not None else None
    told = _bare(f"{case.location or ''} {case.claim or ''}")
    if shown is not None and len(_bare(shown)) >= MIN_QUOTED and _bare(shown) in told:
        return Opinion("location", True, f"the diagnosis names the input of the failing case, {shown}")
    return Opinion("location", None, "the diagnosis names no line of the program, and not the input of the failing case")


def _of_lines(named: set[int], statements: Mapping[int, int], result: Result) -> Opinion:
    """`named` and the values of `statements` are first lines of statements; a mention with two readings names both."""
    if result.executed_lines is None:
        return Opinion("location", None, "which lines ran in the failing case is not known")
    known = set(statements.values())
    ran = {statements[line] for line in result.executed_lines if line in statements}
    told = f"{len(ran)} of {len(known)} statements ran in the failing case; named: line {', '.join(map(str, sorted(named)))}"
    if not ran:
        return Opinion("location", None, f"the lines that ran can't be matched with the attempt's; {told}")
    if ran == known:
        return Opinion("location", None, f"every line ran, so that this tells nothing; {told}")
    verdicts = {line in ran for line in named}
    return Opinion("location", verdicts.pop() if len(verdicts) == 1 else None, told)


def _statements(code: str) -> dict[int, int]:
    """Line -> first line of the innermost statement that it belongs to, of statements inside functions where there are any.

    Heads of functions and classes, and imports, run before any case does: they are left out. Empty: it is not Python.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    lines: dict[int, int] = {}
    for node in ast.walk(tree):  # parents before children
        if not isinstance(node, ast.stmt):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        lines.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.lineno))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for line in range(node.lineno, node.body[0].lineno):
                lines.pop(line, None)
    return lines


def _bare(text: str) -> str:
    return "".join(text.split())
