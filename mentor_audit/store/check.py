"""Proves a store: links, keys, counts, files and checksums. Every finding says what to do about it."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from mentor_audit.errors import CorruptStoreError
from mentor_audit.records import TRAJECTORY_TABLES
from mentor_audit.schema import foreign_keys, primary_key

if TYPE_CHECKING:
    from mentor_audit.store.store import Store

DIGEST = re.compile(r"-([0-9a-f]{32})\.parquet$")
EXAMPLES = 3


@dataclass(frozen=True)
class Finding:
    """`severity` error: something is wrong. info: worth knowing, nothing to repair (what a killed launch left)."""

    severity: Literal["error", "info"]
    table: str
    found: str
    what_next: str

    def __str__(self) -> str:
        return f"table `{self.table}`: {self.found}. {self.what_next}"


def check_store(store: "Store") -> list[Finding]:
    """Files first: while one of them can't be read, rows can't be counted."""
    from mentor_audit.store import reader

    files = list(_check_files(store.root))
    if any(finding.severity == "error" for finding in files):
        return files
    with reader.connect(store.root, store.registry) as connection:

        def ask(text: str) -> list[dict[str, Any]]:
            return reader.fetch(connection, text).to_pylist()

        return [*files, *_check_keys(ask), *_check_links(ask), *_check_counts(ask), *_check_registry(ask)]


def _check_files(root: Path) -> Iterator[Finding]:
    from mentor_audit.store.delta import open_table

    for table in TRAJECTORY_TABLES:
        try:
            handle = open_table(root, table)
        except CorruptStoreError as error:
            yield Finding("error", table, str(error), "Rows of this table can't be read until then.")
            continue
        actions = pa.table(handle.get_add_actions(flatten=True)).to_pydict()
        sizes = dict(zip(actions["path"], actions["size_bytes"], strict=True))
        for uri, size in zip(handle.file_uris(), [sizes.get(p) for p in actions["path"]], strict=True):
            yield from _check_file(table, Path(unquote(urlparse(uri).path)) if "://" in uri else Path(uri), size)


def _check_file(table: str, path: Path, size: int | None) -> Iterator[Finding]:
    restore = "Restore the file from a backup, or leave its rows out with a Delta `delete`; what else is in the store is unharmed."
    if not path.exists():
        yield Finding("error", table, f"the log names {path}, which is missing", restore)
        return
    digest = DIGEST.search(path.name)
    if digest and hashlib.sha256(path.read_bytes()).hexdigest()[:32] != digest.group(1):
        yield Finding("error", table, f"{path} is not what was written: its sha256 differs from the one in its name", restore)
        return
    if size is not None and path.stat().st_size != size:
        yield Finding("error", table, f"{path} has {path.stat().st_size} bytes, the log says {size}", restore)
        return
    if not digest:
        try:
            pq.read_table(path, page_checksum_verification=True, partitioning=None)
        except (OSError, pa.ArrowException) as error:
            yield Finding("error", table, f"{path} can't be read: {error}", restore)


def _check_keys(ask: Any) -> Iterator[Finding]:
    for table in TRAJECTORY_TABLES:
        key = primary_key(table)
        columns = f"{key}, run_id" if table == "problem" else key
        source = "(SELECT DISTINCT * FROM problem_raw)" if table == "problem" else f"{table}_raw"
        rows = ask(f"SELECT {key} AS id, count(*) AS n FROM {source} GROUP BY {columns} HAVING count(*) > 1 ORDER BY id")
        if rows:
            some = ", ".join(f"{row['id']} ({row['n']} times)" for row in rows[:EXAMPLES])
            yield Finding("error", table, f"{len(rows)} keys are not unique: {some}", "Please report this: a step was written twice.")


def _check_links(ask: Any) -> Iterator[Finding]:
    for table in TRAJECTORY_TABLES:
        links = [(column, other, key) for column, other, key in foreign_keys(table)]
        for column, other, key in links:
            source = other if other in ("run",) else f"{other}_raw"
            yield from _dangling(ask, table, f"t.{column}", f"SELECT {key} FROM {source}", column, other)
    for owner in ("attempt_group", "diagnosis", "instruction", "train_step", "diagnosis_audit"):
        keys = f"SELECT {primary_key(owner)} FROM {owner}_raw"
        yield from _dangling(ask, "cost", "t.owner_id", keys, "owner_id", owner, f"AND t.owner_table = '{owner}'")


def _dangling(ask: Any, table: str, value: str, keys: str, column: str, other: str, more: str = "") -> Iterator[Finding]:
    """Within whole steps; a killed launch may have left a step of which only some tables were committed."""
    rows = ask(
        f"SELECT t.{primary_key(table)} AS id, {value} AS link FROM {table}_raw t SEMI JOIN unit u USING (run_id, launch, step, mode) "
        f"WHERE {value} IS NOT NULL AND {value} NOT IN ({keys}) {more} ORDER BY id"
    )
    if rows:
        some = ", ".join(f"{row['id']} names {row['link']}" for row in rows[:EXAMPLES])
        found = f"{len(rows)} rows name a `{column}` that table `{other}` lacks: {some}"
        yield Finding("error", table, found, "Look for a file of that table that was removed; restore it from a backup.")


def _check_counts(ask: Any) -> Iterator[Finding]:
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
            found = f"{where} promised {row['promised']} rows, {row['found']} are there"
            yield Finding("error", table, found, "Restore the missing files from a backup.")
        left = ask(
            f"SELECT run_id, launch, count(*) AS n FROM {table}_raw ANTI JOIN unit USING (run_id, launch, step, mode) GROUP BY ALL ORDER BY ALL"
        )
        for row in left:
            found = f"{row['n']} rows of launch {row['launch']} of {row['run_id']} belong to a step that never became whole"
            yield Finding("info", table, found, "Nothing to do: views leave them out, and their cost counts.")


def _check_registry(ask: Any) -> Iterator[Finding]:
    rows = ask(
        "SELECT DISTINCT t.run_id, t.launch FROM train_step_raw t "
        "ANTI JOIN launch l ON l.run_id = t.run_id AND l.launch = t.launch ORDER BY ALL"
    )
    for row in rows:
        found = f"the registry lacks launch {row['launch']} of run {row['run_id']}, of which the tables hold rows"
        yield Finding("error", "launch", found, "Restore registry.sqlite from a backup.")
