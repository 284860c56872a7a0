"""A mentor's reply as text -> its parts. Repairs what a well-kept library can repair, and says so."""

import json
import re
from dataclasses import dataclass
from typing import Any

import json_repair

from mentor_audit.records import ParseStatus

KEYS = {"error_location": "location", "error_type": "error_type", "diagnosis": "claim", "instruction": "instruction"}


@dataclass(frozen=True)
class ParsedReply:
    """The parts are None when absent. `status` is ok for valid JSON, repaired for mended JSON, unparsable without an instruction."""

    status: ParseStatus
    location: str | None = None
    error_type: str | None = None
    claim: str | None = None
    instruction: str | None = None
    error: str | None = None


def parse_reply(text: str) -> ParsedReply:
    """Read the JSON object in a reply: the text between the first `{` and the last `}`, a code fence around it or not."""
    found = re.search(r"\{.*\}", text, re.DOTALL)
    body = found.group(0) if found else text
    status: ParseStatus = "ok"
    try:
        value: Any = json.loads(body)
    except (json.JSONDecodeError, RecursionError):
        status = "repaired"
        try:
            value = json_repair.loads(body) if "{" in text else None
        except (ValueError, RecursionError) as error:
            return ParsedReply("unparsable", error=f"no JSON object: {error}")
    if not isinstance(value, dict):
        return ParsedReply("unparsable", error="expected a JSON object, found none")
    parts = {part: _text(value.get(key)) for key, part in KEYS.items()}
    if not parts["instruction"]:
        return ParsedReply(
            "unparsable", **{**parts, "instruction": None}, error="expected a key `instruction` with text, found none"
        )
    return ParsedReply(status, **parts)


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str | int | float):
        return str(value).strip() or None
    return json.dumps(value, ensure_ascii=False)
