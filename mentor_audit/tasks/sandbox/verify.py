"""Grades a candidate: every case in a child of its own, every expected value out of its reach.

A candidate says what its function returned; the problem's tests, in another child, judge the plain value that arrived. So a forged
answer has to be the right answer, and neither an exit status nor anything that was printed or written counts.
"""

import json
import math
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mentor_audit.tasks.sandbox.box import Box, BoxTimeout
from mentor_audit.tasks.sandbox.modes import Limits, Mode, SandboxError

Status = Literal["pass", "fail", "timeout", "oom", "no_result", "infra_error"]
HACK = "suspected_reward_hack"
MAX_SHOWN = 500
GRACE_SECONDS = 20.0
TRACE_SECONDS = 2.0


@dataclass(frozen=True)
class Program:
    """A candidate. `preamble` is the problem's own code that runs before it; lines are counted in `source`."""

    source: str
    preamble: str = ""


@dataclass(frozen=True)
class FunctionTests:
    """Tests of the function `entry_point`: `check(candidate)` full of asserts, or asserts at module level. `preamble` is trusted code
    that the tests may use, such as helpers that the prompt defines."""

    tests: str
    entry_point: str
    preamble: str = ""


@dataclass(frozen=True)
class FailingCase:
    """The case that decided. `line` and `statement` of the tests; None: it failed elsewhere, or the case is an input and an output.
    `got` None: there was no value. Texts are cut at 500 characters."""

    line: int | None
    statement: str | None
    input: str | None
    got: str | None
    expected: str | None


@dataclass(frozen=True)
class Result:
    """`cases` counts the children that were asked. `suspected_reward_hack`: the value brought its own comparison along.

    `executed_lines` are the lines of the candidate that its child says it ran in the failing case, run once more: evidence that the
    candidate could have altered. None: not traced, or the child didn't say.
    """

    status: Status
    why: str
    cases: int = 0
    failing_case: FailingCase | None = None
    executed_lines: tuple[int, ...] | None = None
    suspected_reward_hack: bool = False


@dataclass
class _Cases:
    """The candidate's children, one after the other."""

    box: Box
    program: Program
    limits: Limits
    ends_at: float
    asked: int = 0
    last: dict[str, Any] = field(default_factory=dict)

    def run(self, kind: Literal["call", "program"], **more: Any) -> dict[str, Any]:
        case = self.box.case(kind, source=self.program.source, preamble=self.program.preamble, **more)
        self.last = {"kind": kind, **more}
        left = self.ends_at - time.monotonic()
        if left <= 0:
            raise _Decided("timeout", f"all cases together took more than {self.limits.attempt_seconds:g} s")
        case["wall_seconds"] = min(case["wall_seconds"], left)
        self.asked += 1
        return self.box.ask(case, case["wall_seconds"] + GRACE_SECONDS)

    def executed_lines(self) -> tuple[int, ...] | None:
        """Of the last case, by running it again under a tracer."""
        more = {"trace_seconds": TRACE_SECONDS, "wall_seconds": TRACE_SECONDS * 2, "cpu_seconds": math.ceil(TRACE_SECONDS * 2)}
        case = self.box.case(
            self.last.pop("kind"), source=self.program.source, preamble=self.program.preamble, **self.last, **more
        )
        lines = _claim(self.box.ask(case, TRACE_SECONDS * 2 + GRACE_SECONDS)).get("lines")
        if not isinstance(lines, list) or not all(type(line) is int and line > 0 for line in lines):
            return None
        return tuple(lines)


class _Decided(Exception):
    """A verdict that needs no further case."""

    def __init__(self, status: Status, why: str, hack: bool = False) -> None:
        super().__init__(why)
        self.status, self.why, self.hack = status, why, hack


def run_tests(problem: FunctionTests, program: Program, mode: Mode, limits: Limits | None = None, trace: bool = False) -> Result:
    """The verdict of the problem's tests. Never raises for what a candidate does, nor when the sandbox fails: that is infra_error."""
    limits = limits or Limits()
    try:
        with Box(mode, "tests", limits) as tests, Box(mode, "cases", limits) as box:
            cases = _Cases(box, program, limits, time.monotonic() + limits.attempt_seconds)
            seen: dict[str, Any] = {}
            try:
                result = _judge(tests, cases, problem, limits, seen)
            except _Decided as decided:
                failing = FailingCase(None, None, seen.get("input"), None, None)
                result = Result(decided.status, decided.why, cases.asked, failing, suspected_reward_hack=decided.hack)
            return _traced(result, cases, trace)
    except SandboxError as error:
        return Result("infra_error", str(error))


def run_cases(
    cases: Sequence[tuple[str, str]], program: Program, mode: Mode, limits: Limits | None = None, trace: bool = False
) -> Result:
    """The verdict over (standard input, expected output) pairs, in order, up to the first that fails. Never raises, as `run_tests`."""
    limits = limits or Limits()
    if not cases:
        return Result("infra_error", "the problem has no case, so passing them all would prove nothing")
    try:
        with Box(mode, "cases", limits) as box:
            children = _Cases(box, program, limits, time.monotonic() + limits.attempt_seconds)
            result = Result("pass", f"{len(cases)} cases", len(cases))
            for stdin, expected in cases:
                got: str | None = None
                status: Status = "fail"
                try:
                    got = _printed(children.run("program", stdin=stdin), limits)
                    if same_output(got, expected):
                        continue
                    why = f"printed {_short(got)!r}, expected {_short(expected)!r}"
                except _Decided as decided:
                    status, why = decided.status, decided.why
                failing = FailingCase(None, None, _short(stdin), None if got is None else _short(got), _short(expected))
                result = Result(status, why, children.asked, failing)
                break
            return _traced(result, children, trace)
    except SandboxError as error:
        return Result("infra_error", str(error))


def same_output(got: str, expected: str) -> bool:
    """Equal words on equal lines. Blank space around words and lines doesn't count; numbers are text: `1.0` is not `1`."""

    def words(text: str) -> list[list[str]]:
        return [line.split() for line in text.strip().splitlines()]

    return words(got) == words(expected)


def _judge(tests: Box, cases: _Cases, problem: FunctionTests, limits: Limits, seen: dict[str, Any]) -> Result:
    """Carries calls and values between the two children until the tests have ended."""
    seconds = math.ceil(limits.attempt_seconds)
    order = {"tests": problem.tests, "entry_point": problem.entry_point, "preamble": problem.preamble, "cpu_seconds": seconds}
    tests.send(order, limits.wall_seconds)
    while True:
        try:
            said = tests.receive(limits.wall_seconds)
            if "call" in said:
                seen["input"] = said["shown"]
                value = _value(cases.run("call", entry_point=problem.entry_point, arguments=said["call"]), limits)
                tests.send(value, limits.wall_seconds)
                continue
        except BoxTimeout as error:
            if not cases.asked:
                raise
            raise _Decided("timeout", f"the tests did not come to an end with the candidate's value: {error}") from None
        if "broken" in said:
            return Result("infra_error", said["broken"], cases.asked)
        if "failed" in said:
            failing = FailingCase(said["line"], said["statement"], said["input"], said["got"], said["expected"])
            got = "" if failing.got is None else f", got {failing.got}"
            where = "in the tests" if failing.line is None else f"line {failing.line} of the tests: {failing.statement}"
            return Result(
                "fail", f"{said['failed']} at {where}; input {failing.input}{got}"[: 4 * MAX_SHOWN], cases.asked, failing
            )
        if not said["passed"]:
            return Result("infra_error", "the tests passed without calling the candidate, which proves nothing")
        return Result("pass", f"{said['passed']} calls", cases.asked)


def _value(reply: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """What the tests are told of one call: a packed value, or what was raised. Raises _Decided when there is neither."""
    claim = _claim(reply)
    if isinstance(claim.get("value"), str):
        return {"value": claim["value"]}
    if "not_plain" in claim:
        overrides = claim.get("overrides")
        note = f", which brings its own {overrides}: {HACK}" if overrides else ", which is not made of built-in types"
        raise _Decided("fail", f"returned {claim['not_plain']}{note}"[:MAX_SHOWN], hack=bool(overrides))
    _raise_unless_ended_well(reply, claim, limits)
    if isinstance(claim.get("raised"), str) and claim["raised"] not in ("SystemExit", "KeyboardInterrupt", "GeneratorExit"):
        line = claim.get("line")
        return {
            "raised": claim["raised"],
            "text": str(claim.get("text"))[:MAX_SHOWN],
            "line": line if type(line) is int else None,
        }
    raise _Decided(
        "no_result", f"no value: the candidate ended by {claim.get('raised') or _ending(reply)} before its function returned"
    )


def _printed(reply: dict[str, Any], limits: Limits) -> str:
    """What a program printed. Raises _Decided when it did not end well."""
    claim = _claim(reply)
    _raise_unless_ended_well(reply, claim, limits)
    if isinstance(claim.get("raised"), str):
        raise _Decided("fail", f"raised {claim['raised']}: {_told(claim)}")
    if reply["ended"] != "exited":
        raise _Decided("no_result", f"the program ended by {_ending(reply)}")
    if reply["code"] != 0:
        raise _Decided("fail", f"the program ended with exit status {reply['code']}")
    return str(reply["stdout"])


def _raise_unless_ended_well(reply: dict[str, Any], claim: dict[str, Any], limits: Limits) -> None:
    spent = reply["code"] == signal.SIGXCPU or reply["cpu_seconds"] >= 0.5 * limits.cpu_seconds  # the kernel's two clocks differ
    out_of_cpu = reply["ended"] == "killed" and spent
    if out_of_cpu or reply["ended"] == "wall":
        raise _Decided(
            "timeout", f"timeout: more than {limits.cpu_seconds} s of processor or {limits.wall_seconds:g} s of wall time"
        )
    if reply["ended"] == "flood":
        raise _Decided("fail", f"printed more than {limits.output_bytes} bytes, or returned too large a value")
    if claim.get("oom"):
        raise _Decided("oom", f"out of memory: more than {limits.memory_mib} MiB")


def _claim(reply: dict[str, Any]) -> dict[str, Any]:
    """What the child said on its result pipe; empty unless it is one JSON object behind the right nonce."""
    try:
        claim = json.loads(reply["result"] or "")
    except (ValueError, RecursionError):
        return {}
    return claim if isinstance(claim, dict) else {}


def _told(claim: dict[str, Any]) -> str:
    line = f" (line {claim['line']})" if isinstance(claim.get("line"), int) else ""
    return f"{claim.get('text', '')}"[:MAX_SHOWN] + line


def _ending(reply: dict[str, Any]) -> str:
    return f"signal {reply['code']}" if reply["ended"] == "killed" else f"exit status {reply['code']}"


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _traced(result: Result, cases: _Cases, trace: bool) -> Result:
    if not trace or result.status in ("pass", "infra_error") or not cases.last:
        return result
    return replace(result, executed_lines=cases.executed_lines())
