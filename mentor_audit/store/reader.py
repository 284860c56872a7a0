"""Reading: live Parquet files from the Delta log, DuckDB's own reader over them, views over whole steps only.

A connection is in memory and holds nothing of the store open, so any number of readers look at a run that is training.

Views: `<table>_raw` is every committed row; `<table>` leaves out steps without their `train_step` row and steps that a later launch
ran again; `cost` keeps every committed row (what was spent counts) and says which are `superseded` or not `whole`; `problem` has one
row a problem; `run`, `launch` and `human_label` come from the registry; `chain` is in sql/views/chain.sql.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from mentor_audit.errors import CorruptStoreError, QueryError
from mentor_audit.records import REGISTRY_TABLES, TRAJECTORY_TABLES
from mentor_audit.schema import TABLES, arrow_schema, ddl
from mentor_audit.store.delta import open_table
from mentor_audit.store.registry import Registry
from mentor_audit.store.version import has_old_parts, is_missing_in_old_store

SQL = resources.files("mentor_audit") / "sql"

HIDING_TABLES = ("train_step", "attempt_group", "attempt", "diagnosis", "instruction", "diagnosis_audit", "leak_audit")
"""Their views leave out units that are not whole or superseded. A cost row is never left out, but marked."""
COST_WITH_HIDDEN = (
    "CREATE VIEW cost AS SELECT c.*, coalesce(h.superseded, false) AS superseded, coalesce(h.whole, true) AS whole "
    "FROM cost_raw c LEFT JOIN hidden_unit h USING (run_id, launch, step, mode)"
)


@dataclass(frozen=True)
class NamedQuery:
    """A question with its SQL. `grain` says what a row is, `units` what the numbers are; `note` is None or a warning to readers."""

    name: str
    question: str
    grain: str
    units: str
    note: str | None
    sql: str


@contextmanager
def connect(root: Path, registry: Registry, versions: Mapping[str, int] | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory connection with every view. `versions`: the Delta version of each table to read; None: the newest."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    try:
        connection.execute("SET TimeZone = 'UTC'")
        files = live_files(root, versions)
        make_views(connection, files, {name: registry.arrow(name) for name in REGISTRY_TABLES}, has_old_parts(root))
        yield connection
    finally:
        connection.close()


def live_files(root: Path, versions: Mapping[str, int] | None = None) -> dict[str, list[str]]:
    """Table -> paths of its live Parquet files. Raises QueryError for a version that is no longer there.

    Tables are committed parents first and looked at children first: what a child's row names is there in the parent's list.
    """
    files: dict[str, list[str]] = {}
    for table in reversed(TRAJECTORY_TABLES):
        if is_missing_in_old_store(root, table):
            files[table] = []
            continue
        handle = open_table(root, table)
        if versions is not None:
            try:
                handle.load_as_version(versions[table])
            except Exception as error:
                raise QueryError(
                    f"Expected version {versions[table]} of table `{table}`, found it gone: {error}. Versions are kept for a week after "
                    "they were replaced."
                ) from error
        files[table] = sorted(handle.file_uris())
    return files


def make_views(
    connection: duckdb.DuckDBPyConnection,
    files: Mapping[str, list[str]],
    registry: Mapping[str, pa.Table],
    old_parts: bool = False,
) -> None:
    """Raw relations over the files, then the views. `old_parts`: some files may lack columns that newer ones have."""
    for name, rows in registry.items():
        connection.register(f"{name}_registry", rows)
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}_registry")
    try:
        for table in TRAJECTORY_TABLES:
            connection.execute(f"CREATE VIEW {table}_raw AS {_raw(table, files[table], old_parts)}")
    except duckdb.Error as error:
        raise translate(error) from error
    make_views_over_raw(connection)


def make_views_over_raw(connection: duckdb.DuckDBPyConnection) -> None:
    """The views over whole steps, and what stands on them, where the relations `<table>_raw` and those of the registry are there."""
    whole, *views = sorted_sql(SQL / "views")
    connection.execute(whole.read_text(encoding="utf-8"))
    (hidden,) = connection.execute("SELECT count(*) FROM hidden_unit").fetchall()[0]
    for table in HIDING_TABLES:
        leave_out = "ANTI JOIN hidden_unit USING (run_id, launch, step, mode)" if hidden else ""
        connection.execute(f"CREATE VIEW {table} AS SELECT t.* FROM {table}_raw t {leave_out}")
    connection.execute(
        COST_WITH_HIDDEN if hidden else "CREATE VIEW cost AS SELECT *, false AS superseded, true AS whole FROM cost_raw"
    )
    for path in views:
        connection.execute(path.read_text(encoding="utf-8"))


def _raw(table: str, files: list[str], old_parts: bool) -> str:
    """Explicit columns in the record's order, with their types.

    Every part carries its record's whole schema, so the first one speaks for all: union_by_name would open each of them for every view.
    Only in a store that began with an older version some lack columns, and then those are NULL.
    """
    typed = dict(re.findall(r"^    (\w+) (\S+?)(?: NOT NULL)?,?$", ddl(table), re.MULTILINE))
    typed = {name: typed[name] for name in arrow_schema(table).names}
    if not files:
        return "SELECT " + ", ".join(f"NULL::{kind} AS {name}" for name, kind in typed.items()) + " WHERE false"
    quoted = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
    source = f"read_parquet([{quoted}], hive_partitioning = true, hive_types = {{'run_id': VARCHAR}}{', union_by_name = true' if old_parts else ''})"
    if old_parts:
        nothing = ", ".join(f"NULL::{kind} AS {name}" for name, kind in typed.items())
        source = f"(SELECT {nothing} WHERE false UNION ALL BY NAME SELECT * FROM {source})"
    return "SELECT " + ", ".join(f"{name}::{kind} AS {name}" for name, kind in typed.items()) + f" FROM {source}"


def fetch(connection: duckdb.DuckDBPyConnection, text: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
    """Run SQL; the result as Arrow. Raises QueryError with DuckDB's words, CorruptStoreError when a part can't be read."""
    try:
        return connection.sql(text, params=dict(parameters or {}) or None).to_arrow_table()
    except duckdb.Error as error:
        raise translate(error) from error


def translate(error: Exception) -> QueryError | CorruptStoreError:
    """DuckDB's error in our words."""
    words = str(error)
    unreadable = isinstance(error, duckdb.IOException | duckdb.InvalidInputException) and ".parquet" in words
    if unreadable or ("parquet" in words.lower() and isinstance(error, duckdb.IOException)):
        return CorruptStoreError(
            f"Expected every part of the store to be readable, found one that is not: {words.splitlines()[0]}. `mentor-audit check STORE` "
            "lists every part that is missing, cut short or altered."
        )
    return QueryError(
        f"DuckDB can't run this: {words.strip()}\nViews: {', '.join([*TABLES, 'chain'])}, and <table>_raw. Columns are in schemas/ and by "
        "DESCRIBE <view>."
    )


def queries() -> list[NamedQuery]:
    """Every named query, by name."""
    return [_parse(path.name.removesuffix(".sql"), path.read_text(encoding="utf-8")) for path in sorted_sql(SQL)]


def sorted_sql(folder: Any) -> list[Any]:
    return sorted((p for p in folder.iterdir() if p.name.endswith(".sql")), key=lambda p: p.name)


def run(connection: duckdb.DuckDBPyConnection, name: str, parameters: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """A named query's result. Raises QueryError for an unknown name."""
    found = {query.name: query for query in queries()}
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1)
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise QueryError(f"Expected one of the named queries, found `{name}`; {hint}Known are {', '.join(found)}.")
    frame: Any = pl.from_arrow(fetch(connection, found[name].sql, parameters))
    return frame


def table(connection: duckdb.DuckDBPyConnection, name: str) -> pl.DataFrame:
    known = [*TABLES, "chain", *(f"{t}_raw" for t in TRAJECTORY_TABLES)]
    if name not in known:
        raise QueryError(f"Expected one of the views {', '.join(known)}; found `{name}`. Choose one of them.")
    frame: Any = pl.from_arrow(fetch(connection, f"SELECT * FROM {name}"))
    return frame


def chain(connection: duckdb.DuckDBPyConnection, attempt_id: str) -> pl.DataFrame:
    """The chain of a failed attempt, or of the attempt that a response answers. Raises QueryError when the id isn't there."""
    text = "SELECT * FROM chain WHERE attempt_id = $id OR response_id = $id ORDER BY response_id"
    frame: Any = pl.from_arrow(fetch(connection, text, {"id": attempt_id}))
    if frame.is_empty():
        (state,) = fetch(
            connection,
            "SELECT any_value(role) AS role, any_value(is_correct) AS correct FROM attempt WHERE attempt_id = $id",
            {"id": attempt_id},
        ).to_pylist()
        some = [
            r["attempt_id"]
            for r in fetch(connection, "SELECT attempt_id FROM chain WHERE response_id IS NOT NULL LIMIT 3").to_pylist()
        ]
        found = f"one that did not fail ({state['role']})" if state["role"] else "no such attempt"
        raise QueryError(
            f"Expected {attempt_id} to be a failed attempt or a response to one, found {found}. For example: {', '.join(some) or 'none here yet'}."
        )
    return frame


def _parse(name: str, text: str) -> NamedQuery:
    head = dict(re.findall(r"^-- (question|grain|units|note): (.+)$", text, re.MULTILINE))
    return NamedQuery(name, head["question"], head["grain"], head["units"], head.get("note"), text)
