"""Rows of the shapes that the presets' data sets have. The rows are our own."""

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ["Ann", "Ben", "Cleo", "Dan", "Eve", "Finn"]


def question(i: int) -> str:
    return f"{NAMES[i]} has {i + 2} bags with {i + 3} marbles in each. How many marbles does {NAMES[i]} have?"


def answer(i: int) -> int:
    return (i + 2) * (i + 3)


def solution(i: int) -> str:
    return f"There are ${i + 2} \\cdot {i + 3}$ of them, not \\boxed{{{i}}}, so the answer is $\\boxed{{{answer(i)}}}$."


def maths_rows(preset: str) -> list[dict[str, Any]]:
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
        path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in found), encoding="utf-8")
    return str(path)


def mbpp(i: int) -> dict[str, Any]:
    return {
        "task_id": i,
        "text": f"Write a function to add {i} to a number, as {NAMES[i]} does.",
        "code": f"import math\ndef helper(x):\n    return x\ndef add_{i}(x):\n    return helper(x) + {i}",
        "test_list": [f"assert add_{i}(1) == {i + 1}", f"assert math.isclose(add_{i}(0.5), {i + 0.5})"],
        "test_setup_code": "import math",
        "challenge_test_list": [],
    }


def packed(cases: Any, protocol: int = pickle.DEFAULT_PROTOCOL) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(cases, protocol))).decode()


def livecodebench(i: int, testtype: str = "stdin") -> dict[str, Any]:
    public = [{"input": "1\n", "output": f"{i + 1}\n", "testtype": testtype}]
    hidden = [{"input": "5\n" + " " * 100_000, "output": f"{i + 5}\n", "testtype": testtype}]
    return {
        "question_title": "t", "question_content": f"Read a number, print it plus {i}, for {NAMES[i]}.", "platform": "p", "question_id": str(i),
        "contest_id": "c", "contest_date": "2026-01-01", "starter_code": "", "difficulty": "easy",
        "public_test_cases": json.dumps(public), "private_test_cases": packed(json.dumps(hidden)), "metadata": "{}",
    }  # fmt: skip
