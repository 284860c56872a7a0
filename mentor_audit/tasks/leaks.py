"""Stub by the caller until D's file is here: D, overwrite this."""

from collections.abc import Sequence


def scrub(text: str, gold: str | None, expected: Sequence[str] = ()) -> str:
    return text if not gold else text.replace(gold, "[removed]")
