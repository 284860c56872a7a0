"""What a program finds of the reference answer in an instruction: the rules, hostile texts, and the columns of tiers 1 to 3."""

import random
import runpy
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import problem

from mentor_audit.audit.leakage import longest_common_run, program_leaks, solution_of, word_overlap
from mentor_audit.tasks.code.base import CodeProblem, function_problem
from mentor_audit.tasks.code.expected import MAX_VALUES, expected_values
from mentor_audit.tasks.leaks import MARKER, find_answer, scrub
from mentor_audit.tasks.maths import MathVerifier
from mentor_audit.tasks.quantities import quantities

ROOT = Path(__file__).parents[1]
BENCHMARK = runpy.run_path(str(ROOT / "benchmarks" / "leaks.py"), run_name="leaks")
CASES = BENCHMARK["CASES"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.rule}: {c.instruction}")
def test_every_rule_finds_what_it_should_and_nothing_else(case) -> None:
    spans = find_answer(case.instruction, case.gold, case.expected)
    assert tuple(s.text for s in spans) == case.found
    assert all(case.instruction[s.start : s.end] == s.text for s in spans)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.rule}: {c.instruction}")
def test_nothing_is_found_in_a_scrubbed_instruction(case) -> None:
    left = scrub(case.instruction, case.gold, case.expected)
    assert find_answer(left, case.gold, case.expected) == [] and scrub(left, case.gold, case.expected) == left
    if case.found:
        assert MARKER in left


def test_the_page_is_what_its_command_prints() -> None:
    command = [sys.executable, "benchmarks/leaks.py"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout
    page = (ROOT / "docs" / "leakage.md").read_text(encoding="utf-8")
    assert printed.strip() in page and printed.count("\n") == len(CASES) + 2
    code = page.split("```python\n")[1].split("```")[0]
    for line in code.splitlines():
        if "  # " in line:
            call, shown = line.split("  # ")
            assert repr(eval(call, {"find_answer": find_answer, "scrub": scrub})) == shown


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("zero", [0]),
        ("twenty-one", [21]),
        ("one hundred thousand and two", [100_002]),
        ("two million three hundred thousand", [2_300_000]),
        ("nineteen hundred", [1900]),
        ("one, two, three", [1, 2, 3]),
        ("one two", [1, 2]),
        ("twenty twelve", [20, 12]),
        ("three and a half", ["7/2"]),
        ("three quarters", ["3/4"]),
        ("a third", ["1/3"]),
        ("minus five", [-5]),
        ("a dozen and two dozen", [12, 24]),
        ("3 million", [3_000_000]),
        ("2 1/2", ["5/2"]),
        ("\\frac12", ["1/2"]),
        ("\\dfrac{10}{4}", ["5/2"]),
        (".5", ["1/2"]),
        ("1e-2", ["1/100"]),
        ("x = -3", [-3]),
        ("10 - 3", [10, 3]),
        ("1,234,567.5", ["2469135/2"]),
        ("1,23", [1, 23]),
        ("10/0", []),
        ("x2, s1 and a_{3}", []),
    ],
)
def test_numbers_are_read_exactly(text: str, values: list) -> None:
    assert [q.values for q in quantities(text)] == [{Fraction(v)} for v in values]


def test_a_number_with_several_meanings_keeps_them() -> None:
    assert quantities("50%")[0].values == {Fraction(50), Fraction(1, 2)}
    assert quantities("100 200")[0].values == {Fraction(100), Fraction(200), Fraction(100_200)}


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_is_found_however_it_is_written_and_its_neighbour_is_not(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        value = rng.randint(101, 9_999)
        if set(str(value)[1:]) == {"0"}:
            continue
        written = rng.choice([f"{value}", f"{value:,}", f"{value}.0", f"${value}$", f"\\boxed{{{value}}}", f"{value} apples"])
        before, after = rng.choice(["Mind the ", "There are ", "(", "so "]), rng.choice([" here.", ".", ", then", ")", "\n"])
        assert find_answer(before + written + after, str(value))
        assert not find_answer(before + written + after, str(value + 1))
        assert not find_answer(scrub(before + written + after, str(value)), str(value))


@given(
    st.text(max_size=300), st.sampled_from(["2", "1/2", "x^2+1", "(3,4)", "B", "yes", "three words here", "\\frac{1", "{}", "$"])
)
def test_no_text_raises_and_spans_are_of_the_text(text: str, gold: str) -> None:
    for span in find_answer(text, gold, ["[1, 2", "'a'"]):
        assert text[span.start : span.end] == span.text
    assert isinstance(scrub(text, gold), str)


@pytest.mark.parametrize("gold", ["2", "x^2+1"])
@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "1 ",
        "1,111",
        "one ",
        "2 ",
        "and a half ",
        "\\frac{",
        "{",
        "}",
        "$",
        "-",
        "1/",
        "the answer is ",
        "\\boxed{",
        "x^2",
        "\\[",
        " ",
        "\ud800",
    ],
)
def test_a_hundred_thousand_hostile_characters_take_seconds(piece: str, gold: str) -> None:
    text = piece * (100_000 // len(piece))
    started = time.process_time()
    find_answer(text, gold)
    scrub(text, gold)
    assert time.process_time() - started < 20


def test_time_grows_with_the_length_of_the_text() -> None:
    def seconds(text: str) -> float:
        started = time.process_time()
        find_answer(text, "x^2+1")
        return time.process_time() - started

    text = "Add 1,234 and twenty-one, then $x^2 + 1 = 2$ or 3/4. " * 500
    seconds(text)
    assert seconds(text * 8) < 8 * 4 * max(seconds(text), 0.01)


def test_formulas_are_compared_by_algebra_where_a_verifier_is_at_hand_and_one_that_hangs_is_left() -> None:
    text = "First $y = (x+1)^2$, then \\[\\sum_{k=1}^{10^9} \\frac{1}{k} + x\\] and $x+2$."
    assert find_answer(text, "x^2+2x+1") == []
    with MathVerifier(deadline_s=2.0, workers=1) as verifier:

        def same(gold: str, candidate: str) -> bool:
            return verifier.verify(gold, f"\\boxed{{{candidate}}}").is_correct is True

        found = find_answer(text, "x^2+2x+1", same=same)
        assert [(s.text, s.how) for s in found] == [("y = (x+1)^2", "formula")]
        assert MARKER in scrub(text, "x^2+2x+1", same=same)


def leaks(instruction: str, gold: str | None = "12", prompt: str = "How many?", attempt: str | None = "It is 11.", **more):
    asked = problem("1", gold="x")
    row = asked.row.model_copy(update={"gold": gold, "prompt": prompt})
    return program_leaks(row, attempt, instruction, **more)


def test_an_answer_that_stands_in_the_problem_or_the_attempt_gives_nothing_away() -> None:
    told = "The answer is 12."
    assert (leaks(told).answer_found, leaks(told).answer_known, leaks(told).is_leak) == (True, False, True)
    assert (leaks(told).answer_span, leaks(told).how) == ("12", "number")
    shown = leaks(told, prompt="Show that the answer is 12.")
    assert (shown.is_leak, shown.answer_known_where) == (False, "problem: 12")
    tried = leaks(told, attempt="The answer is twelve. No, it should be 11.")
    assert (tried.is_leak, tried.answer_known_where) == (False, "attempt: twelve")
    merely = leaks(told, prompt="There are 12 boys and 3 girls.")
    assert merely.is_leak is True, "a short number in the problem does not say that it is the answer"
    clean = leaks("Mind the carry in step 12.")
    assert (clean.answer_found, clean.answer_known, clean.is_leak) == (False, None, False)


def test_without_a_reference_answer_nothing_can_be_told() -> None:
    found = leaks("The answer is 12.", gold=None)
    assert (found.answer_found, found.is_leak, found.reference_overlap) == (None, None, None)


def test_one_expected_value_that_was_not_known_is_a_leak() -> None:
    told = "For 3 it should return [3, 1] and for 4 it should return [4, 2]."
    shown = leaks(told, gold=None, prompt="f(3) == [3, 1]", expected=["[3, 1]", "[4, 2]"])
    assert (shown.is_leak, shown.answer_span) == (True, "[4, 2]")
    known = leaks(told, gold=None, prompt="f(3) == [3, 1], f(4) == [4, 2]", expected=["[3, 1]", "[4, 2]"])
    assert (known.is_leak, known.answer_known_where) == (False, "problem: [3, 1]")


def test_overlap_with_the_reference_solution_by_hand() -> None:
    share, run = word_overlap("add the two small numbers first", "Now add the two small numbers together .")
    assert share == pytest.approx(2 / 3) and run == "add the two small numbers"
    assert word_overlap("add the", "Then add the rest") == (1.0, "add the")
    assert word_overlap("", "Then add the rest") == (None, None)
    assert word_overlap("quite other words here", "Then add the rest") == (0.0, None)
    solution = "Add 5 and 7, which gives 12.\n#### 12"
    assert leaks("Add 5 and 7 first.", gold=solution).reference_span == "add 5 and 7"
    assert leaks("Add 5 and 7 first.").reference_overlap is None, "an answer alone is no solution"
    assert leaks("Add 5 and 7 first.", reference_solution="add 5 and 7 first .").reference_overlap == 1.0
    assert (solution_of("12"), solution_of("x = 12"), solution_of(None)) == (None, None, None)


def test_the_longest_common_run_is_that_of_a_search_of_all() -> None:
    rng = random.Random(0)
    for _ in range(400):
        a, b = ([rng.choice("abc") for _ in range(rng.randrange(12))] for _ in range(2))
        runs = [(j - i, -i) for i in range(len(a)) for j in range(i + 1, len(a) + 1)]
        held = [(n, i) for n, i in runs if any(b[k : k + n] == a[-i : -i + n] for k in range(len(b)))]
        length, start = max(held, default=(0, 0))
        assert longest_common_run(a, b) == (-start, length)


def test_expected_values_are_the_literals_of_the_tests() -> None:
    tests = (
        "def check(candidate):\n    assert candidate(2) == [1, 2]\n    assert 'ab' == candidate('a')\n    assert candidate(3)\n"
    )
    tests += "    assert not candidate(4)\n    assert candidate(5) == helper(5)\n"
    tests += "    assert candidate(2) == [1, 2]\n    assert candidate(6) > 3\n"
    data = function_problem("def f(x):\n", tests, "f", None)
    assert expected_values(data) == ["[1, 2]", "'ab'", "True", "False"]
    assert expected_values(CodeProblem(None, (("1\n", "2 3\n"), ("2\n", "\n"), ("3", "2 3")))) == ["'2 3'"]
    assert expected_values(function_problem("def f(x):\n", "assert f(1) == (", "f", None)) == []
    many = CodeProblem(None, tuple((str(i), str(i)) for i in range(2 * MAX_VALUES)))
    assert len(expected_values(many)) == MAX_VALUES


PIECES = [
    "The answer is ",
    "2",
    " 2",
    "two",
    "-",
    "half",
    "1/2",
    "0.5",
    " and ",
    "=",
    ".",
    " ",
    "$",
    "\\boxed{",
    "}",
    "x",
    "A ",
    "4 2",
    "42",
    "%",
    ", ",
    "\n",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(["2", "42", "1/2", "-2", "50%", "x", "4 2"]))
def test_nothing_that_is_found_survives_scrubbing(pieces: list[str], gold: str) -> None:
    left = scrub("".join(pieces), gold)
    assert find_answer(left, gold) == [] and scrub(left, gold) == left
