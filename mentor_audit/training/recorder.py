"""From finished episodes and optimizer phases to committed units, on every rank. Knows the store, not trl.

Rank 0 opens the launch and writes the `train_step` row, with which a unit is whole; the other ranks hand in their own rows.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mentor_audit.cost.ledger import cost_row
from mentor_audit.episode import Unit
from mentor_audit.errors import TrainingError
from mentor_audit.protocols import Usage
from mentor_audit.records import Mode, Payer, Phase, Problem, Row, Run, TrainStep
from mentor_audit.store import RankWriter, RunWriter, StepRows, Store

SAMPLING_PHASES = ("rollout", "extra_sample", "mentor", "follow_up")
"""Phases whose prompt and output tokens a token budget counts; optimizer and log-prob passes read the same tokens again."""


@dataclass
class Spent:
    """What a run has spent so far on training, superseded launches included, held-out evaluation not. FLOPs None: unknown."""

    tokens: int = 0
    flops: float | None = 0.0

    def add(self, tokens: int, flops: float | None) -> None:
        self.tokens += tokens
        self.flops = None if self.flops is None or flops is None else self.flops + flops


@dataclass
class Pending:
    """A unit that is not committed yet."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    phases: dict[Phase, list[Usage]] = field(default_factory=lambda: defaultdict(list))
    discarded: dict[Phase, list[Usage]] = field(default_factory=lambda: defaultdict(list))


class Recorder:
    """One a run and process. `gather` joins the lists of all ranks in rank order on every rank."""

    def __init__(self, store: Store, run: Run, rank: int, world_size: int, gather: Callable[[list[Any]], list[Any]]) -> None:
        self.store, self.run, self.rank, self.world_size = store, run, rank, world_size
        self.spent = Spent()
        self.launch: int | None = None
        self.start_step = 0
        self._gather = gather
        self._writer: RunWriter | RankWriter | None = None
        self._pending: dict[tuple[int, Mode], Pending] = {}
        self._problems: set[str] = set()
        self._committed: set[tuple[int, Mode]] = set()

    def begin(self, start_step: int) -> None:
        """Open the launch; `start_step` is the update that training goes on from (0: from nothing)."""
        self.start_step = start_step
        launch = []
        if self.rank == 0:
            self._writer = self.store.writer(self.run, start_step or None, self.world_size)
            launch = [self._writer.launch]
        self.launch = self._gather(launch)[0]
        if self.rank > 0:
            self._writer = self.store.rank_writer(self.run.run_id, self.launch, self.rank)
        self.spent = self._spent_before()

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    def unit(self, step: int, mode: Mode) -> Unit:
        if self.launch is None:
            raise TrainingError("Expected an open launch, found none: training has not begun. Call train() or evaluate() first.")
        return Unit(self.run.run_id, self.launch, step, mode, self.rank)

    def is_committed(self, step: int, mode: Mode) -> bool:
        return (step, mode) in self._committed

    def pending(self, step: int, mode: Mode) -> Pending:
        return self._pending.setdefault((step, mode), Pending())

    def drop(self, step: int, mode: Mode) -> None:
        """Forget a unit that can't be committed a second time."""
        self._pending.pop((step, mode), None)

    @property
    def wants_calibration(self) -> bool:
        """Rank 0 of a run whose FLOPs have not been counted yet."""
        return self.rank == 0 and self.run.flop_calibration is None

    def calibrated(self, calibration: str) -> None:
        """Store counted against computed FLOPs with the run."""
        self.run.flop_calibration = calibration
        self.store.registry.set_calibration(self.run.run_id, calibration)

    def put_problems(self, problems: list[Problem]) -> None:
        """Write the problems that this launch has not written yet; rank 0 writes those of all ranks."""
        new = {p.problem_id: p for p in self._gather([p for p in problems if p.problem_id not in self._problems])}
        self._problems |= new.keys()
        if new and self.rank == 0:
            self._open_writer.put_problems(list(new.values()))

    def commit(self, step: int, mode: Mode, metrics: Mapping[str, Any], wall_seconds: float) -> None:
        """Hand the unit to the writer. Every rank calls it; `metrics` are TRL's, by TRL's names."""
        pending = self._pending.pop((step, mode), Pending())
        unit = self.unit(step, mode)
        owner = ("train_step", f"{unit.run_id}.l{unit.launch}.{mode[0]}{step}")
        payer: Payer = "learner" if mode == "train" else "eval"
        for used, phases in ((True, pending.phases), (False, pending.discarded)):
            for phase, usages in phases.items():
                row = cost_row(unit.columns, owner, phase, payer, usages, used)
                suffix = "" if used else ".padding"
                pending.rows["cost"].append(row.model_copy(update={"cost_id": f"{owner[1]}.r{self.rank}.{phase}{suffix}"}))
        tables: dict[str, list[Row]] = dict(pending.rows)
        shares = self._gather([self._share(tables)])
        if mode == "train":
            for share in shares:
                self.spent.add(share["tokens"], share["flops"])
        if self.rank == 0:
            tables["train_step"] = [self._train_step(owner[1], unit, shares, metrics, wall_seconds)]
        self._committed.add((step, mode))
        self._open_writer.commit_step(StepRows(step, mode, tables))

    def flush(self) -> None:
        """Return when everything handed over, by every rank, is durable."""
        if self._writer is not None:
            self._writer.flush()
            self._gather([True])

    def close(self, ended_how: str) -> None:
        if self._writer is not None:
            self._writer.close(ended_how)
            self._writer = None

    @property
    def _open_writer(self) -> Any:
        if self._writer is None:
            raise TrainingError("Expected an open launch, found it closed. Call train() again to open the next one.")
        return self._writer

    def _share(self, tables: Mapping[str, list[Any]]) -> dict[str, Any]:
        """What this rank adds to the unit's totals."""
        groups, costs = tables.get("attempt_group", []), tables.get("cost", [])
        trained = [a for a in tables.get("attempt", []) if a.trained]
        lengths = [a.completion_tokens for a in tables.get("attempt", []) if a.role in ("attempt", "eval")]
        sampling = [c for c in costs if c.phase in SAMPLING_PHASES]
        flops = [c.flops for c in costs]
        return {
            "groups": len(groups),
            "zero": sum(g.zero_reward for g in groups),
            "zero_after": sum(g.zero_reward_after for g in groups),
            "truncated": sum(g.num_truncated == g.num_generations for g in groups),
            "inserted": sum(a.role in ("follow_up", "extra_sample") for a in trained),
            "lengths": (sum(lengths), len(lengths)),
            "tokens": sum((c.prompt_tokens or 0) + (c.output_tokens or 0) for c in sampling),
            "flops": None if any(f is None for f in flops) else sum(flops),
            "rows": {table: len(rows) for table, rows in tables.items()},
        }

    def _train_step(
        self, train_step_id: str, unit: Unit, shares: list[dict[str, Any]], metrics: Mapping[str, Any], wall_seconds: float
    ) -> TrainStep:
        counts: dict[str, int] = defaultdict(int)
        for share in shares:
            for table, number in share["rows"].items():
                counts[table] += number
        counts["train_step"] += 1
        groups, zero = sum(s["groups"] for s in shares), sum(s["zero"] for s in shares)
        length, sequences = (sum(s["lengths"][i] for s in shares) for i in (0, 1))
        prefix = "eval_" if unit.mode == "eval" else ""
        return TrainStep(
            **unit.columns,
            train_step_id=train_step_id,
            launch_start_step=self.start_step,
            world_size=self.world_size,
            loss=_number(metrics.get(prefix + "loss")),
            learning_rate=_number(metrics.get("learning_rate")),
            grad_norm=_number(metrics.get("grad_norm")),
            reward_mean=_number(metrics.get(prefix + "reward")),
            entropy=_number(metrics.get(prefix + "entropy")),
            mean_completion_tokens=length / sequences if sequences else None,
            num_groups=groups,
            num_zero_reward_groups=zero,
            zero_reward_fraction=zero / groups if groups else None,
            zero_reward_fraction_after=sum(s["zero_after"] for s in shares) / groups if groups else None,
            num_inserted=sum(s["inserted"] for s in shares),
            wall_seconds=wall_seconds,
            metrics=json.dumps({k: _number(v) if isinstance(v, float) else v for k, v in metrics.items()}, default=str),
            row_counts=json.dumps(counts, sort_keys=True),
        )

    def _spent_before(self) -> Spent:
        """From every committed cost row of earlier launches of this run."""
        phases = ", ".join(f"'{p}'" for p in SAMPLING_PHASES)
        found = self.store.arrow(
            f"SELECT coalesce(sum(prompt_tokens + output_tokens) FILTER (phase IN ({phases})), 0)::BIGINT AS tokens, "
            "sum(flops) AS flops, count(*) FILTER (flops IS NULL) AS unknown, count(*) AS n "
            f"FROM cost WHERE run_id = '{self.run.run_id}' AND mode = 'train'"
        ).to_pylist()[0]
        if not found["n"]:
            return Spent()
        return Spent(found["tokens"], None if found["unknown"] else found["flops"])


def _number(value: Any) -> float | None:
    """None for what is not a finite number: NaN and infinities can't be rows."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    number = float(value)
    return number if number - number == 0 else None
