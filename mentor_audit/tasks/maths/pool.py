"""Worker processes that can be killed: one deadline an item, a new worker for one that hung, crashed or ran out of memory.

Plain child processes on pipes: they work from any thread, after a fork, and whatever the parent's `__main__` is. They start
when first needed and stay. Loading sympy is not counted against an item.
"""

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

START_S = 120.0
"""Seconds that a worker may take to load its libraries."""
MEMORY_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class Reply:
    """`value` of a call that returned; otherwise `why` in words."""

    kind: Literal["ok", "timeout", "error"]
    value: Any = None
    why: str | None = None


class _Silent(Exception):
    """The worker did not answer in time."""


class _Gone(Exception):
    """The worker ended."""


class Worker:
    """One child process. Used by one thread at a time."""

    def __init__(self, memory_bytes: int) -> None:
        root = str(Path(__file__).parents[3])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "mentor_audit.tasks.maths.worker", str(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._in.fileno(), False)
        self._end = weakref.finalize(self, _end, self._process, self._owner)
        self._is_ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def call(self, function: str, arguments: list[Any], deadline_s: float) -> Reply:
        """Never raises. After "timeout", and after "error" of a worker that ended, the worker is no more."""
        try:
            if not self._is_ready:
                self._receive(time.monotonic() + START_S)
                self._is_ready = True
        except (_Silent, _Gone) as error:
            self.close()
            return Reply("error", why=f"the maths worker did not start: {error or 'it took too long'}")
        until = time.monotonic() + deadline_s
        try:
            self._send({"function": function, "arguments": arguments, "deadline_s": deadline_s}, until)
            reply = self._receive(until)
        except _Silent:
            self.close()
            return Reply("timeout", why=f"no verdict within {deadline_s:g} s; the worker was ended")
        except _Gone as error:
            self.close()
            return Reply("error", why=f"the maths worker ended: {error}")
        return Reply("error", why=reply["error"]) if "error" in reply else Reply("ok", reply["value"])

    def close(self) -> None:
        self._end()

    def forget(self) -> None:
        """In a forked child: the process is the parent's."""
        self._end.detach()
        for pipe in (self._in, self._out):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.returncode = 0  # it is not ours to wait for

    def _send(self, request: dict[str, Any], until: float) -> None:
        data = json.dumps(request).encode()
        data = struct.pack(">I", len(data)) + data
        while data:
            self._wait(self._in.fileno(), select.POLLOUT, until)
            try:
                data = data[os.write(self._in.fileno(), data) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise _Gone(self._cause()) from error

    def _receive(self, until: float) -> dict[str, Any]:
        (size,) = struct.unpack(">I", self._read(4, until))
        reply: dict[str, Any] = json.loads(self._read(size, until))
        return reply

    def _read(self, size: int, until: float) -> bytes:
        data = b""
        while len(data) < size:
            self._wait(self._out.fileno(), select.POLLIN, until)
            part = os.read(self._out.fileno(), size - len(data))
            if not part:
                raise _Gone(self._cause())
            data += part
        return data

    def _wait(self, file: int, event: int, until: float) -> None:
        poll = select.poll()
        poll.register(file, event)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise _Silent

    def _cause(self) -> str:
        """How the process ended, in words."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


class Pool:
    """Up to `size` workers, shared by any number of threads."""

    def __init__(self, size: int, memory_bytes: int = MEMORY_BYTES) -> None:
        self.size, self.memory_bytes = size, memory_bytes
        self._free = threading.Condition()
        self._idle: list[Worker] = []
        self._busy = 0
        _POOLS.add(self)

    def call(self, function: str, arguments: list[Any], deadline_s: float) -> Reply:
        """One item on one worker; waits for a free one. Never raises for what happens in the worker."""
        with self._free:
            while not self._idle and self._busy >= self.size:
                self._free.wait()
            self._busy += 1
            worker = self._idle.pop() if self._idle else None
        try:
            if worker is not None and not worker.is_alive:  # killed while it had nothing to do
                worker.close()
                worker = None
            worker = worker or Worker(self.memory_bytes)
            return worker.call(function, arguments, deadline_s)
        except OSError as error:
            return Reply("error", why=f"the maths worker did not start: {error}")
        finally:
            with self._free:
                self._busy -= 1
                if worker is not None and worker.is_alive:
                    self._idle.append(worker)
                elif worker is not None:
                    worker.close()
                self._free.notify()

    def pids(self) -> list[int]:
        """Of the workers that have nothing to do."""
        with self._free:
            return [w.pid for w in self._idle]

    def close(self) -> None:
        """Ends the workers that have nothing to do; a busy one ends with its item. A later call starts new ones."""
        with self._free:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def after_fork(self) -> None:
        """In the child: the workers are the parent's, and a lock may be held by a thread that is not here."""
        for worker in self._idle:
            worker.forget()
        self._free, self._idle, self._busy = threading.Condition(), [], 0


def _end(process: "subprocess.Popen[bytes]", owner: int) -> None:
    """Kill and collect, in the process that started it only."""
    if os.getpid() != owner:
        return
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


_POOLS: "weakref.WeakSet[Pool]" = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_POOLS):
        pool.after_fork()


os.register_at_fork(after_in_child=_after_fork)
