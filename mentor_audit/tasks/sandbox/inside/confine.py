"""What a process in the sandbox gives up: at its start files, user and privileges; a candidate also system calls and resources."""

import ctypes
import os
import resource
import signal
import struct
import sys
from typing import Any

from . import landlock, seccomp

DESCRIPTORS = 64
THREADS = 64
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_CHILD_SUBREAPER = 1, 4, 8, 36
_CAP_DAC_READ_SEARCH = 2
_CAPABILITY_VERSION_3 = 0x2008_0522
_CAPSET = {"x86_64": 126, "aarch64": 91}


def enter(plan: dict[str, Any]) -> dict[str, Any]:
    """Once a process, before it knows anything of a problem. Returns what was done: `landlock` (version or 0), `uid`.

    `plan` is `modes.plan()`. Raises OSError where the kernel refuses, so that nothing runs half confined.
    """
    done = {"landlock": landlock.restrict(plan["readable"]) if plan["landlock"] else 0}
    if plan["uid"] is not None:
        _become(plan["uid"], plan["reads_as_root"])
    _prctl(_PR_SET_DUMPABLE, 0)  # /proc/<this process> belongs to nobody, and nothing can attach
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return {**done, "uid": os.getuid()}


def limit(plan: dict[str, Any], cpu_seconds: int) -> None:
    """The last thing before foreign code runs: resources, then system calls. None of it can be undone."""
    die_with_parent()
    memory = plan["memory_bytes"]
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: DESCRIPTORS,
        **({resource.RLIMIT_NPROC: THREADS} if plan["limits_threads"] else {}),
    }
    for what, most in limits.items():
        resource.setrlimit(what, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    if plan["seccomp"]:
        seccomp.install(seccomp.program(os.getpid()))


def die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _become(uid: int, reads_as_root: bool) -> None:
    """Another user without groups. With `reads_as_root` it keeps the one capability to read files, because Python's own library lies
    where only root can look; Landlock then says which files."""
    if reads_as_root:
        _prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if reads_as_root:
        header, kept = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 1 << _CAP_DAC_READ_SEARCH
        sets = struct.pack("=6I", kept, kept, 0, 0, 0, 0)
        if ctypes.CDLL(None, use_errno=True).syscall(_CAPSET[os.uname().machine], header, sets):
            raise OSError(ctypes.get_errno(), "can't keep the capability to read Python's library, which only root can reach")


def _prctl(what: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(what, value, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({what}, {value}) failed on {sys.platform}: {os.strerror(number)}")
