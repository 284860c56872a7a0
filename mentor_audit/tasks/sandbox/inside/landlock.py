"""Landlock: files outside the given paths can't be opened at all, the given ones only be read; where the kernel is new enough, TCP and
signals to processes outside are refused as well. Nobody needs to be root for it."""

import ctypes
import os
import stat
import struct
from collections.abc import Sequence

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_RULE_PATH_BENEATH = 1
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_PR_SET_NO_NEW_PRIVS = 38
_FILE_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NET_FROM_ABI, _SCOPE_FROM_ABI = 4, 6


def abi() -> int:
    """The kernel's Landlock version; 0: it has none, or it is switched off."""
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def restrict(readable: Sequence[str]) -> int:
    """Confine this process and all that it starts; returns the version that was used. Raises OSError where the kernel refuses.

    A path that isn't there is left out: it could not be read anyway.
    """
    libc, version = ctypes.CDLL(None, use_errno=True), abi()
    if version < 1:
        raise OSError("the kernel has no Landlock, or it is switched off")
    files = (1 << _FILE_RIGHTS_BY_ABI.get(version, 16)) - 1
    net = 0b11 if version >= _NET_FROM_ABI else 0
    scoped = 0b11 if version >= _SCOPE_FROM_ABI else 0
    attributes = struct.pack("=QQQ", files, net, scoped)[: 24 if scoped else 16 if net else 8]
    ruleset = _checked(libc, libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0), "make a ruleset")
    for path in readable:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rights = _READ_FILE | (_READ_DIR | _EXECUTE if stat.S_ISDIR(os.fstat(handle).st_mode) else _EXECUTE)
        rule = struct.pack("=Qi", rights, handle)
        _checked(libc, libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0), f"allow {path}")
        os.close(handle)
    _checked(libc, libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give up new privileges")
    _checked(libc, libc.syscall(_RESTRICT_SELF, ruleset, 0), "restrict the process")
    os.close(ruleset)
    return version


def _checked(libc: ctypes.CDLL, result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock can't {what}: {os.strerror(number)}")
    return result
