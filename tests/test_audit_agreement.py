"""Agreement on hand-worked tables, its intervals, and rates corrected for a judge's known error."""

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mentor_audit.audit.agreement import Interval, agreement, corrected_rate, rogan_gladen


def rows(*tables: tuple[int, int, int, int], aspect: str = "location") -> list[dict[str, Any]]:
    """A problem a table: diagnoses that both found right, only `truth`, only `judge`, both wrong."""
    found = []
    for p, counts in enumerate(tables):
        verdicts = [(True, True), (True, False), (False, True), (False, False)]
        pairs = [pair for pair, count in zip(verdicts, counts, strict=True) for _ in range(count)]
        for d, pair in enumerate(pairs):
            for auditor, verdict in zip(("truth", "judge"), pair, strict=True):
                found.append(row(f"p{p}", f"p{p}.d{d}", auditor, verdict, aspect))
    return found


def row(problem: str, diagnosis: str, auditor: str, verdict: bool | None, aspect: str = "location") -> dict[str, Any]:
    return {"problem_id": problem, "diagnosis_id": diagnosis, "auditor": auditor, "aspect": aspect, "verdict": verdict}


@pytest.mark.parametrize(
    ("table", "raw", "kappa"),
    [
        ((20, 5, 10, 15), 0.7, 0.4),  # prevalences 0.5 and 0.6: by chance 0.5; (0.7 - 0.5) / 0.5
        ((45, 15, 25, 15), 0.6, 0.06 / 0.46),  # 0.6 and 0.7: by chance 0.42 + 0.12
        ((25, 35, 5, 35), 0.6, 0.14 / 0.54),  # 0.6 and 0.3: by chance 0.18 + 0.28
        ((10, 0, 0, 10), 1.0, 1.0),
        ((0, 10, 10, 0), 0.0, -1.0),
        ((25, 25, 25, 25), 0.5, 0.0),
    ],
)
def test_kappa_is_that_worked_out_by_hand(table: tuple[int, int, int, int], raw: float, kappa: float) -> None:
    found = agreement(rows(table), "truth", "judge", "location")
    assert (found.both_right, found.only_reference, found.only_other, found.both_wrong) == table
    assert found.raw == pytest.approx(raw) and found.kappa == pytest.approx(kappa)
    assert found.reference_prevalence == pytest.approx((table[0] + table[1]) / sum(table))
    assert found.other_prevalence == pytest.approx((table[0] + table[2]) / sum(table))
    assert found.interval is None and found.why == "an interval takes two problems"


def test_kappa_is_undefined_where_both_gave_one_verdict_only() -> None:
    found = agreement(rows((7, 0, 0, 0), (3, 0, 0, 0)), "truth", "judge", "location")
    assert (found.raw, found.kappa, found.interval) == (1.0, None, None)
    assert found.why == "both gave all of them the same verdict: agreement beyond chance is not defined"
    one_sided = agreement(rows((6, 4, 0, 0), (6, 4, 0, 0)), "truth", "judge", "location")
    assert one_sided.kappa == pytest.approx(0.0), "one auditor with one verdict only: chance explains all of the agreement"


def test_nothing_judged_by_both_is_not_known() -> None:
    lone = [
        row("p", "d0", "truth", True),
        row("p", "d1", "judge", True),
        row("p", "d2", "judge", None),
        row("p", "d2", "truth", True),
    ]
    found = agreement(lone, "truth", "judge", "location")
    assert (found.raw, found.kappa, found.num_problems, found.why) == (None, None, 0, "no diagnosis was judged by both")
    assert agreement(rows((5, 1, 1, 5)), "truth", "judge", "cause").raw is None, "another aspect is another question"


def test_cannot_tell_is_neither_agreement_nor_disagreement() -> None:
    unsure = [row("p0", "p0.x", "truth", True), row("p0", "p0.x", "judge", None)]
    assert agreement([*rows((20, 5, 10, 15)), *unsure], "truth", "judge", "location").kappa == pytest.approx(0.4)


def test_the_interval_comes_from_problems_not_from_diagnoses() -> None:
    """The same 80 diagnoses: each alone in its problem, or ten alike in each of eight problems."""
    kinds = [(1, 0, 0, 0)] * 32 + [(0, 1, 0, 0)] * 8 + [(0, 0, 1, 0)] * 8 + [(0, 0, 0, 1)] * 32
    apart = agreement(rows(*kinds), "truth", "judge", "location")
    alike = agreement(
        rows((10, 0, 0, 0), (10, 0, 0, 0), (10, 0, 0, 0), (2, 8, 0, 0), (0, 0, 8, 2), (0, 0, 0, 10), (0, 0, 0, 10), (0, 0, 0, 10)),
        "truth", "judge", "location",
    )  # fmt: skip
    assert apart.kappa == pytest.approx(0.6) and alike.kappa == pytest.approx(0.6)
    assert apart.interval is not None and alike.interval is not None
    assert apart.interval.low < 0.6 < apart.interval.high
    assert alike.interval.high - alike.interval.low > 1.5 * (apart.interval.high - apart.interval.low)


def test_the_same_seed_gives_the_same_interval_and_another_gives_another() -> None:
    table = rows(*[(3, 1, 0, 2), (1, 0, 1, 3), (2, 2, 1, 1), (0, 1, 0, 4)] * 5)
    first, again, other = (agreement(table, "truth", "judge", "location", seed) for seed in (1, 1, 2))
    assert first == again and first.interval != other.interval and first.kappa == other.kappa


def test_full_agreement_of_few_problems_is_not_taken_to_be_certain() -> None:
    few, many = (agreement(rows(*[(1, 0, 0, 1)] * n), "truth", "judge", "location") for n in (5, 200))
    assert few.kappa == 1.0 and few.interval is not None and many.interval is not None
    wilson = 1 / (1 + 1.959964**2 / 5)
    assert few.interval.low == pytest.approx((wilson - 0.5) / 0.5) and few.interval.high == 1.0
    assert many.interval.low > 0.9 > few.interval.low


def test_rogan_and_gladen_by_hand() -> None:
    assert rogan_gladen(0.5, 0.9, 0.8) == pytest.approx(0.3 / 0.7)
    assert rogan_gladen(0.1, 0.9, 0.8) == 0.0 and rogan_gladen(0.95, 0.9, 0.8) == 1.0
    assert np.isnan(rogan_gladen(0.5, 0.5, 0.5)) and np.isnan(rogan_gladen(0.5, 0.2, 0.3))


def test_a_corrected_rate_by_hand() -> None:
    """Of 100 that both judged, 50 are right: the judge finds 45 of them, and 10 of the others. Alone it finds 60 of 100 right."""
    both = rows(*[(9, 1, 2, 8)] * 5)
    alone = [row(f"q{i % 20}", f"q{i}", "judge", i % 5 < 3) for i in range(100)]
    found = corrected_rate([*both, *alone], "judge", "truth", "location")
    assert (found.sensitivity.value, found.sensitivity.number) == (pytest.approx(0.9), 50)
    assert (found.specificity.value, found.specificity.number) == (pytest.approx(0.8), 50)
    assert (found.apparent.value, found.apparent.number) == (pytest.approx(0.575), 200)
    assert found.corrected.value == pytest.approx(0.375 / 0.7) and found.why is None
    assert found.corrected.interval is not None
    assert found.corrected.interval.low < 0.375 / 0.7 < found.corrected.interval.high


def test_a_correction_that_stands_on_little_says_so() -> None:
    sure = corrected_rate(judged(300, 300, 0), "judge", "truth", "location").corrected.interval
    little = corrected_rate(judged(300, 24, 0), "judge", "truth", "location").corrected.interval
    assert isinstance(sure, Interval) and isinstance(little, Interval)
    assert little.high - little.low > 1.5 * (sure.high - sure.low), (
        "few labels: the uncertainty of the judge's error is in the interval"
    )


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ((10, 3, 0, 0), "the reference found none wrong"),
        ((0, 0, 3, 10), "the reference found none right"),
        ((3, 7, 7, 3), "no more of the reference's than chance"),
        ((5, 5, 5, 5), "no more of the reference's than chance"),
    ],
)
def test_what_can_not_be_corrected_says_why(table: tuple[int, int, int, int], why: str) -> None:
    found = corrected_rate(rows(table, table), "judge", "truth", "location")
    assert (found.corrected.value, found.corrected.interval) == (None, None) and why in str(found.why)


def test_the_correction_finds_the_truth_and_covers_it() -> None:
    """A judge of sensitivity 0.85 and specificity 0.75 on diagnoses of which 60 % are right; 80 of 400 are labelled.

    200 samples: with a true coverage of 0.95 fewer than 0.9 happen once in a thousand times.
    """
    found = [corrected_rate(judged(400, 80, seed), "judge", "truth", "location", seed) for seed in range(200)]
    assert np.mean([f.corrected.value for f in found]) == pytest.approx(0.6, abs=0.02)
    assert np.mean([f.apparent.value for f in found]) == pytest.approx(0.6 * 0.85 + 0.4 * 0.25, abs=0.01)
    intervals = [f.corrected.interval for f in found]
    covered = [i is not None and i.low <= 0.6 <= i.high for i in intervals]
    assert np.mean(covered) >= 0.9


def judged(number: int, labelled: int, seed: int) -> Sequence[dict[str, Any]]:
    """Two diagnoses a problem; problems differ in how often a diagnosis is right."""
    rng = np.random.default_rng(seed)
    found = []
    ease_P = rng.beta(1.5, 1.0, size=number // 2)  # of mean 0.6
    for d in range(number):
        right = bool(rng.random() < ease_P[d // 2])
        said = bool(rng.random() < (0.85 if right else 0.25))
        found.append(row(f"p{d // 2}", f"d{d}", "judge", said))
        if d < labelled:
            found.append(row(f"p{d // 2}", f"d{d}", "truth", right))
    return found


def test_the_example_in_the_documentation_says_what_comes_out() -> None:
    page = (Path(__file__).parents[1] / "docs" / "auditing.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}
    checked = 0
    for statement in ast.parse(code).body:
        source = ast.get_source_segment(code, statement)
        assert source is not None
        if isinstance(statement, ast.Expr):
            said = code.splitlines()[statement.end_lineno - 1].partition("  # ")[2]
            assert eval(source, scope) == pytest.approx(ast.literal_eval(said))
            checked += 1
        else:
            exec(source, scope)
    assert checked == 2
