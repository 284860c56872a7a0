"""One confined child and the messages to it. The parent's side: it trusts the processes of `inside/`, never what a candidate said."""

import contextlib
import json
import os
import secrets
import select
import subprocess
import time
from types import TracebackType
from typing import Any, Literal

import psutil

from mentor_audit.tasks.sandbox.modes import ENVIRONMENT, NO_SANDBOX, Limits, Mode, SandboxError, command, plan

START_SECONDS = 30.0
MESSAGE_BYTES = 64 * 2**20


class BoxTimeout(SandboxError):
    """No message in time."""


class Box:
    """A child that runs `inside/cases.py` or `inside/tests.py`. Use it as a context: leaving it ends the child and all below it.

    `ready` says how the child is confined: Landlock's version (0: without) and user id. `mark` is on its command line. The thread that opens a box has to outlive it.
    """

    def __init__(self, mode: Mode, program: Literal["cases", "tests"], limits: Limits) -> None:
        """Starts the child without waiting for it; raises SandboxError when it can't be started at all."""
        self._mode, self._program, self._limits, self._buffer = mode, program, limits, b""
        self._ready: dict[str, Any] | None = None
        confinement = plan(mode, limits)
        self.mark = str(confinement["mark"])
        try:
            self._process = subprocess.Popen(
                command(mode, program, confinement),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(
                f"Expected to start a child ({mode}), found: {error}. Check memory and the number of processes."
            ) from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._in, self._out, self._err = (p.fileno() for p in (self._process.stdin, self._process.stdout, self._process.stderr))
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)

    @property
    def ready(self) -> dict[str, Any]:
        """Waits for the child to be confined. Raises SandboxError when it didn't get there."""
        if self._ready is None:
            self._ready = self._line(time.monotonic() + START_SECONDS)["ready"]
        return self._ready

    def case(self, kind: Literal["call", "program"], *, source: str, preamble: str = "", **more: Any) -> dict[str, Any]:
        """A request to `inside/cases.py` within the limits; the nonce in it is fresh."""
        limits = self._limits
        return {
            "kind": kind,
            "source": source,
            "preamble": preamble,
            "nonce": secrets.token_hex(16),
            "cpu_seconds": limits.cpu_seconds,
            "wall_seconds": limits.wall_seconds,
            "output_bytes": limits.output_bytes,
            **more,
        }

    def ask(self, case: dict[str, Any], seconds: float) -> dict[str, Any]:
        """One case and its reply. Raises SandboxError; BoxTimeout when the child itself, which has limits of its own, doesn't answer."""
        self.send(case, seconds)
        reply = self.receive(seconds)
        if reply.get("nonce") != case["nonce"]:
            raise SandboxError(
                "Expected the reply to this case, found that to another. This is a mistake of the sandbox: report it."
            )
        if reply["broken"] is not None:
            raise SandboxError(
                f"Expected a child of {self._mode} to be confined, found: {reply['broken']}. `available()` says what works here."
            )
        return reply

    def send(self, message: dict[str, Any], seconds: float) -> None:
        assert self.ready is not None
        view, deadline = memoryview(json.dumps(message).encode() + b"\n"), time.monotonic() + seconds
        while view:
            if not select.select([], [self._in], [], max(0.0, deadline - time.monotonic()))[1]:
                raise BoxTimeout(f"Expected the child ({self._program}) to take a message within {seconds:g} s, found it busy.")
            try:
                view = view[os.write(self._in, view) :]
            except BrokenPipeError:
                raise self._gone() from None

    def receive(self, seconds: float) -> dict[str, Any]:
        assert self.ready is not None
        return self._line(time.monotonic() + seconds)

    def _line(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._buffer[-65_536:]:
            if not select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise BoxTimeout(f"Expected an answer of the child ({self._program}) in time, found none.")
            data = os.read(self._out, 65_536)
            self._buffer += data
            if not data or len(self._buffer) > MESSAGE_BYTES:
                raise self._gone()
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _gone(self) -> SandboxError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        try:
            said = os.read(self._err, 65_536).decode("utf-8", "replace").strip().splitlines()
        except BlockingIOError:
            said = []
        last = said[-1][:300] if said else "no message"
        return SandboxError(
            f"Expected the child ({self._program}, {self._mode}) to go on, found it ended by {self._process.poll()}: {last}"
        )

    def close(self) -> None:
        """Kills the child and, where no kernel rule forbade it others, everything below it that can still be found."""
        if self._mode == NO_SANDBOX:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in psutil.Process(self._process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()

    def __enter__(self) -> "Box":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
