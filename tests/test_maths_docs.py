"""docs/maths.md says what the program says."""

import re
import subprocess
import sys
from pathlib import Path

from mentor_audit.tasks.maths import MathVerifier

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "maths.md").read_text(encoding="utf-8")


def test_the_table_is_what_its_command_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "benchmarks/verdicts.py", "--table"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    ).stdout
    assert printed.strip() in PAGE
    assert printed.count("\n") > 20


def test_every_row_is_right_here_and_wrong_there() -> None:
    rows = [
        [c.strip() for c in line.split(" | ")] for line in PAGE.splitlines() if line.startswith("| ") and line.count(" | ") == 5
    ]
    rows = [r for r in rows if r[3] in ("correct", "incorrect")]
    assert len(rows) > 20
    for row in rows:
        right, theirs, ours = row[3], row[4], row[5].rstrip(" |")
        assert ours == right and theirs != right, row


def test_the_example_runs() -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    exec(code[1], names := {})
    assert isinstance(names["verifier"], MathVerifier)
