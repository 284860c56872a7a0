"""The auditor of programs: what ran in the failing case, and whether the diagnosis names it."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from scripted import problem
from test_audit import case

from mentor_audit.audit.failing_test import FailingTest
from mentor_audit.protocols import TaskProblem
from mentor_audit.tasks.code import CodeSettings, CodeTask
from mentor_audit.tasks.code.base import CodeProblem
from mentor_audit.tasks.sandbox.verify import FailingCase, FunctionTests, Result

CODE = '''def grade(x):
    """Of x."""
    if x > 10:
        y = 1
        return y + 1
    return sum(
        [x,
         1])
'''
ATTEMPT = f"Here it is.\n\n```python\n{CODE}```\n"
FAILED = Result("fail", "AssertionError", 1, FailingCase(2, "assert grade(12) == 3", "12, []", "2", "3"), (1, 3, 4, 5))


@dataclass
class Ran:
    """A task whose programs end in the same way, whatever they are."""

    result: Result | None
    seen: list[str] = field(default_factory=list)

    def examine(self, problem: TaskProblem, completion: str) -> Result | None:
        self.seen.append(completion)
        return self.result


def judged(
    result: Result | None,
    location: str | None,
    claim: str | None = None,
    attempt: str = ATTEMPT,
    about: TaskProblem | None = None,
) -> Any:
    auditor = FailingTest(Ran(result), {"words-1": about or problem("1")})
    (found,) = auditor.audit([case(attempt=attempt, location=location, claim=claim)], 0).audited
    return {opinion.aspect: opinion for opinion in found.opinions}


@pytest.mark.parametrize(
    ("location", "verdict"),
    [
        ("`y = 1`", True),
        ('"return y + 1"', True),
        ("`if x > 10:`", True),
        ("`return sum(`", False),  # did not run
        ("`[x,`", False),  # a whole line; it belongs to that statement
        ("`x`", None),  # stands anywhere
        ("`1])`", False),
        ("`y = 1` and `return sum(`", None),  # one ran, one did not
        ("`return nothing`", None),
        ("the branch", None),
        ("line 1", None),  # the head of the function ran before any case
        ("line 2", None),  # a docstring; of the attempt, a blank line
        ("the input `12, []` fails", True),
        ("it fails for 12,[]", True),
        ("12", None),
    ],
)
def test_a_line_that_did_not_run_can_not_be_why_it_failed(location: str, verdict: bool | None) -> None:
    opinion = judged(FAILED, location)["location"]
    assert opinion.verdict is verdict, opinion.why


def test_a_line_number_counts_lines_of_the_code_or_of_the_attempt() -> None:
    assert judged(FAILED, "line 4")["location"].verdict is True, "of the code `y = 1`; of the attempt the head"
    assert judged(FAILED, "line 11")["location"].verdict is False, "only of the attempt: the last line of the sum"
    assert judged(FAILED, "line 6")["location"].verdict is None, "of the code the sum, of the attempt the `if`"
    assert judged(FAILED, "line 99")["location"].verdict is None


def test_where_every_line_ran_nothing_is_told() -> None:
    all_ran = Result("fail", "AssertionError", 1, FAILED.failing_case, (1, 3, 4, 5, 6))
    opinion = judged(all_ran, "`y = 1`")["location"]
    assert opinion.verdict is None and "every line ran" in opinion.why and "4 of 4 statements" in opinion.why


def test_a_claim_counts_where_the_location_names_nothing() -> None:
    assert judged(FAILED, "in the middle", "`return sum(` adds too much")["location"].verdict is False
    assert judged(FAILED, "`y = 1`", "`return sum(` adds too much")["location"].verdict is True


@pytest.mark.parametrize(
    ("result", "attempt", "detection", "location"),
    [
        (Result("timeout", "too slow", 1, FailingCase(None, None, "12", None, None), (1, 3)), ATTEMPT, True, False),
        (Result("fail", "no trace", 1, FAILED.failing_case, None), ATTEMPT, True, None),
        (Result("fail", "SyntaxError", 1, FAILED.failing_case, (1,)), "def grade(x) return x", True, None),
        (Result("pass", "3 calls", 3), ATTEMPT, False, False),
        (Result("infra_error", "no sandbox"), ATTEMPT, None, None),
        (None, ATTEMPT, None, None),
    ],
)
def test_what_happened_to_the_program(result: Result | None, attempt: str, detection: bool | None, location: bool | None) -> None:
    found = judged(result, "`return y + 1`", attempt=attempt)
    assert (found["detection"].verdict, found["location"].verdict) == (detection, location)


def test_lines_of_a_body_are_counted_behind_the_head_that_the_prompt_gave() -> None:
    """The body continues the prompt: what ran is counted in both together."""
    prompt = 'def grade(x):\n    """Grade x."""\n'
    body = "    if x > 10:\n        return 1\n    return 2\n"
    about = problem("1")
    about = TaskProblem(
        about.row.model_copy(update={"prompt": prompt}), prompt, CodeProblem(FunctionTests("assert grade(12) == 3", "grade"))
    )
    ran = Result("fail", "AssertionError", 1, FAILED.failing_case, (1, 3, 4))
    attempt = f"```python\n{body}```"
    assert judged(ran, "`return 1`", attempt=attempt, about=about)["location"].verdict is True
    assert judged(ran, "`return 2`", attempt=attempt, about=about)["location"].verdict is False
    assert judged(ran, "line 5", attempt=attempt, about=about)["location"].verdict is False


def test_a_real_sandbox_says_what_ran(tmp_path: Path) -> None:
    row = {
        "prompt": "Write add(a, b).",
        "test_list": ["assert add(1, 2) == 3", "assert add(5, 5) == 10"],
        "code": "def add(a, b): return a + b",
    }
    other = {
        "prompt": "Write another function, twice(x), that doubles.",
        "test_list": ["assert twice(1) == 2"],
        "code": "def twice(x): return 2 * x",
    }
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in (row, other)))
    task = CodeTask(
        CodeSettings(path=str(path), shape="asserts", tests_column="test_list", solution_column="code", heldout_fraction=0.5)
    )
    (about,) = (p for split in ("train", "heldout") for p in task.problems(split) if "add" in p.row.prompt)
    attempt = "```python\ndef add(a, b):\n    if a == b:\n        return 2\n    return a + b\n```"
    cases = [
        case(problem_id=about.row.problem_id, attempt=attempt, location=where, claim=None)
        for where in ("`return 2`", "`return a + b`")
    ]
    auditor = FailingTest(task, {about.row.problem_id: about})
    verdicts = [{o.aspect: o.verdict for o in found.opinions} for found in auditor.audit(cases, 0).audited]
    assert verdicts == [{"detection": True, "location": True}, {"detection": True, "location": False}]
