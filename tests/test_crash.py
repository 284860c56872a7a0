"""The machine dies at the worst moment, twenty times: nothing acknowledged is lost, nothing doubled, the dead launches' cost counts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mentor_audit.store import Store

KILLS = 20
STEPS = 120
SCRIPT = Path(__file__).parent / "crash" / "kill_training.py"


@pytest.mark.slow
def test_kill_9_of_real_training_at_random_points(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), str(KILLS), "7"], capture_output=True, text=True, check=False
    )
    log = (tmp_path / "training.log").read_text() if (tmp_path / "training.log").exists() else ""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines, done.stderr[-2000:]
    assert lines[-1].get("ended") == 0, log[-3000:]
    deaths = lines[:-1]
    assert len(deaths) >= KILLS, "the run ended before it was killed often enough: make it longer"
    assert any(death["acknowledged"] > 0 for death in deaths), "no kill came after a checkpoint"
    for death in deaths:
        assert death["found"] == sorted(set(death["found"])), "a step is there twice"
        assert set(range(death["acknowledged"])) <= set(death["found"]), "a step was lost that a checkpoint had waited for"

    store = Store.open(tmp_path / "store")
    assert [f for f in store.check() if f.severity == "error"] == []
    steps = store.arrow("SELECT step, count(*) AS n FROM train_step WHERE mode = 'train' GROUP BY step ORDER BY step").to_pylist()
    assert steps == [{"step": step, "n": 1} for step in range(STEPS)]
    (ids,) = store.arrow("SELECT count(*) AS n, count(DISTINCT attempt_id) AS different FROM attempt_raw").to_pylist()
    assert ids["n"] == ids["different"]
    (groups,) = store.arrow("SELECT count(*) AS n FROM attempt_group WHERE mode = 'train'").to_pylist()
    assert groups["n"] == 2 * STEPS

    launches = store.registry.launches()
    assert [launch.ended_how for launch in launches].count(None) >= KILLS // 2, (
        "a killed launch has no end; some died before they began"
    )
    assert launches[-1].ended_how == "finished"
    (cost,) = store.arrow(
        "SELECT sum(flops) AS all_flops, sum(flops) FILTER (NOT superseded AND whole) AS current_flops, "
        "(SELECT sum(flops) FROM cost_raw) AS raw_flops FROM cost"
    ).to_pylist()
    assert cost["all_flops"] == pytest.approx(cost["raw_flops"])
    assert cost["all_flops"] > cost["current_flops"], "what dead launches spent is still counted"
