"""What the body of a chat completion says: the model's text, or why there is none, and the tokens. A server may send anything."""

import json
from typing import Any

from mentor_audit.mentor.endpoint_cache import ChatUsage

MAX_DEPTH = 50
"""A chat completion nests about five levels deep."""
MAX_TOKENS = 2**31
"""A count that is larger is no count, and would not fit into a column."""


def read_reply(value: dict[str, Any]) -> tuple[str | None, bool, str | None]:
    """(text, failed, error) of a chat completion with a list of choices: as in `ChatAnswer`."""
    choices = value["choices"]
    choice = choices[0] if choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    text, refusal, reason = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    if not choices:
        return None, True, "expected one choice in the answer, found none"
    if isinstance(refusal, str) and refusal:
        return refusal, True, "the model refused"
    if not isinstance(text, str) or not text:
        return None, True, f"expected text, found content {text!r:.80} (finish_reason {reason!r:.40})"
    error = {
        "length": "the reply was cut at max_tokens (finish_reason length)",
        "content_filter": "the server filtered the reply (finish_reason content_filter)",
    }.get(str(reason))
    return text, False, error


def read_usage(value: dict[str, Any]) -> ChatUsage:
    """The `usage` of a reply, nested details included. What is absent or no count is None, never 0."""
    return ChatUsage(
        prompt_tokens=_count(value, "usage", "prompt_tokens"),
        cached_tokens=_count(value, "usage", "prompt_tokens_details", "cached_tokens"),
        output_tokens=_count(value, "usage", "completion_tokens"),
        reasoning_tokens=_count(value, "usage", "completion_tokens_details", "reasoning_tokens"),
    )


def _count(value: Any, *path: str) -> int | None:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_TOKENS else None


def json_object(text: str) -> dict[str, Any]:
    """Empty when it is none, or one that nests without end."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list)]
        level = [child for children in inner for child in children]
    return value if isinstance(value, dict) and not level else {}


def excerpt(text: str) -> str:
    """Its beginning on one line, quoted, for an error's words."""
    words = " ".join(text.split())
    return repr(words if len(words) <= 200 else f"{words[:200]}...") if words else "nothing"
