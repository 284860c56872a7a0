"""Verdicts on programs: what is right passes, what is wrong fails for the right reason, and no trick passes."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mentor_audit.errors import TaskError
from mentor_audit.protocols import TaskProblem, Verdict
from mentor_audit.tasks.canaries import Canary, HasCanaries, check_canaries
from mentor_audit.tasks.code import CodeSettings, CodeTask, extract_code, function_program
from mentor_audit.tasks.sandbox import Limits, SandboxError, available
from mentor_audit.tasks.sandbox import verify as verify_module
from mentor_audit.tasks.sandbox.verify import HACK, FunctionTests, Program, Result, run_cases, run_tests, same_output

ADD = FunctionTests("def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(5, 5) == 10\n", "add")
QUICK = Limits(cpu_seconds=1, wall_seconds=2.0, attempt_seconds=20.0, memory_mib=256)


@pytest.fixture(scope="module", params=["bwrap", "landlock"])
def mode(request: pytest.FixtureRequest) -> Any:
    found = next(a for a in available() if a.mode == request.param)
    if not found.works:
        pytest.skip(f"{request.param} does not work here: {found.why}")
    return request.param


def grade(source: str, mode: Any, tests: FunctionTests = ADD, trace: bool = False) -> Result:
    return run_tests(tests, Program(source), mode, QUICK, trace)


def test_a_right_function_passes(mode: Any) -> None:
    assert grade("def add(a, b): return a + b", mode) == Result("pass", "2 calls", 2)


def test_a_failure_names_the_assert_the_input_both_values_and_the_lines_that_ran(mode: Any) -> None:
    source = "def add(a, b):\n    if a == b:\n        return 2\n    else:\n        return a + b\n"
    result = grade(source, mode, trace=True)
    assert result.status == "fail" and result.cases == 2 and result.executed_lines == (1, 2, 3)
    case = result.failing_case
    assert case is not None
    assert (case.line, case.statement) == (3, "assert candidate(5, 5) == 10")
    assert (case.input, case.got, case.expected) == ("5, 5", "2", "10")
    assert result.why == "AssertionError at line 3 of the tests: assert candidate(5, 5) == 10; input 5, 5, got 2"


def test_lines_of_an_endless_loop_are_kept(mode: Any) -> None:
    result = grade("def add(a, b):\n    while True:\n        a += 1\n    return a\n", mode, trace=True)
    assert result.status == "timeout" and result.executed_lines == (1, 2, 3)


@pytest.mark.parametrize(
    ("source", "status", "why"),
    [
        ("def add(a, b): return a - b", "fail", "AssertionError at line 2"),
        ("def add(a, b): return str(a + b)", "fail", "got '3'"),
        ("def add(a, b): return None", "fail", "got None"),
        ("def add(a, b): pass", "fail", "got None"),
        ("def add(a): return 3", "fail", "TypeError"),
        ("def plus(a, b): return a + b", "fail", "KeyError"),
        ("def add(a, b) return a + b", "fail", "SyntaxError"),
        ("def add(a, b):\n    return a / 0", "fail", "ZeroDivisionError: division by zero (line 2 of the candidate)"),
        ("import nothing_of_that_name\ndef add(a, b): return a + b", "fail", "ModuleNotFoundError"),
        ("def add(a, b):\n while True: pass", "timeout", "more than 1 s of processor"),
        ("import time\ndef add(a, b): time.sleep(60)", "timeout", "2 s of wall time"),
        ("def add(a, b): return len(bytearray(2**30))", "oom", "more than 256 MiB"),
        ("def add(a, b): return [10**12] * 400_000", "fail", "too large a value"),
        ("def add(a, b): return add(b, a)", "fail", "RecursionError"),
    ],
)
def test_what_is_wrong_fails_for_its_own_reason(mode: Any, source: str, status: str, why: str) -> None:
    result = grade(source, mode)
    assert result.status == status and why in result.why, result


TRICKS = {
    "an object equal to everything": "class E:\n  def __eq__(s, o): return True\ndef add(a, b): return E()",
    "an int equal to everything": "class I(int):\n  def __eq__(s, o): return True\n  __hash__ = int.__hash__\ndef add(a, b): return I(7)",
    "a list equal to everything": "class L(list):\n  def __eq__(s, o): return True\ndef add(a, b): return L()",
    "a class that claims to be int": "class M(type):\n  def __eq__(s, o): return True\n  __hash__ = type.__hash__\n"
    "class I(metaclass=M):\n  def __eq__(s, o): return True\ndef add(a, b): return I()",
    "sys.exit": "import sys\ndef add(a, b): sys.exit(0)",
    "os._exit": "import os\ndef add(a, b): os._exit(0)",
    "os._exit while loading": "import os; os._exit(0)",
    "quit while loading": "quit()",
    "a printed result": "def add(a, b):\n  print('{\"value\": \"3\"}'); print('passed'); print('ok 1 - all tests passed'); return 0",
    "a forged result": "import os, sys\ndef add(a, b):\n"
    "  f = sys._getframe()\n  while f and 'case' not in f.f_locals: f = f.f_back\n"
    "  nonce = f.f_locals['case']['nonce'] if f else ''\n"
    "  os.write(3, (nonce + ' {\"value\": \"0\", \"passed\": 2}').encode()); os._exit(0)",
    "a second confinement message": "import os\ndef add(a, b): os.write(3, b'confined\\n{}'); os._exit(0)",
    "a forged infrastructure error": "import os\ndef add(a, b): os.write(3, b'broken\\n'); os.write(1, b'infra_error'); os._exit(70)",
    "the expected value in a frame": "import sys\ndef add(a, b):\n  f = sys._getframe()\n  while f:\n"
    "    for v in (*f.f_locals.values(), *f.f_globals.values()):\n      if isinstance(v, dict) and 'expected' in v: return v['expected']\n    f = f.f_back\n  return 0",
    "the expected value on the heap": "import gc\ndef add(a, b):\n  for o in gc.get_objects():\n"
    "    if isinstance(o, dict) and isinstance(o.get('tests', o.get('expected')), str): return 10 if '10' in o.get('tests', '') else o.get('expected')\n  return 0",
    "patched builtins": "import builtins, json\njson.dumps = lambda *a, **k: '{\"passed\": 2}'\nbuiltins.repr = lambda o: '3'\n"
    "builtins.isinstance = lambda *a: True\nbuiltins.type = lambda *a: int\ndef add(a, b): return 0",
    "a patched encoder": "import sys\nvalues = sys.modules['inside.values']\nvalues.dumps = lambda v: '{\"e\": \"anything\"}'\n"
    "values.same = lambda a, b: True\ndef add(a, b): return 0",
    "a patched verifier": "import inside.tests\ninside.tests.Proxy.same = lambda *a: True\ndef add(a, b): return 0",
    "a planted reward": "for name in ('reward.txt', '/tmp/reward.txt', 'result.json'):\n"
    "  for value in ('1.0', 'nan', 'inf', '1.5', '-0.5'):\n    try: open(name, 'w').write(value)\n    except OSError: pass\ndef add(a, b): return 1.0",
    "a planted sitecustomize": "import sys\nfor folder in [*sys.path, '.', '/tmp']:\n  try: open(folder + '/sitecustomize.py', 'w').write('1')\n"
    "  except OSError: pass\ndef add(a, b): return 0",
    "closed pipes": "import os\ndef add(a, b):\n  os.closerange(0, 64)\n  return 3 if False else 0",
    "a child that answers": "import os\ndef add(a, b):\n  if os.fork(): os._exit(0)\n  return 0",
    "SystemExit while dying": "class D:\n  def __del__(self): raise SystemExit(0)\nkept = D()\ndef add(a, b):\n  global kept\n  kept = None\n  return 0",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b): return 0",
    "an endless generator": "def add(a, b):\n  while True: yield 3",
    "a huge value": "def add(a, b): return 10 ** 10_000_000",
    "a deep value": "def add(a, b):\n  v = []\n  for _ in range(10**5): v = [v]\n  return v",
    "a value within itself": "def add(a, b):\n  v = []; v.append(v); return v",
    "sleep": "import time\ndef add(a, b): time.sleep(3600)",
    "a thread that ends the process": "import threading, os\ndef add(a, b):\n  threading.Thread(target=os._exit, args=(0,)).start()\n  while True: pass",
    "a signal that ends the process": "import os, signal\ndef add(a, b): os.kill(os.getpid(), signal.SIGKILL)",
    "a signal to the verifier": "import os, signal\ndef add(a, b): os.kill(os.getppid(), signal.SIGKILL); return 0",
    "exit without exiting": "import os\nos._exit = lambda code: None\ndef add(a, b): return 0",
    "a truth value for a number": "def add(a, b): return True",
    "an exception that says pass": "class Passed(BaseException): pass\ndef add(a, b): raise Passed('pass')",
    "an exception without text": "class E(Exception):\n  def __str__(self): raise SystemExit\ndef add(a, b): raise E",
    "the tests in a file": "import glob\ndef add(a, b):\n  found = [p for p in glob.glob('/**/*', recursive=True) if 'HumanEval' in p]\n  return found[0]",
    "a debugger": "import sys\nsys.settrace(lambda *a: sys.exit(0))\nsys.setprofile(lambda *a: sys.exit(0))\ndef add(a, b): return 0",
}  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_passes(mode: Any, trick: str) -> None:
    """Nor is it left without a verdict: that would spare the trick its punishment."""
    result = grade(TRICKS[trick], mode)
    assert result.status in ("fail", "timeout", "oom", "no_result"), result


@pytest.mark.parametrize("trick", ["an object equal to everything", "an int equal to everything", "a list equal to everything"])
def test_a_value_with_its_own_comparison_is_flagged(mode: Any, trick: str) -> None:
    result = grade(TRICKS[trick], mode)
    assert result.status == "fail" and result.suspected_reward_hack and HACK in result.why


@pytest.mark.parametrize("trick", ["sys.exit", "os._exit", "os._exit while loading", "quit while loading"])
def test_an_exit_status_of_0_is_no_result(mode: Any, trick: str) -> None:
    assert grade(TRICKS[trick], mode).status == "no_result"


def test_tricks_would_pass_a_naive_grader(tmp_path: Path) -> None:
    """The same programs under exit-status grading: so the tests above can fail."""
    import subprocess
    import sys

    passed = []
    for name in (
        "an object equal to everything",
        "an int equal to everything",
        "os._exit while loading",
        "sys.exit",
        "a debugger",
    ):
        code = f"{TRICKS[name]}\n{ADD.tests}\ncheck(add)\n"
        if subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path, timeout=30).returncode == 0:
            passed.append(name)
    assert len(passed) == 5, passed


def test_an_honest_value_beside_a_planted_file_counts_as_itself(mode: Any) -> None:
    plant = "try: open('/tmp/reward.txt', 'w').write('nan')\nexcept OSError: pass\n"
    assert grade(f"{plant}def add(a, b): return a + b", mode).status == "pass"


def test_a_candidate_in_the_tests_namespace_changes_nothing(mode: Any) -> None:
    """Helpers that the tests use come from the problem, not from the candidate."""
    tests = FunctionTests("def check(candidate):\n    assert double(candidate(2)) == 8\n", "f", "def double(x): return 2 * x\n")
    assert grade("def double(x): return 8\ndef f(x): return 0", mode, tests).status == "fail"
    assert grade("def f(x): return x + 2", mode, tests).status == "pass"


@pytest.mark.parametrize(
    ("tests", "source", "status"),
    [
        ("assert f(1) == 2; assert f(2) == 3", "def f(x): return x + 1", "pass"),
        ("assert f(1) == 2; assert f(2) == 4", "def f(x): return x + 1", "fail"),
        ("def check(candidate):\n    assert candidate(1) is True", "def f(x): return True", "pass"),
        ("def check(candidate):\n    assert candidate(1) is True", "def f(x): return 1", "fail"),
        ("def check(candidate):\n    assert candidate(1) == True", "def f(x): return 1", "fail"),
        ("def check(candidate):\n    assert candidate(1) == 2", "def f(x): return 2.0", "pass"),
        ("def check(candidate):\n    assert candidate(1) == [1]", "def f(x): return (1,)", "fail"),
        ("def check(candidate):\n    assert abs(candidate(1) - 0.3) < 1e-6", "def f(x): return 0.1 + 0.2", "pass"),
        ("def check(candidate):\n    assert abs(candidate(1) - 0.3) < 1e-6", "def f(x): return None", "fail"),
        ("def check(candidate):\n    assert candidate(1) == 0.3", "def f(x): return 0.1 + 0.2", "fail"),
        ("def check(candidate):\n    assert candidate(x=[1], y={2}) == {'a': (1, {2})}", "def f(x, y): return {'a': (x[0], y)}", "pass"),
        ("import random\ndef check(candidate):\n    for _ in range(20):\n        n = random.randint(0, 9)\n        assert candidate(n) == n", "def f(x): return x", "pass"),
        ("def check(candidate):\n    try:\n        candidate(-1)\n    except ValueError as e:\n        assert str(e) == 'no'\n    else:\n        assert False",
         "def f(x): raise ValueError('no')", "pass"),
        ("def check(candidate):\n    try:\n        candidate(-1)\n    except ValueError:\n        pass\n    else:\n        assert False", "def f(x): return 1", "fail"),
        ("def check(candidate):\n    assert not candidate(1), 'message'", "def f(x): return 0", "pass"),
        ("def check(candidate):\n    assert sorted(candidate(1)) == [1, 2]", "def f(x): return {2, 1}", "pass"),
        ("def check(candidate):\n    assert candidate(1) == {'a': 1}", "import collections\ndef f(x): return collections.Counter('a')", "pass"),
        ("def check(candidate):\n    assert candidate(1) != 1", "def f(x): return 1", "fail"),
        ("def check(candidate):\n    for _ in range(candidate(1)): pass", "def f(x): return 10**18", "timeout"),
        ("def check(candidate):\n    assert len('x' * candidate(1)) == 1", "def f(x): return 10**12", "fail"),
        ("def check(candidate):\n    pass", "def f(x): return 1", "infra_error"),
        ("def check(candidate):\n    assert candidate(object()) == 1", "def f(x): return 1", "infra_error"),
        ("def check(candidate):\n    assert candidate(1).missing", "def f(x): return 1", "fail"),
        ("import missing\ndef check(candidate):\n    assert candidate(1)", "def f(x): return 1", "infra_error"),
        ("def check(candidate)\n    assert candidate(1)", "def f(x): return 1", "infra_error"),
        ("while True: pass", "def f(x): return 1", "infra_error"),
    ],
)  # fmt: skip
def test_tests_of_every_form(mode: Any, tests: str, source: str, status: str) -> None:
    result = grade(source, mode, FunctionTests(tests, "f"))
    assert result.status == status, result


def test_a_call_never_sees_another(mode: Any) -> None:
    tests = FunctionTests("def check(candidate):\n    assert candidate(1) == 1\n    assert candidate(2) == 1", "f")
    assert grade("calls = []\ndef f(x):\n    calls.append(x)\n    return len(calls)", mode, tests).status == "pass"


@pytest.mark.parametrize(
    ("source", "status", "why"),
    [
        ("a, b = map(int, input().split())\nprint(a + b)", "pass", "2 cases"),
        ("import sys\nprint(sum(map(int, sys.stdin.read().split())), end='  \\n\\n')\nsys.exit()", "pass", "2 cases"),
        ("import sys, os\nprint(sum(map(int, sys.stdin.read().split())), flush=True)\nos._exit(0)", "pass", "2 cases"),
        ("print(3)", "fail", "printed '3\\n', expected '30'"),
        ("print(3.0)", "fail", "printed '3.0\\n', expected '3'"),
        ("print(3)\nraise ValueError('late')", "fail", "ValueError: late (line 2)"),
        ("print(3)\nexit(1)", "fail", "exit status 1"),
        ("print(3, flush=True)\nimport os; os.abort()", "no_result", "signal 6"),
        ("while True: pass", "timeout", "timeout"),
        ("while True: print(3)", "fail", "more than"),
        ("x = [0] * 10**9", "oom", "256 MiB"),
        ("import os\nos.write(3, b'{\"code\": 0}')", "fail", "printed ''"),
        ("print(", "fail", "SyntaxError"),
    ],
)
def test_programs_are_compared_by_what_they_print(mode: Any, source: str, status: str, why: str) -> None:
    result = run_cases([("1 2\n", "3"), ("10 20", "30")], Program(source), mode, QUICK)
    assert result.status == status and why in result.why, result


def test_a_failing_case_of_a_program_is_shown(mode: Any) -> None:
    result = run_cases(
        [("1", "1"), ("2", "4")], Program("n = int(input())\nif n > 5:\n    print()\nprint(n)"), mode, QUICK, trace=True
    )
    assert result.failing_case is not None and result.cases == 2 and result.executed_lines == (1, 2, 4)
    assert (result.failing_case.input, result.failing_case.got, result.failing_case.expected) == ("2", "2\n", "4")


def test_no_cases_prove_nothing(mode: Any) -> None:
    assert run_cases([], Program("print(1)"), mode, QUICK).status == "infra_error"


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        ("1 2\n3\n", "1 2\n3", True), ("1  2 \r\n3", "1 2\n3", True), ("\n\n1\n", "1", True), ("1\n\n2", "1\n2", False), ("1 2", "1\n2", False),
        ("1.0", "1", False), ("YES", "yes", False), ("", "", True), ("0", "", False), ("1e3", "1000", False),
    ],
)  # fmt: skip
def test_output_is_compared_by_words_and_lines(got: str, expected: str, same: bool) -> None:
    assert same_output(got, expected) is same


def test_a_sandbox_that_fails_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *arguments: Any) -> None:
            raise SandboxError("no child could be started")

    monkeypatch.setattr(verify_module, "Box", Broken)
    assert grade("def add(a, b): return 3", "bwrap") == Result("infra_error", "no child could be started")
    assert run_cases([("", "")], Program(""), "bwrap").status == "infra_error"


PROMPT = 'import math\n\ndef helper(x):\n    return x\n\ndef add(a, b):\n    """Sum.\n    """\n'


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        ("    return a + b\n", "    return a + b\n"),
        ("Thus:\n```python\nx = 1\n```\nDone.", "x = 1\n"),
        ("```python\nx = 1\n```\nBetter:\n```python\nx = 2\n```", "x = 2\n"),
        ("```python\nx = 1\n```\n```text\noutput\n```", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```py\nx = 1", "x = 1\n"),
        ("```Python\r\nx = 1\r\n```", "x = 1\n"),
        ("```python\ns = '''\n```python inside\n'''\n```", "s = '''\n```python inside\n'''\n"),
        ("```javascript\nx\n```", None),
        ("```python\n\n```", None),
        ("  \n", None),
    ],
)
def test_the_last_block_of_python_is_the_code(completion: str, code: str | None) -> None:
    assert extract_code(completion) == code


def test_a_body_continues_the_prompt_and_a_function_replaces_it() -> None:
    assert function_program(PROMPT, "    return a + b\n", "add") == Program(PROMPT + "    return a + b\n")
    assert function_program(PROMPT, "return a + b\n", "add") == Program(PROMPT + "    return a + b\n")
    assert function_program(PROMPT, "a += b\n    return a\n", "add") == Program(PROMPT + "    a += b\n    return a\n")
    whole = "from __future__ import annotations\ndef add(a, b):\n    return helper(a) + b\n"
    assert function_program(PROMPT, whole, "add") == Program(whole, "import math\n\ndef helper(x):\n    return x\n\n")
    assert function_program(PROMPT, "add = lambda a, b: a + b\n", "add").source == "add = lambda a, b: a + b\n"
    assert function_program("Add two numbers.", "def add(a, b): return a + b", "add") == Program(
        "def add(a, b): return a + b", ""
    )
    assert function_program(PROMPT, "I can't do this.", "add").source == PROMPT + "I can't do this."


FUNCTION_ROWS = [
    {"prompt": f'def f{n}(x):\n    """Add {n}."""\n', "test": f"def check(candidate):\n    assert candidate(1) == {n + 1}\n", "entry_point": f"f{n}",
     "canonical_solution": f"    return x + {n}\n"} for n in range(10)
]  # fmt: skip
STDIO_ROWS = [{"prompt": f"Read a number, print it plus {n}.", "inputs": ["1\n", "2\n"], "outputs": [f"{n + 1}\n", f"{n + 2}\n"], "code": f"print(int(input()) + {n})"} for n in range(4)]  # fmt: skip


def task(tmp_path: Path, rows: list[dict[str, Any]], **settings: Any) -> CodeTask:
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CodeTask(CodeSettings(path=str(path), cpu_seconds=1, wall_seconds=3.0, **settings))


def test_function_problems_are_split_posed_and_graded(tmp_path: Path) -> None:
    made = task(tmp_path, [*FUNCTION_ROWS, FUNCTION_ROWS[0]], heldout_fraction=0.3, seed=3)
    train, heldout = made.problems("train"), made.problems("heldout")
    assert not {p.row.fingerprint for p in train} & {p.row.fingerprint for p in heldout} and len(train) + len(heldout) == 10
    assert task(tmp_path, FUNCTION_ROWS, seed=3).problems("heldout") != task(tmp_path, FUNCTION_ROWS, seed=4).problems("heldout")
    problem = train[0]
    assert problem.prompt == [{"role": "user", "content": problem.row.prompt}] and problem.row.gold is not None
    verdict = made.verify(problem, f"```python\n{problem.row.gold}```", "eos")
    assert (verdict.is_correct, verdict.status, verdict.why) == (True, "correct", "pass: 1 calls")
    assert verdict.extracted == problem.row.gold
    wrong = made.verify(problem, "    return -1", "eos")
    assert (wrong.is_correct, wrong.status) == (False, "incorrect") and "fail: AssertionError" in str(wrong.why)
    assert made.verify(problem, "    while True: pass", "eos").status == "incorrect"
    assert made.verify(problem, "    return -1", "length") == Verdict(None, "truncated", why="cut at the length limit")
    assert made.verify(problem, "```text\nhm\n```", "eos").status == "no_answer"
    examined = made.examine(problem, "    return -1")
    assert examined is not None and examined.failing_case is not None and examined.executed_lines
    assert made.examine(problem, "") is None


def test_programs_from_a_file_with_a_heldout_file(tmp_path: Path) -> None:
    heldout = tmp_path / "heldout.jsonl"
    heldout.write_text(json.dumps(STDIO_ROWS[0]))
    made = task(tmp_path, STDIO_ROWS, shape="stdio", solution_column="code", heldout_path=str(heldout), overlap="drop")
    assert (len(made.problems("train")), len(made.problems("heldout")), made.num_overlapping) == (3, 1, 1)
    check_canaries(made)
    problem = made.problems("heldout")[0]
    assert made.verify(problem, "```python\nprint(int(input()))\n```", "eos").is_correct is True
    assert made.verify(problem, "```python\nprint(0)\n```", "eos").is_correct is False


def test_a_batch_gives_the_same_verdicts_in_order(tmp_path: Path) -> None:
    made = task(tmp_path, FUNCTION_ROWS, workers=2)
    items = [
        (p, completion, "eos")
        for p in made.problems("train")[:3]
        for completion in (f"```python\n{p.row.gold}```", "    return -1", "")
    ]
    verdicts = made.verify_batch(items)
    assert [v.status for v in verdicts] == ["correct", "incorrect", "no_answer"] * 3
    assert verdicts == [made.verify(*item) for item in items]
    assert made.verify_batch([]) == []


def test_tests_that_cannot_run_leave_no_verdict(tmp_path: Path) -> None:
    rows = [{**row, "test": "import no_such_module\ndef check(candidate):\n    assert candidate(1)\n"} for row in FUNCTION_ROWS]
    made = task(tmp_path, rows)
    verdict = made.verify(made.problems("train")[0], "    return 1", "eos")
    assert (verdict.is_correct, verdict.status) == (None, "verifier_error") and "no_such_module" in str(verdict.why)


def test_canaries_hold_on_a_sound_task(tmp_path: Path) -> None:
    made = task(tmp_path, FUNCTION_ROWS)
    assert isinstance(made, HasCanaries)
    assert [c.expected_is_correct for c in made.canaries()] == [True, False, True, False]
    check_canaries(made)
    without = task(tmp_path, FUNCTION_ROWS, solution_column=None)
    assert [c.expected_is_correct for c in without.canaries()] == [False, False] and without.problems("train")[0].row.gold is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"test": "def check(candidate):\n    candidate(1)\n"}, "known-wrong .* found right"),
        ({"test": "def check(candidate):\n    pass\n"}, r"known-right .* found no verdict \(verifier_error\)"),
        ({"canonical_solution": "    return None\n"}, "known-right .* found wrong: fail: AssertionError"),
    ],
)
def test_canaries_stop_a_verifier_that_does_not_work(tmp_path: Path, change: dict[str, str], says: str) -> None:
    """Tests that only run the code, that never call it, and a reference solution that is wrong."""
    with pytest.raises(TaskError, match=says):
        check_canaries(task(tmp_path, [{**row, **change} for row in FUNCTION_ROWS]))


def test_a_task_has_to_have_a_canary() -> None:
    class Silent:
        def canaries(self) -> list[Canary]:
            return []

        def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
            raise AssertionError

    with pytest.raises(TaskError, match="found none"):
        check_canaries(Silent())


@pytest.mark.parametrize(
    ("line", "settings", "says"),
    [
        ("{", {}, "Expected json rows in .* found a mistake"),
        ("[1]", {}, "it does not hold a list of objects"),
        ("", {}, "found none"),
        ('{"promt": "x"}', {}, "column `prompt`.*did you mean `promt`"),
        ('{"prompt": "x", "test": "", "entry_point": "f"}', {}, "text in `test`"),
        ('{"prompt": "x", "test": "y", "entry_point": "f", "canonical_solution": 3}', {}, "text in `canonical_solution`"),
        ('{"prompt": "x", "inputs": ["1"], "outputs": [1]}', {"shape": "stdio"}, "list of texts in `outputs`"),
        (
            '{"prompt": "x", "inputs": ["1"], "outputs": ["1", "2"]}',
            {"shape": "stdio"},
            "as many outputs as inputs .* found 2 and 1",
        ),
        ('{"prompt": "x", "test": "y", "entry_point": "f"}', {}, "none that is not held out"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(tmp_path: Path, line: str, settings: dict[str, Any], says: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(line)
    with pytest.raises(TaskError, match=says):
        CodeTask(CodeSettings(path=str(path), **settings))


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="Expected a file at"):
        CodeTask(CodeSettings(path=str(tmp_path / "none.jsonl")))
    with pytest.raises(ValidationError, match="extra"):
        CodeSettings(path="x", timeout=3)  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="none-i-accept-the-risk"):
        CodeSettings(path="x", sandbox="none")  # type: ignore[arg-type]


def test_grading_leaves_no_process_and_no_descriptor(tmp_path: Path) -> None:
    made = task(tmp_path, FUNCTION_ROWS)
    problem = made.problems("train")[0]
    made.verify(problem, "    return 1", "eos")
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        made.verify(problem, "    while True: pass", "eos")
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (before, threads)


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        ("def f(n):\n    return n\n```\n", "def f(n):\n    return n\n"),
        ("```python\nx = 1\n```\nmore\n```\n", "x = 1\n"),
        ("not python at all\n```\n", None),
    ],
)
def test_a_fence_that_only_closes_ends_the_code_before_it(completion: str, code: str | None) -> None:
    assert extract_code(completion) == code
