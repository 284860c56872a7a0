"""What a judge is asked, and how its reply is read. It is shown problem, attempt and diagnosis: no arm, no verdict, no follow-up.

All of that is hostile. It stands in fences whose nonce is a hash of it, and only a reply that repeats the nonce counts.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

from mentor_audit.audit.cases import ASPECTS, Case
from mentor_audit.audit.opinions import Opinion
from mentor_audit.records import Aspect
from mentor_audit.tasks.prompting import fence_marker

NONCE_KEY = "nonce"
CANNOT_TELL = "cannot tell"
VERDICTS: dict[str, bool | None] = {"true": True, "false": False, CANNOT_TELL: None}
NOTHING_SAID = "(nothing was said)"
_TEXT = resources.files("mentor_audit.audit").joinpath("prompts", "judge.txt").read_text(encoding="utf-8")
TEMPLATE = f"judge.txt@{hashlib.sha256(_TEXT.encode()).hexdigest()[:12]}"
"""File and content hash."""


@dataclass(frozen=True)
class Question:
    """`nonce` stands in every fence, and in none of the texts in them."""

    text: str
    nonce: str


def question(case: Case, with_reference: bool) -> Question:
    """`with_reference`: the reference answer is shown, where the problem has one."""
    sections = [("Problem", case.problem)]
    if with_reference and case.gold is not None:
        sections.append(("Reference answer", case.gold))
    sections += [
        ("Attempt", case.attempt),
        ("Diagnosis: where it first goes wrong", case.location or NOTHING_SAID),
        ("Diagnosis: kind of error", case.error_type or NOTHING_SAID),
        ("Diagnosis: what went wrong and why", case.claim or NOTHING_SAID),
        ("Proposed instruction", case.instruction or NOTHING_SAID),
    ]
    marker = fence_marker("\n".join(text for _, text in sections))
    nonce = marker.rsplit(" ", 1)[1]
    material = "\n\n".join(f"{title}\n{marker}\n{text}\n{marker}" for title, text in sections)
    frame = _TEXT.replace("{{fence}}", marker, 1).replace("{{nonce}}", nonce, 1)
    return Question(frame.replace("{{material}}", material, 1), nonce)


def read_reply(reply: str, nonce: str, doubt: str | None = None) -> list[Opinion]:
    """One opinion an aspect. The last object with the nonce counts; an aspect that it does not judge in our words is "can't tell".

    `doubt` is what went wrong with the reply, such as being cut; it explains one that can't be read.
    """
    signed = [found for found in json_objects(reply) if found.get(NONCE_KEY) == nonce]
    if not signed:
        reason = f" ({doubt})" if doubt else ""
        return cannot_tell(f"the judge's reply could not be read: expected a JSON object with our nonce, found none{reason}")
    return [_opinion(aspect, signed[-1].get(aspect)) for aspect in ASPECTS]


def cannot_tell(why: str) -> list[Opinion]:
    return [Opinion(aspect, None, why) for aspect in ASPECTS]


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The complete JSON objects in a text, outermost ones only, in order."""
    decoder, start = json.JSONDecoder(), text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1  # not an object: look behind this brace
        else:
            yield value
        start = text.find("{", end)


def response_format() -> dict[str, Any]:
    """The reply as a JSON schema, for endpoints that keep to one."""
    verdict = {
        "type": "object",
        "properties": {
            "why": {"type": "string"},
            "verdict": {"type": "string", "enum": list(VERDICTS)},
            "confidence": {"type": "number"},
        },
        "required": ["why", "verdict", "confidence"],
        "additionalProperties": False,
    }
    properties: dict[str, Any] = {NONCE_KEY: {"type": "string"}, **dict.fromkeys(ASPECTS, verdict)}
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "audit", "strict": True, "schema": schema}}


def _opinion(aspect: Aspect, said: Any) -> Opinion:
    if not isinstance(said, dict) or "verdict" not in said:
        return Opinion(aspect, None, f"the judge gave no verdict: expected an object with `verdict`, found {said!r:.80}")
    given = said["verdict"]
    word = {True: "true", False: "false"}.get(given, "") if isinstance(given, bool) else str(given).strip().lower()
    if word not in VERDICTS:
        return Opinion(aspect, None, f"the judge gave no verdict: expected true, false or {CANNOT_TELL!r}, found {given!r:.80}")
    why = said.get("why")
    why = why if isinstance(why, str) and why.strip() else "the judge gave no reason"
    return Opinion(aspect, VERDICTS[word], why, _confidence(said.get("confidence")))


def _confidence(given: Any) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        return None
    return float(given)
