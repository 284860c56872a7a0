"""What every task of programs shares: its settings of the sandbox, and the way from a completion to a verdict."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mentor_audit.protocols import Prompt, TaskProblem, Verdict
from mentor_audit.records import Problem
from mentor_audit.tasks.canaries import Canary
from mentor_audit.tasks.code.expected import expected_values
from mentor_audit.tasks.code.extract import extract_code, function_program, preamble
from mentor_audit.tasks.identity import fingerprint, problem_id
from mentor_audit.tasks.prompting import VERDICT_ONLY, instructed_prompt, make_prompt, placebo
from mentor_audit.tasks.sandbox import Limits, Setting, choose
from mentor_audit.tasks.sandbox.verify import FunctionTests, Program, Result, run_cases, run_tests

NUM_CANARY_PROBLEMS = 2
KNOWN_WRONG = "a known-wrong answer that no test expects"


class SandboxSettings(BaseModel):
    """How candidates run. Processor seconds count for one case, so that a busy machine doesn't change a verdict; wall seconds are a bound."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    sandbox: Setting = Field(default="auto", description="auto takes bwrap or landlock and refuses to run without one")
    cpu_seconds: int = Field(default=5, ge=1, description="of one case")
    wall_seconds: float = Field(default=15.0, gt=0, description="of one case")
    attempt_seconds: float = Field(default=60.0, gt=0, description="wall time over all cases of one attempt")
    memory_mib: int = Field(default=512, ge=64, description="address space of one case")
    output_bytes: int = Field(default=2**20, ge=1, description="printed by one case")
    workers: int = Field(default=2, ge=1, description="attempts graded at the same time by verify_batch")

    @property
    def limits(self) -> Limits:
        return Limits(self.cpu_seconds, self.wall_seconds, self.attempt_seconds, self.memory_mib, self.output_bytes)


class PoseSettings(SandboxSettings):
    """How problems are posed."""

    system_prompt: str | None = None
    template: str = Field(default="{problem}", description="`{problem}` is replaced by the problem's text")
    chat: bool = Field(default=True, description="pose problems as chat messages; false: as plain text")


@dataclass(frozen=True)
class CodeProblem:
    """What grades an attempt: tests of a function, or (standard input, expected output) cases. `reference` None: no known solution."""

    tests: FunctionTests | None
    cases: tuple[tuple[str, str], ...] = ()
    reference: str | None = None


class SandboxedTask:
    """The part of a task that grades. A subclass fills `_problems` and names itself."""

    name: str
    settings: PoseSettings
    _problems: dict[str, list[TaskProblem]]

    def problems(self, split: str) -> list[TaskProblem]:
        return list(self._problems[split])

    def verify(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        """What the candidate did wrong is a wrong answer, a timeout or too much memory included. Only when the sandbox or the tests
        themselves fail there is no verdict. `extracted` is the code.

        Raises SandboxError when no sandbox works on this machine: no attempt could ever be graded.
        """
        return self._verdict(problem, completion, finish_reason)

    def verify_batch(self, items: Sequence[tuple[TaskProblem, str, str]]) -> list[Verdict]:
        """(problem, completion, finish reason) each, as `verify` and in order, `workers` at a time."""
        choose(self.settings.sandbox)
        with ThreadPoolExecutor(self.settings.workers) as pool:
            return list(pool.map(lambda item: self._verdict(*item), items))

    def examine(self, problem: TaskProblem, completion: str) -> Result | None:
        """The whole result of a finished completion, with the failing case and the lines that ran. None: it holds no code."""
        code = extract_code(completion)
        return None if code is None else self._run(problem, code, trace=True)

    def canaries(self) -> list[Canary]:
        """The first problems, with a wrong answer each and their reference solutions where they have one."""
        found = []
        for problem in [*self._problems["train"], *self._problems["heldout"]][:NUM_CANARY_PROBLEMS]:
            data: CodeProblem = problem.data
            if data.reference is not None:
                found.append(Canary(problem, _fenced(data.reference), True))
            wrong = f"print({KNOWN_WRONG!r})\n"
            if data.tests is not None:
                wrong = f"def {data.tests.entry_point}(*arguments, **keywords):\n    return {KNOWN_WRONG!r}\n"
            found.append(Canary(problem, _fenced(wrong), False))
        return found

    def expected_answers(self, problem: TaskProblem) -> list[str]:
        """What the tests expect, as literals: an instruction that says one of them gives the answer away."""
        return expected_values(problem.data)

    def instructed_prompt(self, problem: TaskProblem, instruction: str, shown_attempt: str | None) -> Prompt:
        return instructed_prompt(problem.prompt, instruction, shown_attempt)

    def placebo(self, problem: TaskProblem, length_of: str, rng: random.Random) -> str:
        return placebo(length_of, rng)

    def verdict_only(self, problem: TaskProblem) -> str:
        return VERDICT_ONLY

    def _verdict(self, problem: TaskProblem, completion: str, finish_reason: str) -> Verdict:
        if finish_reason == "length":
            return Verdict(None, "truncated", why="cut at the length limit")
        code = extract_code(completion)
        if code is None:
            return Verdict(False, "no_answer", why="expected Python code, in a ```python block or as the whole text")
        result = self._run(problem, code, trace=False)
        if result.status == "infra_error":
            return Verdict(None, "verifier_error", code, result.why)
        passed = result.status == "pass"
        return Verdict(passed, "correct" if passed else "incorrect", code, f"{result.status}: {result.why}")

    def _run(self, problem: TaskProblem, code: str, trace: bool) -> Result:
        mode, limits, data = choose(self.settings.sandbox), self.settings.limits, problem.data
        if data.tests is None:
            return run_cases(data.cases, Program(code), mode, limits, trace)
        return run_tests(data.tests, function_program(problem.row.prompt, code, data.tests.entry_point), mode, limits, trace)

    def _problem(self, prompt: str, data: CodeProblem, split: Any, source: str) -> TaskProblem:
        """The fingerprint covers prompt and tests."""
        graded_by = data.tests.tests if data.tests is not None else repr(data.cases)
        mark = fingerprint(prompt, graded_by)
        row = Problem(
            problem_id=problem_id(self.name, mark),
            run_id="-",
            task=self.name,
            split=split,
            prompt=prompt,
            gold=data.reference,
            source=source,
            fingerprint=mark,
        )
        settings = self.settings
        return TaskProblem(row, make_prompt(prompt, settings.template, settings.system_prompt, settings.chat), data)


def function_problem(prompt: str, tests: str, entry_point: str, solution: str | None) -> CodeProblem:
    """Of HumanEval's shape. The solution may continue the prompt or be the whole function; the reference is always whole."""
    reference = None if solution is None else function_program(prompt, solution, entry_point).source
    return CodeProblem(FunctionTests(tests, entry_point, preamble(prompt, entry_point)), (), reference)


def _fenced(code: str) -> str:
    return f"```python\n{code.rstrip()}\n```"
