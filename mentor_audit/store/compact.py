"""Fewer, larger Parquet files: append latency and query time grow with the number of live files."""

import time
from pathlib import Path
from typing import Any

from deltalake.exceptions import CommitFailedError

from mentor_audit.records import TRAJECTORY_TABLES
from mentor_audit.store.delta import fsync, fsync_log, open_table, table_path

COMPACT_ATTEMPTS = 5


def compact_run(root: Path, run_id: str) -> dict[str, int]:
    """Merge a run's own files, table by table; files replaced, by table. Safe at any moment: Delta swaps them in one commit."""
    return {table: _compact(root, table, run_id) for table in TRAJECTORY_TABLES}


def compact_store(root: Path) -> dict[str, int]:
    """The same for all runs."""
    return {table: _compact(root, table, None) for table in TRAJECTORY_TABLES}


def vacuum(root: Path, hours: int) -> int:
    """Remove files that no version of the last `hours` needs; returns how many went. Reports name versions: keep a week."""
    return sum(len(open_table(root, table).vacuum(retention_hours=hours, dry_run=False)) for table in TRAJECTORY_TABLES)


def _compact(root: Path, table: str, run_id: str | None) -> int:
    """New files are made durable before the old ones are forgotten; a lost race with another writer is left to the next time."""
    filters: Any = [("run_id", "=", run_id)] if run_id else None
    for attempt in range(COMPACT_ATTEMPTS):
        handle = open_table(root, table)
        try:
            metrics = handle.optimize.compact(partition_filters=filters)
        except CommitFailedError:
            time.sleep(0.05 * (attempt + 1))
            continue
        removed = int(metrics["numFilesRemoved"])
        if removed:
            folder = table_path(root, table)
            for partition in folder.glob(f"run_id={run_id or '*'}"):
                for part in partition.glob("part-*.parquet"):
                    fsync(part)
                fsync(partition)
            fsync_log(folder)
        return removed
    return 0
