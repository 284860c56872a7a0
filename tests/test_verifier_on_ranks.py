"""A verifier that hangs, crashes or is killed on one rank of two does not stop training, and the rows say what happened."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import tiny_model, tiny_tokenizer

from mentor_audit.config import parse_config
from mentor_audit.store import Store

ROOT = Path(__file__).parents[1]


def trained(folder: Path, how: str, deadline_seconds: float) -> Store:
    """Two steps on two ranks, each with one group of four: on rank 1 all four fail in the first step, one in the second."""
    tiny_model(hidden=32, layers=1, heads=2, vocab_size=27, positions=512).save_pretrained(folder / "tiny")
    tiny_tokenizer(27).save_pretrained(folder / "tiny")
    path = str(ROOT / "data" / "word_sums.jsonl")
    config = parse_config(
        {
            "suite": {"name": "ranks", "arms": ["vanilla"], "seeds": [1]},
            "task": {"name": "failing_task:FailingTask", "path": path, "how": how, "deadline_seconds": deadline_seconds},
            "learner": {"model": str(folder / "tiny"), "device": "cpu", "max_completion_tokens": 6},
            "train": {"steps": 2, "problems_per_step": 2, "num_generations": 4, "calibrate": False},
            "eval": {"every": 2, "problems": 2, "samples": 1},
            "store": {"path": str(folder / "store")},
        }
    )
    (folder / "settings.json").write_text(config.model_dump_json())
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "-m", "mentor_audit", "suite"]
    done = subprocess.run(
        [*command, str(folder / "settings.json"), "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tests")},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return Store.open(folder / "store")


@pytest.mark.parametrize(
    ("how", "deadline_seconds", "status", "words"),
    [
        ("hang", 1, "verifier_timeout", "no verdict within 1 s; the worker was ended"),
        ("kill", 60, "verifier_error", "the maths worker ended: killed by SIGKILL"),
        ("crash", 60, "verifier_error", "the maths worker ended: exit code 1"),
    ],
)
def test_training_goes_on_and_the_rows_say_what_happened(
    tmp_path: Path, how: str, deadline_seconds: float, status: str, words: str
) -> None:
    store = trained(tmp_path, how, deadline_seconds)
    assert store.check() == []
    rows = store.arrow("SELECT * FROM attempt ORDER BY mode DESC, step, rank, position").to_pylist()
    unscored = [r for r in rows if r["is_correct"] is None]
    assert [(r["mode"], r["step"], r["rank"], r["position"]) for r in unscored] == [
        *(("train", 0, 1, position) for position in range(4)),
        ("train", 1, 1, 0),
    ]
    assert {(r["status"], r["status_detail"], r["reward"], r["advantage"]) for r in unscored} == {(status, words, None, 0.0)}
    scored = {(r["is_correct"], r["status"], r["reward"]) for r in rows if r["is_correct"] is not None}
    assert scored == {(True, "correct", 1.0), (False, "incorrect", 0.0)}

    groups = store.arrow(
        "SELECT mode, step, rank, num_correct, num_incorrect, num_truncated, num_unscored FROM attempt_group "
        "ORDER BY mode DESC, step, rank"
    ).to_pylist()
    assert [tuple(g.values()) for g in groups] == [
        ("train", 0, 0, 2, 2, 0, 0),
        ("train", 0, 1, 0, 0, 0, 4),
        ("train", 1, 0, 2, 2, 0, 0),
        ("train", 1, 1, 1, 2, 0, 1),
        ("eval", 0, 0, 1, 0, 0, 0),
        ("eval", 0, 1, 1, 0, 0, 0),
        ("eval", 2, 0, 1, 0, 0, 0),
        ("eval", 2, 1, 1, 0, 0, 0),
    ]
    partly = [r["advantage"] for r in rows if (r["mode"], r["step"], r["rank"]) == ("train", 1, 1)]
    assert sum(partly) == pytest.approx(0, abs=1e-6), "the baseline is the mean of the rows that were scored"
    assert [a > 0 for a in partly[1:]] == [False, True, False]
    updates = store.arrow("SELECT step, grad_norm FROM train_step WHERE mode = 'train' ORDER BY step").to_pylist()
    assert [(u["step"], u["grad_norm"] > 0) for u in updates] == [(0, True), (1, True)]
