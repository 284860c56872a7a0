"""Proves a store: files, checksums, keys, links and counts. Every finding says what to do about it."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from mentor_audit.errors import CorruptStoreError
from mentor_audit.records import TRAJECTORY_TABLES
from mentor_audit.schema import foreign_keys, primary_key
from mentor_audit.store.delta import DIGEST, Part, TableLog, read_part, table_path
from mentor_audit.store.version import is_missing_in_old_store

if TYPE_CHECKING:
    from mentor_audit.store.store import Store

EXAMPLES = 3
COST_OWNERS = ("attempt_group", "diagnosis", "instruction", "train_step", "diagnosis_audit", "leak_audit")
RESTORE = "Restore the file from a backup, or leave its rows out with a Delta `delete`; what else is in the store is unharmed."
Ask = Callable[[str], list[dict[str, Any]]]


@dataclass(frozen=True)
class Finding:
    """`severity` error: something is wrong. info: worth knowing, nothing to repair (what a killed launch left).

    table      where to look
    where      file, row, step or run
    found      what is wrong there
    what_next  what to do about it
    """

    severity: Literal["error", "info"]
    table: str
    where: str
    found: str
    what_next: str

    def __str__(self) -> str:
        return f"table `{self.table}`, {self.where}: {self.found}. {self.what_next}"


def check_store(store: "Store") -> list[Finding]:
    """Everything that can be proved; while a file can't be read, only files are, because rows can't be counted.

    The versions are taken once, so a run that is training meanwhile is checked up to its last whole step.
    """
    from mentor_audit.store import reader

    try:
        versions = store.versions()
    except CorruptStoreError:
        return list(_check_files(store.root))
    files = list(_check_files(store.root))
    if any(finding.severity == "error" for finding in files):
        return files
    with reader.connect(store.root, store.registry, versions) as connection:

        def ask(text: str) -> list[dict[str, Any]]:
            return reader.fetch(connection, text).to_pylist()

        return [*files, *_check_keys(ask), *_check_links(ask), *_check_counts(ask), *_check_registry(ask)]


def _check_files(root: Path) -> Iterator[Finding]:
    for table in TRAJECTORY_TABLES:
        if is_missing_in_old_store(root, table):
            continue
        try:
            live = TableLog(root, table).live()
        except CorruptStoreError as error:
            yield Finding("error", table, str(table_path(root, table)), str(error), "Its rows can't be read until then.")
            continue
        for part in live:
            yield from _check_file(root, part)


def _check_file(root: Path, part: Part) -> Iterator[Finding]:
    """Existence, size, sha256 in the name (page checksums where another program wrote the file), and rows promised by the log."""
    path = table_path(root, part.table) / unquote(part.path)

    def finding(found: str) -> Finding:
        return Finding("error", part.table, str(path), found, RESTORE)

    if not path.exists():
        yield finding("the log names this file, and it is missing")
        return
    if path.stat().st_size != part.size:
        yield finding(f"it has {path.stat().st_size} bytes, the log says {part.size}")
        return
    digest = DIGEST.search(path.name)
    try:
        if digest and hashlib.sha256(path.read_bytes()).hexdigest()[:32] != digest.group(1):
            yield finding("it is not what was written: its sha256 differs from the one in its name")
            return
        num_rows = pq.read_metadata(path).num_rows if digest else read_part(root, part).num_rows
    except (OSError, pa.ArrowException, CorruptStoreError) as error:
        yield finding(f"it can't be read: {error}")
        return
    if num_rows != part.num_rows and part.num_rows:
        yield finding(f"it has {num_rows} rows, the log says {part.num_rows}")


def _check_keys(ask: Ask) -> Iterator[Finding]:
    """Within whole steps: a batch that a kill left torn is done again under the same ids. A problem may stand once a run: its id comes from its
    content.
    """
    for table in TRAJECTORY_TABLES:
        key = primary_key(table)
        columns, whole = (
            (f"{key}, run_id", "") if table == "problem" else (key, "SEMI JOIN unit USING (run_id, launch, step, mode)")
        )
        rows = ask(
            f"SELECT {key} AS id, count(*) AS n FROM {table}_raw {whole} GROUP BY {columns} HAVING count(*) > 1 ORDER BY id"
        )
        if rows:
            some = _some([f"{row['id']} ({row['n']} times)" for row in rows])
            found = f"{len(rows)} keys are not unique: {some}"
            yield Finding("error", table, f"column {key}", found, "Look for a program that copied rows; a writer never does.")


def _check_links(ask: Ask) -> Iterator[Finding]:
    for table in TRAJECTORY_TABLES:
        for column, other, key in foreign_keys(table):
            yield from _dangling(ask, table, column, f"{other}_raw", key, other)
    for owner in COST_OWNERS:
        yield from _dangling(ask, "cost", "owner_id", f"{owner}_raw", primary_key(owner), owner, f"AND owner_table = '{owner}'")


def _dangling(ask: Ask, table: str, column: str, source: str, key: str, other: str, more: str = "") -> Iterator[Finding]:
    """Within whole steps; a killed launch may have left a step of which only some tables were committed."""
    rows = ask(
        f"SELECT t.{primary_key(table)} AS id, t.{column} AS link FROM {table}_raw t SEMI JOIN unit u USING (run_id, launch, step, mode) "
        f"ANTI JOIN {source} o ON o.{key} = t.{column} WHERE t.{column} IS NOT NULL {more} ORDER BY id"
    )
    if rows:
        some = _some([f"{row['id']} names {row['link']}" for row in rows])
        found = f"{len(rows)} rows name a row that table `{other}` lacks: {some}"
        yield Finding("error", table, f"column {column}", found, f"Restore the missing files of `{other}` from a backup.")


def _check_counts(ask: Ask) -> Iterator[Finding]:
    """Rows present against those that each unit's train_step row promises."""
    for table in TRAJECTORY_TABLES:
        if table == "problem":
            continue
        rows = ask(
            f"""
            WITH found AS (SELECT run_id, launch, step, mode, count(*) AS n FROM {table}_raw GROUP BY ALL),
            promised AS (
                SELECT run_id, launch, step, mode, coalesce((row_counts ->> '$.{table}')::BIGINT, 0) AS n FROM train_step_raw
            )
            SELECT p.run_id, p.launch, p.step, p.mode, p.n AS promised, coalesce(f.n, 0) AS found
            FROM promised p LEFT JOIN found f USING (run_id, launch, step, mode)
            WHERE p.n <> coalesce(f.n, 0) ORDER BY ALL
            """
        )
        for row in rows[:EXAMPLES]:
            where = f"step {row['step']} ({row['mode']}) of {row['run_id']}, launch {row['launch']}"
            found = f"its train_step row promises {row['promised']} rows, {row['found']} are there"
            more = f" {len(rows)} steps in all are like this." if len(rows) > EXAMPLES else ""
            yield Finding("error", table, where, found, f"Restore the missing files from a backup.{more}")
        left = ask(
            f"SELECT run_id, launch, count(*) AS n FROM {table}_raw ANTI JOIN unit USING (run_id, launch, step, mode) GROUP BY ALL ORDER BY ALL"
        )
        for row in left:
            where = f"launch {row['launch']} of {row['run_id']}"
            found = f"{row['n']} rows belong to a step that never became whole, or is being written"
            yield Finding("info", table, where, found, "Nothing to do: views leave them out, and their cost counts.")


def _check_registry(ask: Ask) -> Iterator[Finding]:
    """Every run and launch that has rows is registered."""
    restore = "Restore the registry from a backup."
    tables = [table for table in TRAJECTORY_TABLES if table != "problem"]
    runs = " UNION ".join(f"SELECT run_id FROM {table}_raw" for table in TRAJECTORY_TABLES)
    for row in ask(f"SELECT run_id FROM ({runs}) ANTI JOIN run USING (run_id) ORDER BY ALL"):
        yield Finding("error", "run", row["run_id"], "the tables hold rows of this run, the registry lacks it", restore)
    launches = " UNION ".join(f"SELECT run_id, launch FROM {table}_raw" for table in tables)
    for row in ask(f"SELECT run_id, launch FROM ({launches}) ANTI JOIN launch USING (run_id, launch) ORDER BY ALL"):
        where = f"launch {row['launch']} of {row['run_id']}"
        yield Finding("error", "launch", where, "the tables hold rows of this launch, the registry lacks it", restore)


def _some(found: list[str]) -> str:
    return ", ".join(found[:EXAMPLES]) + (", ..." if len(found) > EXAMPLES else "")
