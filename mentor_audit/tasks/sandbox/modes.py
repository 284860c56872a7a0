"""How a child is confined on this machine, and which ways work here.

`bwrap` (bubblewrap: namespaces, an almost empty file system) where it can make them; `landlock` (Landlock, and a user of its own when we
are root) where it can't. Both add the same seccomp filter and resource limits, so a candidate may do the same in either. Where neither
works nothing runs, unless the user names `none-i-accept-the-risk`.
"""

import functools
import os
import secrets
import shutil
import site
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mentor_audit.errors import TaskError
from mentor_audit.tasks.sandbox.inside import landlock, seccomp

Mode = Literal["bwrap", "landlock", "none-i-accept-the-risk"]
Setting = Literal["auto", "bwrap", "landlock", "none-i-accept-the-risk"]
NO_SANDBOX: Mode = "none-i-accept-the-risk"
PYTHON_OPTIONS = ["-s", "-S", "-P", "-B", "-X", "utf8"]
INSIDE = Path(__file__).parent / "inside"
BOUND_AT = "/sandbox"
FIRST_UID, UIDS = 61_184, 4_336  # the range that systemd keeps for passing users; uid_t itself is no limit
ENVIRONMENT = {"PYTHONHASHSEED": "0"}


class SandboxError(TaskError):
    """The sandbox itself failed: says nothing about the candidate."""


@dataclass(frozen=True)
class Limits:
    """Of one case: processor and wall seconds, MiB of address space, bytes of output. Of one attempt: wall seconds over all its cases."""

    cpu_seconds: int = 5
    wall_seconds: float = 15.0
    attempt_seconds: float = 60.0
    memory_mib: int = 512
    output_bytes: int = 2**20


@dataclass(frozen=True)
class Availability:
    """Whether a mode works here; `why` is what it does, or why it doesn't."""

    mode: Mode
    works: bool
    why: str


def choose(setting: Setting) -> Mode:
    """The mode to run with. Raises SandboxError, with every reason, where it doesn't work here."""
    if setting == NO_SANDBOX:
        return NO_SANDBOX
    found = [a for a in available() if setting in ("auto", a.mode)]
    for one in found:
        if one.works:
            return one.mode
    raise SandboxError(
        f"Expected a sandbox for code that a model wrote (sandbox = {setting!r}), found none that works here: "
        + "; ".join(f"{a.mode}: {a.why}" for a in found)
        + f'. Install bubblewrap, use a kernel with Landlock, or accept that such code can do all that you can: sandbox = "{NO_SANDBOX}".'
    )


@functools.cache
def available() -> tuple[Availability, ...]:
    """Tried, not guessed: each mode starts and confines a child. Best first; once a process."""
    return tuple(_try(mode) for mode in ("bwrap", "landlock"))


def command(mode: Mode, program: Literal["cases", "tests"], plan: dict[str, Any]) -> list[str]:
    """The command line of a child that runs `inside/<program>.py`."""
    folder = BOUND_AT if mode == "bwrap" else str(INSIDE.parent)
    start = f"import sys; sys.path.insert(0, {folder!r}); from inside import {program}; sys.path.pop(0); {program}.main({plan!r})"
    python = [_python(), *PYTHON_OPTIONS, "-c", start]
    return [*_bwrap(), "--", *python] if mode == "bwrap" else python


def plan(mode: Mode, limits: Limits) -> dict[str, Any]:
    """What `inside.confine` is to do."""
    separate = mode == "landlock" and os.getuid() == 0
    return {
        "landlock": mode == "landlock" or (mode == "bwrap" and landlock.abi() > 0),
        "readable": _readable(),
        "seccomp": mode != NO_SANDBOX,
        "uid": FIRST_UID + int.from_bytes(os.urandom(4), "big") % UIDS if separate else None,
        "reads_as_root": separate and not _anyone_can_read(Path(_python())),
        "limits_threads": separate or (mode == "bwrap" and os.getuid() != 0),  # the kernel counts no threads of root
        "memory_bytes": limits.memory_mib * 2**20,
        "mark": secrets.token_hex(8),  # on the child's command line: by it all that it started is found
    }


def _bwrap() -> list[str]:
    bound = [part for root in _roots() for part in ("--ro-bind", root, root)]
    masks = [part for path in _hidden() for part in ("--tmpfs", path, "--remount-ro", path)]
    return [
        shutil.which("bwrap") or "bwrap",
        *["--unshare-user", "--unshare-all", "--disable-userns", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"],
        *["--new-session", "--die-with-parent", "--as-pid-1", "--hostname", "sandbox"],
        *bound,
        *masks,
        *["--ro-bind", str(INSIDE), f"{BOUND_AT}/inside"],
        *["--dev-bind", "/dev/null", "/dev/null", "--dev-bind", "/dev/urandom", "/dev/urandom"],
        *["--remount-ro", "/", "--chdir", "/"],
    ]


def _python() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _roots() -> list[str]:
    """What a Python child has to read: its executable, the standard library, shared libraries, time zones."""
    base = Path(sys.base_prefix)
    wanted = [_python(), *(str(base / lib) for lib in ("lib", "lib64")), "/lib", "/lib64", "/usr/lib", "/usr/lib64"]
    wanted += [os.path.dirname(os.__file__), "/usr/share/zoneinfo", "/etc/ld.so.cache"]
    return [path for path in dict.fromkeys(wanted) if os.path.exists(path)]


@functools.cache
def _hidden() -> tuple[str, ...]:
    """Installed packages below the roots: they may hold data sets with the very tests and answers."""
    found = {str(p) for root in _roots() for p in Path(root).glob("python*/*-packages")}
    found |= {p for p in site.getsitepackages() if any(p.startswith(root + "/") for root in _roots())}
    return tuple(sorted(p for p in found if os.path.isdir(p)))


@functools.cache
def _readable() -> tuple[str, ...]:
    """The roots for Landlock, which can't take a part away again: a folder with a hidden one below is given entry by entry."""
    hidden = {os.path.realpath(path) for path in _hidden()}

    def parts(path: str) -> list[str]:
        if path in hidden:
            return []
        if not any(h.startswith(path + "/") for h in hidden):
            return [path]
        return [part for entry in sorted(os.scandir(path), key=lambda e: e.name) for part in parts(os.path.realpath(entry.path))]

    found = [part for root in _roots() for part in parts(os.path.realpath(root))]
    return tuple(dict.fromkeys([*found, "/dev/null", "/dev/urandom", BOUND_AT]))


def _anyone_can_read(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


def _try(mode: Mode) -> Availability:
    from mentor_audit.tasks.sandbox.box import Box

    if not sys.platform.startswith("linux") or not seccomp.supported():
        return Availability(
            mode, False, f"the filter of system calls is known for Linux on x86_64 and aarch64, found {sys.platform}"
        )
    if mode == "bwrap" and shutil.which("bwrap") is None:
        return Availability(mode, False, "the program bwrap (package bubblewrap) is not installed")
    try:
        with Box(mode, "cases", Limits()) as box:
            reply = box.ask(box.case("program", source="print(6 * 7)", stdin=""), 20.0)
    except SandboxError as error:
        return Availability(mode, False, str(error))
    if reply["stdout"] != "42\n":
        return Availability(mode, False, f"a child that should print 42 said {reply!r}")
    parts = ["seccomp"] + ([f"Landlock {box.ready['landlock']}"] if box.ready["landlock"] else [])
    own = "namespaces" if mode == "bwrap" else "its own user" if box.ready["uid"] != os.getuid() else "our user"
    return Availability(mode, True, f"{own}, {', '.join(parts)}")
