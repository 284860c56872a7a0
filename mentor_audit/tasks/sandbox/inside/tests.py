"""The process that runs a problem's own tests, on values from elsewhere.

The tests are trusted and see only built-in values: `candidate` is a proxy that sends its arguments out and gets a value back. They
run as they are written, but that `==` within an assert is `values.same`, which a truth value can't use to pass for a number.
"""

import ast
import builtins
import random
import traceback
from typing import Any

from . import confine, values
from .pipes import Pipes

NAME = "<tests>"
MAX_SHOWN = 500


def main(plan: dict[str, Any]) -> None:
    """One set of tests. Messages to the parent: `call`; at the end `passed`, `failed` or `broken`."""
    pipes = Pipes()
    pipes.send({"ready": confine.enter(plan)})
    order = pipes.receive()
    if order is not None:
        confine.limit(plan, order["cpu_seconds"])
        pipes.send(run(order, Proxy(pipes)))


class Proxy:
    """`candidate` as the tests see it."""

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes
        self.calls = 0
        self.last: dict[str, str | None] = {}

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        packed = values.dumps((list(arguments), keywords))
        shown = ", ".join([*map(repr, arguments), *(f"{k}={v!r}" for k, v in keywords.items())])
        self.last = {"input": shown[:MAX_SHOWN], "got": None, "expected": None}
        self.calls += 1
        self._pipes.send({"call": packed, "shown": self.last["input"]})
        reply = self._pipes.receive()
        if reply is None:
            raise SystemExit
        if "raised" in reply:
            error = _error(reply["raised"], reply["text"])
            if reply["line"] is not None:
                error.add_note(f"(line {reply['line']} of the candidate)")
            raise error
        value = values.loads(reply["value"])
        self.last["got"] = repr(value)[:MAX_SHOWN]
        return value

    def same(self, left: Any, right: Any) -> bool:
        self.last |= {"got": repr(left)[:MAX_SHOWN], "expected": repr(right)[:MAX_SHOWN]}
        return values.same(left, right)


def _error(name: str, text: str) -> Exception:
    """What the candidate raised, where it is a built-in Exception; a plain Exception for any other, and for kinds that need more."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(text)
        except TypeError:
            pass
    return Exception(f"{name}: {text}")


def run(order: dict[str, Any], candidate: Proxy) -> dict[str, Any]:
    """The tests may define `check(candidate)`, or assert on the entry point at module level. Drawn inputs are the same every time.

    `broken`: the tests failed before they asked for a value, or can't send one of their arguments.
    """
    random.seed(0)
    entry = order["entry_point"]
    module: dict[str, Any] = {"__name__": "tests"}
    try:
        tree = ast.parse(order["tests"], NAME)
        exec(compile(order["preamble"], "<problem>", "exec"), module)
        module |= {entry: candidate, "candidate": candidate, "__same__": candidate.same}
        strict = ast.fix_missing_locations(_Strict().visit(ast.parse(order["tests"], NAME)))
        exec(compile(strict, NAME, "exec"), module)
        if "check" in module:
            module["check"](candidate)
    except values.NotPlain as error:
        return {"broken": f"the tests pass {error} to the candidate, which can't be sent"}
    except Exception as error:
        what = " ".join("".join(traceback.format_exception_only(error)).split())[:MAX_SHOWN]
        if not candidate.calls:
            return {"broken": f"the tests stop before they call the candidate: {what}"}
        return {"failed": what, **_place(error, tree, order["tests"]), **candidate.last}
    return {"passed": candidate.calls}


class _Strict(ast.NodeTransformer):
    """`a == b` within an assert becomes `__same__(a, b)`."""

    def __init__(self) -> None:
        self._inside = False

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self._inside, before = True, self._inside
        node.test = self.visit(node.test)
        self._inside = before
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if not self._inside or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
            return node
        return ast.copy_location(ast.Call(ast.Name("__same__", ast.Load()), [node.left, node.comparators[0]], []), node)


def _place(error: Exception, tree: ast.Module, tests: str) -> dict[str, Any]:
    """The line of the tests that failed, and the statement there."""
    step, line = error.__traceback__, None
    while step is not None:
        line = step.tb_lineno if step.tb_frame.f_code.co_filename == NAME else line
        step = step.tb_next
    if line is None:
        return {"line": None, "statement": None}
    around = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    smallest = min(around, key=lambda n: (n.end_lineno or n.lineno) - n.lineno, default=None)
    text = ast.get_source_segment(tests, smallest) if smallest is not None else None
    return {"line": line, "statement": text[:MAX_SHOWN] if text else None}
