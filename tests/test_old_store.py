"""A store written by version 1 opens, reads and checks; new rows go into it, and the old ones stay what they were."""

import tarfile
from pathlib import Path

import polars as pl
import pytest
import store_rows

from mentor_audit.records import SCHEMA_VERSION, TRAJECTORY_TABLES
from mentor_audit.store import Store
from mentor_audit.store.version import read_marker


@pytest.fixture
def old(tmp_path: Path) -> Store:
    """Made at version 1 by two steps of `store_rows`."""
    with tarfile.open(Path(__file__).parent / "store_v1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return Store.open(tmp_path / "store_v1")


def test_it_reads_and_checks_without_being_touched(old: Store) -> None:
    before = sorted((p, p.stat().st_size) for p in old.root.rglob("*.parquet"))
    groups = old.sql("SELECT group_id, arm, num_incorrect FROM attempt_group ORDER BY group_id")
    assert groups.height == 4 and groups["arm"].null_count() == 4 and groups["num_incorrect"].to_list() == [2] * 4
    chain = old.table("chain").filter(pl.col("response_id").is_not_null())
    assert chain.height == 4 and set(chain["arm"]) == {"mentor"}
    assert old.table("leak_audit").is_empty()
    assert [f for f in old.check() if f.severity == "error"] == []
    assert read_marker(old.root)["schema_version"] == 1
    assert before == sorted((p, p.stat().st_size) for p in old.root.rglob("*.parquet"))


def test_a_new_run_upgrades_it_and_both_read_together(old: Store) -> None:
    with old.writer(store_rows.run("new")) as writer:
        writer.put_problems(store_rows.problems())
        unit = store_rows.step(0, run_id="new")
        unit.rows["attempt_group"] = [g.model_copy(update={"arm": "wrong"}) for g in unit.rows["attempt_group"]]
        writer.commit_step(unit)
    marker = read_marker(old.root)
    assert (marker["schema_version"], marker["began_with"]) == (SCHEMA_VERSION, 1)
    arms = old.sql("SELECT run_id, arm, count(*) AS n FROM attempt_group GROUP BY ALL ORDER BY run_id")
    assert arms.rows() == [("new", "wrong", 2), ("r", None, 4)]
    assert [f for f in old.check() if f.severity == "error"] == []
    old.compact()
    assert old.sql("SELECT count(*) AS n FROM attempt").item() == 18
    assert old.versions().keys() == set(TRAJECTORY_TABLES)


def test_an_upgrade_that_died_half_way_is_done_again(old: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from mentor_audit.store import version

    with monkeypatch.context() as patch:
        patch.setattr(version, "write_marker", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            version.upgrade(old.root)
    assert old.sql("SELECT count(*) AS n FROM attempt").item() == 12
    version.upgrade(old.root)
    assert read_marker(old.root)["schema_version"] == SCHEMA_VERSION
    assert old.sql("SELECT count(*) AS n FROM attempt").item() == 12
