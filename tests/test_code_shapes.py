"""Problems of MBPP's and LiveCodeBench's shapes: what grades them, what is left out, and packed cases that are not what they seem."""

import base64
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from preset_rows import livecodebench, mbpp, packed, write

from mentor_audit.errors import TaskError
from mentor_audit.tasks import load_task
from mentor_audit.tasks.presets import CODE


def test_mbpp_is_graded_by_its_asserts(tmp_path: Path) -> None:
    task: Any = load_task("code", {"preset": "mbpp", "path": write(tmp_path / "rows.parquet", [mbpp(i) for i in range(4)])})
    problem = next(p for p in task.problems("train") + task.problems("heldout") if "add 2" in p.row.prompt)
    assert "assert add_2(1) == 3" in problem.row.prompt
    assert "isclose" not in problem.row.prompt, "one test shows the function's name; the others stay hidden"
    assert [c.expected_is_correct for c in task.canaries()] == [True, False, True, False]
    assert task.verify(problem, "```python\ndef add_2(x):\n    return x + 2\n```", "eos").is_correct is True
    assert task.verify(problem, "```python\ndef add_2(x):\n    return 3\n```", "eos").is_correct is False


def test_asserts_mean_what_they_say_in_any_form(tmp_path: Path) -> None:
    """A text over several lines, a function that is called check, code that runs before the asserts."""
    row = {
        **mbpp(0),
        "code": "def check(text):\r\n    return text.count(chr(10)) + BASE",
        "test_list": ["assert check(\"\"\"a\n  b\n\"\"\") == 12", "assert check('\u2028') == 10", "for n in range(3):\n    assert check('\\n' * n) == n + 10"],
        "test_setup_code": "BASE = 10",
    }  # fmt: skip
    task: Any = load_task(
        "code", {"preset": "mbpp", "path": write(tmp_path / "rows.jsonl", [row, mbpp(1)]), "heldout_fraction": 0.5}
    )
    (problem,) = (p for p in task.problems("train") + task.problems("heldout") if "check(" in p.row.prompt)
    right = "```python\ndef check(text):\n    return text.count(chr(10)) + 10\n```"
    verdict = task.verify(problem, right, "eos")
    assert verdict.is_correct is True and verdict.why == "pass: 5 calls"
    assert task.verify(problem, right.replace("+ 10", "+ 9"), "eos").is_correct is False


@pytest.mark.parametrize("preset", CODE)
def test_code_that_repeats_a_heldout_problem_is_refused_dropped_or_kept(tmp_path: Path, preset: str) -> None:
    made: Any = mbpp if preset == "mbpp" else livecodebench
    column = "text" if preset == "mbpp" else "question_content"
    near = {**made(2), column: made(2)[column].upper()}
    settings = {
        "preset": preset,
        "path": write(tmp_path / "train.jsonl", [made(i) for i in range(3)]),
        "heldout_path": write(tmp_path / "heldout.jsonl", [near, made(3)]),
    }
    with pytest.raises(TaskError, match=r'found 1 of 3 training problems that repeat a held-out one.*task.overlap = "drop"'):
        load_task("code", settings)
    for overlap, left, out in (("drop", 2, 1), ("allow", 3, 0)):
        task: Any = load_task("code", {**settings, "overlap": overlap})
        assert (len(task.problems("train")), len(task.problems("heldout")), task.num_overlapping) == (left, 2, out)


def test_livecodebench_is_graded_by_shown_and_hidden_cases(tmp_path: Path) -> None:
    found = [livecodebench(0), livecodebench(1), livecodebench(2), livecodebench(3, "functional")]
    found[1]["private_test_cases"] = json.dumps([{"input": "7\n", "output": "8\n", "testtype": "stdin"}])
    task: Any = load_task("code", {"preset": "livecodebench", "path": write(tmp_path / "rows.jsonl", found)})
    problems = task.problems("train") + task.problems("heldout")
    assert (len(problems), task.num_unsupported) == (3, 1)
    problem = next(p for p in problems if "plus 2" in p.row.prompt)
    assert task.verify(problem, "```python\nprint(int(input()) + 2)\n```", "eos").is_correct is True
    assert task.verify(problem, "```python\nprint(3)\n```", "eos").is_correct is False, "it passes the case that is shown"


def test_method_calls_are_counted_and_left_out_wherever_they_stand(tmp_path: Path) -> None:
    found = [
        livecodebench(0),
        livecodebench(1),
        livecodebench(2, "functional"),
        {**livecodebench(3, "functional"), "public_test_cases": "[]"},
    ]
    task: Any = load_task(
        "code", {"preset": "livecodebench", "path": write(tmp_path / "rows.parquet", found), "heldout_fraction": 0.5}
    )
    assert (len(task.problems("train")), len(task.problems("heldout")), task.num_unsupported) == (1, 1, 2)
    with pytest.raises(TaskError, match=r"Expected problems .* that can be posed, found none in 2 rows"):
        load_task("code", {"preset": "livecodebench", "path": write(tmp_path / "none.jsonl", found[2:])})


class Hostile:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_packed_cases_that_want_to_run_something_are_refused_and_run_nothing(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    hostile = packed(Hostile(f"touch '{made}'"), protocol)
    row = {**livecodebench(0), "private_test_cases": hostile}
    with pytest.raises(
        TaskError, match=r"private_test_cases` of row 0 .* found something else: a pickle with \w+, which is not text"
    ):
        load_task("code", {"preset": "livecodebench", "path": write(tmp_path / "rows.jsonl", [row])})
    assert not made.exists()
    pickle.loads(zlib.decompress(base64.b64decode(hostile)))
    assert made.exists(), "the pickle would have run its command"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_text_is_unpacked_in_every_form_of_pickle(tmp_path: Path, protocol: int) -> None:
    row = {**livecodebench(0), "public_test_cases": "[]"}
    row["private_test_cases"] = packed('[{"input": "1", "output": "é\u2028\\n", "testtype": "stdin"}]', protocol)
    settings = {
        "preset": "livecodebench",
        "path": write(tmp_path / "rows.jsonl", [row, livecodebench(1)]),
        "heldout_fraction": 0.5,
    }
    task: Any = load_task("code", settings)
    assert (("1", "é\u2028\n"),) in [p.data.cases for p in task.problems("train") + task.problems("heldout")]


CASE = {"input": "1", "output": "1", "testtype": "stdin"}


@pytest.mark.parametrize(
    ("preset", "change", "says"),
    [
        ("mbpp", {"text": None}, "Expected text in `text` of row 0"),
        ("mbpp", {"test_list": []}, "Expected a list of texts in `test_list` of row 0"),
        ("mbpp", {"test_list": "assert add_0(1) == 1"}, "Expected a list of texts in `test_list` of row 0"),
        ("mbpp", {"test_list": ["assert add_0(1) =="]}, "Expected Python in the solution and tests of row 0"),
        ("mbpp", {"test_list": ["assert add_0('\0')"]}, "Expected Python in the solution and tests of row 0"),
        ("mbpp", {"test_setup_code": ["import math"]}, "Expected text in `test_setup_code` of row 0"),
        ("mbpp", {"code": None}, "it names the function"),
        ("mbpp", {"code": "def other(x): pass"}, "call a function that its solution defines"),
        ("mbpp", {"code": "def add("}, "Expected Python in the solution"),
        ("livecodebench", {"question_content": ""}, "Expected text in `question_content` of row 0"),
        ("livecodebench", {"private_test_cases": "?"}, "Expected test cases in `private_test_cases` of row 0"),
        ("livecodebench", {"private_test_cases": None}, "Expected test cases in `private_test_cases` of row 0 .*: None"),
        ("livecodebench", {"private_test_cases": ""}, "Expected test cases in `private_test_cases` of row 0"),
        ("livecodebench", {"private_test_cases": base64.b64encode(b"x").decode()}, "Expected test cases in `private_test_cases`"),
        (
            "livecodebench",
            {"private_test_cases": base64.b64encode(zlib.compress(b"\x80\x04X")).decode()},
            "Expected test cases in",
        ),
        ("livecodebench", {"private_test_cases": packed([CASE])}, "a pickle with EMPTY_LIST, which is not text"),
        ("livecodebench", {"private_test_cases": packed(b"[]")}, "a pickle with SHORT_BINBYTES, which is not text"),
        ("livecodebench", {"private_test_cases": packed("{")}, "Expected test cases in `private_test_cases`"),
        ("livecodebench", {"public_test_cases": "[1]"}, "Expected cases with input, output, testtype in text"),
        ("livecodebench", {"public_test_cases": json.dumps([{**CASE, "output": 1}])}, "in text in `public_test_cases` of row 0"),
        (
            "livecodebench",
            {"public_test_cases": '[{"input": "1", "output": "1"}]'},
            "Expected cases with input, output, testtype",
        ),
        ("livecodebench", {"public_test_cases": "[]", "private_test_cases": packed("[]")}, "Expected test cases in row 0"),
    ],
)
def test_code_rows_that_can_not_be_used_are_refused(tmp_path: Path, preset: str, change: dict[str, Any], says: str) -> None:
    row = (mbpp(0) if preset == "mbpp" else livecodebench(0)) | change
    with pytest.raises(TaskError, match=says):
        load_task("code", {"preset": preset, "path": write(tmp_path / "rows.jsonl", [row])})
