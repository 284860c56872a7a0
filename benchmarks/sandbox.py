"""HumanEval's canonical solutions graded in each sandbox that works here, against the same in the open: one interpreter a problem."""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from mentor_audit.tasks import humaneval
from mentor_audit.tasks.sandbox import Limits, available
from mentor_audit.tasks.sandbox.box import Box
from mentor_audit.tasks.sandbox.verify import FunctionTests, Program, run_tests

CASES = 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=164)
    rows = humaneval.rows()[: parser.parse_args().problems]
    modes: list[Any] = [one.mode for one in available() if one.works]
    graders: dict[str, Callable[[dict[str, Any]], bool]] = {"open": _in_the_open}
    for mode in modes:
        graders[mode] = lambda row, mode=mode: _in_sandbox(row, mode)
    seconds: dict[str, list[float]] = {name: [] for name in graders}
    passed = dict.fromkeys(graders, 0)
    for row in rows:
        for name, grade in graders.items():
            started = time.perf_counter()
            passed[name] += grade(row)
            seconds[name].append(time.perf_counter() - started)
    for name, found in seconds.items():
        print(
            f"{name}: {passed[name]} of {len(rows)} canonical solutions pass; an attempt takes {statistics.median(found) * 1e3:.0f} ms (median), "
            f"{statistics.median(found) / statistics.median(seconds['open']):.1f} times the open"
        )
    for mode in modes:
        print(f"{mode}: a case takes {_case_seconds(mode) * 1e3:.1f} ms (median of {CASES})")


def _in_the_open(row: dict[str, Any]) -> bool:
    code = f"{row['prompt']}{row['canonical_solution']}\n{row['test']}\ncheck({row['entry_point']})\n"
    return subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, env={}, timeout=60).returncode == 0


def _in_sandbox(row: dict[str, Any], mode: Any) -> bool:
    tests = FunctionTests(row["test"], row["entry_point"], row["prompt"])
    return run_tests(tests, Program(row["prompt"] + row["canonical_solution"]), mode).status == "pass"


def _case_seconds(mode: Any) -> float:
    found = []
    with Box(mode, "cases", Limits()) as box:
        for _ in range(CASES):
            started = time.perf_counter()
            box.ask(box.case("program", source="", stdin=""), 60.0)
            found.append(time.perf_counter() - started)
    return statistics.median(found)


if __name__ == "__main__":
    main()
