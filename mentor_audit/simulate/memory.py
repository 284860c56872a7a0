"""Rows in memory, served through the package's own views: what the report needs of a store, without files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from mentor_audit.records import REGISTRY_TABLES, TRAJECTORY_TABLES
from mentor_audit.schema import arrow_schema
from mentor_audit.store.reader import make_views_over_raw


class SimulatedStore:
    """`root` is a name: nothing is written there."""

    def __init__(self, rows: Mapping[str, list[dict[str, Any]]], root: Path = Path("simulated/store")) -> None:
        self.root = root
        self._connection = duckdb.connect()
        for table in (*REGISTRY_TABLES, *TRAJECTORY_TABLES):
            name = table if table in REGISTRY_TABLES else f"{table}_raw"
            self._connection.register(name, as_arrow(table, rows.get(table, [])))
        make_views_over_raw(self._connection)

    def arrow(self, text: str, versions: dict[str, int] | None = None) -> pa.Table:
        return self._connection.sql(text).to_arrow_table()

    def versions(self, *, pinned: bool = False) -> dict[str, int]:
        return dict.fromkeys(TRAJECTORY_TABLES, 7)


def as_arrow(table: str, rows: list[dict[str, Any]]) -> pa.Table:
    """A key that a row lacks is NULL."""
    return pa.Table.from_pylist(rows, schema=arrow_schema(table))
