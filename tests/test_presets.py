"""Presets on small files of the data sets' shapes: columns, where the answer stands, prompt, verdict. The rows are our own."""

import base64
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from mentor_audit.config import parse_config
from mentor_audit.errors import TaskError
from mentor_audit.suite import validate
from mentor_audit.tasks import load_task
from mentor_audit.tasks.presets import CODE, MATHS, STEPS

NAMES = ["Ann", "Ben", "Cleo", "Dan", "Eve", "Finn"]


def question(i: int) -> str:
    return f"{NAMES[i]} has {i + 2} bags with {i + 3} marbles in each. How many marbles does {NAMES[i]} have?"


def answer(i: int) -> int:
    return (i + 2) * (i + 3)


def solution(i: int) -> str:
    return f"There are ${i + 2} \\cdot {i + 3}$ of them, not \\boxed{{{i}}}, so the answer is $\\boxed{{{answer(i)}}}$."


def rows(preset: str) -> list[dict[str, Any]]:
    made: dict[str, Any] = {
        "gsm8k": lambda i: {"question": question(i), "answer": f"{i + 2}*{i + 3}=<<{i + 2}*{i + 3}={answer(i)}>>{answer(i)}\n#### {answer(i)}"},
        "math": lambda i: {"problem": question(i), "level": "Level 1", "solution": solution(i), "type": "Algebra"},
        "math500": lambda i: {"problem": question(i), "solution": solution(i), "answer": str(answer(i)), "subject": "Algebra", "level": 1, "unique_id": f"test/{i}"},
        "amc": lambda i: {"id": i, "problem": question(i), "answer": float(answer(i)), "url": "u"},
        "aime": lambda i: {"id": i, "problem": question(i), "solution": solution(i), "answer": f"{answer(i):03d}", "url": "u"},
        "omni_math": lambda i: {"domain": ["Algebra"], "difficulty": 2.0, "problem": question(i), "solution": solution(i), "answer": str(answer(i)), "source": "s"},
        "deepmath": lambda i: {"question": question(i), "final_answer": str(answer(i)), "difficulty": 1.0, "topic": "t", "r1_solution_1": "long"},
        "big_math": lambda i: {"problem": question(i), "answer": str(answer(i)), "source": "s", "domain": ["d"], "llama8b_solve_rate": 0.5},
        "dapo_17k": lambda i: {"data_source": "d", "prompt": [{"role": "user", "content": question(i)}], "ability": "MATH", "reward_model": {"ground_truth": str(answer(i)), "style": "rule"}, "extra_info": {"index": str(i)}},
    }  # fmt: skip
    return [made[preset](i) for i in range(len(NAMES))]


def write(path: Path, found: list[dict[str, Any]]) -> str:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(found), path)
    else:
        path.write_text("\n".join(json.dumps(row) for row in found))
    return str(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("preset", MATHS)
def test_a_maths_preset_reads_poses_and_grades(tmp_path: Path, preset: str, suffix: str) -> None:
    task: Any = load_task("table", {"preset": preset, "path": write(tmp_path / f"rows{suffix}", rows(preset))})
    problems = task.problems("train") + task.problems("heldout")
    assert {(p.row.prompt, p.row.gold) for p in problems} == {(question(i), str(answer(i))) for i in range(len(NAMES))}
    for problem in problems[:2]:
        assert task.verify(problem, f"So it is \\boxed{{{problem.row.gold}}}.", "eos").is_correct is True
        assert task.verify(problem, f"So it is \\boxed{{{problem.row.gold}1}}.", "eos").is_correct is False
        posed = problem.row.prompt if preset == "dapo_17k" else f"{problem.row.prompt}\n\n{STEPS}"
        assert problem.prompt == [{"role": "user", "content": posed}]


def test_every_other_setting_wins_over_the_preset(tmp_path: Path) -> None:
    path = write(
        tmp_path / "rows.jsonl", [{**row, "question": row["question"], "other": row["question"]} for row in rows("gsm8k")]
    )
    task: Any = load_task(
        "table", {"preset": "gsm8k", "path": path, "template": "{problem}!", "chat": False, "prompt_column": "other"}
    )
    assert task.problems("train")[0].prompt == task.problems("train")[0].row.prompt + "!"


@pytest.mark.parametrize(("name", "preset", "near"), [("table", "gsm8", "gsm8k"), ("code", "mbp", "mbpp")])
def test_an_unknown_preset_names_the_nearest(name: str, preset: str, near: str) -> None:
    with pytest.raises(ValidationError, match=f"did you mean `{near}`"):
        load_task(name, {"preset": preset})


@pytest.mark.parametrize(("name", "preset"), [*(("table", p) for p in MATHS), *(("code", p) for p in CODE)])
def test_settings_with_a_preset_and_nothing_else_are_valid(name: str, preset: str) -> None:
    validate(parse_config({"task": {"name": name, "preset": preset}, "learner": {"model": "some/model"}}))


def mbpp(i: int) -> dict[str, Any]:
    return {
        "task_id": i,
        "text": f"Write a function to add {i} to a number, as {NAMES[i]} does.",
        "code": f"import math\ndef helper(x):\n    return x\ndef add_{i}(x):\n    return helper(x) + {i}",
        "test_list": [f"assert add_{i}(1) == {i + 1}", f"assert math.isclose(add_{i}(0.5), {i + 0.5})"],
        "test_setup_code": "import math",
        "challenge_test_list": [],
    }


def test_mbpp_is_graded_by_its_asserts(tmp_path: Path) -> None:
    task: Any = load_task("code", {"preset": "mbpp", "path": write(tmp_path / "rows.parquet", [mbpp(i) for i in range(4)])})
    problem = next(p for p in task.problems("train") + task.problems("heldout") if "add 2" in p.row.prompt)
    assert "assert add_2(1) == 3" in problem.row.prompt
    assert "isclose" not in problem.row.prompt, "one test shows the function's name; the others stay hidden"
    assert [c.expected_is_correct for c in task.canaries()] == [True, False, True, False]
    assert task.verify(problem, "```python\ndef add_2(x):\n    return x + 2\n```", "eos").is_correct is True
    assert task.verify(problem, "```python\ndef add_2(x):\n    return 3\n```", "eos").is_correct is False


def packed(cases: Any) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(cases))).decode()


def livecodebench(i: int, testtype: str = "stdin") -> dict[str, Any]:
    public = [{"input": "1\n", "output": f"{i + 1}\n", "testtype": testtype}]
    hidden = [{"input": "5\n", "output": f"{i + 5}\n", "testtype": testtype}]
    return {
        "question_title": "t", "question_content": f"Read a number, print it plus {i}, for {NAMES[i]}.", "platform": "p", "question_id": str(i),
        "contest_id": "c", "contest_date": "2026-01-01", "starter_code": "", "difficulty": "easy",
        "public_test_cases": json.dumps(public), "private_test_cases": packed(json.dumps(hidden)), "metadata": "{}",
    }  # fmt: skip


def test_livecodebench_is_graded_by_shown_and_hidden_cases(tmp_path: Path) -> None:
    found = [livecodebench(0), livecodebench(1), livecodebench(2), livecodebench(3, "functional")]
    found[1]["private_test_cases"] = json.dumps([{"input": "7\n", "output": "8\n", "testtype": "stdin"}])
    task: Any = load_task("code", {"preset": "livecodebench", "path": write(tmp_path / "rows.jsonl", found)})
    problems = task.problems("train") + task.problems("heldout")
    assert (len(problems), task.num_unsupported) == (3, 1)
    problem = next(p for p in problems if "plus 2" in p.row.prompt)
    assert task.verify(problem, "```python\nprint(int(input()) + 2)\n```", "eos").is_correct is True
    assert task.verify(problem, "```python\nprint(3)\n```", "eos").is_correct is False, "it passes the case that is shown"


class Hostile:
    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["HOSTILE_FOLDER"],)


def test_packed_cases_that_want_to_run_something_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTILE_FOLDER", str(tmp_path / "made"))
    row = {**livecodebench(0), "private_test_cases": packed(Hostile())}
    with pytest.raises(TaskError, match="which is not text"):
        load_task("code", {"preset": "livecodebench", "path": write(tmp_path / "rows.jsonl", [row])})
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("preset", "change", "says"),
    [
        ("mbpp", {"test_list": []}, "Expected a list of texts in `test_list` of row 0"),
        ("mbpp", {"code": None}, "it names the function"),
        ("mbpp", {"code": "def other(x): pass"}, "call a function that its solution defines"),
        ("mbpp", {"code": "def add("}, "Expected Python in the solution"),
        ("livecodebench", {"private_test_cases": "?"}, "Expected test cases in `private_test_cases` of row 0"),
        ("livecodebench", {"public_test_cases": "[1]"}, "Expected cases with input and output"),
        ("livecodebench", {"public_test_cases": "", "private_test_cases": ""}, "Expected test cases in row 0"),
    ],
)
def test_code_rows_that_can_not_be_used_are_refused(tmp_path: Path, preset: str, change: dict[str, Any], says: str) -> None:
    row = (mbpp(0) if preset == "mbpp" else livecodebench(0)) | change
    with pytest.raises(TaskError, match=says):
        load_task("code", {"preset": preset, "path": write(tmp_path / "rows.jsonl", [row])})
