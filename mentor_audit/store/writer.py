"""The writer of a run: steps go in beside training and become durable one whole step at a time.

A bounded queue and one thread: training waits for room rather than drop a row. Within a unit, tables are committed parents first and
`train_step` last; readers show only units that have their `train_step` row.
"""

import contextlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock

from mentor_audit.errors import RecordError, StoreError, WriterLockedError
from mentor_audit.records import TRAJECTORY_TABLES, Problem, Row
from mentor_audit.schema import to_arrow
from mentor_audit.store.compact import compact_run
from mentor_audit.store.delta import Part, commit_parts, fsync, write_part

QUEUE_UNITS = 8
COMPACT_EVERY = 20
RANK_SECONDS = 600.0
STOP = object()


@dataclass(frozen=True)
class StepRows:
    """One rank's rows of a unit, by table. `train_step` holds exactly one row on rank 0, none on the others."""

    step: int
    mode: str
    rows: dict[str, list[Any]]


class _Writer:
    """Rows in, parts out, in a thread of its own. A failure there is raised by the next call."""

    def __init__(self, root: Path, run_id: str, launch: int, rank: int) -> None:
        self.run_id, self.launch, self.rank = run_id, launch, rank
        self._root = root
        self._queue: queue.Queue[Any] = queue.Queue(QUEUE_UNITS)
        self._failure: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"writer of {run_id}", daemon=True)
        self._thread.start()

    def commit_step(self, unit: StepRows) -> None:
        """Hand a unit over; returns at once unless the queue is full. Raises RecordError for rows of another unit or table."""
        self._check()
        self._validate(unit)
        self._queue.put(unit)

    def flush(self) -> None:
        """Return when everything handed over is durable."""
        self._check()
        self._queue.join()
        self._check()

    def close(self, ended_how: str) -> None:
        """Write what was handed over and stop. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(STOP)
        self._thread.join()
        self._end(ended_how)
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while True:
            item = self._queue.get()
            try:
                if item is STOP:
                    return
                if self._failure is None:
                    self._write(item)
            except BaseException as error:
                self._failure = error
            finally:
                self._queue.task_done()

    def _parts(self, unit: StepRows) -> list[Part]:
        name = f"l{self.launch}-{unit.mode}-{unit.step:08d}-r{self.rank}"
        return [
            write_part(self._root, table, to_arrow(table, unit.rows[table]), self.run_id, name)
            for table in TRAJECTORY_TABLES
            if unit.rows.get(table)
        ]

    def _validate(self, unit: StepRows) -> None:
        own = {"run_id": self.run_id, "launch": self.launch, "step": unit.step, "mode": unit.mode}
        for table, rows in unit.rows.items():
            if table not in TRAJECTORY_TABLES or table == "problem":
                raise RecordError(f"Expected tables of a step ({', '.join(TRAJECTORY_TABLES)}), found `{table}`. See records.py.")
            for row in rows:
                found = {name: getattr(row, name) for name in own}
                if found != own:
                    raise RecordError(f"Expected rows of {own} in table `{table}`, found one of {found}. Commit it with its own unit.")
        expected = 1 if self.rank == 0 else 0
        if len(unit.rows.get("train_step", [])) != expected:
            raise RecordError(
                f"Expected {expected} train_step row from rank {self.rank} in step {unit.step} ({unit.mode}), found "
                f"{len(unit.rows.get('train_step', []))}. Rank 0 hands in exactly one; with it the step is whole."
            )

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise StoreError(f"Expected an open writer of run {self.run_id}, found it closed. Open the next launch with store.writer().")

    def _write(self, unit: Any) -> None:
        raise NotImplementedError

    def _end(self, ended_how: str) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.close("finished" if kind is None else f"error: {kind.__name__}")


class RunWriter(_Writer):
    """Rank 0's: holds the run's lock and launch, and is the only one that commits."""

    def __init__(self, root: Path, registry: Any, run_id: str, resumed_from_step: int | None, world_size: int) -> None:
        self._lock = _lock_run(root, run_id)
        self._registry, self._world_size = registry, world_size
        self._sequence = 0
        self._units = 0
        launch = registry.open_launch(run_id, resumed_from_step)
        super().__init__(root, run_id, launch, 0)

    def put_problems(self, problems: Sequence[Problem]) -> None:
        """Hand problems over; they are committed before any later step."""
        self._check()
        if problems:
            self._queue.put([row.model_copy(update={"run_id": self.run_id}) for row in problems])

    def _write(self, unit: Any) -> None:
        if isinstance(unit, list):
            part = write_part(self._root, "problem", to_arrow("problem", unit), self.run_id, f"l{self.launch}-problems")
            self._commit("problem", [part])
            return
        by_table: dict[str, list[Part]] = {table: [] for table in TRAJECTORY_TABLES}
        for part in [*self._parts(unit), *self._other_ranks(unit)]:
            by_table[part.table].append(part)
        for table, parts in by_table.items():
            if parts:
                self._commit(table, parts)
        self._units += 1
        if self._units % COMPACT_EVERY == 0:
            compact_run(self._root, self.run_id)

    def _commit(self, table: str, parts: list[Part]) -> None:
        self._sequence += 1
        commit_parts(self._root, table, parts, f"{self.run_id}/{self.launch}", self._sequence)

    def _other_ranks(self, unit: StepRows) -> list[Part]:
        """What the other ranks announced for this unit; waits for the slowest."""
        parts = []
        deadline = time.monotonic() + RANK_SECONDS
        for rank in range(1, self._world_size):
            manifest = _manifest(self._root, self.run_id, self.launch, unit, rank)
            while not manifest.exists():
                if time.monotonic() > deadline:
                    raise StoreError(
                        f"Expected rank {rank}'s rows of step {unit.step} ({unit.mode}) of run {self.run_id} within {RANK_SECONDS:.0f} s, "
                        f"found no {manifest}. Look at that rank's log, then resume from the last checkpoint."
                    )
                time.sleep(0.005)
            parts += [Part(**part) for part in json.loads(manifest.read_text(encoding="utf-8"))]
            manifest.unlink()
        return parts

    def _end(self, ended_how: str) -> None:
        if self._failure is None:
            compact_run(self._root, self.run_id)
        how = ended_how if self._failure is None else f"error: {type(self._failure).__name__}"
        self._registry.close_launch(self.run_id, self.launch, how)
        self._lock.release()


class RankWriter(_Writer):
    """A rank above 0: writes durable parts and announces them in a manifest that rank 0 commits."""

    def _write(self, unit: Any) -> None:
        manifest = _manifest(self._root, self.run_id, self.launch, unit, self.rank)
        manifest.parent.mkdir(parents=True, exist_ok=True)
        temporary = manifest.with_suffix(".tmp")
        temporary.write_text(json.dumps([asdict(part) for part in self._parts(unit)]), encoding="utf-8")
        fsync(temporary)
        os.rename(temporary, manifest)
        fsync(manifest.parent)

    def _end(self, ended_how: str) -> None:
        pass


def _manifest(root: Path, run_id: str, launch: int, unit: StepRows, rank: int) -> Path:
    return root / "staged" / run_id / f"l{launch}-{unit.mode}-{unit.step:08d}-r{rank}.json"


def _lock_run(root: Path, run_id: str) -> filelock.FileLock:
    """The run's lock; it goes with the process that holds it. Raises WriterLockedError that names the holder."""
    folder = root / "locks"
    folder.mkdir(exist_ok=True)
    lock = filelock.FileLock(folder / f"{run_id}.lock", timeout=0)
    owner = folder / f"{run_id}.owner"
    try:
        lock.acquire()
    except filelock.Timeout:
        holder = "an unknown process"
        with contextlib.suppress(OSError):
            holder = owner.read_text(encoding="utf-8")
        raise WriterLockedError(
            f"Expected to be the only writer of run {run_id}, found {holder} writing it. Wait for it to end, stop it, or use another "
            "run id."
        ) from None
    owner.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    return lock
