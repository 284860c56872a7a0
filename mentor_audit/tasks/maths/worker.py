"""The child process that reads hostile maths: one request in, one reply out, as length-prefixed JSON on its pipes.

It limits its own memory, and asks the kernel to end it a little after each request's deadline, so that it does not outlive a
parent that died. Anything that prints goes nowhere: the pipe carries replies only.
"""

import json
import os
import resource
import signal
import struct
import sys
from typing import Any

GRACE_S = 5.0
"""Seconds after its deadline at which a worker whose parent did not end it ends by itself."""


def main(memory_bytes: int) -> None:
    replies = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setrecursionlimit(3000)
    from mentor_audit.tasks.maths import judge, steps

    functions = {"judge": judge.judge, "unscorable": judge.unscorable, "check_steps": steps.check_steps}
    judge.judge("\\frac{1}{2}", "x^2+1", False)  # loads what the first answer would load
    _send(replies, {"ready": True})
    while (request := _receive()) is not None:
        signal.setitimer(signal.ITIMER_REAL, request["deadline_s"] + GRACE_S)
        reply = _reply(functions[request["function"]], request["arguments"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(replies, reply)


def _reply(function: Any, arguments: list[Any]) -> dict[str, Any]:
    """A failure of the mathematics is an answer too: the item is unscored and says why."""
    try:
        return {"value": function(*arguments)}
    except MemoryError:
        return {"error": "the memory limit was reached"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}


def _receive() -> dict[str, Any] | None:
    """None: the parent closed the pipe."""
    head = sys.stdin.buffer.read(4)
    if len(head) < 4:
        return None
    found: dict[str, Any] = json.loads(sys.stdin.buffer.read(struct.unpack(">I", head)[0]))
    return found


def _send(pipe: int, reply: dict[str, Any]) -> None:
    data = json.dumps(reply).encode()
    data = struct.pack(">I", len(data)) + data
    while data:
        data = data[os.write(pipe, data) :]


if __name__ == "__main__":
    main(int(sys.argv[1]))
