"""Kill -9 a real training process at random points and resume it, until it ends. Run by test_crash.py in a process of its own.

    python kill_training.py FOLDER KILLS SEED

Imports once and forks each launch, so that a launch costs a second instead of ten. Prints one JSON line a kill: the steps that were
acknowledged before it (a checkpoint on disk waits for them) and those that a reader finds afterwards.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import torch

from mentor_audit import suite
from mentor_audit.config import SuiteConfig, parse_config
from mentor_audit.training import MentorGRPOTrainer

STEPS = 120


def settings(folder: Path) -> SuiteConfig:
    return parse_config(
        {
            "suite": {"name": "crash", "arms": ["mentor"], "seeds": [1]},
            "task": {"name": "chain", "num_train": 20, "num_heldout": 4},
            "learner": {"model": "embedded", "max_completion_tokens": 26, "warm_up": {"steps": 20, "gate": False, "probe_problems": 4}},
            "mentor": {"kind": "scripted", "accuracy": 0.8},
            "mentoring": {"trigger": "always"},
            "train": {
                "steps": STEPS, "problems_per_step": 2, "num_generations": 4, "learning_rate": 1e-4, "checkpoint_every": 2, "calibrate": False,
            },
            "eval": {"every": 10, "problems": 4},
            "store": {"path": str(folder / "store")},
        }
    )  # fmt: skip


def main(folder: Path, kills: int, seed: int) -> None:
    rng, config = random.Random(seed), settings(folder)
    learner = os.fork()
    if learner == 0:  # the learner is made before the deaths begin: what is killed here is training
        (folder / "store").mkdir()
        suite.learner_folder(config)
        os._exit(0)
    os.waitpid(learner, 0)
    work = folder / "store" / "work" / suite.run_id(config, "mentor", 1)
    done = 0
    while True:
        child = os.fork()
        if child == 0:
            launch(config, folder)
        began, wait, after = time.monotonic(), rng.uniform(0.5, 6.0), rng.uniform(0.0, 0.5)
        # On a fast machine no launch takes the steps of the deaths to come.
        furthest = max(STEPS * (done + 1) // (kills + 1), acknowledged(work) + 2)
        doomed = began + (wait if done < kills else 600)
        status = None
        while time.monotonic() < doomed and status is None:
            finished, code = os.waitpid(child, os.WNOHANG)
            status = code if finished else None
            if done < kills and acknowledged(work) >= furthest:
                doomed = min(doomed, time.monotonic() + after)
            time.sleep(0.005)
        if status is not None:
            print(json.dumps({"ended": os.waitstatus_to_exitcode(status), "kills": done}), flush=True)
            return
        steps = acknowledged(work)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        done += 1
        print(json.dumps({"acknowledged": steps, "found": read(folder)}), flush=True)


def acknowledged(work: Path) -> int:
    """How many steps the last checkpoint on disk stands for: it was written after the store had them."""
    checkpoint = suite.last_checkpoint(work)
    return int(checkpoint.name.rsplit("-", 1)[1]) if checkpoint else 0


def read(folder: Path) -> list[int]:
    """The whole training steps that a reader in another process finds."""
    child_read, child_write = os.pipe()
    child = os.fork()
    if child == 0:
        from mentor_audit.store import Store

        found: list[int] = []
        if (folder / "store" / "store.json").exists():
            rows = (
                Store.open(folder / "store").arrow("SELECT step FROM train_step WHERE mode = 'train' ORDER BY step").to_pylist()
            )
            found = [row["step"] for row in rows]
        os.write(child_write, json.dumps(found).encode())
        os._exit(0)
    os.close(child_write)
    with os.fdopen(child_read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def launch(config: SuiteConfig, folder: Path) -> None:
    """The child: one launch, its output in a file."""
    log = os.open(folder / "training.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 1
    try:
        torch.set_num_threads(1)
        suite.train_run(config, "mentor", 1, resume=True)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    assert MentorGRPOTrainer is not None
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
