"""Runs, launches and human labels: SQLModel on SQLite in WAL mode, or any other database by URL."""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy import event, inspect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlmodel import Session, SQLModel, create_engine, func, select

from mentor_audit.errors import StoreError
from mentor_audit.records import REGISTRY_TABLES, HumanLabel, Launch, Run
from mentor_audit.schema import to_arrow

BUSY_SECONDS = 60


class Registry:
    """A short transaction and a connection of its own for each call: any number of processes and forks may use one registry."""

    def __init__(self, path: Path, url: str | None = None) -> None:
        self._place = _without_password(url) if url else str(path)
        self._is_sqlite = url is None or url.startswith("sqlite")
        waits = {"timeout": BUSY_SECONDS} if self._is_sqlite else {}
        try:
            self._engine = create_engine(url or f"sqlite:///{path}", poolclass=NullPool, connect_args=waits)
        except (SQLAlchemyError, ImportError) as error:
            raise StoreError(
                f"Expected a database URL for the registry, such as postgresql+psycopg://user@host/name, found {self._place}: {error}. Correct "
                "it, or install the driver (extra `postgres`)."
            ) from error
        if self._is_sqlite:
            event.listen(self._engine, "connect", _prepare)

    def create(self) -> None:
        """Make the tables that are not there."""
        tables = [model.__table__ for model in REGISTRY_TABLES.values()]  # type: ignore[attr-defined]
        try:
            if self._is_sqlite:
                with self._engine.connect() as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            SQLModel.metadata.create_all(self._engine, tables=tables)
        except DBAPIError as error:
            raise self._refused(error) from error

    def require(self) -> None:
        """Raises StoreError when the registry's tables are not there: a lost registry must not look like an empty one."""
        try:
            found = set(inspect(self._engine).get_table_names())
        except DBAPIError as error:
            raise self._refused(error) from error
        missing = [name for name in REGISTRY_TABLES if name not in found]
        if missing:
            raise StoreError(
                f"Expected the registry {self._place} to hold the tables {', '.join(REGISTRY_TABLES)}, found no {', '.join(missing)}. Restore "
                "it from a backup; the Parquet tables are unharmed."
            )

    def add_run(self, run: Run) -> None:
        """Once a run; a run that is there already stays as it is."""
        with self._write() as session:
            if session.get(Run, run.run_id) is None:
                session.add(Run(**run.model_dump()))

    def set_calibration(self, run_id: str, calibration: str) -> None:
        """Counted against computed FLOPs, as JSON."""
        with self._write() as session:
            run = session.get(Run, run_id)
            if run is None:
                raise StoreError(f"Expected run {run_id} in the registry, found none. Open its writer first.")
            run.flop_calibration = calibration
            session.add(run)

    def open_launch(self, run_id: str, resumed_from_step: int | None) -> int:
        """The number of a new launch. The caller holds the run's lock."""
        with self._write() as session:
            last = session.exec(select(func.max(Launch.launch)).where(Launch.run_id == run_id)).one()
            launch = (last or 0) + 1
            session.add(
                Launch(
                    run_id=run_id,
                    launch=launch,
                    started_at=datetime.now(UTC),
                    resumed_from_step=resumed_from_step,
                    pid=os.getpid(),
                    host=socket.gethostname(),
                )
            )
        return launch

    def close_launch(self, run_id: str, launch: int, ended_how: str) -> None:
        with self._write() as session:
            row = session.get(Launch, (run_id, launch))
            if row is None:
                raise StoreError(
                    f"Expected launch {launch} of run {run_id} in the registry, found none. Run `mentor-audit check`."
                )
            row.ended_at, row.ended_how = datetime.now(UTC), ended_how
            session.add(row)

    def add_label(self, label: HumanLabel) -> None:
        """Of one person on one aspect of a diagnosis there is one label: a newer one takes the place of an older one."""
        with self._write() as session:
            known = session.get(HumanLabel, label.label_id)
            if known is None:
                session.add(HumanLabel(**label.model_dump()))
            elif _with_utc(known).labelled_at <= _with_utc(label).labelled_at:
                known.verdict, known.note, known.labelled_at = label.verdict, label.note, label.labelled_at
                session.add(known)

    def runs(self) -> Sequence[Run]:
        return self._all(Run, Run.run_id)

    def launches(self) -> Sequence[Launch]:
        return self._all(Launch, Launch.run_id, Launch.launch)

    def labels(self) -> Sequence[HumanLabel]:
        return self._all(HumanLabel, HumanLabel.label_id)

    def arrow(self, table: str) -> pa.Table:
        """A registry table as Arrow; times are UTC."""
        rows: dict[str, Any] = {"run": self.runs, "launch": self.launches, "human_label": self.labels}
        found = [_with_utc(row) for row in rows[table]()]
        return to_arrow(table, found)

    def dispose(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _write(self) -> Iterator[Session]:
        """A transaction that takes SQLite's write lock at once: one that reads first and writes later can't wait for another's."""
        try:
            with Session(self._engine) as session:
                if self._is_sqlite:
                    session.connection().exec_driver_sql("BEGIN IMMEDIATE")
                yield session
                session.commit()
        except DBAPIError as error:
            raise self._refused(error) from error

    def _all(self, model: Any, *order: Any) -> Any:
        try:
            with Session(self._engine, expire_on_commit=False) as session:
                return session.exec(select(model).order_by(*order)).all()
        except DBAPIError as error:
            raise self._refused(error) from error

    def _refused(self, error: DBAPIError) -> StoreError:
        return StoreError(
            f"Expected the registry {self._place} to answer, found that {error.orig}. Look for a full disk, missing rights or a program that "
            "holds it, then try again."
        )


def _without_password(url: str) -> str:
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", url)


def _prepare(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _with_utc(row: Any) -> Any:
    """SQLite forgets the zone; what was written is UTC."""
    times = {k: v.replace(tzinfo=UTC) for k, v in row.model_dump().items() if isinstance(v, datetime) and v.tzinfo is None}
    return type(row)(**{**row.model_dump(), **times})
