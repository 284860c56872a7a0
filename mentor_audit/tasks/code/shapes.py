"""Rows of the shapes that code data sets have -> what grades an attempt.

function        tests of a function that define `check(candidate)`, as HumanEval has them
asserts         a list of assert statements that call the function by its name, as MBPP has them
stdio           lists of inputs and of expected outputs
livecodebench   JSON lists of cases; the hidden ones may be packed. Only cases of standard input are used, not calls of a method
"""

import ast
import base64
import json
import pickletools
import textwrap
import zlib
from typing import Any

from mentor_audit.errors import TaskError
from mentor_audit.tasks.code.base import CodeProblem, function_problem
from mentor_audit.tasks.code.extract import function_program
from mentor_audit.tasks.reading import value
from mentor_audit.tasks.sandbox.verify import FunctionTests


def of_function(row: dict[str, Any], columns: Any, prompt: str, where: str) -> CodeProblem:
    tests = text(row, columns.tests_column, where)
    return function_problem(
        prompt, tests, text(row, columns.entry_point_column, where), optional_text(row, columns.solution_column, where)
    )


def of_asserts(row: dict[str, Any], columns: Any, prompt: str, where: str) -> CodeProblem:
    """The function is the one that the reference solution defines and the asserts call."""
    asserts, reference = texts(row, columns.tests_column, where), optional_text(row, columns.solution_column, where)
    if reference is None:
        raise TaskError(
            f"Expected a solution in `{columns.solution_column}` of {where}, found none: it names the function. Set the column."
        )
    entry_point = _called(asserts, reference, where)
    setup = optional_text(row, columns.setup_column, where)
    body = textwrap.indent("\n".join(ast.unparse(ast.parse(statement)) for statement in asserts), "    ")
    tests = f"{setup or ''}\n\ndef check(candidate):\n    {entry_point} = candidate\n{body}\n"
    return CodeProblem(FunctionTests(tests, entry_point, ""), (), function_program("", reference, entry_point).source)


def of_stdio(row: dict[str, Any], columns: Any, prompt: str, where: str) -> CodeProblem:
    inputs, outputs = texts(row, columns.inputs_column, where), texts(row, columns.outputs_column, where)
    if len(inputs) != len(outputs):
        raise TaskError(
            f"Expected as many outputs as inputs in {where}, found {len(outputs)} and {len(inputs)}. Correct the row."
        )
    return CodeProblem(None, tuple(zip(inputs, outputs, strict=True)), optional_text(row, columns.solution_column, where))


def of_livecodebench(row: dict[str, Any], columns: Any, prompt: str, where: str) -> CodeProblem | None:
    """None: the problem calls a method of a class, which is not supported."""
    cases: list[tuple[str, str]] = []
    for column in (columns.inputs_column, columns.outputs_column):
        for case in _cases(value(row, column), column, where):
            if case["testtype"] != "stdin":
                return None
            cases.append((case["input"], case["output"]))
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


def optional_text(row: dict[str, Any], column: str | None, where: str) -> str | None:
    """None: the setting names no column, or the row has nothing there."""
    found = value(row, column) if column else None
    if found is not None and not isinstance(found, str):
        raise TaskError(f"Expected text in `{column}` of {where}, found {found!r:.80}. Correct the row.")
    return found


def _called(asserts: list[str], reference: str, where: str) -> str:
    try:
        defined = [n.name for n in ast.parse(reference).body if isinstance(n, ast.FunctionDef)]
        called = {
            n.func.id for a in asserts for n in ast.walk(ast.parse(a)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        raise TaskError(
            f"Expected Python in the solution and tests of {where}, found a mistake: {error}. Correct or remove the row."
        ) from error
    both = [name for name in defined if name in called]
    if not both:
        raise TaskError(
            f"Expected the tests of {where} to call a function that its solution defines, found none. Correct or remove the row."
        )
    return both[-1]


def _cases(packed: Any, column: str, where: str) -> list[dict[str, str]]:
    """JSON, or JSON as text that was pickled, compressed and written in base64."""
    try:
        if not isinstance(packed, str):
            raise ValueError(f"{packed!r:.80}")
        if not packed.lstrip().startswith("["):
            packed = _pickled_text(zlib.decompress(base64.b64decode(packed, validate=True)))
        found = json.loads(packed)
    except (ValueError, zlib.error) as error:
        raise TaskError(
            f"Expected test cases in `{column}` of {where}, found something else: {error}. Correct or remove the row."
        ) from error
    names = ("input", "output", "testtype")
    if not isinstance(found, list) or not all(
        isinstance(c, dict) and all(isinstance(c.get(n), str) for n in names) for c in found
    ):
        raise TaskError(
            f"Expected cases with {', '.join(names)} in text in `{column}` of {where}, found others. Correct or remove the row."
        )
    return found


def _pickled_text(data: bytes) -> str:
    """The text in the pickle of one text. The pickle is read, not run: raises ValueError at the first opcode for anything else."""
    found = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in ("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"):
            found.append(argument)
        elif opcode.name not in ("PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "STOP"):
            raise ValueError(f"a pickle with {opcode.name}, which is not text")
    if len(found) != 1:
        raise ValueError(f"a pickle of {len(found)} texts")
    return str(found[0])


SHAPES = {"function": of_function, "asserts": of_asserts, "stdio": of_stdio, "livecodebench": of_livecodebench}
