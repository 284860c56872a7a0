"""A mentor's reply as text -> its parts. Repairs what a well-kept library can repair, and says so.

A reply may quote the attempt, and an attempt may hold JSON that looks like a reply. An object that stands in the quoted material
never counts, and where the prompt asked for a nonce, the object that carries it is the mentor's own.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import json_repair

from mentor_audit.records import ParseStatus

KEYS = {"error_location": "location", "error_type": "error_type", "diagnosis": "claim", "instruction": "instruction"}
NONCE_KEY = "nonce"
_ANY_KEY = re.compile("|".join((*KEYS, NONCE_KEY)))


@dataclass(frozen=True)
class ParsedReply:
    """The parts are None when absent. `status` is ok for valid JSON, repaired for mended JSON, unparsable without an instruction."""

    status: ParseStatus
    location: str | None = None
    error_type: str | None = None
    claim: str | None = None
    instruction: str | None = None
    error: str | None = None


def parse_reply(text: str, nonce: str | None = None, quoted: Sequence[str] = ()) -> ParsedReply:
    """Read the mentor's JSON object in a reply, whatever stands around it.

    The last complete object with one of our keys counts, else what can be mended behind the complete ones. `nonce` is what the
    prompt asked to be repeated (None: it asked for none): an object that carries it goes before all others, one that carries
    another is refused, and of several objects one must carry it. `quoted` are the texts that the mentor was shown: an object that
    stands in one of them is refused.
    """
    try:
        return _chosen(text, nonce, quoted)
    except RecursionError:
        return ParsedReply("unparsable", error="expected a plain JSON object, found one nested too deeply to read")


def _chosen(text: str, nonce: str | None, quoted: Sequence[str]) -> ParsedReply:
    found = list(_objects(text))
    candidates = [value for value, _ in found if value.keys() & KEYS.keys()]
    signed = [value for value in candidates if nonce is not None and value.get(NONCE_KEY) == nonce]
    if signed:
        return _parts(signed[-1], "ok")
    mended = _mended(text[found[-1][1] if found else 0 :], nonce, quoted)
    if mended is not None and nonce is not None and mended.get(NONCE_KEY) == nonce:
        return _parts(mended, "repaired")
    number = len(candidates) + (mended is not None)
    if nonce is not None and number > 1:
        return ParsedReply("unparsable", error=f"expected one JSON object or one with our nonce, found {number} without it")
    planted = [value for shown in quoted for value, _ in _objects(shown)] if candidates else []
    own = [value for value in candidates if value not in planted and _may_be_ours(value, nonce)]
    if own:
        return _parts(own[-1], "ok")
    if mended is not None and _may_be_ours(mended, nonce):
        return _parts(mended, "repaired")
    if number:
        return ParsedReply("unparsable", error="expected a JSON object of the mentor's own, found only one that it quotes")
    expected = "a key `instruction` with text" if found else "a JSON object"
    return ParsedReply("unparsable", error=f"expected {expected}, found none")


def _objects(text: str) -> Iterator[tuple[dict[str, Any], int]]:
    """The complete JSON objects in a text, outermost ones only, in order, each with the place where it ends."""
    decoder, start = json.JSONDecoder(), text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except ValueError:
            end = start + 1
        else:
            yield value, end
        start = text.find("{", end)


def _mended(rest: str, nonce: str | None, quoted: Sequence[str]) -> dict[str, Any] | None:
    """The object that a malformed or cut text stands for; None when it has none of our keys or is quoted."""
    place = rest.find(nonce) if nonce is not None else -1
    if place < 0:
        named = _ANY_KEY.search(rest)
        place = named.start() if named else -1
    start = rest.rfind("{", 0, max(place, 0))
    if start < 0:
        return None
    end = rest.rfind("}") + 1
    body = rest[start:end] if end > start else rest[start:]
    if any(body.strip() in shown for shown in quoted):
        return None
    try:
        value = json_repair.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.keys() & KEYS.keys() else None


def _may_be_ours(value: dict[str, Any], nonce: str | None) -> bool:
    return nonce is None or value.get(NONCE_KEY) in (None, nonce)


def _parts(value: dict[str, Any], status: ParseStatus) -> ParsedReply:
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
