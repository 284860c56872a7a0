"""The step checker: right solutions are never flagged, a changed number is found, and what is no claim is left alone."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mentor_audit.tasks.maths import MathVerifier
from mentor_audit.tasks.maths.steps import first_wrong_step, review, split_steps

RIGHT = r"""
Natalia sold 48/2 = <<48/2=24>>24 clips in May.
Natalia sold 48+24 = <<48+24=72>>72 clips altogether in April and May.
#### 72
---
Weng earns 12/60 = $<<12/60=0.2>>0.2 per minute.
Working 50 minutes, she earned 0.2 x 50 = $<<0.2*50=10>>10.
#### 10
---
In the beginning, Betty has only 100 / 2 = $<<100/2=50>>50.
Betty's grandfather gave her 15 * 2 = $<<15*2=30>>30.
This means, Betty needs 100 - 50 - 30 - 15 = $<<100-50-30-15=5>>5 more.
---
Maila read 12 x 2 = <<12*2=24>>24 pages today.
So she was able to read a total of 12 + 24 = <<12+24=36>>36 pages since yesterday.
Since she wants to read half of the remaining pages tomorrow, then she should read 84/2 = <<84/2=42>>42 pages.
---
There are 80/100 * 10 = <<80/100*10=8>>8 more purple flowers than yellow flowers.
So in Mark's garden, there are 10 + 8 = <<10+8=18>>18 purple flowers.
Purple and yellow flowers sum up to 10 + 18 = <<10+18=28>>28 flowers.
That means in Mark's garden there are 25/100 * 28 = <<25/100*28=7>>7 green flowers.
---
He eats 32 from the largest pizzas because 2 x 16 = <<2*16=32>>32
He eats 16 from the small pizza because 2 x 8 = <<2*8=16>>16
He eats 48 pieces because 32 + 16 = <<32+16=48>>48
---
The interest is 20% of 500, so 0.2 * 500 = 100. Half of 20 + 4 = 14 and 1/4 of 20 = 5.
17 / 5 = 3 remainder 2, 100/3 = 33.33, and 100/7 = 14.29. It takes 3:30 + 1:30 = 5:00 hours.
If 2 + 2 = 5, we have a contradiction. In 2020 5 + 3 = 8. He has 3 dozen = 36 eggs.
1. 3 + 4 = 7
2. 7 * 2 = 14
Twice 3 + 4 = 10. The pair 3, 4 + 5 = 9. 2 apples + 3 apples = 5 apples.
---
Let $x$ be the number. Then $2x + 3 = 11$, so $2x = 11 - 3 = 8$ and $x = \frac{8}{2} = 4$.
Check: $2(4) + 3 = 8 + 3 = 11$. Suppose instead $2 + 3 = 6$; that is impossible.
---
We have $\sin 30 = 0.5$, $\log 100 = 2$, $5\% = 0.05$, $12\text{ inches} = 1\text{ foot}$ and $3\text{ hours} = 180\text{ minutes}$.
The area is $\pi r^2 = \pi \cdot 3^2 = 9\pi \approx 28.27$. Also $e = 5$, $i = 3$, $\pi = 3.14$ and $1011_2 = 11$.
\[
\begin{aligned}
(x+1)^2 - (x-1)^2 &= x^2 + 2x + 1 - x^2 + 2x - 1 \\
&= 4x
\end{aligned}
\]
---
The lines meet where $y = 2x + 1 = x + 4$, so $x = 3$. Simplifying, $2x + 6 = 3x - 3$. $f(x) = x^2 - 4 = 0$ at $x = \pm 2$.
$180^\circ - 60^\circ = 120^\circ$. He needs 100 + 20 = 120 - 5 = 115 dollars. $7 \div 2 = 3 \text{ R } 1$, $0.333... = \frac13$.
$\binom{5}{2} = \frac{5!}{2! \cdot 3!} = 10$, $\sqrt{16} + \sqrt{9} = 4 + 3 = 7$ and $2^{10} = 1024$. $\frac{22}{7} = 3.142857$ or so.
$f(x) = (x+1)^2 = x^2 + 2x + 1$ and $f(2) = 9$, $P(A) = \frac{3}{6} = 0.5$, $25 \times 4 = \$1$.
""".strip().split("---")  # fmt: skip


@pytest.mark.parametrize("solution", RIGHT)
def test_right_solutions_are_not_flagged(solution: str) -> None:
    found = review(solution)
    assert found.wrong is None
    assert found.num_checked >= 2 or found.num_unchecked >= 2


def test_most_claims_of_a_plain_solution_are_checked() -> None:
    for solution in RIGHT[:6]:
        found = review(solution)
        assert found.num_checked >= 2 and found.num_checked >= 2 * found.num_unchecked


@pytest.mark.parametrize("solution", RIGHT[:6])
def test_every_changed_result_is_found_in_its_step(solution: str) -> None:
    """Each annotated result plus one, in turn: the first wrong step is the line that was changed."""
    lines = solution.strip().splitlines()
    for number, line in enumerate(lines):
        changed = re.sub(r"=([\d.]+)>>", lambda m: f"={float(m[1]) + 1:g}>>", line)
        if changed != line:
            found = first_wrong_step("\n".join([*lines[:number], changed, *lines[number + 1 :]]))
            assert found is not None and found.text == changed and found.why


@given(st.integers(2, 99), st.integers(2, 99), st.integers(-9, 9).filter(bool), st.sampled_from(["+", "-", "*"]))
@settings(deadline=None, max_examples=60)
def test_arithmetic_in_each_spelling(a: int, b: int, off: int, sign: str) -> None:
    value = {"+": a + b, "-": a - b, "*": a * b}[sign]
    latex = sign.replace("*", "\\times")
    for template in (
        "<<{a}{s}{b}={v}>>", "She sold {a} {s} {b} = {v} clips.", "so $x = {a} {t} {b} = {v}$", "\\[ {a} {t} {b} = {v} \\]",
        "Total = {a} {s} {b} = {v}", "That is ${a} {t} {b} = {v} \\text{{ apples}}$.",
    ):  # fmt: skip
        right, wrong = (template.format(a=a, b=b, s=sign, t=latex, v=v) for v in (value, value + off))
        assert review(right).wrong is None and review(right).num_checked == 1, right
        found = first_wrong_step(wrong)
        conversion = (
            value != 0
            and value + off != 0
            and any(value * k == value + off or value == k * (value + off) for k in (7, 10, 12, 16, 24, 36, 52, 60, 100))
        )
        assert (found is None) if conversion else (found is not None and found.index == 0), wrong


@pytest.mark.parametrize(
    ("text", "equality"),
    [
        ("First, 2 + 2 = 4.\nThen 4 * 3 = 13 boxes.", "4 * 3 = 13"),
        ("so $x = 5 - 2 = 4$", "5 - 2 = 4"),
        ("$\\frac{48}{2} = 25$", "\\frac{48}{2} = 25"),
        ("\\[\n\\begin{aligned} S &= 2 + 3 \\\\ &= 4 + 2 \\end{aligned}\n\\]", "2 + 3   = 4 + 2"),
        ("$f(x) = (x+1)^2 = x^2 + 1$", "(x+1)^2 = x^2 + 1"),
        ("$\\sqrt{16} + 1 = 6$", "\\sqrt{16} + 1 = 6"),
        ("The price is 20% * 50 = 11 dollars", "20% * 50 = 11"),
        ("$3\\text{ hours} = 170\\text{ minutes}$", "3\\text{ hours} = 170\\text{ minutes}"),
        ("It is 1,000 + 500 = 1,600.", "1,000 + 500 = 1,600"),
        ("First $ 2 \\times 3 = 6 $, then $ 6 \\cdot 2 = 13 $.", "6 \\cdot 2 = 13"),
    ],
)
def test_wrong_equalities_are_named(text: str, equality: str) -> None:
    found = first_wrong_step(text)
    assert found is not None and " ".join(found.equality.split()) == " ".join(equality.split())


def test_dollars_of_prices_are_not_dollars_of_formulas() -> None:
    assert review("It costs 5 $ and \\frac{1}{2} of 3 + 4 = 8 $ more.").num_checked == 0


def test_steps_are_lines_and_sentences_and_displays() -> None:
    assert split_steps("One. Two 3.5 is it.\n\nThree\n\\[ a\n= b \\]\n") == ["One.", "Two 3.5 is it.", "Three", "\\[ a\n= b \\]"]


def test_hostile_text_costs_its_deadline_and_is_reported() -> None:
    with MathVerifier(deadline_s=1.0, workers=1) as verifier:
        hung = verifier.check_steps("so $\\sum_{k=1}^{10^{9}} \\frac{1}{k} = 3 + 2$")
        assert hung.wrong is None and hung.num_checked == 0 and "within 1 s" in (hung.why or "")
        found = verifier.first_wrong_step("2 + 2 = 4. Then 2 + 3 = 6.")
        assert found is not None and (found.index, found.equality) == (1, "2 + 3 = 6")
        assert "longer than" in (verifier.check_steps("1 + 1 = 2\n" * 20_000).why or "")
