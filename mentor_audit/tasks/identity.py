"""What makes a problem the same problem: one fingerprint of its content, and the id that every run derives from it."""

import hashlib
import unicodedata


def fingerprint(prompt: str, gold: str | None) -> str:
    """sha256 (hex) of prompt and gold answer, after NFC and with every run of whitespace made one space. Case counts.

    A problem without a gold answer differs from one whose gold answer is empty.
    """
    parts = [_normalised(prompt)] + ([] if gold is None else [_normalised(gold)])
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def problem_id(task: str, fingerprint: str) -> str:
    """`<task>-<first 16 hex digits of the fingerprint>`."""
    return f"{task}-{fingerprint[:16]}"


def _normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text.replace("\x00", " ")).split())
