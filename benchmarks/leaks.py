"""What is found of a reference answer in an instruction, rule by rule: the table of docs/leakage.md.

`python benchmarks/leaks.py` prints it, `--write` puts it into the page. Every case says what is right; a case that comes out
otherwise is an error.
"""

import sys
from pathlib import Path
from typing import NamedTuple

from mentor_audit.tasks.leaks import find_answer, scrub

MARK, END = "<!-- table: python benchmarks/leaks.py --write -->", "<!-- end of the table -->"


class Case(NamedTuple):
    """`found`: the words that match, in order; empty: not found. `expected` as in find_answer."""

    rule: str
    gold: str | None
    instruction: str
    found: tuple[str, ...]
    expected: tuple[str, ...] = ()


CASES = [
    Case("numbers, exactly", "1234", "There are 1,234 of them.", ("1,234",)),
    Case("numbers, exactly", "1500", "You end with 1{,}500 metres.", ("1{,}500",)),
    Case("numbers, exactly", "12.5", "Mind the 12.50 in the last line.", ("12.50",)),
    Case("numbers, exactly", "12.5", "Mind the 12.51 in the last line.", ()),
    Case("numbers, exactly", "-150", "It falls to -150 degrees.", ("-150",)),
    Case("numbers, exactly", "150", "Look at 400-150 again.", ("150",)),
    Case("numbers, exactly", "6000", "It is $6 \\times 10^3$ grams.", ("6 \\times 10^3",)),
    Case("numbers, exactly", "\\frac{15}{4}", "Three quarters more than 3 is 15/4.", ("15/4",)),
    Case("numbers, exactly", "15/4", "That is $3\\frac{3}{4}$, or 3.75.", ("3\\frac{3}{4}", "3.75")),
    Case("per cent", "12.5%", "One part in eight is 0.125.", ("0.125",)),
    Case("numbers in words", "305", "Three hundred and five of them stay.", ("Three hundred and five",)),
    Case("numbers in words", "42", "The total is forty-two.", ("forty-two",)),
    Case("numbers in words", "1/2", "The answer is a half.", ("half",)),
    Case("numbers in words", "1/3", "Read the third line again.", ()),
    Case("units and labels", "$250", "They pay 250 dollars.", ("250",)),
    Case("units and labels", "x = 125", "You should find 125.", ("125",)),
    Case("part of a name or formula", "120", "Divide by 120x before you go on.", ()),
    Case("part of a name or formula", "120", "See line_120.", ()),
    Case("work to do", "24", "You should get 48/2.", ()),
    Case("short answers", "2", "Look at step 2 again: 5 is 3 + 2, not 6.", ()),
    Case("short answers", "2", "Check 7 - 5 = 2. Then go on.", ()),
    Case("short answers", "2", "The answer is 2, not 3.", ("2",)),
    Case("short answers", "2", "In the end 7 - 5 = 2.", ("2",)),
    Case("short answers", "2", "You should get 2 apples.", ("2",)),
    Case("short answers", "2", "So $\\boxed{2}$.", ("2",)),
    Case("short answers", "2", "The answer is 2!", ("2",)),
    Case("short answers", "2", "The answer is not 2.", ()),
    Case("short answers", "2", "Step 1 should be 2, not 3.", ("2",)),
    Case("short answers", "2", "2", ("2",)),
    Case("short answers", "2", "Give the answer to 2 decimal places.", ()),
    Case("short answers", "2", "The answer is a two-digit number.", ()),
    Case("short answers", "2", "You should have two equations now.", ()),
    Case("short answers", "2", "In the last line, add 3 to 2.", ()),
    Case("short answers", "42", "The correct answer, 42, is larger.", ("42",)),
    Case("short answers", "42", "First find 42, the answer.", ("42",)),
    Case("short answers", "2", "Go on from step 2. The answer comes later.", ()),
    Case("short answers", "2", "In the end it comes to 2.", ("2",)),
    Case("short answers", "100", "Multiply by 100 at the end of it.", ()),
    Case("short answers", "1/2", "Cut it in half first.", ()),
    Case("short answers", "1/2", "The result should be 0.5.", ("0.5",)),
    Case("ordinals", "3rd", "She came in third.", ()),
    Case("ordinals", "3rd", "The answer is the third.", ("third",)),
    Case("ordinals", "3", "The answer is the third.", ()),
    Case("choices", "(B)", "Compare (A) and (B).", ()),
    Case("choices", "B", "The answer is (B).", ("B",)),
    Case("choices", "\\text{(B)}", "Option B is correct.", ("B",)),
    Case("words", "Monday", "Begin on Monday and count.", ()),
    Case("words", "Monday", "The answer is Monday.", ("Monday",)),
    Case("words", "no solution", "There is no solution at all.", ("no solution",)),
    Case("formulas, as text", "\\frac{\\sqrt{3}}{2}", "Use $\\dfrac{\\sqrt 3}{2}$ here.", ("\\dfrac{\\sqrt 3}{2}",)),
    Case("formulas, as text", "x^2+1", "That leaves $x^{2} + 1$.", ("x^{2} + 1",)),
    Case("formulas, as text", "x^2+1", "That leaves $2x^2+1$.", ()),
    Case("formulas, as text", "(3,4)", "Start at (3, 4).", ("(3, 4)",)),
    Case("digits apart", "42", "A 4 2", ("4 2",)),
    Case("digits apart", "35", "s1 + 8 =15 3 5 s2 - 9 =16 2 6", ()),
    Case("digits apart", "26", "s1 + 8 =15 3 5 s2 - 9 =16 2 6", ("2 6",)),
    Case("digits apart", "42", "hint s4 carry 2", ()),
    Case("a solution that marks its answer", "7 + 8 = 15\n#### 15", "The answer should be 15.", ("15",)),
    Case("what tests expect", None, "It has to return [1, 2, 3] here.", ("[1, 2, 3]",), ("[1,2,3]",)),
    Case("what tests expect", None, 'Print "no such key" then.', ("no such key",), ("'no such key'",)),
    Case("what tests expect", None, "True is a keyword.", (), ("True",)),
    Case("what tests expect", None, "The function should return True.", ("True",), ("True",)),
]  # fmt: skip


def table() -> str:
    """Markdown. Raises AssertionError for a case that comes out otherwise than it says."""
    lines = ["| rule | answer | instruction | found | scrubbed |", "|---|---|---|---|---|"]
    for case in CASES:
        found = tuple(span.text for span in find_answer(case.instruction, case.gold, case.expected))
        assert found == case.found, (case, found)
        answer = case.gold if case.gold is not None else "tests: " + ", ".join(case.expected)
        scrubbed = scrub(case.instruction, case.gold, case.expected)
        cells = [case.rule, _code(answer), _code(case.instruction), ", ".join(map(_code, found)) or "-"]
        cells.append("as it is" if scrubbed == case.instruction else _code(scrubbed))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write(page: Path) -> None:
    """The table between the page's two marks."""
    before, rest = page.read_text(encoding="utf-8").split(MARK, 1)
    page.write_text(f"{before}{MARK}\n\n{table()}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def _code(text: str) -> str:
    return f"`{text}`".replace("\n", " ⏎ ")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write(Path(__file__).parents[1] / "docs" / "leakage.md")
    else:
        print(table())
