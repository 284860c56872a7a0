"""Fewer, larger parts: append latency and query time grow with the number of live files.

Parts are merged in levels: twenty parts of a run and table make one of level 1, twenty of those one of level 2. So a row is rewritten once
a level, and a run of any length keeps some dozens of live files. Replaced parts stay on disk until `vacuum`, for readers that
hold an older list of files. A part that was merged holds the same rows in the same order of names.
"""

import re
import time
from collections import defaultdict
from pathlib import Path

import filelock
import pyarrow as pa

from mentor_audit.errors import CorruptStoreError
from mentor_audit.records import TRAJECTORY_TABLES
from mentor_audit.store.delta import DIGEST, Part, TableLog, make_folder, read_part, table_path, write_part

FAN = 20
TARGET_BYTES = 32 * 2**20
LEVEL = re.compile(r"/(?:c(\d+)-|l\d+-)")


def compact_run(root: Path, run_id: str, logs: dict[str, TableLog] | None = None, final: bool = False) -> dict[str, int]:
    """Merge a run's parts, table by table; returns parts replaced, by table. `final`: as far as they go, not only full levels.

    Safe at any moment, beside readers, writers and a kill: new parts are durable before one commit swaps them for the old ones.
    """
    folder = root / "locks"
    make_folder(folder)
    with filelock.FileLock(folder / f"{run_id}.compact.lock"):
        replaced = {}
        for table in TRAJECTORY_TABLES:
            log = _log(root, table, logs)
            replaced[table] = _compact(root, log, run_id, final)
            log.trim()
        return replaced


def compact_store(root: Path) -> dict[str, int]:
    """The same for all runs, as far as they go."""
    runs = {part.run_id for table in TRAJECTORY_TABLES for part in TableLog(root, table).live()}
    total: dict[str, int] = dict.fromkeys(TRAJECTORY_TABLES, 0)
    for run_id in sorted(runs):
        for table, count in compact_run(root, run_id, final=True).items():
            total[table] += count
    return total


def vacuum(root: Path, hours: int) -> int:
    """Remove files that no version of the last `hours` needs, and what killed writers left before that; returns how many went."""
    removed = sum(len(TableLog(root, table).vacuum(hours)) for table in TRAJECTORY_TABLES)
    before = time.time() - hours * 3600
    left = [path for table in TRAJECTORY_TABLES for path in table_path(root, table).glob("run_id=*/.*.tmp")]
    for path in [*left, *(root / "staged").glob("*/*")]:
        try:
            if path.stat().st_mtime < before:
                path.unlink()
                removed += 1
        except FileNotFoundError:
            continue  # its writer renamed or removed it meanwhile
    return removed


def _compact(root: Path, log: TableLog, run_id: str, final: bool) -> int:
    log.refresh()
    replaced = 0
    for level, parts in _bins(log.live(run_id), final):
        tables = [read_part(root, part) for part in parts]
        rows = pa.concat_tables(tables, promote_options="default")
        promised = sum(part.num_rows for part in parts)
        if rows.num_rows != promised:
            raise CorruptStoreError(
                f"Expected {promised} rows in {len(parts)} parts of table `{log.table}`, run {run_id}, found {rows.num_rows}. Nothing was replaced; "
                "`mentor-audit check STORE` says which part is altered."
            )
        name = DIGEST.sub("", parts[0].path.split("/")[1])
        merged = write_part(root, log.table, rows, run_id, f"c{level}-{re.sub('^c[0-9]+-', '', name)}")
        if log.replace(parts, [merged]):
            replaced += len(parts)
    return replaced


def _bins(live: list[Part], final: bool) -> list[tuple[int, list[Part]]]:
    """(level of the merged part, parts to merge). Another program's files and full parts are left alone."""
    levels: dict[int, list[Part]] = defaultdict(list)
    for part in live:
        found = LEVEL.search(part.path)
        if found and DIGEST.search(part.path) and part.size < TARGET_BYTES:
            levels[int(found.group(1) or 0)].append(part)
    if final and levels:
        top = max(levels)
        return [
            (max(top, 1), found) for found in _pack([part for level in sorted(levels, reverse=True) for part in levels[level]])
        ]
    return [(level + 1, found) for level, parts in levels.items() if len(parts) >= FAN for found in _pack(parts)]


def _pack(parts: list[Part]) -> list[list[Part]]:
    """Neighbours together up to the target size; a part that would be alone stays as it is."""
    bins: list[list[Part]] = [[]]
    size = 0
    for part in parts:
        if size + part.size > TARGET_BYTES and bins[-1]:
            bins.append([])
            size = 0
        bins[-1].append(part)
        size += part.size
    return [found for found in bins if len(found) > 1]


def _log(root: Path, table: str, logs: dict[str, TableLog] | None) -> TableLog:
    if logs is None:
        return TableLog(root, table)
    if table not in logs:
        logs[table] = TableLog(root, table)
    return logs[table]
