"""Which part of a completion is its answer.

The last box counts, `\\boxed` or `\\fbox`, wherever it stands. A last box that is malformed or cut is no answer; an earlier one
never takes its place. Without any box the last answer line counts: `Answer: ...`, `The answer is ...` or `#### ...`. A completion that is one short line
and has neither may be nothing but an answer; whether it is one is for the comparison to say.
"""

import re
from dataclasses import dataclass
from typing import Literal

BARE_CHARACTERS = 200
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_LINE = re.compile(r"(?:\**(?:the )?(?:final )?answer\**\s*(?::|is)\**|####)\s*(.+)", re.IGNORECASE)


@dataclass(frozen=True)
class Extraction:
    """`answer` None: there is none, and `why` says so. `source` is where the answer stood."""

    answer: str | None
    source: Literal["box", "line", "bare", "none"]
    why: str | None = None


def extract(text: str) -> Extraction:
    """The answer of a completion, or of a reference solution that marks its answer as completions do. Linear in the text's
    length.
    """
    boxes = list(_BOX.finditer(text))
    if boxes:
        content, why = _braced(text, boxes[-1].end())
        return Extraction(content, "box" if content else "none", why)
    for line in reversed(text.splitlines()):
        found = _LINE.fullmatch(line.strip())
        if found:
            return Extraction(found[1].strip(), "line")
    bare = text.strip()
    if bare and len(bare) <= BARE_CHARACTERS and "\n" not in bare:
        return Extraction(bare, "bare")
    return Extraction(None, "none", "expected \\boxed{...}, `Answer: ...` or `#### ...`, found none")


def _braced(text: str, start: int) -> tuple[str | None, str | None]:
    """What the braces that open at `start` hold, or why nothing can be read. Escaped braces do not count."""
    while start < len(text) and text[start].isspace():
        start += 1
    if start >= len(text) or text[start] != "{":
        return None, "the last box has no opening brace"
    depth, i = 0, start
    while i < len(text):
        if text[i] == "\\":
            i += 2
            continue
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            content = text[start + 1 : i].strip()
            return (content, None) if content else (None, "the last box is empty")
        i += 1
    return None, "the last box is not closed"
