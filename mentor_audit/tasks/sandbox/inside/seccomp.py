"""The seccomp filter of a candidate: the system calls that a Python program needs, and no others.

It refuses, among everything else that is not listed: sockets, new processes, running a program, signals to other processes, ptrace,
reading another process's memory, namespaces, mounts, shared memory that outlives the process, and opening a file for writing. A
refused call fails with EPERM; `clone3` with ENOSYS, so that the C library falls back to `clone`, whose flags can be looked at.
"""

import ctypes
import os
import platform
import struct
from typing import NamedTuple

_PLAIN = """
read 0 63 | write 1 64 | readv 19 65 | writev 20 66 | pread64 17 67 | pwrite64 18 68 | preadv 295 69
pwritev 296 70 | close 3 57 | close_range 436 436 | lseek 8 62 | flock 73 32 | dup 32 23 | dup2 33 - | dup3 292 24
pipe 22 - | pipe2 293 59 | eventfd 284 - | eventfd2 290 19 | stat 4 - | fstat 5 80 | lstat 6 - | newfstatat 262 79
statx 332 291 | access 21 - | faccessat 269 48 | faccessat2 439 439 | readlink 89 - | readlinkat 267 78
getdents 78 - | getdents64 217 61 | getcwd 79 17 | chdir 80 49 | fchdir 81 50 | statfs 137 43 | fstatfs 138 44
fadvise64 221 223 | umask 95 166 | mmap 9 222 | munmap 11 215 | mprotect 10 226 | mremap 25 216 | madvise 28 233
msync 26 227 | mincore 27 232 | brk 12 214 | poll 7 - | ppoll 271 73 | select 23 - | pselect6 270 72
epoll_create 213 - | epoll_create1 291 20 | epoll_ctl 233 21 | epoll_wait 232 - | epoll_pwait 281 22
epoll_pwait2 441 441 | sendto 44 206 | recvfrom 45 207 | sendmsg 46 211 | recvmsg 47 212 | shutdown 48 210
getsockname 51 204 | getpeername 52 205 | getsockopt 55 209 | setsockopt 54 208 | rt_sigaction 13 134
rt_sigprocmask 14 135 | rt_sigreturn 15 139 | rt_sigpending 127 136 | rt_sigsuspend 130 133
rt_sigtimedwait 128 137 | sigaltstack 131 132 | signalfd 282 - | signalfd4 289 74 | pause 34 - | alarm 37 -
getitimer 36 102 | setitimer 38 103 | timer_create 222 107 | timer_settime 223 110 | timer_gettime 224 108
timer_getoverrun 225 109 | timer_delete 226 111 | timerfd_create 283 85 | timerfd_settime 286 86
timerfd_gettime 287 87 | nanosleep 35 101 | clock_nanosleep 230 115 | clock_gettime 228 113 | clock_getres 229 114
gettimeofday 96 169 | time 201 - | times 100 153 | futex 202 98 | set_robust_list 273 99 | get_robust_list 274 100
set_tid_address 218 96 | rseq 334 293 | membarrier 324 283 | sched_yield 24 124 | sched_getaffinity 204 123
sched_getparam 143 121 | sched_getscheduler 145 120 | sched_get_priority_max 146 125
sched_get_priority_min 147 126 | getcpu 309 168 | arch_prctl 158 - | restart_syscall 219 128 | getpid 39 172
getppid 110 173 | gettid 186 178 | getuid 102 174 | geteuid 107 175 | getgid 104 176 | getegid 108 177
getgroups 115 158 | getresuid 118 148 | getresgid 120 150 | getpgid 121 155 | getpgrp 111 - | getsid 124 156
getpriority 140 141 | getrlimit 97 163 | getrusage 98 165 | uname 63 160 | sysinfo 99 179 | getrandom 318 278
exit 60 93 | exit_group 231 94
"""
"""Allowed whatever their arguments: name, number on x86_64, number on aarch64 (from the kernel's headers; - where there is none)."""

_OPEN_FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)
_CLONE_THREAD = 0x0001_0000
_CLONE_NEW = 0x7E02_0000  # every CLONE_NEW* flag that clone takes
_AF_UNIX = 1
_FCNTL = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    1030,
    1032,
)  # descriptors, flags, locks, pipe size; not F_SETOWN and F_SETSIG, which send signals
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX

_ALLOW, _EPERM, _ENOSYS, _KILL = 0x7FFF_0000, 0x0005_0001, 0x0005_0026, 0x8000_0000
_LOAD, _AND, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2


class _Rule(NamedTuple):
    """A call that is allowed when `argument & mask` is one of `values`. The kernel itself reads only the low 32 bits of these."""

    numbers: tuple[int | None, int | None]
    argument: int
    mask: int
    values: tuple[int, ...]


def supported() -> bool:
    return platform.machine() in _ARCHITECTURES


def program(pid: int) -> bytes:
    """The filter as BPF for the process `pid` (as it sees itself). Raises OSError on a machine whose call numbers aren't known here."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(f"no seccomp filter for {machine}: known are {', '.join(_ARCHITECTURES)}")
    column = list(_ARCHITECTURES).index(machine)
    code = [_op(_LOAD, _ARCHITECTURE_AT), _op(_JUMP_IF_EQUAL, _ARCHITECTURES[machine], 1, 0), _op(_RETURN, _KILL)]
    code.append(_op(_LOAD, _NUMBER_AT))
    for number in _plain_numbers(column):
        code += [_op(_JUMP_IF_EQUAL, number, 0, 1), _op(_RETURN, _ALLOW)]
    for rule in _rules(pid):
        if rule.numbers[column] is not None:
            code += _checked(rule, column)
    code += [_op(_JUMP_IF_EQUAL, 435, 0, 1), _op(_RETURN, _ENOSYS), _op(_RETURN, _EPERM)]
    return b"".join(code)


def install(filter_program: bytes) -> None:
    """For this thread and all that it starts, for good. Raises OSError where the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(filter_program, len(filter_program))
    header = struct.pack("@HP", len(filter_program) // 8, ctypes.addressof(buffer))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, header, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel refused the seccomp filter: {os.strerror(number)}")


def _rules(pid: int) -> list[_Rule]:
    everything = 0xFFFF_FFFF
    return [
        _Rule((2, None), 1, _OPEN_FOR_WRITING, (0,)),  # open
        _Rule((257, 56), 2, _OPEN_FOR_WRITING, (0,)),  # openat
        _Rule((56, 220), 0, _CLONE_THREAD | _CLONE_NEW, (_CLONE_THREAD,)),  # clone: threads only
        _Rule((62, 129), 0, everything, (pid,)),  # kill: itself
        _Rule((234, 131), 0, everything, (pid,)),  # tgkill: its own threads
        _Rule((302, 261), 0, everything, (0, pid)),  # prlimit64: its own limits
        _Rule((53, 199), 0, everything, (_AF_UNIX,)),  # socketpair: event loops wake themselves with one
        _Rule((72, 25), 1, everything, _FCNTL),
        _Rule((16, 29), 1, everything, _IOCTL),
    ]


def _checked(rule: _Rule, column: int) -> list[bytes]:
    """Entered with the call's number loaded. A call with another number leaves with it still loaded."""
    checks = [part for value in rule.values for part in (_op(_JUMP_IF_EQUAL, value, 0, 1), _op(_RETURN, _ALLOW))]
    body = [_op(_LOAD, _ARGUMENTS_AT + 8 * rule.argument), _op(_AND, rule.mask), *checks, _op(_RETURN, _EPERM)]
    return [_op(_JUMP_IF_EQUAL, rule.numbers[column] or 0, 0, len(body)), *body]


def _plain_numbers(column: int) -> list[int]:
    cells = [cell.split() for line in _PLAIN.strip().splitlines() for cell in line.split("|")]
    return [int(cell[1 + column]) for cell in cells if cell[1 + column] != "-"]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
