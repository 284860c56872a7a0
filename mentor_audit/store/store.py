"""The trajectory store: a folder of Delta tables and a registry. The one object that users open."""

import os
import re
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import pyarrow as pa

from mentor_audit.errors import QueryError, RecordError, StoreError
from mentor_audit.records import TRAJECTORY_TABLES, Run
from mentor_audit.store import check as checking
from mentor_audit.store import compact as compacting
from mentor_audit.store.delta import create_table, make_folder, open_table, pin
from mentor_audit.store.registry import Registry
from mentor_audit.store.version import MARKER, is_missing_in_old_store, read_marker, upgrade, write_marker
from mentor_audit.store.writer import RankWriter, RunWriter

if TYPE_CHECKING:
    import polars as pl

    from mentor_audit.store.reader import NamedQuery
    from mentor_audit.store.untrusted import Limits

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
MIN_VACUUM_HOURS = 168
OWN_FILES = re.compile(r"tables|models|locks|registry\.sqlite(-wal|-shm|-journal)?|\.store\.json\..*")


class Store:
    """Open with `Store.open` or `Store.create`. Any number of processes may read while runs are written.

    root       the folder
    registry   runs, launches and human labels
    """

    def __init__(self, root: Path, registry_url: str | None) -> None:
        self.root = root
        self.registry = Registry(root / "registry.sqlite", registry_url)

    @classmethod
    def create(cls, path: str | PathLike[str], registry_url: str | None = None, *, exist_ok: bool = False) -> "Store":
        """A store in a missing or empty folder. Raises StoreError for any other folder, unless `exist_ok` and it is a store."""
        root = Path(path)
        if root.exists() and not root.is_dir():
            raise StoreError(f"Expected a folder at {root}, found a file. Choose another path.")
        try:
            make_folder(root / "locks")
            with filelock.FileLock(root / "locks" / ".create.lock"):
                return cls._create(root, registry_url, exist_ok)
        except OSError as error:
            raise StoreError(f"Expected to make a store at {root}, found that {error}. Choose another folder.") from error

    @classmethod
    def _create(cls, root: Path, registry_url: str | None, exist_ok: bool) -> "Store":
        """Under a lock: several processes may want the same store. The marker comes last, so a kill leaves none or a whole one."""
        if (root / MARKER).exists():
            if exist_ok:
                return cls.open(root)
            raise StoreError(f"Expected no store at {root} yet, found one. Open it, or choose another folder.")
        others = sorted(name for name in os.listdir(root) if not OWN_FILES.fullmatch(name))
        if others:
            raise StoreError(
                f"Expected {root} to be empty or a store, found {', '.join(others[:3])} in it. Choose another folder."
            )
        store = cls(root, registry_url)
        for table in TRAJECTORY_TABLES:
            create_table(root, table)
        store.registry.create()
        write_marker(root, registry_url)
        return store

    @classmethod
    def open(cls, path: str | PathLike[str]) -> "Store":
        """Raises StoreError when there is no store, SchemaVersionError when it was written by a newer version."""
        root = Path(path)
        marker = read_marker(root)
        store = cls(root, marker.get("registry_url"))
        store.registry.require()
        return store

    def writer(self, run: Run, resumed_from_step: int | None = None, world_size: int = 1) -> RunWriter:
        """Rank 0's writer: locks the run, registers it and opens its next launch.

        Raises WriterLockedError while another writer of the run is alive, RecordError for a run id that can't name a file.
        """
        _require_file_name(run.run_id)
        try:
            upgrade(self.root)
            return RunWriter(self.root, self.registry, run, resumed_from_step, world_size)
        except OSError as error:
            raise StoreError(
                f"Expected to open a writer in {self.root}, found that {error}. Make room or look at its rights."
            ) from error

    def rank_writer(self, run_id: str, launch: int, rank: int) -> RankWriter:
        """The writer of a rank above 0, in the launch that rank 0 opened."""
        _require_file_name(run_id)
        return RankWriter(self.root, run_id, launch, rank)

    def versions(self, *, pinned: bool = False) -> dict[str, int]:
        """Delta version of each table, the same whole steps in all: with them a report can be made again after more data has come.

        `pinned` writes a small checkpoint for each: without it a version can be read for the next few dozen commits only. Their
        files stay for a week after they were replaced. Raises StoreError when a checkpoint can't be written.

        `train_step` is committed last and so looked at first: what it names is there in the tables that are looked at after it.
        """
        look = pin if pinned else lambda root, table: open_table(root, table).version()
        there = [table for table in TRAJECTORY_TABLES if not is_missing_in_old_store(self.root, table)]
        found = {table: look(self.root, table) for table in reversed(there)}
        return {table: found[table] for table in there}

    def sql(self, text: str, limits: "Limits | None" = None) -> "pl.DataFrame":
        """Any SQL over the views, in a child process without access to anything else. Raises QueryError, QueryLimitError.

        A second column of one name gets a number, arm_1; a column of a type that no frame can hold is a QueryError.
        """
        import polars as pl

        from mentor_audit.store.untrusted import run_untrusted

        table = run_untrusted(self.root, text, limits)
        try:
            found: Any = pl.from_arrow(table)
        except pl.exceptions.PolarsError:
            types = ", ".join(f"{field.name} {field.type}" for field in table.schema)
            raise QueryError(f"Expected columns that a Polars frame can hold, found {types}. CAST to VARCHAR.") from None
        return found

    def arrow(self, text: str, versions: dict[str, int] | None = None) -> pa.Table:
        """SQL of our own, in this process, as Arrow. Never pass it text from a model or a stranger."""
        from mentor_audit.store import reader

        with reader.connect(self.root, self.registry, versions) as connection:
            return reader.fetch(connection, text)

    def query(self, name: str, **parameters: Any) -> "pl.DataFrame":
        """A named query. Raises QueryError for a name that isn't one, with the nearest."""
        from mentor_audit.store import reader

        with reader.connect(self.root, self.registry) as connection:
            return reader.run(connection, name, parameters)

    def queries(self) -> "list[NamedQuery]":
        from mentor_audit.store import reader

        return reader.queries()

    def chain(self, attempt_id: str) -> "pl.DataFrame":
        """One failed attempt and what followed, a row a response. Raises QueryError when the id isn't there."""
        from mentor_audit.store import reader

        with reader.connect(self.root, self.registry) as connection:
            return reader.chain(connection, attempt_id)

    def table(self, name: str) -> "pl.DataFrame":
        """A whole view, such as `attempt`, `cost` or `chain`."""
        from mentor_audit.store import reader

        with reader.connect(self.root, self.registry) as connection:
            return reader.table(connection, name)

    def check(self) -> list[checking.Finding]:
        """Prove links, keys, counts and checksums; empty when all hold but for findings of severity `info`."""
        return checking.check_store(self)

    def compact(self, run_id: str | None = None) -> dict[str, int]:
        """Merge small files of one run, or of all; files replaced, by table."""
        upgrade(self.root)
        if run_id is None:
            return compacting.compact_store(self.root)
        _require_file_name(run_id)
        return compacting.compact_run(self.root, run_id, final=True)

    def vacuum(self, hours: int = MIN_VACUUM_HOURS) -> int:
        """Remove files that no version of the last `hours` needs. Raises StoreError for less than a week."""
        if hours < MIN_VACUUM_HOURS:
            raise StoreError(
                f"Expected to keep at least {MIN_VACUUM_HOURS} hours of versions, found {hours}: readers and reports name older versions. "
                "Choose a week or more."
            )
        upgrade(self.root)
        return compacting.vacuum(self.root, hours)


def _require_file_name(run_id: str) -> None:
    if not RUN_ID.fullmatch(run_id):
        raise RecordError(
            f"Expected a run id of letters, digits, '.', '_' and '-', found {run_id!r}. It names files; choose another."
        )
