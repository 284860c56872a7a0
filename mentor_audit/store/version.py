"""The store's marker and its schema version: what an older store lacks, and how it gets it before new rows are written.

Version 1: no table leak_audit; attempt_group without arm, assignment_probability and source_group_id.
"""

import json
from pathlib import Path
from typing import Any

import filelock

from mentor_audit.errors import SchemaVersionError, StoreError
from mentor_audit.records import SCHEMA_VERSION, TRAJECTORY_TABLES
from mentor_audit.store.delta import add_columns, create_table, table_path, write_durable

MARKER = "store.json"


def read_marker(root: Path) -> dict[str, Any]:
    """Raises StoreError when there is no store, SchemaVersionError when it was written by a newer version."""
    try:
        marker = json.loads((root / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(
            f"Expected a store at {root}, found no readable {MARKER} in it. Check the path; `mentor-audit demo` makes a store."
        ) from error
    version = marker.get("schema_version") if isinstance(marker, dict) and marker.get("format") == "mentor_audit" else None
    if not isinstance(version, int):
        raise StoreError(f"Expected a store of mentor_audit at {root}, found {MARKER} of something else. Check the path.")
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"Expected schema version {SCHEMA_VERSION} or older at {root}, found {version}. Upgrade mentor_audit."
        )
    return dict(marker)


def write_marker(root: Path, registry_url: str | None, began_with: int = SCHEMA_VERSION) -> None:
    """`began_with`: the version of the store's oldest parts."""
    marker = {"format": "mentor_audit", "schema_version": SCHEMA_VERSION, "began_with": began_with, "registry_url": registry_url}
    write_durable(root / MARKER, json.dumps(marker).encode())


def has_old_parts(root: Path) -> bool:
    """May some Parquet files lack columns of the present version?"""
    marker = read_marker(root)
    return int(marker.get("began_with", marker["schema_version"])) < SCHEMA_VERSION


def is_missing_in_old_store(root: Path, table: str) -> bool:
    """A table that came with a later version than the store's, and is not lost."""
    return not table_path(root, table).exists() and read_marker(root)["schema_version"] < SCHEMA_VERSION


def upgrade(root: Path) -> None:
    """Make an older store ready for rows of the present version: new tables and columns; no part is rewritten. Idempotent.

    The marker comes last, so a kill leaves an older store, with nothing lost.
    """
    if read_marker(root)["schema_version"] == SCHEMA_VERSION:
        return
    with filelock.FileLock(root / "locks" / ".create.lock"):
        marker = read_marker(root)
        for table in TRAJECTORY_TABLES:
            create_table(root, table)
            add_columns(root, table)
        write_marker(root, marker.get("registry_url"), int(marker.get("began_with", marker["schema_version"])))
