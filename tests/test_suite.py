"""A short suite from settings to report: in worker processes, on two ranks, and again after an interruption."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mentor_audit.config import SuiteConfig, parse_config
from mentor_audit.errors import ConfigError, TrainingError
from mentor_audit.report import build_report
from mentor_audit.store import Store
from mentor_audit.suite import RunProgress, last_checkpoint, run_suite, train_run

ARMS = ["vanilla", "resample", "wrong", "mentor"]


def settings(folder: Path, **more: Any) -> SuiteConfig:
    values: dict[str, Any] = {
        "suite": {"name": "short", "arms": ARMS, "seeds": [1], "workers": 2},
        "task": {"name": "chain", "num_train": 16, "num_heldout": 6},
        "learner": {
            "model": "embedded",
            "max_completion_tokens": 26,
            "warm_up": {"steps": 200, "gate": False, "probe_problems": 4},
        },
        "mentor": {"kind": "scripted", "accuracy": 0.8},
        "train": {"steps": 3, "problems_per_step": 4, "num_generations": 4, "learning_rate": 1e-4},
        "eval": {"every": 2, "problems": 4, "samples": 2},
        "store": {"path": str(folder / "store")},
    }
    for section, changed in more.items():
        values[section] = {**values.get(section, {}), **changed}
    return parse_config(values)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[SuiteConfig, Store, list[RunProgress]]:
    config = settings(tmp_path_factory.mktemp("suite"))
    news: list[RunProgress] = []
    return config, run_suite(config, news.append), news


def test_every_arm_is_trained_and_evaluated_in_its_own_process(finished: tuple[SuiteConfig, Store, list[RunProgress]]) -> None:
    _, store, news = finished
    assert [run.arm for run in store.registry.runs()] == sorted(ARMS)
    assert {n.run_id for n in news if n.state == "ended"} == {f"short-{arm}-s1" for arm in ARMS}
    rows = store.arrow("SELECT run_id, mode, list(step ORDER BY step) AS steps FROM train_step GROUP BY ALL").to_pylist()
    assert len(rows) == 8
    assert {r["mode"]: r["steps"] for r in rows} == {"train": [0, 1, 2], "eval": [0, 2, 3]}
    pids = {launch.pid for launch in store.registry.launches()}
    assert len(pids) == len(ARMS)
    assert os.getpid() not in pids
    assert store.check() == []


def test_arms_of_a_seed_see_the_same_problems_and_start_from_the_same_accuracy(
    finished: tuple[SuiteConfig, Store, list[RunProgress]],
) -> None:
    _, store, _ = finished
    orders = store.arrow(
        "SELECT run_id, list(problem_id ORDER BY step, group_id) AS problems FROM attempt_group WHERE mode = 'train' GROUP BY run_id"
    ).to_pylist()
    assert len({tuple(row["problems"]) for row in orders}) == 1
    starts = store.arrow(
        "SELECT run_id, list(completion ORDER BY group_id, position) AS texts FROM attempt WHERE mode = 'eval' AND step = 0 GROUP BY run_id"
    ).to_pylist()
    assert len({tuple(row["texts"]) for row in starts}) == 1


def test_total_flops_are_the_sum_of_the_cost_rows(finished: tuple[SuiteConfig, Store, list[RunProgress]], tmp_path: Path) -> None:
    _, store, _ = finished
    report = build_report(store, tmp_path / "report")
    (total,) = store.arrow("SELECT sum(flops) AS flops FROM cost_raw").to_pylist()
    assert store.query("cost_by_arm")["flops"].sum() == pytest.approx(total["flops"], rel=1e-12)
    assert "Can't tell" in report.verdict
    for name in ("report.html", "report.md", "report.json"):
        assert (tmp_path / "report" / name).stat().st_size > 1000
    for run in [run for run in store.registry.runs() if run.flop_calibration is not None]:
        phases = json.loads(run.flop_calibration)
        for phase, found in phases.items():
            assert abs(found["ratio"] - 1) < 0.005, (run.run_id, phase)


def test_running_it_again_trains_nothing_and_other_settings_are_refused(
    finished: tuple[SuiteConfig, Store, list[RunProgress]],
) -> None:
    config, store, _ = finished
    before = len(store.registry.launches())
    run_suite(config)
    assert len(store.registry.launches()) == before
    changed = parse_config({**config.model_dump(mode="json"), "train": {**config.train.model_dump(), "steps": 4}})
    with pytest.raises(ConfigError, match=r"Use another suite\.name or another store\.path"):
        run_suite(changed)


def test_the_same_seed_gives_the_same_rows_and_another_seed_others(
    finished: tuple[SuiteConfig, Store, list[RunProgress]], tmp_path: Path
) -> None:
    _, store, _ = finished
    again = settings(tmp_path)
    for seed in (1, 2):
        command = [
            sys.executable,
            "-m",
            "mentor_audit",
            "train",
            str(tmp_path / "settings.json"),
            "--arm",
            "mentor",
            "--seed",
            str(seed),
        ]
        (tmp_path / "settings.json").write_text(again.model_dump_json())
        subprocess.run(
            command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        )
    text = (
        "SELECT step, mode, role, problem_id, completion_ids, is_correct, advantage FROM attempt WHERE run_id = '{}' "
        "ORDER BY mode, step, group_id, role, position"
    )
    first = store.arrow(text.format("short-mentor-s1")).to_pylist()
    other = Store.open(tmp_path / "store")
    assert first == other.arrow(text.format("short-mentor-s1")).to_pylist()
    assert first != other.arrow(text.format("short-mentor-s2")).to_pylist()


def test_two_ranks_give_the_same_tables(tmp_path: Path) -> None:
    config = settings(tmp_path, suite={"arms": ["mentor"]}, train={"calibrate": False})
    (tmp_path / "settings.json").write_text(config.model_dump_json())
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "-m", "mentor_audit", "suite"]
    done = subprocess.run(
        [*command, str(tmp_path / "settings.json"), "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    store = Store.open(tmp_path / "store")
    assert store.check() == []
    (row,) = store.arrow(
        "SELECT count(*) AS n, count(DISTINCT group_id) AS groups, count(DISTINCT rank) AS ranks FROM attempt_group WHERE mode = 'train'"
    ).to_pylist()
    assert row == {"n": 12, "groups": 12, "ranks": 2}
    (row,) = store.arrow(
        "SELECT count(*) AS n, count(DISTINCT attempt_id) AS ids FROM attempt WHERE role = 'attempt'"
    ).to_pylist()
    assert row == {"n": 48, "ids": 48}
    (row,) = store.arrow(
        "SELECT count(*) AS n, count(DISTINCT problem_id) AS problems FROM attempt_group WHERE mode = 'eval' AND step = 0"
    ).to_pylist()
    assert row == {"n": 4, "problems": 4}


def test_a_run_that_was_stopped_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    config = settings(tmp_path, suite={"arms": ["mentor"], "workers": 1}, train={"steps": 6, "checkpoint_every": 2})

    class Stopped(Exception):
        pass

    def stop_at_5(news: RunProgress) -> None:
        if news.step == 5:
            raise Stopped

    with pytest.raises(Stopped):
        train_run(config, "mentor", 1, progress=stop_at_5)
    checkpoint = last_checkpoint(tmp_path / "store" / "work" / "short-mentor-s1")
    assert checkpoint is not None
    assert checkpoint.name == "checkpoint-4"
    store = run_suite(config)
    launches = [(x.launch, x.resumed_from_step, x.ended_how) for x in store.registry.launches()]
    assert launches == [(1, None, "error: Stopped"), (2, 4, "finished")]
    steps = store.arrow("SELECT step, launch FROM train_step WHERE mode = 'train' ORDER BY step").to_pylist()
    assert [(s["step"], s["launch"]) for s in steps] == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2)]
    assert [f for f in store.check() if f.severity == "error"] == []


def test_a_failing_run_is_named_and_the_others_end(tmp_path: Path) -> None:
    config = settings(tmp_path, suite={"arms": ["vanilla", "mentor"]}, task={"num_heldout": 4})
    blocked = Path(config.store.path) / "work" / "short-mentor-s1"
    blocked.parent.mkdir(parents=True)
    for name in ("tables", "locks"):
        (Path(config.store.path) / name).mkdir(exist_ok=True)
    (Path(config.store.path) / "work").rename(tmp_path / "aside")
    Store.create(config.store.path)
    (tmp_path / "aside").rename(Path(config.store.path) / "work")
    blocked.write_text("a file where the run's folder should be")
    with pytest.raises(TrainingError, match=r"Expected 2 runs to end, 1 failed:\nshort-mentor-s1: exit"):
        run_suite(config)
    ended = {x.run_id: x.ended_how for x in Store.open(config.store.path).registry.launches()}
    assert ended["short-vanilla-s1"] == "finished"


def test_a_replay_of_the_learner_and_of_a_trained_run_stand_beside_the_suite(
    finished: tuple[SuiteConfig, Store, list[RunProgress]],
) -> None:
    from mentor_audit.replay import run_replay

    config, store, _ = finished
    section = {"problems": 8, "num_generations": 3, "batch": 4, "arms": ["vanilla", "resample", "wrong", "paraphrase", "mentor"]}
    asked = settings(Path(config.store.path).parent, replay=section)
    news: list[RunProgress] = []
    run_replay(asked, news.append)
    assert {n.run_id for n in news if n.state == "ended"} == {"short-bank", "short-replay"}
    later = {**section, "bank": "short-bank", "policy": "short-mentor-s1", "name": "later", "arms": ["mentor"]}
    run_replay(settings(Path(config.store.path).parent, replay=later))
    runs = {run.run_id: run for run in store.registry.runs()}
    assert runs["short-later"].learner == "short-mentor-s1"
    assert runs["short-later"].learner_params == runs["short-replay"].learner_params
    groups = store.sql("SELECT run_id, arm, count(*) AS n FROM attempt_group WHERE mode = 'replay' GROUP BY ALL").rows()
    by_arm = {(run, arm): n for run, arm, n in groups}
    failures = by_arm["short-later", "mentor"]
    assert by_arm == {
        ("short-bank", "bank"): 8,
        ("short-later", "mentor"): failures,
        **{("short-replay", arm): failures for arm in section["arms"]},
    }
    assert store.check() == []


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_randomised_run_holds_every_arm_with_its_chance(tmp_path: Path, ranks: int) -> None:
    arms = ["vanilla", "resample", "retry", "placebo", "shuffled_other", "shuffled_same", "problem_hint", "paraphrase", "mentor"]
    config = settings(
        tmp_path,
        suite={"name": "short", "arms": arms, "seeds": [1], "workers": 1},
        mentoring={"assignment": "randomised", "arm_weights": {"mentor": 4}},
        train={"steps": 3, "problems_per_step": 8},
    )
    assert config.run_arms == ["randomised"]
    if ranks == 1:
        run_suite(config)
    else:
        path = tmp_path / "settings.json"
        path.write_text(config.model_dump_json(), encoding="utf-8")
        command = [
            "-m",
            "torch.distributed.run",
            "--nproc_per_node",
            "2",
            "--master_port",
            "29533",
            "-m",
            "mentor_audit",
            "suite",
            str(path),
        ]
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr[-2000:]
    store = Store.open(config.store.path)
    groups = store.table("attempt_group").to_dicts()
    drawn = [g for g in groups if g["mode"] == "train" and g["arm"] is not None]
    assert drawn and all(g["num_incorrect"] == g["num_generations"] for g in drawn)
    assert {g["assignment_probability"] for g in drawn if g["arm"] == "mentor"} <= {4 / 12}
    assert {g["assignment_probability"] for g in drawn if g["arm"] != "mentor"} == {1 / 12}
    assert len({g["arm"] for g in drawn}) >= 4
    shown = {i["group_id"]: i["arm"] for i in store.table("instruction").to_dicts()}
    assert all(shown[g["group_id"]] == g["arm"] for g in drawn if g["group_id"] in shown)
    assert store.check() == []
