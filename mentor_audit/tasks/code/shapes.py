"""Rows of the shapes that code data sets have -> what grades an attempt.

function        tests of a function that define `check(candidate)`, as HumanEval has them
asserts         a list of assert statements that call the function by its name, as MBPP has them
stdio           lists of inputs and of expected outputs
livecodebench   JSON lists of cases; the hidden ones may be packed. Only cases of standard input are used, not calls of a method
"""

import ast
import base64
import binascii
import io
import json
import pickle
import zlib
from typing import Any

from mentor_audit.errors import TaskError
from mentor_audit.tasks.code.base import CodeProblem, function_problem
from mentor_audit.tasks.code.extract import function_program
from mentor_audit.tasks.reading import value
from mentor_audit.tasks.sandbox.verify import FunctionTests


def of_function(row: dict[str, Any], columns: Any, prompt: str, where: str) -> CodeProblem:
    tests = text(row, columns.tests_column, where)
    return function_problem(prompt, tests, text(row, columns.entry_point_column, where), solution(row, columns, where))


def of_asserts(row: dict[str, Any], columns: Any, prompt: str, where: str) -> CodeProblem:
    """The function is the one that the reference solution defines and the asserts call."""
    asserts, reference = texts(row, columns.tests_column, where), solution(row, columns, where)
    if reference is None:
        raise TaskError(
            f"Expected a solution in `{columns.solution_column}` of {where}, found none: it names the function. Set the column."
        )
    entry_point = _called(asserts, reference, where)
    setup = value(row, columns.setup_column) if columns.setup_column else None
    body = "\n".join(f"    {line}" for statement in asserts for line in statement.splitlines())
    tests = f"{setup or ''}\n\ndef check(candidate):\n    {entry_point} = candidate\n{body}\n"
    return CodeProblem(FunctionTests(tests, entry_point, ""), (), function_program("", reference, entry_point).source)


def of_stdio(row: dict[str, Any], columns: Any, prompt: str, where: str) -> CodeProblem:
    inputs, outputs = texts(row, columns.inputs_column, where), texts(row, columns.outputs_column, where)
    if len(inputs) != len(outputs):
        raise TaskError(
            f"Expected as many outputs as inputs in {where}, found {len(outputs)} and {len(inputs)}. Correct the row."
        )
    return CodeProblem(None, tuple(zip(inputs, outputs, strict=True)), solution(row, columns, where))


def of_livecodebench(row: dict[str, Any], columns: Any, prompt: str, where: str) -> CodeProblem | None:
    """None: the problem calls a method of a class, which is not supported."""
    cases: list[tuple[str, str]] = []
    for column in (columns.inputs_column, columns.outputs_column):
        packed = value(row, column)
        for case in _cases(packed, column, where) if packed else []:
            if case.get("testtype") != "stdin":
                return None
            cases.append((str(case["input"]), str(case["output"])))
    if not cases:
        raise TaskError(f"Expected test cases in {where}, found none. Remove the row.")
    return CodeProblem(None, tuple(cases), None)


def text(row: dict[str, Any], column: str, where: str) -> str:
    found = value(row, column)
    if not isinstance(found, str) or not found.strip():
        raise TaskError(f"Expected text in `{column}` of {where}, found {found!r:.80}. Correct or remove the row.")
    return found


def texts(row: dict[str, Any], column: str, where: str) -> list[str]:
    found = value(row, column)
    if not isinstance(found, list) or not found or not all(isinstance(v, str) for v in found):
        raise TaskError(f"Expected a list of texts in `{column}` of {where}, found {found!r:.80}. Correct or remove the row.")
    return found


def solution(row: dict[str, Any], columns: Any, where: str) -> str | None:
    found = value(row, columns.solution_column) if columns.solution_column else None
    if found is not None and not isinstance(found, str):
        raise TaskError(f"Expected text in `{columns.solution_column}` of {where}, found {found!r:.80}. Correct the row.")
    return found


def _called(asserts: list[str], reference: str, where: str) -> str:
    try:
        defined = [n.name for n in ast.parse(reference).body if isinstance(n, ast.FunctionDef)]
        called = {
            n.func.id for a in asserts for n in ast.walk(ast.parse(a)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
    except SyntaxError as error:
        raise TaskError(
            f"Expected Python in the solution and tests of {where}, found a mistake: {error}. Correct or remove the row."
        ) from error
    both = [name for name in defined if name in called]
    if not both:
        raise TaskError(
            f"Expected the tests of {where} to call a function that its solution defines, found none. Correct or remove the row."
        )
    return both[-1]


def _cases(packed: Any, column: str, where: str) -> list[dict[str, Any]]:
    """JSON, or JSON as text that was pickled, compressed and written in base64. Unpickling builds nothing but text."""
    try:
        if not packed.lstrip().startswith("["):
            packed = _OnlyText(io.BytesIO(zlib.decompress(base64.b64decode(packed, validate=True)))).load()
        found = json.loads(packed)
    except (ValueError, AttributeError, binascii.Error, zlib.error, pickle.UnpicklingError, EOFError) as error:
        raise TaskError(
            f"Expected test cases in `{column}` of {where}, found something else: {error}. Correct or remove the row."
        ) from error
    if not isinstance(found, list) or not all(isinstance(case, dict) and {"input", "output"} <= set(case) for case in found):
        raise TaskError(
            f"Expected cases with input and output in `{column}` of {where}, found others. Correct or remove the row."
        )
    return found


class _OnlyText(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it wants {module}.{name}, which is not text")


SHAPES = {"function": of_function, "asserts": of_asserts, "stdio": of_stdio, "livecodebench": of_livecodebench}
