"""How well an auditor finds the first wrong step, on solutions that people have marked.

The measure is ProcessBench's (Zheng et al., arXiv 2412.06559): the share of erroneous solutions whose first wrong step is named
exactly, the share of correct solutions that are said to have none, and their harmonic mean, F1. "Can't tell" is not right, and
is counted beside.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mentor_audit.audit.benchmarks import LabelledSolution, load_benchmark
from mentor_audit.audit.benchmarks.locators import Located, LocatesErrors, ModelLocator, StepChecker
from mentor_audit.errors import ConfigError
from mentor_audit.protocols import Policy
from mentor_audit.tasks.maths import MathVerifier

Interval = tuple[float, float]
RESAMPLES = 2000
LEVEL_Z = 1.959964
"""Of a two-sided interval of 95 %."""


@dataclass(frozen=True)
class Share:
    """`right` of `asked`, `could_not_tell` among the others. `accuracy` and `interval` None: none was asked.

    The interval is Wilson's at 95 % with the number of different problems as sample size: solutions of one problem are not
    independent.
    """

    asked: int
    right: int
    could_not_tell: int
    accuracy: float | None
    interval: Interval | None


@dataclass(frozen=True)
class Score:
    """`f1` 0 to 1; None: without solutions of both kinds. `f1_interval`: 95 %, by a bootstrap over problems; None where `f1` is.

    num_problems    different problem texts
    left_out        why -> rows of the file without a verdict
    prompt_tokens, output_tokens    that a model read and wrote; 0 for a program, None: not known
    """

    shape: str
    auditor: str
    erroneous: Share
    correct: Share
    f1: float | None
    f1_interval: Interval | None
    num_problems: int
    left_out: Mapping[str, int]
    prompt_tokens: int | None
    output_tokens: int | None


def audit_score(
    path: str,
    shape: str,
    auditor: LocatesErrors | str = "step_checker",
    judge: Policy | None = None,
    limit: int | None = None,
    *,
    split: str = "test",
    seed: int = 0,
    batch: int = 32,
    as_chat: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Score:
    """Score `step_checker`, `judge` (the model that is given as such) or an object that locates errors.

    `path`, `shape`, `split` and `limit` as in benchmarks.load_benchmark. `seed` is of the bootstrap and of the model's
    sampling. `as_chat`: ask the judge in chat messages. `progress` gets (done, of so many). Raises ConfigError and TaskError,
    in words.
    """
    if isinstance(auditor, str) and auditor not in ("step_checker", "judge"):
        raise ConfigError(f"Expected auditor `step_checker` or `judge`, found `{auditor}`. Name one of them.")
    if (auditor == "judge") != (judge is not None):
        found = "none" if judge is None else f"{judge.name} with auditor `{auditor}`"
        raise ConfigError(f"Expected a judge with auditor `judge` and none with another, found {found}. Give both or neither.")
    imported = load_benchmark(path, shape, split=split, limit=limit)
    solutions = imported.solutions
    with MathVerifier() as verifier:  # its processes start when first needed
        if judge is not None:
            locator: LocatesErrors = ModelLocator(judge, seed=seed, as_chat=as_chat)
        else:
            locator = StepChecker(verifier) if isinstance(auditor, str) else auditor
        located: list[Located] = []
        for start in range(0, len(solutions), batch):
            located += locator.locate(solutions[start : start + batch])
            if progress is not None:
                progress(len(located), len(solutions))
    return score(shape, locator.name, solutions, located, imported.left_out, seed)


def score(
    shape: str,
    auditor: str,
    solutions: Sequence[LabelledSolution],
    located: Sequence[Located],
    left_out: Mapping[str, int],
    seed: int = 0,
) -> Score:
    """`located` is aligned with `solutions`."""
    pairs = list(zip(solutions, located, strict=True))
    erroneous = _share([p for p in pairs if p[0].first_error is not None])
    correct = _share([p for p in pairs if p[0].first_error is None])
    counts_P_4 = _counts(pairs)
    usages = [found.usage for found in located if found.usage is not None]
    return Score(
        shape=shape,
        auditor=auditor,
        erroneous=erroneous,
        correct=correct,
        f1=harmonic_mean(erroneous.accuracy, correct.accuracy),
        f1_interval=f1_interval(counts_P_4, np.random.default_rng(seed)),
        num_problems=len(counts_P_4),
        left_out=dict(left_out),
        prompt_tokens=_total([usage.prompt_tokens for usage in usages]),
        output_tokens=_total([usage.output_tokens for usage in usages]),
    )


def is_right(solution: LabelledSolution, found: Located) -> bool:
    return found.could_tell and found.first_error == solution.first_error


def harmonic_mean(a: float | None, b: float | None) -> float | None:
    """0 when both are 0; None when one is not known."""
    if a is None or b is None:
        return None
    return 2 * a * b / (a + b) if a + b else 0.0


def wilson(share: float, number: int) -> Interval:
    """E. B. Wilson's score interval (1927) at 95 % for a share among `number` independent ones."""
    spread = LEVEL_Z**2 / number
    middle = (share + spread / 2) / (1 + spread)
    half = LEVEL_Z / (1 + spread) * math.sqrt(share * (1 - share) / number + spread / (4 * number))
    return max(0.0, middle - half), min(1.0, middle + half)


def f1_interval(counts_P_4: np.ndarray, rng: np.random.Generator) -> Interval | None:
    """Percentiles of F1 over resampled problems. Columns: erroneous right, erroneous, correct right, correct. None: one kind is
    missing.

    A resample that lacks one of the two kinds has no F1 and is left out.
    """
    number = len(counts_P_4)
    if not counts_P_4[:, 1].sum() or not counts_P_4[:, 3].sum():
        return None
    found = []
    for _ in range(RESAMPLES):
        right_e, asked_e, right_c, asked_c = counts_P_4[rng.integers(number, size=number)].sum(axis=0)
        if asked_e and asked_c:
            found.append(harmonic_mean(right_e / asked_e, right_c / asked_c))
    low, high = np.percentile(np.array(found, dtype=float), [2.5, 97.5])
    return float(low), float(high)


def _share(pairs: Sequence[tuple[LabelledSolution, Located]]) -> Share:
    right = sum(is_right(*pair) for pair in pairs)
    unknown = sum(not found.could_tell for _, found in pairs)
    if not pairs:
        return Share(0, 0, 0, None, None)
    accuracy = right / len(pairs)
    return Share(len(pairs), right, unknown, accuracy, wilson(accuracy, len({solution.problem for solution, _ in pairs})))


def _counts(pairs: Sequence[tuple[LabelledSolution, Located]]) -> np.ndarray:
    """(problems, 4), as f1_interval wants them; problems in the order of their first solution."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for solution, found in pairs:
        first = 0 if solution.first_error is not None else 2
        counts[solution.problem][first] += is_right(solution, found)
        counts[solution.problem][first + 1] += 1
    return np.array(list(counts.values()))


def _total(tokens: Sequence[int | None]) -> int | None:
    return None if any(t is None for t in tokens) else sum(t for t in tokens if t is not None)
