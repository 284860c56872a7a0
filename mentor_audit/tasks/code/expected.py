"""The values that a problem's tests expect, as Python literals, read from the tests' source. Nothing is run."""

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mentor_audit.tasks.code.base import CodeProblem

MAX_VALUES = 200
MAX_CHARACTERS = 2000
"""Of one value. A longer one is left out: no instruction spells it out."""


def expected_values(data: "CodeProblem") -> list[str]:
    """Each value once, in the order of the tests, at most MAX_VALUES. Outputs of cases are texts without the space around them.

    Of a function's tests only literals count: `candidate(2) == [1, 2]`, `assert candidate(3)`, `assert not candidate(3)`.
    """
    if data.tests is None:
        found: list[object] = [output.strip() for _, output in data.cases if output.strip()]
    else:
        try:
            found = list(_of_asserts(ast.parse(data.tests.tests)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
    written = [repr(value) for value in found]
    return list(dict.fromkeys(text for text in written if len(text) <= MAX_CHARACTERS))[:MAX_VALUES]


def _of_asserts(tree: ast.Module) -> Iterator[object]:
    for node in sorted((n for n in ast.walk(tree) if isinstance(n, ast.Assert)), key=lambda n: (n.lineno, n.col_offset)):
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.Is):
            for side in (test.comparators[0], test.left):
                try:
                    yield ast.literal_eval(side)
                    break
                except ValueError:
                    continue  # a call or a name: not a literal
        elif isinstance(test, ast.Call):
            yield True
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Call):
            yield False
