"""Solutions of our own making, half of them with one false equality at a known step. As ProcessBench writes its rows."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OPERATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
FORMS = {
    "text": "That makes {a} {op} {b} = {c} in all.",
    "formula": "We find ${a} {tex} {b} = {c}$ for this part.",
    "formula in the next line": "Put together:\n$${a} {tex} {b} = {c}$$",
    "annotation": "The shop has {a}{op}{b}=<<{a}{op}{b}={c}>>{c} of them.",
    "chain": "So it is ${a} {tex} {b} + 1 = {c} + 1 = {d}$ now.",
    "words": "When we take {a} and {b} we get {c}.",
}
"""The step checker does not read `words`, and takes some false `chain`s for running totals."""
IDLE = ["Let us look at what is asked.", "Now we come to the next part.", "Nothing else is left to count."]


MIX = (*("text", "formula", "formula in the next line", "annotation", "chain") * 7, *("words",) * 5)
"""Forms as often as they are drawn: one in eight is in words, seven in forty are chains."""


def planted(seed: int, number: int, forms: Sequence[str] = MIX) -> list[dict[str, Any]]:
    """`number` rows with a false equality and `number` without, shuffled."""
    rng = random.Random(seed)
    rows = [_row(rng, i, i < number, forms) for i in range(2 * number)]
    rng.shuffle(rows)
    return rows


def write(rows: list[dict[str, Any]], path: Path) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return path


def _row(rng: random.Random, number: int, is_wrong: bool, forms: Sequence[str]) -> dict[str, Any]:
    steps, kinds = [], []
    for _ in range(rng.randint(3, 6)):
        claims = rng.random() < 0.75
        kinds.append(claims)
        steps.append(_step(rng, 0, forms) if claims else rng.choice(IDLE))
    if not any(kinds):
        kinds[0], steps[0] = True, _step(rng, 0, forms)
    label = -1
    if is_wrong:
        label = rng.choice([i for i, claims in enumerate(kinds) if claims])
        steps[label] = _step(rng, rng.choice([-10, -2, -1, 1, 3, 10]), forms)
    return {"id": f"planted-{number}", "problem": f"Planted problem {number}.", "steps": steps, "label": label}


def _step(rng: random.Random, off: int, forms: Sequence[str]) -> str:
    form = rng.choice(forms)
    op = rng.choice(list(OPERATIONS))
    a, b = rng.randint(30, 99), rng.randint(3, 29)
    c = OPERATIONS[op](a, b) + off
    tex = op.replace("*", "\\times")
    return FORMS[form].format(a=a, b=b, c=c, d=c + 1, op=op, tex=tex)
