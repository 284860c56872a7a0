"""SQL from anybody: answers come back, nothing else happens."""

from pathlib import Path

import pytest
from store_rows import problems, run, step

from mentor_audit.errors import QueryError, QueryLimitError
from mentor_audit.store import Limits, Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store.create(tmp_path_factory.mktemp("untrusted") / "store")
    with made.writer(run()) as writer:
        writer.put_problems(problems())
        for number in range(3):
            writer.commit_step(step(number))
    return made


def test_a_query_gets_its_answer(store: Store) -> None:
    frame = store.sql("SELECT arm, count(*) AS n, sum(flops) AS flops FROM cost JOIN run USING (run_id) GROUP BY arm")
    assert frame.to_dicts() == [{"arm": "mentor", "n": 6, "flops": 6000.0}]


def test_columns_of_one_name_are_numbered(store: Store) -> None:
    frame = store.sql("SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a")
    assert frame.to_dicts() == [{"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}]
    joined = store.sql("SELECT a.run_id, r.run_id FROM attempt AS a JOIN run AS r USING (run_id) LIMIT 1")
    assert joined.columns == ["run_id", "run_id_1"]


def test_a_type_that_no_frame_holds_is_named(store: Store) -> None:
    with pytest.raises(QueryError, match=r"found took month_day_nano_interval. CAST to VARCHAR"):
        store.sql("SELECT INTERVAL 1 DAY AS took")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '{root}/evil.csv'",
        "COPY attempt TO '{part}'",
        "ATTACH '{root}/evil.db'",
        "ATTACH '{root}/registry.sqlite' AS r (TYPE sqlite)",
        "EXPORT DATABASE '{root}/evil'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "PRAGMA enable_external_access = true",
        "RESET memory_limit",
        "SELECT 1; SELECT 2",
        "SELECT getenv('HOME')",
        "SELECT * FROM read_parquet('https://example.com/x.parquet')",
        "SELEC 1",
        "",
    ],
)
def test_everything_else_is_refused(store: Store, text: str) -> None:
    parts = sorted(path for path in store.root.rglob("*.parquet"))
    before = {path: path.read_bytes() for path in parts}
    with pytest.raises(QueryError):
        store.sql(text.format(root=store.root, part=parts[0]))
    assert {path: path.read_bytes() for path in sorted(store.root.rglob("*.parquet"))} == before
    assert not list(store.root.glob("evil*"))


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("SELECT length(repeat('x', 4000000000))", Limits(memory_bytes=2 * 2**30, seconds=60)),
        ("SELECT count(*) FROM range(100000000000) a, range(100) b WHERE a.range % 7 = b.range", Limits(seconds=4)),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r", Limits(seconds=4)),
        ("SELECT * FROM range(1000)", Limits(rows=999)),
        ("SELECT repeat('x', 100000) FROM range(1000)", Limits(result_bytes=1_000_000)),
    ],
)
def test_limits_hold(store: Store, text: str, limits: Limits) -> None:
    with pytest.raises(QueryLimitError):
        store.sql(text, limits)


def test_the_environment_is_empty_and_temporary_tables_do_no_harm(store: Store) -> None:
    with pytest.raises(QueryError):
        store.sql("SELECT * FROM read_text('/proc/self/environ')")
    changed = store.sql("WITH gone AS (SELECT 1) SELECT count(*) AS n FROM attempt")
    assert changed.to_dicts() == [{"n": 18}]


def test_views_are_named_in_the_error(store: Store) -> None:
    with pytest.raises(QueryError, match=r"Views: .*attempt_group"):
        store.sql("SELECT * FROM atempts")


def test_the_store_is_found_from_a_relative_path(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.root.parent)
    assert Store.open(Path("store")).sql("SELECT 1 AS one").to_dicts() == [{"one": 1}]
