"""Parquet parts of our own, committed to Delta tables. What is durable is decided here.

A part is written under a temporary name, fsynced and renamed, and its folder fsynced; then the Delta log gets one commit that names
it, which is fsynced too (delta-rs does not). A part never changes afterwards; its name carries the sha256 of its content.
"""

import errno
import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from mentor_audit.errors import CorruptStoreError, StoreError
from mentor_audit.schema import arrow_schema

TABLES_FOLDER = "tables"
COMMIT_ATTEMPTS = 30


@dataclass(frozen=True)
class Part:
    """A Parquet file that is durable, named relative to its Delta table, and not committed yet."""

    table: str
    path: str
    size: int
    num_rows: int
    run_id: str

    def action(self) -> AddAction:
        stats = json.dumps({"numRecords": self.num_rows})
        return AddAction(self.path, self.size, {"run_id": self.run_id}, int(time.time() * 1000), True, stats)


def create_table(root: Path, table: str) -> None:
    """An empty Delta table with the record's columns, partitioned by run_id. Every column is nullable in the log."""
    folder = table_path(root, table)
    if DeltaTable.is_deltatable(str(folder)):
        return
    DeltaTable.create(str(folder), delta_schema(table), mode="ignore", partition_by=["run_id"], name=table)
    fsync_log(folder)


def delta_schema(table: str) -> pa.Schema:
    schema = arrow_schema(table)
    return pa.schema([field.with_nullable(True) for field in schema], metadata=schema.metadata)


def open_table(root: Path, table: str) -> DeltaTable:
    """Raises CorruptStoreError when it is missing, or when a feature is on that would make file lists wrong."""
    try:
        found = DeltaTable(str(table_path(root, table)))
    except TableNotFoundError as error:
        raise CorruptStoreError(
            f"Expected the Delta table {table_path(root, table)}, found none. Restore it from a backup; the Parquet files of the "
            "other tables are unharmed."
        ) from error
    features = set(found.protocol().reader_features or [])
    if features & {"deletionVectors", "columnMapping", "v2Checkpoint"}:
        raise CorruptStoreError(
            f"Expected plain Parquet files in table `{table}`, found the Delta features {sorted(features)} switched on by another "
            "program. Rewrite the table without them with that program."
        )
    return found


def write_part(root: Path, table: str, rows: pa.Table, run_id: str, name: str) -> Part:
    """Write one durable part. Raises StoreError when the disk refuses; nothing half-written stays."""
    folder = table_path(root, table) / f"run_id={run_id}"
    folder.mkdir(parents=True, exist_ok=True)
    columns = rows.drop_columns(["run_id"])
    temporary = folder / f".{name}.{os.getpid()}.tmp"
    try:
        pq.write_table(columns, temporary, compression="zstd", write_page_checksum=True)
        digest = hashlib.sha256(temporary.read_bytes()).hexdigest()
        size = temporary.stat().st_size
        final = folder / f"{name}-{digest[:32]}.parquet"
        fsync(temporary)
        os.rename(temporary, final)
        fsync(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else str(error)
        raise StoreError(
            f"Expected to write {rows.num_rows} rows of table `{table}` under {folder}, found that {reason}. Nothing of this step was "
            "committed; make room and resume the run from its last checkpoint."
        ) from error
    return Part(table, f"run_id={run_id}/{final.name}", size, rows.num_rows, run_id)


def commit_parts(root: Path, table: str, parts: Sequence[Part], app_id: str, sequence: int) -> None:
    """One commit of these parts, once: `sequence` grows with every commit of `app_id`, and one that is there already is left out.

    Other runs commit to the same tables at the same time; a lost race is tried again on a fresh handle.
    """
    folder = table_path(root, table)
    for attempt in range(COMMIT_ATTEMPTS):
        handle = open_table(root, table)
        done = handle.transaction_version(app_id)
        if done is not None and done >= sequence:
            return
        try:
            handle.create_write_transaction(
                [part.action() for part in parts],
                "append",
                delta_schema(table),
                partition_by=["run_id"],
                commit_properties=CommitProperties(app_transactions=[Transaction(app_id, sequence)]),
            )
        except (CommitFailedError, DeltaError) as error:
            if attempt == COMMIT_ATTEMPTS - 1:
                raise StoreError(
                    f"Expected to commit {len(parts)} parts to table `{table}`, found the log refusing {COMMIT_ATTEMPTS} times: {error}. "
                    "Look for a program that holds or rewrites the table, then resume the run."
                ) from error
            time.sleep(0.02 * (attempt + 1))
            continue
        fsync_log(folder)
        return


def table_path(root: Path, table: str) -> Path:
    return root / TABLES_FOLDER / table


def fsync_log(folder: Path) -> None:
    """Make the newest log entries durable."""
    log = folder / "_delta_log"
    for path in sorted(log.glob("*.json"))[-4:]:
        fsync(path)
    fsync(log)


def fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
