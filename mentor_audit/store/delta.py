"""Parquet parts of our own, committed to Delta tables. What is durable is decided here.

A part is written under a temporary name, fsynced and renamed, and its folder fsynced; then the Delta log gets one commit that names
it, which is fsynced too (delta-rs does neither). A part never changes afterwards; its name carries the sha256 of its content, and
its pages carry checksums.
"""

import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from mentor_audit.errors import CorruptStoreError, StoreError
from mentor_audit.schema import arrow_schema

TABLES_FOLDER = "tables"
COMMIT_ATTEMPTS = 20
LOG_ENTRIES_KEPT = 20
ROW_GROUP_BYTES = 64 * 2**20
"""Uncompressed. A row group is never larger, unless a single row is."""
DIGEST = re.compile(r"-([0-9a-f]{32})\.parquet$")
DICTIONARY = [
    "mode",
    "role",
    "status",
    "finish_reason",
    "phase",
    "payer",
    "owner_table",
    "group_id",
    "problem_id",
    "parent_attempt_id",
]
"""Columns whose values repeat: a dictionary makes joins on them cheaper to read."""
HARMLESS_FEATURES = {"timestampNtz", "vacuumProtocolCheck"}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Part:
    """A durable Parquet file, named relative to its Delta table. It is live once a commit names it."""

    table: str
    path: str
    size: int
    num_rows: int
    run_id: str


class TableLog:
    """The Delta log of one table, kept open between commits: reading on is cheaper than opening anew. For one thread."""

    def __init__(self, root: Path, table: str) -> None:
        self.table = table
        self._root, self._folder = root, table_path(root, table)
        self._handle = open_table(root, table)

    def append(self, parts: Sequence[Part], app_id: str, sequence: int) -> None:
        """Commit parts once: `sequence` grows with every commit of `app_id`, and one that is there already is left out.

        Other runs commit to the same table at the same time: delta-rs rebases appends, and a lost race is tried again on a fresh
        handle. Durable when it returns. Raises StoreError when the log keeps refusing, or the disk is full.
        """
        properties = CommitProperties(app_transactions=[Transaction(app_id, sequence)])
        actions = [_add(part, data_change=True) for part in parts]
        since = self.refresh()
        for attempt in range(COMMIT_ATTEMPTS):
            done = self._handle.transaction_version(app_id)
            if done is not None and done >= sequence:
                break
            try:
                self._commit(actions, properties)
                break
            except (DeltaError, OSError) as error:
                if _is_full(error) or attempt == COMMIT_ATTEMPTS - 1:
                    raise StoreError(
                        f"Expected to commit {len(parts)} parts to table `{self.table}` under {self._folder}, found that {_reason(error)}. "
                        "Nothing of this step is visible; make room, or look for a program that rewrites the table, then resume the run."
                    ) from error
                time.sleep(0.02 * (attempt + 1))
                self._handle = open_table(self._root, self.table)
        self._make_durable(since)

    def replace(self, old: Sequence[Part], new: Sequence[Part]) -> bool:
        """Swap live parts for others with the same rows, in one commit; False when one of `old` is not live any more.

        delta-rs would let two programs remove the same file and add it twice. So the commit must be the very next version after the
        one in which `old` was seen live: it refuses to rebase, and a lost race looks again.
        """
        now = int(time.time() * 1000)
        removed = [RemoveAction(part.path, False, now, part.size, {"run_id": part.run_id}) for part in old]
        actions: list[AddAction | RemoveAction] = [*removed, *(_add(part, data_change=False) for part in new)]
        since = self.refresh()
        for attempt in range(COMMIT_ATTEMPTS):
            live = {part.path for part in self.live()}
            if not {part.path for part in old} <= live:
                return {part.path for part in new} <= live
            try:
                self._commit(actions, CommitProperties(max_commit_retries=0))
                self._make_durable(since)
                return True
            except (DeltaError, OSError) as error:
                if _is_full(error):
                    raise StoreError(
                        f"Expected to compact table `{self.table}` under {self._folder}, found that {_reason(error)}. Its rows are unharmed; "
                        "make room and compact again."
                    ) from error
                time.sleep(0.01 * (attempt + 1))
                self._handle = open_table(self._root, self.table)
        return False

    def live(self, run_id: str | None = None) -> list[Part]:
        """The live parts as of the last look at the log, of one run or of all, by name."""
        found = pa.table(self._handle.get_add_actions(flatten=True)).select(
            ["path", "size_bytes", "num_records", "partition.run_id"]
        )
        rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
        parts = [Part(self.table, path, size, num_rows or 0, run) for path, size, num_rows, run in rows]
        return sorted((p for p in parts if run_id is None or p.run_id == run_id), key=lambda p: p.path)

    def vacuum(self, hours: int) -> list[str]:
        """Remove files that no version of the last `hours` needs, never committed ones included; returns their names."""
        self.refresh()
        return self._handle.vacuum(retention_hours=hours, dry_run=False, full=True)

    def trim(self) -> int:
        """Remove log entries that a checkpoint stands for, but the newest ones; returns how many. Every commit lists the log.

        Older versions can't be read after that, except those with a checkpoint of their own: see `pin`.
        """
        log = self._folder / "_delta_log"
        try:
            checkpoint = json.loads((log / "_last_checkpoint").read_text(encoding="utf-8"))["version"]
        except FileNotFoundError:
            return 0
        old = sorted(log.glob(f"{'[0-9]' * 20}.json"))
        removed = [entry for entry in old if int(entry.stem) < checkpoint - LOG_ENTRIES_KEPT]
        for entry in removed:  # the oldest first: what is left is without gaps whenever this ends
            entry.unlink(missing_ok=True)
        return len(removed)

    def refresh(self) -> int:
        """Look at the log again; returns the version seen. Raises CorruptStoreError when it can't be read."""
        try:
            self._handle.update_incremental()
        except DeltaError:
            self._handle = open_table(self._root, self.table)
        return self._handle.version()

    def _commit(self, actions: Sequence[AddAction | RemoveAction], properties: CommitProperties) -> None:
        self._handle.create_write_transaction(
            list(actions), "append", delta_schema(self.table), partition_by=["run_id"], commit_properties=properties
        )

    def _make_durable(self, since: int) -> None:
        """Fsync every log entry after version `since`: a version can be read only when all before it can."""
        log = self._folder / "_delta_log"
        version = since + 1
        while (entry := log / f"{version:020d}.json").exists():
            fsync(entry)
            checkpoint = log / f"{version:020d}.checkpoint.parquet"
            if checkpoint.exists():
                fsync(checkpoint)
                fsync(log / "_last_checkpoint")
            version += 1
        fsync(log)


def create_table(root: Path, table: str) -> None:
    """An empty Delta table with the record's columns, partitioned by run_id. Every column is nullable in the log."""
    folder = table_path(root, table)
    if not DeltaTable.is_deltatable(str(folder)):
        make_folder(folder)
        DeltaTable.create(str(folder), delta_schema(table), mode="ignore", partition_by=["run_id"], name=table)
    log = folder / "_delta_log"
    fsync(log / f"{0:020d}.json")
    fsync(log)
    fsync(folder)


def add_columns(root: Path, table: str) -> None:
    """Give a table of an older version the columns that its record has now; they are NULL in older parts."""
    handle = open_table(root, table)
    there = {field.name for field in handle.schema().fields}
    missing = [field for field in Schema.from_arrow(delta_schema(table)).fields if field.name not in there]
    if missing:
        since = handle.version()
        handle.alter.add_columns(missing)
        log = table_path(root, table) / "_delta_log"
        fsync(log / f"{since + 1:020d}.json")
        fsync(log)


def delta_schema(table: str) -> pa.Schema:
    schema = arrow_schema(table)
    return pa.schema([field.with_nullable(True) for field in schema], metadata=schema.metadata)


def open_table(root: Path, table: str) -> DeltaTable:
    """Raises CorruptStoreError when it is missing or unreadable, or when a feature is on that would make file lists wrong."""
    folder = table_path(root, table)
    try:
        found = DeltaTable(str(folder))
    except TableNotFoundError as error:
        raise CorruptStoreError(
            f"Expected the Delta table {folder}, found none. Restore it from a backup; the Parquet files of the other tables are unharmed."
        ) from error
    except (DeltaError, OSError, ValueError) as error:
        raise CorruptStoreError(
            f"Expected a readable Delta log in {folder / '_delta_log'}, found that {error}. Restore the log from a backup; the Parquet files "
            "beside it are unharmed."
        ) from error
    protocol = found.protocol()
    features = set(protocol.reader_features or []) - HARMLESS_FEATURES
    if protocol.min_reader_version == 2:
        features.add("columnMapping")
    if features:
        raise CorruptStoreError(
            f"Expected plain Parquet files in table `{table}`, found the Delta features {sorted(features)} in {folder / '_delta_log'}, switched "
            "on by another program: the list of files no longer says which rows are live. Rewrite the table without them in that program."
        )
    return found


def pin(root: Path, table: str) -> int:
    """The table's version, with a checkpoint of its own, so that it can be read again after `trim`. Raises StoreError."""
    handle = open_table(root, table)
    version = handle.version()
    path = table_path(root, table) / "_delta_log" / f"{version:020d}.checkpoint.parquet"
    if not path.exists():
        try:
            handle.create_checkpoint()
            fsync(path)
            fsync(path.parent)
        except (DeltaError, OSError) as error:
            raise StoreError(
                f"Expected to write {path}, found that {_reason(error)}. Make room, or look at its rights."
            ) from error
    return version


def write_part(root: Path, table: str, rows: pa.Table, run_id: str, name: str) -> Part:
    """Write one durable part. Raises StoreError when the disk refuses; nothing half-written stays."""
    texts = [field.name for field in rows.schema if field.type == pa.string() and field.name.endswith("_id")]
    numbers = [field.name for field in rows.schema if pa.types.is_primitive(field.type)]
    sink, kept = pa.BufferOutputStream(), rows.drop_columns(["run_id"])
    with pq.ParquetWriter(
        sink,
        kept.schema,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=DICTIONARY,
        write_statistics=[column for column in texts + numbers if column != "run_id"],
    ) as writer:
        for piece in _pieces(kept):
            writer.write_table(piece, row_group_size=max(1, piece.num_rows))
    content = sink.getvalue()
    digest = hashlib.sha256(content).hexdigest()[:32]
    folder = table_path(root, table) / f"run_id={run_id}"
    path = folder / f"{name}-{digest}.parquet"
    try:
        make_folder(folder)
        write_durable(path, content)
    except OSError as error:
        raise StoreError(
            f"Expected to write {rows.num_rows} rows of table `{table}` under {folder}, found that {_reason(error)}. Nothing of this step is "
            "visible; make room and resume the run from its last checkpoint."
        ) from error
    return Part(table, f"run_id={run_id}/{path.name}", content.size, rows.num_rows, run_id)


def read_part(root: Path, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a part, checksums verified, run_id put back. Raises CorruptStoreError when it can't be read."""
    path = table_path(root, part.table) / part.path
    try:
        # partitioning=None: the folder's name is not the file's business.
        rows = pq.read_table(path, columns=columns, page_checksum_verification=True, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise CorruptStoreError(
            f"Expected to read the part {path}, found that {error}. `mentor-audit check STORE` lists every part that is missing or altered."
        ) from error
    if columns is None:
        rows = rows.add_column(0, pa.field("run_id", pa.string(), False), pa.array([part.run_id] * rows.num_rows, pa.string()))
    return rows


def table_path(root: Path, table: str) -> Path:
    return root / TABLES_FOLDER / table


def write_durable(path: Path, content: bytes | pa.Buffer) -> None:
    """A whole file or none: temporary name, fsync, rename, fsync of the folder. Raises OSError, and leaves nothing behind."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    fsync(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, durably."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    fsync(folder.parent)


def fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in order, halved until a piece is small enough to be a row group: a reader of one row loads no more than that."""
    if rows.num_rows <= 1 or rows.nbytes <= ROW_GROUP_BYTES:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _pieces(rows.slice(0, half))
    yield from _pieces(rows.slice(half))


def _add(part: Part, data_change: bool) -> AddAction:
    stats = json.dumps({"numRecords": part.num_rows})
    return AddAction(part.path, part.size, {"run_id": part.run_id}, int(time.time() * 1000), data_change, stats)


def _is_full(error: Exception) -> bool:
    words = str(error)
    return getattr(error, "errno", None) in FULL or any(f"os error {number}" in words for number in FULL)


def _reason(error: Exception) -> str:
    return f"the disk is full ({error})" if _is_full(error) else str(error)
