"""The process that runs a candidate: it forks one child a case and never runs a line of the candidate itself.

A child is told one case, never what is expected of it. It answers on a pipe of its own: the nonce of the request, then JSON. All that
it says is a claim; whoever asked decides what it is worth. Nothing is left of a child when the answer goes out.
"""

import gc
import json
import os
import random
import resource
import select
import signal
import sys
import time
import types
from typing import Any

from . import confine, values
from .pipes import Pipes, write_all

RESULT = 3  # the descriptor on which a child answers
FIRST_FREE = 4
MAX_DESCRIPTORS = 256
RESULT_BYTES = 4 * 2**20
CONFINED = b"confined\n"
"""What a child says before it runs the candidate. Without it nothing of the candidate ran, and the failure is ours."""
NAME = "<candidate>"


def main(plan: dict[str, Any]) -> None:
    pipes = Pipes()
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_DESCRIPTORS, MAX_DESCRIPTORS))
    pipes.send({"ready": confine.enter(plan)})
    gc.freeze()
    while (case := pipes.receive()) is not None:
        pipes.send(run(case, plan, pipes.null))


def run(case: dict[str, Any], plan: dict[str, Any], null: int) -> dict[str, Any]:
    """One case in one child. Returns how it ended and what it said, cut at its limits:

    broken  why the child could not be confined, so that it ran nothing; None: it could
    ended   exited, killed (by a signal of its own or the kernel's), wall (out of wall time), flood (too much output)
    code    exit status or signal number; cpu_seconds
    result  what stood on the result pipe behind the nonce; None: nothing, or another nonce
    stdout  what it printed
    """
    stdin = os.memfd_create("stdin")
    write_all(stdin, case.get("stdin", "").encode("utf-8", "surrogateescape"))
    os.lseek(stdin, 0, os.SEEK_SET)
    result, stdout = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for number, descriptor in enumerate((stdin, stdout[1], null, result[1])):
                os.dup2(descriptor, number + MAX_DESCRIPTORS // 2)
            for number in range(FIRST_FREE):
                os.dup2(number + MAX_DESCRIPTORS // 2, number)
            os.closerange(FIRST_FREE, MAX_DESCRIPTORS)
            confine.limit(plan, case["cpu_seconds"])
            write_all(RESULT, CONFINED)
        except BaseException as error:
            write_all(RESULT, f"{type(error).__name__}: {error}".encode())
            os._exit(1)
        try:
            _child(case)
        finally:
            os._exit(1)
    for descriptor in (stdin, result[1], stdout[1]):
        os.close(descriptor)
    caps = {result[0]: RESULT_BYTES, stdout[0]: case["output_bytes"]}
    said, ended = _watch(child, caps, time.monotonic() + case["wall_seconds"])
    os.kill(child, signal.SIGKILL)  # not reaped yet, so the number is still its own
    _, status, used = os.wait4(child, 0)
    for descriptor in caps:
        os.close(descriptor)
    killed = os.WIFSIGNALED(status)
    head, _, claim = said[result[0]].partition(b"\n")
    nonce, _, answer = claim.decode("utf-8", "replace").partition(" ")
    return {
        "broken": None if head + b"\n" == CONFINED else head.decode("utf-8", "replace") or "ended without a word",
        "nonce": case["nonce"],
        "ended": ended or ("killed" if killed else "exited"),
        "code": os.WTERMSIG(status) if killed else os.WEXITSTATUS(status),
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "result": answer if nonce == case["nonce"] else None,
        "stdout": said[stdout[0]].decode("utf-8", "replace"),
    }


def _watch(child: int, caps: dict[int, int], deadline: float) -> tuple[dict[int, bytearray], str | None]:
    """Reads both pipes until the child ends. The second value says what ended the watch instead, if something did."""
    said = {descriptor: bytearray() for descriptor in caps}
    open_pipes, alive = set(caps), os.pidfd_open(child)
    try:
        while True:
            ready, _, _ = select.select([*open_pipes, alive], [], [], max(0.0, deadline - time.monotonic()))
            for descriptor in open_pipes.intersection(ready):
                data = os.read(descriptor, 65_536)
                said[descriptor] += data
                if not data:
                    open_pipes.discard(descriptor)
                if len(said[descriptor]) > caps[descriptor]:
                    return said, "flood"
            if not open_pipes.intersection(ready) and alive in ready:
                return said, None
            if not ready:
                return said, "wall"
    finally:
        os.close(alive)


def _child(case: dict[str, Any]) -> None:
    """Ends the process. Everything below shares its interpreter with the candidate."""
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)
    random.seed(0)  # a candidate that draws numbers is judged alike each time
    lines: set[int] | None = None
    if case.get("trace_seconds"):
        lines = set()
        sys.settrace(_tracer(lines, time.monotonic() + case["trace_seconds"]))
    answer = _program(case) if case["kind"] == "program" else _call(case)
    sys.settrace(None)
    if lines is not None:
        answer["lines"] = sorted(lines)
    sys.stdout.flush()
    write_all(RESULT, f"{case['nonce']} {json.dumps(answer)}".encode())
    os._exit(answer.get("code", 0))


def _call(case: dict[str, Any]) -> dict[str, Any]:
    """`value` (packed), or why there is none: `raised`, `not_plain`, `oom`."""
    try:
        module = _module("candidate")
        arguments, keywords = values.loads(case["arguments"])
        _execute(case, module)
        value = vars(module)[case["entry_point"]](*arguments, **keywords)
        return {"value": values.dumps(value)}
    except values.NotPlain as error:
        return {"not_plain": str(error), "overrides": error.overrides}
    except MemoryError:
        return {"oom": True}
    except BaseException as error:
        return _raised(error)


def _program(case: dict[str, Any]) -> dict[str, Any]:
    """`code` is the exit status: 0 at the end of the program, what it asked for with `sys.exit`, 1 after an exception."""
    try:
        _execute(case, _module("__main__"))
        sys.stdout.flush()
        return {"code": 0}
    except SystemExit as error:
        code = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
        return {"code": code & 0xFF}
    except MemoryError:
        return {"oom": True, "code": 1}
    except BaseException as error:
        return {**_raised(error), "code": 1}


def _module(name: str) -> types.ModuleType:
    import builtins

    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
    module = sys.modules[name] = types.ModuleType(name)
    return module


def _execute(case: dict[str, Any], module: types.ModuleType) -> None:
    if case["preamble"]:
        exec(compile(case["preamble"], "<problem>", "exec"), vars(module))
    exec(compile(case["source"], NAME, "exec"), vars(module))


def _raised(error: BaseException) -> dict[str, Any]:
    line, step = None, error.__traceback__
    while step is not None:
        line = step.tb_lineno if step.tb_frame.f_code.co_filename == NAME else line
        step = step.tb_next
    if isinstance(error, SyntaxError) and error.filename == NAME:
        line = error.lineno
    try:
        text = str(error)[:500]
    except Exception:
        text = "(its text can't be made)"
    return {"raised": type(error).__name__, "text": text, "line": line}


class _OutOfTime(BaseException):
    pass


def _tracer(lines: set[int], deadline: float) -> Any:
    """Collects the candidate's lines as they run; raises in the candidate when time is up, so that the lines are not lost."""

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != NAME:
            return None
        if event == "line":
            lines.add(frame.f_lineno)
            if time.monotonic() > deadline:
                raise _OutOfTime
        return trace

    return trace
