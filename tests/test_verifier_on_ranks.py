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


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("hang", "verifier_timeout", "no verdict within 2 s"),
        ("kill", "verifier_error", "killed by SIGKILL"),
        ("crash", "verifier_error", "killed by SIGSEGV"),
    ],
)
def test_training_goes_on_and_the_rows_say_what_happened(tmp_path: Path, how: str, status: str, words: str) -> None:
    tiny_model(hidden=32, layers=1, heads=2, vocab_size=27, positions=512).save_pretrained(tmp_path / "tiny")
    tiny_tokenizer(27).save_pretrained(tmp_path / "tiny")
    config = parse_config(
        {
            "suite": {"name": "ranks", "arms": ["vanilla"], "seeds": [1]},
            "task": {"name": "failing_task:FailingTask", "path": str(ROOT / "data" / "word_sums.jsonl"), "how": how},
            "learner": {"model": str(tmp_path / "tiny"), "device": "cpu", "max_completion_tokens": 6},
            "train": {"steps": 2, "problems_per_step": 2, "num_generations": 4, "calibrate": False},
            "eval": {"every": 2, "problems": 2, "samples": 1},
            "store": {"path": str(tmp_path / "store")},
        }
    )
    (tmp_path / "settings.json").write_text(config.model_dump_json())
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "-m", "mentor_audit", "suite"]
    done = subprocess.run(
        [*command, str(tmp_path / "settings.json"), "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tests")},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    store = Store.open(tmp_path / "store")
    assert store.check() == []
    assert store.arrow("SELECT step FROM train_step WHERE mode = 'train' ORDER BY step").to_pylist() == [{"step": 0}, {"step": 1}]
    rows = store.arrow("SELECT rank, is_correct, status, status_detail, reward FROM attempt").to_pylist()
    unscored = [r for r in rows if r["is_correct"] is None]
    assert [(r["rank"], r["status"], r["reward"]) for r in unscored] == [(1, status, None)]
    assert words in unscored[0]["status_detail"]
    assert {r["rank"] for r in rows if r["is_correct"] is False} == {0, 1}
    assert {r["reward"] for r in rows if r["is_correct"] is False} == {0.0}
    (counted,) = store.arrow("SELECT sum(num_unscored)::INT AS n FROM attempt_group").to_pylist()
    assert counted == {"n": 1}
