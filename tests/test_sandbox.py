"""The sandbox holds on this machine, in every mode that works here; and each attack on it works where nothing stops it."""

import ast
import json
import math
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mentor_audit.tasks.sandbox import NO_SANDBOX, Limits, SandboxError, available, choose, modes
from mentor_audit.tasks.sandbox.attacks import ATTACKS
from mentor_audit.tasks.sandbox.box import Box
from mentor_audit.tasks.sandbox.check import AttackResult, in_the_open, run_attacks
from mentor_audit.tasks.sandbox.inside import landlock, seccomp, values

WORKS = {one.mode: one for one in available()}
NEEDS_ROOT_OR_LEAVE = {"ptrace"}  # an ordinary user may not attach to a sibling where Yama says so


def mode_or_skip(mode: str) -> Any:
    if not WORKS[mode].works:  # type: ignore[index]
        pytest.skip(f"{mode} does not work here: {WORKS[mode].why}")  # type: ignore[index]
    return mode


@pytest.fixture(scope="module", params=["bwrap", "landlock"])
def mode(request: pytest.FixtureRequest) -> Any:
    return mode_or_skip(request.param)


@pytest.fixture(scope="module")
def attacked(mode: Any) -> dict[str, AttackResult]:
    return {result.name: result for result in run_attacks(mode)}


@pytest.fixture(scope="module")
def opened() -> dict[str, AttackResult]:
    return {result.name: result for result in in_the_open()}


@pytest.mark.parametrize("name", [attack.name for attack in ATTACKS])
def test_an_attack_is_contained(attacked: dict[str, AttackResult], name: str) -> None:
    assert attacked[name].contained, attacked[name].evidence


@pytest.mark.parametrize("name", [attack.name for attack in ATTACKS])
def test_the_attack_works_in_the_open(opened: dict[str, AttackResult], name: str) -> None:
    if name in NEEDS_ROOT_OR_LEAVE and os.getuid() != 0 and opened[name].contained:
        pytest.skip("this machine forbids it to ordinary users")
    assert not opened[name].contained, opened[name].evidence


@pytest.mark.parametrize("layer", ["landlock", "seccomp"])
def test_bwrap_holds_without_one_of_its_layers(monkeypatch: pytest.MonkeyPatch, layer: str) -> None:
    """Older kernels have no Landlock; a hole in the filter is to open nothing either."""
    mode, plan = mode_or_skip("bwrap"), modes.plan
    monkeypatch.setattr("mentor_audit.tasks.sandbox.box.plan", lambda m, limits: {**plan(m, limits), layer: False})
    names = {
        "network",
        "unix_socket",
        "read_file",
        "read_packages",
        "write_file",
        "change_file",
        "environment",
        "signal",
        "ptrace",
    }
    names |= {"daemon"} if layer == "landlock" else set()
    results = run_attacks(mode, [attack for attack in ATTACKS if attack.name in names])
    assert len(results) == len(names) and [r for r in results if not r.contained] == []


def run(mode: Any, source: str, stdin: str = "", limits: Limits | None = None) -> dict[str, Any]:
    with Box(mode, "cases", limits or Limits(cpu_seconds=2, wall_seconds=6.0)) as box:
        return box.ask(box.case("program", source=source, stdin=stdin), 20.0)


def test_a_program_has_an_empty_environment_and_three_pipes(mode: Any) -> None:
    code = """
import os
def there(n):
    try: os.fstat(n)
    except OSError: return False
    return True
print(sorted(os.environ))
print([n for n in range(200) if there(n)])
"""
    environment, descriptors = run(mode, code)["stdout"].splitlines()
    assert set(ast.literal_eval(environment)) <= {"PYTHONHASHSEED", "LC_CTYPE", "PWD"}, (
        "the last two are made by Python and bwrap"
    )
    assert json.loads(descriptors) == [0, 1, 2, 3]


def test_what_ordinary_programs_need_works(mode: Any) -> None:
    code = """
import asyncio, bisect, collections, ctypes, dataclasses, datetime, decimal, fractions, heapq, itertools, re, statistics, sys, threading
import hashlib, sqlite3, zlib, json, queue, uuid, zoneinfo
sys.setrecursionlimit(100_000)
threading.stack_size(2**26)
def main():
    def down(n): return 0 if n == 0 else 1 + down(n - 1)
    print(sum(map(int, sys.stdin.read().split())), down(20_000))
worker = threading.Thread(target=main); worker.start(); worker.join()
async def wait():
    await asyncio.sleep(0.01)
    return 5
print(asyncio.run(wait()), sqlite3.connect(':memory:').execute('select 6').fetchone(), hashlib.sha256(b'').hexdigest()[:4])
exit()
"""
    reply = run(mode, code, "1 2\n3")
    assert (reply["stdout"], reply["code"]) == ("6 20000\n5 (6,) e3b0\n", 0), reply


def test_cases_share_nothing(mode: Any) -> None:
    code = (
        "import builtins, sys, random; print(hasattr(builtins, 'seen'), random.random(), hash('x')); builtins.seen = sys.seen = 1"
    )
    with Box(mode, "cases", Limits()) as box:
        first, second = (box.ask(box.case("program", source=code, stdin=""), 20.0)["stdout"] for _ in range(2))
    assert first == second and first.startswith("False")
    assert run(mode, code)["stdout"] == first, "random numbers and the order of sets are the same every time"


def test_limits_are_reported_as_what_they_are(mode: Any) -> None:
    assert run(mode, "while True: pass", limits=Limits(cpu_seconds=1))["code"] == signal.SIGXCPU
    assert run(mode, "import time; time.sleep(60)", limits=Limits(wall_seconds=0.5))["ended"] == "wall"
    assert run(mode, "while True: print('x' * 1000)")["ended"] == "flood"
    assert json.loads(run(mode, "x = bytearray(2**30)")["result"])["oom"]


def test_threads_are_limited_where_the_kernel_counts_them(mode: Any) -> None:
    code = """
import threading, time
threading.stack_size(65536)
try:
    for _ in range(500): threading.Thread(target=time.sleep, args=(0.5,), daemon=True).start()
except RuntimeError: print('refused')
"""
    counted = modes.plan(mode, Limits())["limits_threads"]
    assert counted or (mode, os.getuid()) == ("bwrap", 0) or mode == "landlock"
    assert ("refused" in run(mode, code)["stdout"]) == counted


def test_nothing_outlives_its_box(mode: Any) -> None:
    box = Box(mode, "cases", Limits())
    assert box.ready["landlock"] >= 0
    process = box._process
    box.close()
    assert process.poll() is not None


def test_landlock_runs_as_a_user_of_its_own_when_we_are_root() -> None:
    mode = mode_or_skip("landlock")
    with Box(mode, "cases", Limits()) as box:
        uid = box.ready["uid"]
        seen = box.ask(box.case("program", source="import os; print(os.getresuid(), os.getgroups())", stdin=""), 20.0)["stdout"]
    if os.getuid() == 0:
        assert modes.FIRST_UID <= uid < modes.FIRST_UID + modes.UIDS and seen == f"({uid}, {uid}, {uid}) []\n"
    else:
        assert uid == os.getuid()


def test_without_a_sandbox_nothing_runs_unless_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = (modes.Availability("bwrap", False, "not installed"), modes.Availability("landlock", False, "switched off"))
    monkeypatch.setattr(modes, "available", lambda: reasons)
    with pytest.raises(SandboxError, match=r"bwrap: not installed; landlock: switched off.*none-i-accept-the-risk"):
        choose("auto")
    with pytest.raises(SandboxError, match="landlock: switched off"):
        choose("landlock")
    assert choose(NO_SANDBOX) == NO_SANDBOX


def test_auto_takes_the_first_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = (modes.Availability("bwrap", False, "not installed"), modes.Availability("landlock", True, "yes"))
    monkeypatch.setattr(modes, "available", lambda: reasons)
    assert choose("auto") == "landlock"


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        ("shutil.which = lambda name: None", "bwrap: the program bwrap (package bubblewrap) is not installed"),
        ("modes._bwrap = lambda: ['/bin/false']", "ended by 1"),
        (
            "landlock.abi = lambda: 0; modes.plan = (lambda old: lambda m, l: {**old(m, l), 'landlock': True, 'readable': None})(modes.plan)",
            "TypeError",
        ),
    ],
)
def test_a_mode_that_fails_says_why(breaks: str, says: str) -> None:
    """In a fresh process: what works is found out once a process."""
    code = f"import shutil\nfrom mentor_audit.tasks.sandbox import modes\nfrom mentor_audit.tasks.sandbox.inside import landlock\n{breaks}\n"
    found = subprocess.run(
        [sys.executable, "-c", code + "print(modes.available())"], capture_output=True, text=True, check=True
    ).stdout
    assert "works=False" in found and says.removeprefix("bwrap: ") in found


def test_a_candidate_is_told_apart_from_a_sandbox_that_failed(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = modes.plan
    monkeypatch.setattr("mentor_audit.tasks.sandbox.box.plan", lambda m, limits: {**plan(m, limits), "memory_bytes": "much"})
    with pytest.raises(SandboxError, match=r"Expected a child of .* to be confined, found: TypeError"):
        run(mode, "print(1)")


def test_the_filter_lists_calls_for_both_architectures() -> None:
    for column in (0, 1):
        numbers = seccomp._plain_numbers(column)
        assert len(numbers) == len(set(numbers)) > 90
    forbidden_on_x86 = {41, 42, 57, 58, 59, 101, 310, 311, 322, 425, 426, 437, 272, 308, 165, 29, 319}
    assert not forbidden_on_x86 & set(seccomp._plain_numbers(0))
    forbidden_on_arm = {198, 203, 221, 117, 270, 271, 281, 97, 268, 40, 194, 279, 425, 437}
    assert not forbidden_on_arm & set(seccomp._plain_numbers(1))


def test_a_machine_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert not seccomp.supported()
    with pytest.raises(OSError, match="no seccomp filter for riscv64"):
        seccomp.program(1)


def test_landlock_says_when_the_kernel_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    with pytest.raises(OSError, match="no Landlock"):
        landlock.restrict(["/usr"])


VALUES = [
    None, True, 0, -1, 2**63, -(10**400), 1.5, math.inf, -math.inf, "a\n\ud800é", [], [[1], (2, [3])], (), {1, "a"}, frozenset({(1, 2)}),
    {"a": 1, 2: None, (1, 2): {3}}, b"\x00\xff", 1 + 2j, complex(math.inf, 0), {"t": [1]},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=[str(i) for i in range(len(VALUES))])
def test_plain_values_travel_unharmed(value: Any) -> None:
    back = values.loads(values.dumps(value))
    assert back == value and type(back) is type(value)


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    "value",
    [Liar(3), [Liar(3)], {"a": (Liar(3),)}, object(), range(3), iter([]), print],
    ids=["int", "list", "dict", "object", "range", "iterator", "function"],
)
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(values.NotPlain) as error:
        values.dumps(value)
    assert (error.value.overrides == "__eq__") == ("Liar" in str(error.value))


def test_a_value_within_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(values.NotPlain, match="within itself"):
        values.dumps(value)


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", '{"x": 1}', "{}", '{"i": 3}', '{"t": 1}', '{"f": "one"}', '{"t": [], "s": []}', "", "[" * 99_999]
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        values.loads(text)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (2, 2.0, True), (True, 1, False), (1, True, False), (False, 0.0, False), (True, True, True), ([True], [1], False),
        ({"a": True}, {"a": 1}, False), ({True}, {1}, False), ({True: 0}, {1: 0}, False), ([1], (1,), False), ((1, 2.0), (1.0, 2), True),
        ({1, 2}, frozenset({2, 1}), True), ({"a": [1], "b": 2}, {"b": 2, "a": [1.0]}, True), (math.nan, math.nan, False), ([math.nan], [math.nan], False),
        ("1", 1, False), (None, False, False), (0.1 + 0.2, 0.3, False), ("a", b"a", False), ([], {}, False),
    ],
)  # fmt: skip
def test_same_is_equality_without_truth_values_for_numbers(a: Any, b: Any, expected: bool) -> None:
    assert values.same(a, b) is expected


def test_boxes_work_side_by_side(mode: Any) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert [r["stdout"] for r in pool.map(lambda n: run(mode, f"print({n})"), range(8))] == [f"{n}\n" for n in range(8)]


def test_opting_out_still_limits_and_cleans_up() -> None:
    """Not a sandbox: the same limits of time, memory and output, and the processes below are killed."""
    reply = run(NO_SANDBOX, "import os, sys\nif os.fork() == 0:\n    import time; time.sleep(60)\nprint('forked')")
    assert reply["stdout"] == "forked\n"
    assert run(NO_SANDBOX, "while True: pass", limits=Limits(cpu_seconds=1))["ended"] == "killed"
    found = {r.name: r for r in run_attacks(NO_SANDBOX, [a for a in ATTACKS if a.name in ("network", "daemon", "memory")])}
    assert not found["network"].contained and found["memory"].contained
