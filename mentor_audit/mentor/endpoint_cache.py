"""What an endpoint was paid for, on disk: its replies by request, so that a resumed run never pays twice, and a ledger of tokens.

Both live in one folder, of one run: another run that asks the same pays for itself, or its cost could not be compared. Ranks of a
run share the folder. Neither holds the key: it is not part of a request here.
"""

import hashlib
import json
import os
import tempfile
import threading
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mentor_audit.errors import ConfigError


@dataclass(frozen=True)
class ChatUsage:
    """Tokens as a server reported them; None: it did not. `cached_tokens` are among the prompt's, `reasoning_tokens` among the output's."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: "ChatUsage") -> "ChatUsage":
        """The sum of what was reported: None only where neither side reported."""
        mine, others = asdict(self), asdict(other)
        return ChatUsage(**{k: v if others[k] is None else (v or 0) + others[k] for k, v in mine.items()})

    @property
    def is_reported(self) -> bool:
        return self.prompt_tokens is not None and self.output_tokens is not None


def request_key(url: str, body: Mapping[str, Any]) -> str:
    """sha256 of the full request."""
    return _digest({"url": url, "body": body})


class ReplyCache:
    """One JSON file a request. Writes are atomic, so readers and other writers are safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = make_folder(folder)

    def get(self, url: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The server's reply to this very request; None: not asked before. An entry that was damaged is warned about and None."""
        key = request_key(url, body)
        path = self._folder / f"{key}.json"
        try:
            entry = json.loads(path.read_bytes())
            reply: dict[str, Any] = entry["reply"]
            is_whole = entry["reply_sha256"] == _digest(reply) and _digest(entry["request"]) == key
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            is_whole = False
        if is_whole:
            return reply
        warnings.warn(
            f"Expected a whole reply in {path}, found it damaged. It is asked for again, and paid for again.", stacklevel=2
        )
        return None

    def put(self, url: str, body: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
        entry = {"request": {"url": url, "body": body}, "reply": reply, "reply_sha256": _digest(reply)}
        with tempfile.NamedTemporaryFile("w", dir=self._folder, suffix=".tmp", delete=False) as file:
            json.dump(entry, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, self._folder / f"{request_key(url, body)}.json")


class Ledger:
    """Every answer that was paid for, one JSON line each; in memory when there is no folder. Threads and processes may share one."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else make_folder(folder) / "paid.jsonl"
        self._lock = threading.Lock()
        self._total = ChatUsage(0, 0, 0, 0)
        self._read_to = 0

    def add(self, call_id: str, usage: ChatUsage, *, is_estimate: bool = False) -> None:
        """`is_estimate`: the server may have counted the call without saying what; `usage` is the most that it can be."""
        line = json.dumps({"call_id": call_id, "is_estimate": is_estimate, **asdict(usage)})
        with self._lock:
            if self._path is None:
                self._total += usage
                return
            with open(self._path, "ab", buffering=0) as file:
                file.write(f"\n{line}\n".encode())  # the first newline ends a line that a killed process left unfinished

    def total(self) -> ChatUsage:
        """Of all launches and ranks of the run so far."""
        with self._lock:
            if self._path is not None and self._path.exists():
                with open(self._path, "rb") as file:
                    file.seek(self._read_to)
                    lines = file.read()
                lines = lines[: lines.rfind(b"\n") + 1]
                self._read_to += len(lines)
                for line in lines.split(b"\n"):
                    self._total += _ledger_line(line)
            return self._total


def make_folder(folder: Path) -> Path:
    """Raises ConfigError when it can't be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"Expected to keep the endpoint's replies in {folder}, found that {error}. Choose another folder for the run."
        ) from error
    return folder


def _ledger_line(line: bytes) -> ChatUsage:
    if not line.strip():
        return ChatUsage()
    try:
        values = json.loads(line)
        return ChatUsage(**{name: values[name] for name in asdict(ChatUsage())})
    except (ValueError, KeyError, TypeError):
        warnings.warn(
            f"Expected a paid answer a line in the endpoint's ledger, found {line[:80]!r}. It is left out.", stacklevel=2
        )
        return ChatUsage()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
