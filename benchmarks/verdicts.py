"""Maths verdicts: how many a second, what two answers that hang cost a batch of a thousand, and what math-verify alone answers.

`python benchmarks/verdicts.py` prints the first two, on two workers. The aims: 200 verdicts a second; two hanging answers add about one deadline
to the batch, for they wait side by side, and every other answer keeps its verdict.
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

from mentor_audit.tasks.maths import MathItem, MathVerifier

MARK, END = "<!-- table: python benchmarks/verdicts.py --write -->", "<!-- end of the table -->"
NUMBER = 1000
DEADLINE_S = 3.0
HANGING = MathItem("5", "\\boxed{\\sum_{k=1}^{10^{9}} \\frac{1}{k}}")


def main() -> None:
    items = typical(NUMBER, random.Random(0))
    with MathVerifier(deadline_s=DEADLINE_S, workers=2) as verifier:
        verifier.verify_batch([MathItem("x+1", "\\boxed{1+x}"), MathItem("x+2", "\\boxed{2+x}")])  # both workers have started
        plain, verdicts = _seconds(verifier, items)
        assert all(v.is_correct is not None for v in verdicts)
    hung = list(items)
    hung[NUMBER // 3], hung[NUMBER // 3 + 1] = HANGING, MathItem(HANGING.gold, HANGING.completion.replace("10^{9}", "10^{8}"))
    with MathVerifier(deadline_s=DEADLINE_S, workers=2) as verifier:
        verifier.verify_batch([MathItem("x+1", "\\boxed{1+x}"), MathItem("x+2", "\\boxed{2+x}")])
        with_two, found = _seconds(verifier, hung)
    same = sum(a.is_correct == b.is_correct for a, b in zip(verdicts, found, strict=True))
    timeouts = sum(v.status == "verifier_timeout" for v in found)
    print(f"{NUMBER} verdicts on 2 workers: {NUMBER / plain:.0f} a second (aim 200)")
    print(f"{sum(v.is_correct is True for v in verdicts)} correct, {sum(v.is_correct is False for v in verdicts)} not")
    print(
        f"with 2 answers that hang: {timeouts} timeouts, {same} of {NUMBER - 2} other verdicts the same, {with_two - plain:.1f} s more"
    )
    print(
        f"ratio of the extra time to one deadline of {DEADLINE_S:g} s: {(with_two - plain) / DEADLINE_S:.2f} (aim 1, and a new worker's start)"
    )


def typical(number: int, rng: random.Random) -> list[MathItem]:
    """Answers of the usual kinds, four of five right, half of them plain numbers; few are alike."""
    made = []
    for i in range(number):
        a, b, wrong = rng.randint(2, 400), rng.randint(2, 400), int(i % 5 == 0)
        gold, answer = [
            (f"{a * b}", f"{a * b + wrong}"),
            (f"{a}", f"{a + wrong}.0"),
            (f"\\frac{{{a}}}{{{b}}}", f"{a + wrong}/{b}"),
            (f"{a},{b:03}", f"{a}{b + wrong:03}"),
            (f"x^2+{a}x", f"x(x+{a + wrong})"),
            (f"({a}, {b})", f"\\left({a},{b + wrong}\\right)"),
            (f"{a}\\sqrt{{2}}", f"\\sqrt{{{2 * a * a + wrong}}}"),
            (f"{a}\\text{{ cm}}", f"{a + wrong}"),
        ][rng.choice([0, 0, 0, 1, 2, 3, 4, 5, 6, 7])]
        made.append(MathItem(gold, f"Working it out step by step, the answer is \\boxed{{{answer}}}."))
    return made


def _seconds(verifier: MathVerifier, items: list[MathItem]) -> tuple[float, list]:
    started = time.perf_counter()
    verdicts = verifier.verify_batch(items)
    return time.perf_counter() - started, verdicts


CASES = [
    ("two lines, no box", "3*x-1*y+13=0", "3x + 4y + 14=0", False),
    ("tiny numbers", "\\frac{1}{2004!}", "\\frac{1}{2006!}", False),
    ("tiny numbers", "\\frac{1}{2^{99}}", "\\frac{1}{2^{98}}", False),
    ("nearly equal numbers", "\\frac{2^{2005}+1}{3 \\cdot 2^{2006}}", "\\frac{1}{3 \\cdot 2^{2006}}", False),
    ("nearly equal numbers", "0.1", "0.10000001", False),
    ("a rounded root", "\\sqrt{2}", "1.41421356237", False),
    ("adjacent factors", "(2)(3)", "5", False),
    ("sequences", "1, 2, \\ldots, n", "1, 3, 5, \\ldots, 2n-1", False),
    ("repeated members", "1,1,2,3,5", "1,2,3,5", False),
    ("interval, inequality", "(-\\infty, 3)", "x<3", True),
    ("union, two inequalities", "(-\\infty,1)\\cup(2,\\infty)", "x<1 \\text{ or } x>2", True),
    ("inequalities", "x<3", "2x<6", True),
    ("values of two unknowns", "x=1,y=2", "(2,1)", False),
    ("units", "5 cm", "5 kg", False),
    ("units", "5\\text{ hours}", "5 minutes", False),
    ("units", "5\\text{ hours}", "300 minutes", True),
    ("degrees", "\\sin 30^\\circ", "\\frac12", True),
    ("bases", "17_8", "17_9", False),
    ("case of a variable", "a", "A", False),
    ("repeating decimals", "0.\\overline{3}", "\\frac13", True),
    ("complex numbers", "e^{i\\pi}", "-1", True),
    ("real roots", "\\sqrt[3]{-8}", "-2", True),
    ("thousands", "1\\,000", "1000", True),
    ("choices", "B", "B.", True),
    ("choices", "\\text{(A) } 5", "A", True),
    ("words", "yes", "Yes.", True),
    ("empty set", "\\emptyset", "\\text{no solution}", True),
    ("powers of powers", "1", "\\dfrac{5^{\\left(5^{\\left(5^{\\left(5^5\\right)}\\right)} - 4\\right)} - 5}{16}", None),
]
PATIENCE_S = 20
_ALONE = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from math_verify import parse, verify
for gold, answer in json.load(sys.stdin):
    boxes = [parse(t, parsing_timeout=None) for t in (gold, answer)]
    print(json.dumps([verify(*boxes, timeout_seconds=None), verify(*reversed(boxes), timeout_seconds=None)]), flush=True)
"""


def table() -> str:
    """Markdown: each case, its right verdict, math-verify's in both orders, ours in both orders."""
    lines = ["| kind | reference | answer | right | math-verify 0.9.0 alone | here |", "|---|---|---|---|---|---|"]
    alone = _alone([[t if "no box" in kind else f"\\boxed{{{t}}}" for t in both] for kind, *both, _ in CASES])
    with MathVerifier(workers=2) as verifier:
        for (kind, gold, answer, right), theirs in zip(CASES, alone, strict=True):
            ours = [verifier.verify(a, f"\\boxed{{{b}}}") for a, b in ((gold, answer), (answer, gold))]
            words = "too large to compute" if right is None else "correct" if right else "incorrect"
            cells = [kind, f"`{gold}`", f"`{answer}`", words, theirs, _both([v.status for v in ours])]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _alone(pairs: list[list[str]]) -> list[str]:
    """What the library says in a process of its own. One that is silent for `PATIENCE_S` on one pair is ended."""
    found: list[str] = []
    for pair in [pairs[:-1], pairs[-1:]]:
        try:
            text = subprocess.run(
                [sys.executable, "-c", _ALONE],
                input=json.dumps(pair),
                capture_output=True,
                text=True,
                check=True,
                timeout=PATIENCE_S * len(pair),
            ).stdout
            found += [_both(["correct" if v else "incorrect" for v in json.loads(line)]) for line in text.splitlines()]
        except subprocess.TimeoutExpired:
            found.append(f"no answer in {PATIENCE_S} s")
    return found


def _both(verdicts: list[str]) -> str:
    return verdicts[0] if verdicts[0] == verdicts[1] else f"{verdicts[0]}; swapped: {verdicts[1]}"


def write(page: Path) -> None:
    """The table between the page's two marks."""
    before, rest = page.read_text(encoding="utf-8").split(MARK, 1)
    page.write_text(f"{before}{MARK}\n\n{table()}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    if "--table" in sys.argv:
        print(table())
    elif "--write" in sys.argv:
        write(Path(__file__).parents[1] / "docs" / "maths.md")
    else:
        main()
