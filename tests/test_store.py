"""The store: whole steps or nothing, one writer a run, launches that supersede, findings that say what is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable
from store_rows import FLOPS_A_GROUP, ROWS_A_GROUP, problems, run, step

from mentor_audit.errors import (
    CorruptStoreError,
    QueryError,
    RecordError,
    SchemaVersionError,
    StoreError,
    WriterLockedError,
)
from mentor_audit.records import TRAJECTORY_TABLES
from mentor_audit.store import StepRows, Store
from mentor_audit.store import delta as delta_module


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def filled(store: Store, steps: int = 3, run_id: str = "r", resumed: int | None = None) -> None:
    with store.writer(run(run_id), resumed) as writer:
        writer.put_problems(problems())
        for number in range(resumed or 0, (resumed or 0) + steps):
            writer.commit_step(step(number, run_id=run_id, launch=writer.launch, start=resumed or 0))


def count(store: Store, text: str) -> int:
    return store.arrow(f"SELECT count(*) AS n {text}").to_pylist()[0]["n"]


def test_what_goes_in_comes_out_of_every_table(store: Store) -> None:
    filled(store)
    for table, number in ROWS_A_GROUP.items():
        assert count(store, f"FROM {table}") == 3 * 2 * number, table
    assert store.table("train_step")["step"].to_list() == [0, 1, 2]
    assert store.table("problem")["problem_id"].sort().to_list() == ["p0", "p1"]
    (row,) = store.arrow("SELECT completion_ids FROM attempt WHERE attempt_id = 'r.l1.t0.g0.a0'").to_pylist()
    assert row["completion_ids"] == [1, 2, 3]
    assert store.check() == []


def test_long_texts_do_not_make_row_groups_that_a_viewer_refuses(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(delta_module, "ROW_GROUP_BYTES", 100_000)
    long = step(0)
    texts = [a.model_copy(update={"completion": "x" * 30_000}) for a in long.rows["attempt"]]
    with store.writer(run()) as writer:
        writer.put_problems(problems())
        writer.commit_step(StepRows(0, "train", {**long.rows, "attempt": texts}))
    (part,) = (store.root / "tables" / "attempt").rglob("*.parquet")
    file = pq.ParquetFile(part)
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert sum(sizes) == len(texts)
    assert max(sizes) <= 3, "three completions of 30,000 characters fit in 100,000 bytes"
    assert store.table("attempt")["completion"].str.len_chars().to_list() == [30_000] * len(texts)
    assert store.table("attempt")["attempt_id"].sort().to_list() == sorted(a.attempt_id for a in texts)


def test_a_reader_in_another_process_sees_a_run_that_is_training_step_by_step(store: Store) -> None:
    code = (
        "import sys; from mentor_audit.store import Store; "
        "print(Store.open(sys.argv[1]).arrow('SELECT count(*) AS n FROM train_step').to_pylist()[0]['n'])"
    )
    writer = store.writer(run())
    seen = []
    for number in range(3):
        writer.commit_step(step(number))
        writer.flush()
        done = subprocess.run([sys.executable, "-c", code, str(store.root)], capture_output=True, text=True, check=True)
        seen.append(int(done.stdout))
    writer.close("finished")
    assert seen == [1, 2, 3]


def test_a_step_without_its_train_step_row_is_not_there_but_its_cost_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = store.writer(run())
    writer.put_problems(problems())
    writer.commit_step(step(0))
    writer.flush()
    real = delta_module.TableLog.append

    def dies_before_train_step(self: delta_module.TableLog, parts: list, app_id: str, sequence: int) -> None:
        if self.table == "train_step":
            raise OSError("killed here")
        real(self, parts, app_id, sequence)

    monkeypatch.setattr(delta_module.TableLog, "append", dies_before_train_step)
    writer.commit_step(step(1))
    with pytest.raises(OSError, match="killed here"):
        writer.flush()
    with pytest.raises(OSError, match="killed here"):
        writer.close("finished")
    assert count(store, "FROM attempt") == 6
    assert count(store, "FROM attempt_raw") == 12
    (cost,) = store.arrow("SELECT sum(flops) AS flops, sum(flops) FILTER (NOT whole) AS lost FROM cost").to_pylist()
    assert cost == {"flops": 4 * FLOPS_A_GROUP, "lost": 2 * FLOPS_A_GROUP}
    findings = store.check()
    assert {f.severity for f in findings} == {"info"}
    assert [launch.ended_how for launch in store.registry.launches()] == ["error: OSError"]


def test_a_later_launch_supersedes_what_it_ran_again_and_the_cost_of_both_counts(store: Store) -> None:
    filled(store, steps=5)
    filled(store, steps=4, resumed=3)
    steps = store.arrow("SELECT launch, step FROM train_step ORDER BY step").to_pylist()
    assert [(s["launch"], s["step"]) for s in steps] == [(1, 0), (1, 1), (1, 2), (2, 3), (2, 4), (2, 5), (2, 6)]
    assert count(store, "FROM attempt") == 7 * 6
    assert count(store, "FROM attempt_raw") == 9 * 6
    rows = store.arrow("SELECT superseded, sum(flops) AS flops FROM cost GROUP BY superseded ORDER BY superseded").to_pylist()
    assert [r["flops"] for r in rows] == [14 * FLOPS_A_GROUP, 4 * FLOPS_A_GROUP]
    launches = [(launch.launch, launch.resumed_from_step, launch.ended_how) for launch in store.registry.launches()]
    assert launches == [(1, None, "finished"), (2, 3, "finished")]


def test_an_evaluation_at_the_step_where_a_launch_starts_stays(store: Store) -> None:
    with store.writer(run()) as writer:
        for number in (0, 2, 4):
            writer.commit_step(step(number, mode="eval"))
        writer.commit_step(step(0))
    with store.writer(run(), 2) as writer:
        writer.commit_step(step(2, launch=2, start=2))
    found = store.arrow("SELECT step, mode FROM train_step ORDER BY mode, step").to_pylist()
    assert [(f["mode"], f["step"]) for f in found] == [("eval", 0), ("eval", 2), ("train", 0), ("train", 2)]


def test_a_launch_without_a_committed_step_supersedes_nothing(store: Store) -> None:
    filled(store, steps=3)
    store.writer(run(), None).close("interrupted")
    assert count(store, "FROM train_step") == 3


def test_committing_a_unit_again_changes_nothing_and_other_rows_are_refused(store: Store) -> None:
    writer = store.writer(run())
    writer.commit_step(step(0))
    writer.commit_step(step(0))
    writer.flush()
    assert count(store, "FROM attempt_raw") == 6
    writer.commit_step(step(0, text="other"))
    with pytest.raises(StoreError, match="found it again with other rows"):
        writer.flush()


def test_a_second_live_writer_is_refused_with_its_holder(store: Store) -> None:
    writer = store.writer(run())
    with pytest.raises(WriterLockedError, match=f"found process {os.getpid()} on .* writing it"):
        store.writer(run())
    other = store.writer(run("another"))
    other.close("finished")
    writer.close("finished")
    store.writer(run()).close("finished")


def test_a_run_id_must_be_able_to_name_a_file(store: Store) -> None:
    with pytest.raises(RecordError, match=r"found '\.\./evil'"):
        store.writer(run("../evil"))


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (step(0, run_id="other"), "found one of"),
        (StepRows(0, "train", {}), "Expected 1 train_step row from rank 0"),
        (StepRows(0, "train", {**step(0).rows, "problem": []}), "found `problem`"),
        (StepRows(0, "train", {**step(0).rows, "attempts": []}), "found `attempts`"),
    ],
)
def test_rows_of_another_unit_are_refused(store: Store, unit: StepRows, words: str) -> None:
    writer = store.writer(run())
    with pytest.raises(RecordError) as caught:
        writer.commit_step(unit)
    assert words in str(caught.value)
    writer.close("finished")
    assert count(store, "FROM attempt_raw") == 0


def test_ranks_stage_and_rank_0_commits_them_as_one_step(store: Store) -> None:
    zero = store.writer(run(), world_size=2)
    one = store.rank_writer("r", zero.launch, 1)
    zero.put_problems(problems())
    for number in range(3):
        one.commit_step(step(number, rank=1))
        zero.commit_step(step(number, world_size=2))
    one.flush()
    zero.flush()
    one.close("finished")
    zero.close("finished")
    assert count(store, "FROM attempt") == 3 * 4 * 3
    assert store.table("attempt")["rank"].unique().sort().to_list() == [0, 1]
    assert store.check() == []
    assert list((store.root / "staged").glob("*/*.json")) == []


def test_two_processes_write_two_runs_side_by_side(store: Store) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from test_store import filled; "
        "from mentor_audit.store import Store; filled(Store.open(sys.argv[1]), 25, sys.argv[2])"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(store.root), name]) for name in ("one", "two")]
    assert [child.wait() for child in children] == [0, 0]
    rows = store.arrow("SELECT run_id, count(*) AS n FROM train_step GROUP BY run_id ORDER BY run_id").to_pylist()
    assert rows == [{"run_id": "one", "n": 25}, {"run_id": "two", "n": 25}]
    assert store.check() == []


def test_compaction_keeps_the_rows_and_the_number_of_files_small(store: Store) -> None:
    filled(store, steps=45)
    before = store.table("attempt").sort("attempt_id")
    assert len(DeltaTable(str(store.root / "tables" / "attempt")).file_uris()) <= 3
    filled(store, steps=3, run_id="other")
    store.compact()
    assert store.table("attempt").filter(pl.col("run_id") == "r").sort("attempt_id").equals(before)
    assert store.check() == []
    with pytest.raises(StoreError, match="at least 168 hours"):
        store.vacuum(1)


def test_the_log_stays_short_and_a_pinned_version_can_be_read_for_good(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_module, "LOG_ENTRIES_KEPT", 5)
    filled(store, steps=3)
    pinned = store.versions(pinned=True)
    filled(store, steps=130, run_id="later")
    log = store.root / "tables" / "attempt" / "_delta_log"
    assert len(list(log.glob("*.json"))) < 60, "133 steps were committed"
    assert store.arrow("SELECT count(*) AS n FROM train_step", pinned).to_pylist() == [{"n": 3}]
    assert count(store, "FROM train_step") == 133
    assert store.check() == []
    with pytest.raises(QueryError, match="found it gone"):
        store.arrow("SELECT 1", {**pinned, "attempt": pinned["attempt"] + 1})


def test_an_older_version_can_still_be_read_after_more_data_and_compaction(store: Store) -> None:
    filled(store, steps=2)
    versions = store.versions()
    filled(store, steps=2, run_id="later")
    store.compact()
    assert store.arrow("SELECT count(*) AS n FROM train_step", versions).to_pylist() == [{"n": 2}]
    assert count(store, "FROM train_step") == 4


def test_other_programs_read_the_tables_as_they_are(store: Store) -> None:
    filled(store, steps=2)
    frame = pl.scan_delta(str(store.root / "tables" / "attempt")).collect()
    assert frame.height == 12
    assert frame["run_id"].unique().to_list() == ["r"]


# ------------------------------------------------------------------ bad input


def test_what_is_not_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"found no readable store\.json"):
        Store.open(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"found notes.txt in it"):
        Store.create(tmp_path)
    Store.create(tmp_path / "store")
    with pytest.raises(StoreError, match="Expected no store"):
        Store.create(tmp_path / "store")


def test_a_store_of_a_newer_schema_is_refused(store: Store) -> None:
    marker = store.root / "store.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "schema_version": 99}))
    with pytest.raises(SchemaVersionError, match=r"found 99. Upgrade mentor_audit"):
        Store.open(store.root)


def a_part(store: Store, table: str = "attempt") -> Path:
    return Path(sorted(DeltaTable(str(store.root / "tables" / table)).file_uris())[0])


def test_check_names_a_truncated_an_altered_and_a_missing_part(store: Store) -> None:
    filled(store)
    path = a_part(store)
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    (finding,) = store.check()
    assert (finding.severity, finding.table, finding.where) == ("error", "attempt", str(path))
    assert "the log says" in finding.found
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    assert "its sha256 differs" in store.check()[0].found
    path.unlink()
    assert "it is missing" in store.check()[0].found
    path.write_bytes(content)
    assert store.check() == []


def test_reading_a_truncated_part_is_a_clear_error(store: Store) -> None:
    filled(store)
    path = a_part(store)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(CorruptStoreError, match="mentor-audit check"):
        store.arrow("SELECT sum(length(completion)) FROM attempt")


def test_check_finds_dangling_links_wrong_counts_and_a_lost_registry(store: Store) -> None:
    filled(store)
    DeltaTable(str(store.root / "tables" / "diagnosis")).delete("diagnosis_id = 'r.l1.t1.g0.d0'")
    findings = [str(f) for f in store.check()]
    assert any("promises 2 rows, 1 are there" in f for f in findings)
    assert any("names r.l1.t1.g0.d0" in f and "table `instruction`" in f for f in findings)
    assert any("table `diagnosis_audit`" in f for f in findings)
    for path in store.root.glob("registry.sqlite*"):
        path.unlink()
    with pytest.raises(StoreError, match="Restore it from a backup"):
        Store.open(store.root)


def test_a_full_disk_is_a_clear_error_and_leaves_nothing_half_written(store: Store) -> None:
    code = (
        f"import sys, resource, signal; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_store import filled; from mentor_audit.store import Store; from mentor_audit.errors import StoreError\n"
        "store = Store.open(sys.argv[1]); signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from store_rows import problems, run, step\n"
        "writer = store.writer(run()); writer.put_problems(problems()); writer.commit_step(step(0)); writer.flush()\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))\n"
        "import os\n"
        "try:\n    writer.commit_step(step(1, text=os.urandom(9000).hex())); writer.flush()\n"
        "except StoreError as error:\n    print(error); os._exit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(store.root)], capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr[-2000:]
    assert "the disk is full" in done.stdout
    assert "make room and resume" in done.stdout
    assert count(store, "FROM train_step") == 1
    assert [str(p) for p in store.root.rglob("*.tmp")] == []
    assert {f.severity for f in store.check()} <= {"info"}


def test_unknown_views_and_queries_name_the_known_ones(store: Store) -> None:
    with pytest.raises(QueryError, match="found `atempt`"):
        store.table("atempt")
    with pytest.raises(QueryError, match="did you mean `rescue_rate`"):
        store.query("rescue_rates")
    with pytest.raises(QueryError, match="DuckDB can't run this"):
        store.arrow("SELEC 1")


def test_every_view_reads_on_an_empty_store(store: Store) -> None:
    for name in [*TRAJECTORY_TABLES, "chain", "run", "launch", "human_label"]:
        assert store.table(name).is_empty(), name
    for query in store.queries():
        assert store.query(query.name).is_empty(), query.name
