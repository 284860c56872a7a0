"""Does the sandbox hold on this very machine? Each attack is tried for real; `in_the_open` shows that it works where nothing stops it."""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from mentor_audit.tasks.sandbox.attacks import ATTACKS, FLOOD_MIB, MEMORY_STEP_MIB, REACHED, Attack
from mentor_audit.tasks.sandbox.box import Box
from mentor_audit.tasks.sandbox.modes import Limits, Mode, Setting, choose

LIMITS = Limits(cpu_seconds=1, wall_seconds=3.0, attempt_seconds=30.0, memory_mib=256, output_bytes=2**20)
STEPS = 8
KERNEL_SECONDS = 1.0  # the kernel ends a process name space a moment after the process that made it
_VICTIM = "import ctypes, signal; ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0); signal.signal(10, signal.SIG_IGN); print(1, flush=True); input()"


@dataclass(frozen=True)
class AttackResult:
    """`contained`: it did not get what it wanted. `evidence` is what became of it."""

    name: str
    tried: str
    contained: bool
    evidence: str


@dataclass(frozen=True)
class Target:
    """What stands by to be attacked."""

    folder: Path
    port: int
    victim: int

    def program(self, attack: Attack) -> str:
        (self.folder / "deletable").touch()
        names = {
            "PORT": self.port,
            "SOCKET": str(self.folder / "socket"),
            "SECRET_FILE": str(self.folder / "secret"),
            "PACKAGE_FILE": psutil.__file__,
            "WRITABLE": str(self.folder / "written"),
            "DELETABLE": str(self.folder / "deletable"),
            "VICTIM": self.victim,
            "STEP": MEMORY_STEP_MIB * 2**20,
            "STEPS": STEPS,
            "FLOOD": FLOOD_MIB,
        }
        head = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        return f"def won(): print({REACHED!r}, flush=True)\n{head}{attack.code}"


def run_attacks(mode: Setting | None = None, attacks: Sequence[Attack] = ATTACKS) -> list[AttackResult]:
    """Every attack in the sandbox, None: the one that `auto` takes. Raises SandboxError when the mode doesn't work here."""
    chosen: Mode = choose(mode or "auto")
    with _target() as target:
        return [_in_sandbox(attack, target, chosen) for attack in attacks]


def in_the_open(attacks: Sequence[Attack] = ATTACKS) -> list[AttackResult]:
    """The same attacks from an ordinary Python process. A contained one proves nothing about the sandbox on this machine."""
    with _target() as target:
        return [_in_the_open(attack, target) for attack in attacks]


def _in_sandbox(attack: Attack, target: Target, mode: Mode) -> AttackResult:
    with Box(mode, "cases", LIMITS) as box:
        reply = box.ask(box.case("program", source=target.program(attack), stdin=""), LIMITS.wall_seconds + 20.0)
    left = _left_behind(box.mark)
    printed = str(reply["stdout"])
    contained = REACHED not in printed and len(printed) <= LIMITS.output_bytes + 65_536 and not left
    how = {"wall": f"killed after {LIMITS.wall_seconds:g} s", "flood": f"killed after {len(printed)} bytes"}
    evidence = how.get(reply["ended"]) or f"{reply['ended']}, {reply['code']}, after {reply['cpu_seconds']:.1f} s of processor"
    said = _said(reply["result"])
    return AttackResult(attack.name, attack.tried, contained, f"{evidence}; {said}" if said else evidence)


def _said(result: str | None) -> str:
    """The exception that ended the attack, if one did."""
    try:
        found = json.loads(result or "{}")
        return f"{found['raised']}: {found['text']}"[:200] if "raised" in found else ""
    except (ValueError, TypeError, KeyError):
        return (result or "")[:200]


def _in_the_open(attack: Attack, target: Target) -> AttackResult:
    child = subprocess.Popen(
        [sys.executable, "-c", target.program(attack)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    try:
        out, running = child.communicate(timeout=20.0 if attack.ends_by_itself else LIMITS.cpu_seconds * 2.0)[0], False
    except subprocess.TimeoutExpired:
        child.kill()
        out, running = child.communicate()[0], True
    finally:
        _left_behind(str(target.folder))
    contained = not running if not attack.ends_by_itself else REACHED.encode() not in out
    return AttackResult(attack.name, attack.tried, contained, "still running" if running else f"ended by {child.returncode}")


def _left_behind(mark: str) -> list[int]:
    """Processes with the mark on their command line that are still there after a second; they are killed."""
    deadline = time.monotonic() + KERNEL_SECONDS
    while (found := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.01)
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return [process.pid for process in found]


def _marked(mark: str) -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if any(mark in part for part in p.info["cmdline"] or [])]


@contextlib.contextmanager
def _target() -> Iterator[Target]:
    with (
        tempfile.TemporaryDirectory(prefix="mentor-audit-check-") as name,
        socket.socket() as tcp,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "secret").write_text("secret")
        (folder / "secret").chmod(0o600)
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(8)
        unix.bind(str(folder / "socket"))
        unix.listen(8)
        (folder / "socket").chmod(0o777)
        victim = subprocess.Popen(
            [sys.executable, "-c", _VICTIM],
            env={"SANDBOX_CHECK_SECRET": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert victim.stdout is not None
            victim.stdout.readline()
            yield Target(folder, tcp.getsockname()[1], victim.pid)
        finally:
            victim.kill()
            victim.communicate()
