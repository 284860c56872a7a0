"""A run that trains nothing, committed in batches: a failure bank, a replay, an audit.

A batch is a unit like a training step, whole or not there. `step` counts the batches over all launches of the run, so nothing that an
earlier launch committed is superseded, and whoever comes again looks at what is there and does the rest.
"""

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from mentor_audit.records import Mode, Problem, Row, Run, TrainStep
from mentor_audit.store.store import Store
from mentor_audit.store.writer import StepRows


class BatchRun:
    """A context manager; leaving it ends the launch. Raises WriterLockedError while another process writes the run."""

    def __init__(self, store: Store, run: Run, mode: Mode) -> None:
        self.run_id, self.mode = run.run_id, mode
        self._writer = store.writer(run)
        try:
            self.first_step = self.step = _next_step(store, run.run_id)
        except BaseException:
            self._writer.close("error: it could not look at what is there")
            raise

    @property
    def launch(self) -> int:
        return self._writer.launch

    def columns(self) -> dict[str, Any]:
        """What every row of the next batch carries."""
        return {"run_id": self.run_id, "launch": self.launch, "step": self.step, "mode": self.mode, "rank": 0}

    def put_problems(self, problems: Sequence[Problem]) -> None:
        self._writer.put_problems(problems)

    def commit(self, tables: Mapping[str, Sequence[Row]], wall_seconds: float, metrics: Mapping[str, Any] | None = None) -> None:
        """Hand one batch over, its train_step row with it. It is durable when the run is left, or after `flush`."""
        rows: dict[str, list[Any]] = {table: list(found) for table, found in tables.items() if found}
        groups: list[Any] = rows.get("attempt_group", [])
        zero = sum(group.zero_reward for group in groups)
        counts = {table: len(found) for table, found in rows.items()}
        rows["train_step"] = [
            TrainStep(
                **self.columns(),
                train_step_id=f"{self.run_id}.l{self.launch}.{self.mode[0]}{self.step}",
                launch_start_step=self.first_step,
                world_size=1,
                num_groups=len(groups),
                num_zero_reward_groups=zero,
                zero_reward_fraction=zero / len(groups) if groups else None,
                zero_reward_fraction_after=zero / len(groups) if groups else None,
                num_inserted=0,
                wall_seconds=wall_seconds,
                metrics=json.dumps(dict(metrics or {}), sort_keys=True),
                row_counts=json.dumps({**counts, "train_step": 1}, sort_keys=True),
            )
        ]
        self._writer.commit_step(StepRows(self.step, self.mode, rows))
        self.step += 1

    def flush(self) -> None:
        self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        how = "finished" if kind is None else "interrupted" if kind is KeyboardInterrupt else f"error: {kind.__name__}"
        self._writer.close(how)


def _next_step(store: Store, run_id: str) -> int:
    found = store.arrow(f"SELECT max(step) AS last FROM train_step WHERE run_id = '{run_id}'").to_pylist()[0]["last"]
    return 0 if found is None else int(found) + 1
