"""Properties of the comparison: each kind of answer generated, right and wrong, in both orders."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mentor_audit.tasks.maths.compare import same
from mentor_audit.tasks.maths.fast import plain_number
from mentor_audit.tasks.maths.judge import judge, unscorable
from mentor_audit.tasks.maths.readings import read

settings.register_profile("maths", deadline=None, max_examples=40)
settings.load_profile("maths")
small = st.integers(-30, 30)
nonzero = small.filter(bool)
positive = st.integers(1, 60)


def verdict(gold: str, answer: str) -> bool | None:
    """The verdict, which must be the same the other way round."""
    found = judge(gold, answer, False)["is_correct"]
    assert judge(answer, gold, False)["is_correct"] is found, (gold, answer)
    return found


@st.composite
def answers(draw: st.DrawFn) -> str:
    """A text of any kind that the readers know."""
    a, b, c = draw(small), draw(small), draw(positive)
    kinds = [
        f"{a}", f"\\frac{{{a}}}{{{c}}}", f"{c}.5", f"{c}\\%", f"{c} cm", f"{c}\\text{{ kg}}", f"({a},{b})", f"[{min(a, b)},{max(a, b) + 1}]",
        f"\\{{{a},{b}\\}}", f"{a}, {b}", f"x={a}", f"y={a}x+{c}", f"x<{a}", f"x\\ge {a}", f"{a}x+{c}y={b}", f"{a}+\\sqrt{{{c}}}", f"\\pm {c}",
        f"({'ABCDE'[c % 5]})", "Monday", "yes", f"{c}:{c + 1}", f"1, 2, \\ldots, {c}", f"x^2+{c}x", f"\\begin{{pmatrix}}{a}\\\\{b}\\end{{pmatrix}}",
        f"{a}+{c}i", f"2^{{{c}}}", f"{c}^\\circ", f"(-\\infty,{a})\\cup({a + c},\\infty)", f"{c}!", "1011_2", "\\emptyset", f"x={a}, y={b}",
    ]  # fmt: skip
    return draw(st.sampled_from(kinds))


@example("(0,0)", "[0,1]")
@given(answers(), answers())
@settings(max_examples=300)
def test_swapping_reference_and_answer_changes_nothing(a: str, b: str) -> None:
    assert same(read(a), read(b)) is same(read(b), read(a))
    assert same(read(a), read(a)) is True


@given(small, positive, small, positive)
def test_fractions_are_equal_exactly_when_they_are(a: int, b: int, c: int, d: int) -> None:
    assert verdict(f"\\frac{{{a}}}{{{b}}}", f"{c}/{d}") is (Fraction(a, b) == Fraction(c, d))


@given(st.integers(3, 400), st.integers(1, 3))
def test_tiny_numbers_are_not_all_zero(n: int, more: int) -> None:
    assert verdict(f"\\frac{{1}}{{{n}!}}", f"\\frac{{1}}{{{n + more}!}}") is False
    assert verdict(f"2^{{-{n}}}", f"\\frac{{1}}{{2^{{{n + more}}}}}") is False
    assert verdict(f"\\frac{{2^{{{n}}}+1}}{{3\\cdot 2^{{{n + 1}}}}}", f"\\frac{{1}}{{3\\cdot 2^{{{n + 1}}}}}") is False
    assert verdict(f"\\frac{{1}}{{2^{{{n}}}}}", f"(\\frac12)^{{{n}}}") is True


@given(st.integers(1, 10**6), st.integers(1, 20))
def test_nearly_equal_numbers_differ(n: int, digits: int) -> None:
    assert verdict(f"{n}", f"{n}.{'0' * digits}1") is False
    assert verdict(f"{n}\\pi", f"{n}\\pi+10^{{-{digits * 10}}}") is False
    assert verdict(f"{n}", f"{n}.{'0' * digits}") is True


@given(nonzero, nonzero, small, nonzero)
def test_lines_are_equal_when_their_coefficients_are_proportional(a: int, b: int, c: int, k: int) -> None:
    line = f"{a}x+{b}y+{c}=0".replace("+-", "-")
    assert verdict(line, f"{a * k}x+{b * k}y={-c * k}".replace("+-", "-")) is True
    assert verdict(line, f"{a}x+{b}y+{c + k}=0".replace("+-", "-")) is False
    assert verdict(line, f"{a}x-{b}y+{c}=0".replace("--", "+").replace("+-", "-")) is False


@given(st.lists(small, min_size=2, max_size=5, unique=True), st.randoms(use_true_random=False))
def test_sets_have_no_order_points_have(values: list[int], rng: object) -> None:
    shuffled = list(values)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    inside, other = ",".join(map(str, values)), ", ".join(map(str, shuffled))
    assert verdict(f"\\{{{inside}\\}}", f"\\{{{other}\\}}") is True
    assert verdict(f"\\{{{inside}\\}}", other) is True
    assert verdict(f"\\{{{inside}\\}}", ", ".join(map(str, values[:-1]))) is False
    assert verdict(f"\\{{{inside}\\}}", f"{other}, 99") is False
    assert verdict(f"({inside})", f"({other})") is (values == shuffled)


@given(small, st.integers(1, 20), st.sampled_from(["()", "[]", "(]", "[)"]), st.sampled_from(["()", "[]", "(]", "[)"]))
def test_intervals_and_inequalities(low: int, width: int, ends: str, others: str) -> None:
    high = low + width
    signs = ("<" if ends[0] == "(" else "\\leq ", "<" if ends[1] == ")" else "\\leq ")
    interval = f"{ends[0]}{low},{high}{ends[1]}"
    assert verdict(interval, f"{low}{signs[0]}x{signs[1]}{high}") is True
    assert verdict(interval, f"{low}{signs[0]}x{signs[1]}{high + 1}") is False
    assert verdict(f"x\\in {interval}", f"x\\in {others[0]}{low},{high}{others[1]}") is (ends == others)
    assert verdict(f"(-\\infty,{low})\\cup[{high},\\infty)", f"x<{low} \\text{{ or }} x\\ge {high}") is True
    assert verdict(f"(-\\infty,{low})\\cup[{high},\\infty)", f"x<{low}") is False


@given(small, small, small)
def test_expanded_and_factored(a: int, b: int, c: int) -> None:
    expanded = f"x^2+{-(a + b)}x+{a * b}".replace("+-", "-")
    assert verdict(f"(x-{a})(x-{b})".replace("--", "+"), expanded) is True
    assert verdict(f"(x-{a})(x-{c})".replace("--", "+"), expanded) is (b == c)


@given(st.integers(1000, 10**9))
def test_thousands_separators(n: int) -> None:
    for comma in (",", "{,}", "\\,", " "):
        assert verdict(str(n), f"{n:,}".replace(",", comma)) is True
    assert verdict(str(n), f"{n + 1:,}") is False


@given(st.integers(2, 9), st.integers(2, 9), st.integers(1, 99))
def test_ellipses_never_agree_by_accident(step: int, other: int, last: int) -> None:
    first = f"{step}, {2 * step}, \\ldots, {step}n"
    assert verdict(first, first.replace("\\ldots", "...")) is True
    if step != other:
        assert verdict(first, f"{other}, {2 * other}, \\ldots, {other}n") is False
    assert verdict(first, f"{step}, {last + 100}, \\ldots, {step}n") is not True


@pytest.mark.parametrize(
    "text", ["\\ldots", "\\foo{3}", "5 +", "f(x+y)", "x'", "\\frac{1}{0}", "1.2.3", "\\vec{a}", "(1", "n!!", "1/2x", "5 6x"]
)
def test_what_is_not_read_to_its_end_is_no_reference(text: str) -> None:
    assert unscorable(text)
    assert judge(text, "5", False)["status"] == "unscorable_gold"
    assert judge("5", text, False)["is_correct"] is None


@given(
    st.sampled_from(["{}", "{}.0", "-{}", "{}/7", "\\frac{{{}}}{{3}}", "${}$", "{}.25", "+{}"]),
    st.sampled_from(["{}", "{}.", "2/{}", "$\\frac{{{}}}{{3}}$"]),
    st.integers(1, 99),
)
def test_plain_numbers_get_the_verdict_that_the_worker_gives(first: str, second: str, n: int) -> None:
    a, b = first.format(n), second.format(n)
    assert plain_number(a) is not None and plain_number(b) is not None
    assert verdict(a, b) is (plain_number(a) == plain_number(b))


def test_too_large_a_number_is_unscored_unless_the_forms_agree() -> None:
    tower = "5^{5^{5^{5}}}"
    assert judge("1", tower, False)["status"] == "verifier_timeout"
    assert judge(f"{tower}-1", f"-1+{tower}", False)["is_correct"] is True


def test_any_two_choices_differ() -> None:
    for a, b in itertools.product("ABCDE", repeat=2):
        for spelled in ("({})", "\\text{{({})}}", "{}.", "\\textbf{{{}}}"):
            assert verdict(a, spelled.format(b)) is (a == b)
