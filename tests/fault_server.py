"""A small chat endpoint on this machine that can fail in every way that a real one does. It keeps what it was asked."""

import json
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


@dataclass(frozen=True)
class Asked:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        text: str = self.body["messages"][-1]["content"]
        return text

    @property
    def nonce(self) -> str:
        return re.findall(r'"nonce": "([0-9a-f]+)"', self.prompt)[-1]


@dataclass(frozen=True)
class Answer:
    """`delay_s` before anything is sent; `cut_after` bytes of the body the connection is closed, at None not; `drip` sends it byte by byte."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut_after: int | None = None
    drip: bool = False


HANG_UP = Answer(status=0)
"""The connection is closed without a word."""


def chat(content: Any, *, usage: Any = USAGE, finish_reason: str = "stop", refusal: str | None = None, **answer: Any) -> Answer:
    """A chat completion with this content; `usage` None: not reported."""
    value: dict[str, Any] = {
        "choices": [{"message": {"content": content, "refusal": refusal}, "finish_reason": finish_reason}],
    }
    if usage is not None:
        value["usage"] = usage
    return Answer(body=json.dumps(value).encode(), **answer)


def error(status: int, message: str = "not now", headers: dict[str, str] | None = None, **more: Any) -> Answer:
    return Answer(status, json.dumps({"error": {"message": message}, **more}).encode(), headers or {})


def diagnosis(asked: Asked, instruction: str = "carry the one", **more: Any) -> str:
    """What an able mentor replies."""
    parts = {"nonce": asked.nonce, "error_location": "step 2", "error_type": "slip", "diagnosis": "lost a carry"}
    return json.dumps({**parts, "instruction": instruction, **more})


def good(asked: Asked, number: int) -> Answer:
    return chat(diagnosis(asked))


class FaultServer:
    """`answer` gets the request and how many came before it. Use it as a context manager."""

    def __init__(self, answer: Callable[[Asked, int], Answer] = good) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> "FaultServer":
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        content = handler.rfile.read(int(handler.headers["Content-Length"]))
        asked = Asked(handler.path, dict(handler.headers), json.loads(content))
        with self._lock:
            number = len(self.asked)
            self.asked.append(asked)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            self._send(handler, self.answer(asked, number))
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True
        finally:
            with self._lock:
                self._at_once -= 1

    def _send(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        self._stopping.wait(answer.delay_s)
        if answer is HANG_UP:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.send_response(answer.status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(answer.body)),
            **answer.headers,
        }.items():
            handler.send_header(name, value)
        handler.end_headers()
        pieces = [bytes([b]) for b in answer.body] if answer.drip else [answer.body[: answer.cut_after]]
        for piece in pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()
            if answer.drip:
                self._stopping.wait(0.05)
        if answer.cut_after is not None:
            handler.close_connection = True


def dead_url() -> str:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


def _handler(server: FaultServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            server.serve(self)

        def log_message(self, format: str, *args: Any) -> None:
            """The tests look at what was asked."""

    return Handler
