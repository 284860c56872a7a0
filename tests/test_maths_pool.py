"""Workers that hang, die or start late, and every way a verifier is called: threads, forks, pickles, scripts from stdin."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from mentor_audit.errors import TaskError
from mentor_audit.tasks.maths import MathItem, MathVerifier
from mentor_audit.tasks.maths.pool import Pool
from mentor_audit.tasks.maths.worker import _reply

HANGS = "\\boxed{\\sum_{k=1}^{10^{9}} \\frac{1}{k}}"


@pytest.fixture(scope="module")
def verifier() -> Iterator[MathVerifier]:
    with MathVerifier(deadline_s=2.0, workers=2) as made:
        made.verify("x", "\\boxed{x}")
        yield made


def busy_worker(parent: int, patience_s: float = 30.0) -> psutil.Process:
    """The child that is working, by its growing CPU time."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        children = [c for c in psutil.Process(parent).children() if "maths.worker" in " ".join(c.cmdline())]
        before = {c.pid: sum(c.cpu_times()[:2]) for c in children}
        time.sleep(0.3)
        for child in children:
            if child.is_running() and sum(child.cpu_times()[:2]) - before[child.pid] > 0.05:
                return child
    raise AssertionError("no worker is busy")


def test_only_the_answer_that_hangs_is_lost(verifier: MathVerifier) -> None:
    items = [MathItem(f"x+{i}", f"\\boxed{{{i}+x}}") for i in range(60)]
    items[10], items[11] = MathItem("5", HANGS), MathItem("6", HANGS)
    started = time.monotonic()
    found = verifier.verify_batch(items)
    seconds = time.monotonic() - started
    assert [v.status for v in found[10:12]] == ["verifier_timeout"] * 2
    assert found[10].is_correct is None and "within 2 s" in (found[10].why or "")
    assert all(v.is_correct is True for i, v in enumerate(found) if i not in (10, 11))
    assert seconds >= 2.0


def test_a_killed_worker_is_an_unscored_answer_in_words_and_is_replaced() -> None:
    with MathVerifier(deadline_s=60.0, workers=1) as verifier, ThreadPoolExecutor(1) as thread:
        verifier.verify("x", "\\boxed{x}")
        pending = thread.submit(verifier.verify, "5", HANGS)
        busy_worker(os.getpid()).send_signal(signal.SIGKILL)
        found = pending.result(timeout=60)
        assert (found.is_correct, found.status) == (None, "verifier_error") and "SIGKILL" in (found.why or "")
        assert verifier.verify("x+1", "\\boxed{1+x}").is_correct is True


def test_memory_is_limited() -> None:
    limit = 1024**3
    pool = Pool(1, memory_bytes=limit)
    assert pool.call("judge", ["x", "x+0", False], 60.0).value["is_correct"] is True
    assert psutil.Process(pool.pids()[0]).rlimit(psutil.RLIMIT_AS) == (limit, limit)
    pool.close()
    starved = Pool(1, memory_bytes=40 * 1024**2).call("judge", ["x", "x", False], 60.0)
    assert starved.kind == "error" and "did not start" in (starved.why or "")


def test_running_out_of_memory_is_said_in_words() -> None:
    def hungry() -> None:
        raise MemoryError

    assert _reply(hungry, []) == {"error": "the memory limit was reached"}


def test_verdicts_from_many_threads_at_once(verifier: MathVerifier) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(
            threads.map(lambda i: verifier.verify("\\frac{1}{3}", f"\\boxed{{\\frac{{{i}}}{{{3 * i}}}+0}}"), range(1, 40))
        )
    assert [v.status for v in found] == ["correct"] * 39
    assert threading.current_thread() is threading.main_thread()


def test_a_pickled_verifier_takes_its_settings_and_no_worker(verifier: MathVerifier) -> None:
    copy = pickle.loads(pickle.dumps(verifier))
    with copy:
        assert (copy.deadline_s, copy.workers, copy.gold_column) == (2.0, 2, "answer")
        assert copy._pool.pids() == []
        assert copy.verify("x+1", "\\boxed{1+x}").is_correct is True
    reward = pickle.loads(pickle.dumps(verifier.as_reward("gold")))
    assert reward(["\\boxed{2}"], gold=["2"]) == [1.0]


def run(script: str) -> subprocess.CompletedProcess[str]:
    """As a notebook or `python -` runs it: `__main__` has no file."""
    return subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, timeout=120, check=False)


def test_a_script_from_stdin_forks_and_leaves_no_worker_behind() -> None:
    found = run(
        "import os, psutil\n"
        "from mentor_audit.tasks.maths import MathVerifier\n"
        "v = MathVerifier(workers=1)\n"
        "print(v.verify('x+1', '\\\\boxed{1+x}').status, flush=True)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    print(v.verify('x+2', '\\\\boxed{2+x}').status, flush=True)\n"
        "    raise SystemExit\n"
        "os.waitpid(child, 0)\n"
        "print(v.verify('x+3', '\\\\boxed{3+x}').status, len(psutil.Process().children()), flush=True)\n"
        "print(v._pool.pids()[0])\n"
    )
    lines = found.stdout.split()
    assert lines[:4] == ["correct", "correct", "correct", "1"], found.stderr
    assert not psutil.pid_exists(int(lines[4]))


def test_neither_parent_nor_worker_loads_torch() -> None:
    names = "[m for m in ('torch', 'trl', 'transformers') if m in sys.modules]"
    for module in ("mentor_audit.tasks.maths", "mentor_audit.tasks.maths.worker", "mentor_audit.tasks.maths.judge"):
        assert run(f"import sys, {module}\nprint({names})").stdout.strip() == "[]"
    assert run("import sys, mentor_audit.tasks.maths\nprint('sympy' in sys.modules)").stdout.strip() == "False"


def test_starting_a_worker_is_not_counted_against_the_deadline() -> None:
    with MathVerifier(deadline_s=0.5, workers=1) as verifier:
        assert verifier.verify("x+1", "\\boxed{1+x}").is_correct is True


def test_settings_that_can_not_work_are_refused() -> None:
    with pytest.raises(TaskError, match="positive deadline"):
        MathVerifier(deadline_s=0)
    with pytest.raises(TaskError, match="positive deadline"):
        MathVerifier(workers=0)
