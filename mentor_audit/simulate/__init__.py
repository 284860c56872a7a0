"""Stores with a planted truth, to test what a report says of them.

`World` says what is true, `truth` what it amounts to, `simulate` writes rows that follow from it by chance alone. `SimulatedStore` serves
them from memory, `write` puts them into a store on disk. What a world can plant: arms that gain by sampling, context, the form of the
prompt, a specific text, a correct diagnosis or a leaked answer, and what misleads: see the dataclasses.
"""

from os import PathLike

import numpy as np

from mentor_audit.records import TRAJECTORY_TABLES, Run
from mentor_audit.schema import validate_rows
from mentor_audit.simulate.memory import SimulatedStore, as_arrow
from mentor_audit.simulate.randomised import add_randomised
from mentor_audit.simulate.replay import add_replays
from mentor_audit.simulate.rows import Rows, count_rows, no_rows
from mentor_audit.simulate.training import add_training
from mentor_audit.simulate.truth import truth
from mentor_audit.simulate.world import CAUSES, LADDER, Causes, Failures, Randomised, Replays, World, gains
from mentor_audit.store import StepRows, Store


def simulate(world: World, seed: int = 0) -> Rows:
    """Rows by table, registry included; the same seed gives the same rows."""
    rng = np.random.default_rng(seed)
    rows = no_rows()
    if world.gain:
        add_training(rows, world, rng)
    if world.randomised is not None:
        add_randomised(rows, world.suite, world.randomised, rng)
    if world.replays is not None:
        add_replays(rows, world.suite, world.replays, rng)
    count_rows(rows)
    return rows


def write(world: World, path: str | PathLike[str], seed: int = 0) -> Store:
    """A new store with the world's rows, through the store's own writer.

    Raises StoreError when `path` is neither missing nor an empty folder, RecordError for a suite's name that can't name a file.
    """
    rows = simulate(world, seed)
    store = Store.create(path)
    units: dict[str, dict[tuple[int, str], dict[str, list]]] = {run["run_id"]: {} for run in rows["run"]}
    for table in TRAJECTORY_TABLES:
        if table != "problem":
            for row in rows[table]:
                units[row["run_id"]].setdefault((row["step"], row["mode"]), {}).setdefault(table, []).append(row)
    for run in rows["run"]:
        with store.writer(Run(**run)) as writer:
            own = [row for row in rows["problem"] if row["run_id"] == run["run_id"]]
            writer.put_problems(validate_rows("problem", own))  # type: ignore[arg-type]
            for (step, mode), unit in units[run["run_id"]].items():
                writer.commit_step(StepRows(step, mode, unit))
    return store


__all__ = [
    "CAUSES",
    "LADDER",
    "Causes",
    "Failures",
    "Randomised",
    "Replays",
    "SimulatedStore",
    "World",
    "as_arrow",
    "gains",
    "simulate",
    "truth",
    "write",
]
