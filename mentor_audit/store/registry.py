"""Runs, launches and human labels: SQLModel on SQLite in WAL mode, or any other database by URL."""

import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, SQLModel, create_engine, func, select

from mentor_audit.errors import StoreError
from mentor_audit.records import REGISTRY_TABLES, HumanLabel, Launch, Run
from mentor_audit.schema import to_arrow

BUSY_SECONDS = 60


class Registry:
    """A short transaction for each call; any number of processes may use one registry."""

    def __init__(self, path: Path, url: str | None = None) -> None:
        self._engine = create_engine(url or f"sqlite:///{path}", connect_args={} if url else {"timeout": BUSY_SECONDS})
        if url is None:
            event.listen(self._engine, "connect", _wal)
        tables = [model.__table__ for model in REGISTRY_TABLES.values()]  # type: ignore[attr-defined]
        SQLModel.metadata.create_all(self._engine, tables=tables)

    def add_run(self, run: Run) -> None:
        """Once a run; a run that is there already stays as it is."""
        with Session(self._engine, expire_on_commit=False) as session:
            if session.get(Run, run.run_id) is None:
                session.add(Run(**run.model_dump()))
                try:
                    session.commit()
                except IntegrityError:
                    session.rollback()

    def set_calibration(self, run_id: str, calibration: str) -> None:
        """Counted against computed FLOPs, as JSON."""
        with Session(self._engine) as session:
            run = session.get(Run, run_id)
            if run is None:
                raise StoreError(f"Expected run {run_id} in the registry, found none. Open its writer first.")
            run.flop_calibration = calibration
            session.add(run)
            session.commit()

    def open_launch(self, run_id: str, resumed_from_step: int | None) -> int:
        """The number of a new launch. The caller holds the run's lock."""
        with Session(self._engine) as session:
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
            session.commit()
        return launch

    def close_launch(self, run_id: str, launch: int, ended_how: str) -> None:
        with Session(self._engine) as session:
            row = session.get(Launch, (run_id, launch))
            if row is not None:
                row.ended_at, row.ended_how = datetime.now(UTC), ended_how
                session.add(row)
                session.commit()

    def add_label(self, label: HumanLabel) -> None:
        with Session(self._engine) as session:
            session.add(HumanLabel(**label.model_dump()))
            session.commit()

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

    def _all(self, model: Any, *order: Any) -> Any:
        with Session(self._engine, expire_on_commit=False) as session:
            return session.exec(select(model).order_by(*order)).all()


def _wal(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _with_utc(row: Any) -> Any:
    """SQLite forgets the zone; what was written is UTC."""
    times = {k: v.replace(tzinfo=UTC) for k, v in row.model_dump().items() if isinstance(v, datetime) and v.tzinfo is None}
    return type(row)(**{**row.model_dump(), **times})
