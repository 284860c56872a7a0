"""Maths verdicts: how many a second, and what two answers that hang cost a batch of a thousand.

`python benchmarks/verdicts.py` prints both, on two workers. The aims: 200 verdicts a second; two hanging answers add about one deadline
to the batch, for they wait side by side, and every other answer keeps its verdict.
"""

import random
import time

from mentor_audit.tasks.maths import MathItem, MathVerifier

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


if __name__ == "__main__":
    main()
