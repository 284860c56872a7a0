"""The writer of a run: steps go in beside training and become durable one whole step at a time.

A bounded queue and one thread: training waits for room rather than drop a row. Within a unit, tables are committed parents first and
`train_step` last; readers show only units that have their `train_step` row. What was handed over is safe once `flush` returned.
"""

import contextlib
import hashlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import filelock

from mentor_audit.errors import RecordError, StoreError, WriterLockedError
from mentor_audit.records import TRAJECTORY_TABLES, Problem, Run
from mentor_audit.schema import to_arrow, validate_rows
from mentor_audit.store.compact import FAN, compact_run
from mentor_audit.store.delta import Part, TableLog, make_folder, read_part, write_durable, write_part
from mentor_audit.store.registry import Registry

QUEUE_UNITS = 8
COMPACT_EVERY = FAN
RANK_SECONDS = 600.0
CLOSING_RANK_SECONDS = 30.0
STOP = object()


@dataclass(frozen=True)
class StepRows:
    """One rank's rows of a unit, by table. `train_step` holds exactly one row on rank 0, none on the others."""

    step: int
    mode: str
    rows: dict[str, list[Any]]


class _Writer:
    """Rows in, parts out, in a daemon thread of its own. A failure there is raised by every later call."""

    def __init__(self, root: Path, run_id: str, launch: int, rank: int) -> None:
        self.run_id, self.launch, self.rank = run_id, launch, rank
        self._root = root
        self._queue: queue.Queue[Any] = queue.Queue(QUEUE_UNITS)
        self._failure: BaseException | None = None
        self._closing_since: float | None = None
        self._thread = threading.Thread(target=self._work, name=f"writer of {run_id}", daemon=True)
        self._thread.start()

    def commit_step(self, unit: StepRows) -> None:
        """Hand a unit over; returns at once unless the queue is full. The same unit again, with the same rows, changes nothing.

        Raises RecordError for rows that break their record, or belong to another unit or table.
        """
        self._check()
        self._queue.put(self._validated(unit))

    def flush(self) -> None:
        """Return when everything handed over is durable."""
        self._check()
        self._queue.join()
        self._check()

    def close(self, ended_how: str) -> None:
        """Write what was handed over and stop. Safe to call twice."""
        if self._closing_since is not None:
            return
        self._closing_since = time.monotonic()
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

    def _validated(self, unit: StepRows) -> StepRows:
        """A copy with every row checked against its record and its unit."""
        own = {"run_id": self.run_id, "launch": self.launch, "step": unit.step, "mode": unit.mode}
        checked: dict[str, list[Any]] = {}
        for table, rows in unit.rows.items():
            if table not in TRAJECTORY_TABLES or table == "problem":
                known = ", ".join(name for name in TRAJECTORY_TABLES if name != "problem")
                raise RecordError(f"Expected tables of a step ({known}), found `{table}`. Problems go through put_problems().")
            checked[table] = validate_rows(table, rows)
            for row in checked[table]:
                found = {name: getattr(row, name) for name in own}
                if found != own:
                    raise RecordError(
                        f"Expected rows of {own} in table `{table}`, found one of {found}. Commit it with its own unit."
                    )
        expected, count = (1 if self.rank == 0 else 0), len(checked.get("train_step", []))
        if count != expected:
            raise RecordError(
                f"Expected {expected} train_step row from rank {self.rank} in step {unit.step} ({unit.mode}), found {count}. Rank 0 hands in "
                "exactly one; with it the step is whole."
            )
        return StepRows(unit.step, unit.mode, checked)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closing_since is not None:
            raise StoreError(
                f"Expected an open writer of run {self.run_id}, found it closed. Open the next launch with store.writer()."
            )

    def _write(self, item: Any) -> None:
        raise NotImplementedError

    def _end(self, ended_how: str) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.close("finished" if kind is None else f"error: {kind.__name__}")


class RunWriter(_Writer):
    """Rank 0's: holds the run's lock and launch, and is the only one that commits."""

    def __init__(self, root: Path, registry: Registry, run: Run, resumed_from_step: int | None, world_size: int) -> None:
        run_id = run.run_id
        self._lock = _lock_run(root, run_id)
        try:
            self._registry, self._world_size = registry, world_size
            self._logs = {table: TableLog(root, table) for table in TRAJECTORY_TABLES}
            self._sequence = 0
            self._units: dict[tuple[int, str], str] = {}
            self._problems = _ids_there(root, self._logs["problem"], run_id)
            registry.add_run(run)
            launch = registry.open_launch(run_id, resumed_from_step)
        except BaseException:
            self._lock.release()
            raise
        super().__init__(root, run_id, launch, 0)

    def put_problems(self, problems: Sequence[Problem]) -> None:
        """Hand problems over; they are committed before any later step. Those that this run has written before are left out."""
        self._check()
        rows: list[Any] = validate_rows("problem", problems)
        new = {row.problem_id: row for row in rows if row.problem_id not in self._problems}
        if new:
            self._problems |= new.keys()
            self._queue.put([row.model_copy(update={"run_id": self.run_id}) for row in new.values()])

    def _write(self, item: Any) -> None:
        if isinstance(item, list):
            name = f"l{self.launch}-problems-r{self.rank}"
            self._commit("problem", [write_part(self._root, "problem", to_arrow("problem", item), self.run_id, name)])
            return
        parts = [*self._parts(item), *self._other_ranks(item)]
        key, content = (item.step, item.mode), _content(parts)
        if key in self._units:
            if self._units[key] != content:
                raise _other_rows(self.run_id, self.launch, item)
            return
        for table in TRAJECTORY_TABLES:
            own = [part for part in parts if part.table == table]
            if own:
                self._commit(table, own)
        self._units[key] = content
        if len(self._units) % COMPACT_EVERY == 0:
            compact_run(self._root, self.run_id, self._logs)

    def _commit(self, table: str, parts: list[Part]) -> None:
        self._sequence += 1
        self._logs[table].append(parts, f"{self.run_id}/{self.launch}", self._sequence)

    def _other_ranks(self, unit: StepRows) -> list[Part]:
        """What the other ranks announced for this unit; waits for the slowest, less long once the writer is closing."""
        parts = []
        started = time.monotonic()
        for rank in range(1, self._world_size):
            manifest = _manifest(self._root, self.run_id, self.launch, unit, rank)
            while not manifest.exists():
                closing = self._closing_since
                patience = started + RANK_SECONDS if closing is None else max(started, closing) + CLOSING_RANK_SECONDS
                if time.monotonic() > patience:
                    raise StoreError(
                        f"Expected rank {rank}'s rows of step {unit.step} ({unit.mode}) of run {self.run_id}, found no {manifest} after "
                        f"{time.monotonic() - started:.0f} s. Look at that rank's log, then resume from the last checkpoint."
                    )
                time.sleep(0.005)
            parts += [Part(**part) for part in json.loads(manifest.read_text(encoding="utf-8"))]
            manifest.unlink()
        return parts

    def _end(self, ended_how: str) -> None:
        try:
            if self._failure is None:
                compact_run(self._root, self.run_id, self._logs, final=True)
        except BaseException as error:
            self._failure = error
        finally:
            how = ended_how if self._failure is None else f"error: {type(self._failure).__name__}"
            try:
                self._registry.close_launch(self.run_id, self.launch, how)
            finally:
                self._lock.release()


class RankWriter(_Writer):
    """A rank above 0: writes durable parts and announces them in a manifest that rank 0 commits.

    Its `flush` says that the parts are durable; they are whole steps once rank 0's `flush` returned as well.
    """

    def _write(self, item: Any) -> None:
        manifest = _manifest(self._root, self.run_id, self.launch, item, self.rank)
        content = json.dumps([asdict(part) for part in self._parts(item)])
        try:
            make_folder(manifest.parent)
            write_durable(manifest, content.encode())
        except OSError as error:
            raise StoreError(
                f"Expected to announce step {item.step} ({item.mode}) in {manifest}, found that {error}. Make room, then resume the run."
            ) from error

    def _end(self, ended_how: str) -> None:
        """Rank 0 closes the launch."""


def _manifest(root: Path, run_id: str, launch: int, unit: StepRows, rank: int) -> Path:
    return root / "staged" / run_id / f"l{launch}-{unit.mode}-{unit.step:08d}-r{rank}.json"


def _content(parts: Sequence[Part]) -> str:
    """Part names carry the sha256 of their content, so equal names are equal rows."""
    return hashlib.sha256("\n".join(sorted(part.path for part in parts)).encode()).hexdigest()


def _other_rows(run_id: str, launch: int, unit: StepRows) -> StoreError:
    return StoreError(
        f"Expected step {unit.step} ({unit.mode}) of run {run_id} once in launch {launch}, found it again with other rows. Rows are appended "
        "once; to run a step again, open a new launch."
    )


def _ids_there(root: Path, log: TableLog, run_id: str) -> set[str]:
    """Problems that earlier launches of the run have written."""
    key = "problem_id"
    return {found for part in log.live(run_id) for found in read_part(root, part, [key])[key].to_pylist()}


def _lock_run(root: Path, run_id: str) -> filelock.BaseFileLock:
    """The run's lock; it goes with the process that holds it. Raises WriterLockedError that names the holder."""
    folder = root / "locks"
    make_folder(folder)
    lock = filelock.FileLock(folder / f"{run_id}.lock", timeout=0, thread_local=False)
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
