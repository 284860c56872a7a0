"""Schemas rendered from the records: Arrow, SQL DDL and JSON Schema, and rows made into Arrow tables.

`records.py` is the one source of truth. `write_schemas` puts the renderings under `schemas/v<version>/`, where people without
Python can read them; a test fails when they drift.
"""

import json
import types
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import pyarrow as pa
from pydantic import ValidationError
from sqlmodel import SQLModel

from mentor_audit.errors import QueryError, RecordError
from mentor_audit.records import REGISTRY_TABLES, SCHEMA_VERSION, TRAJECTORY_TABLES, Row

VERSION_KEY = b"mentor_audit.schema_version"
SCALARS: dict[Any, tuple[pa.DataType, str]] = {
    str: (pa.string(), "VARCHAR"),
    int: (pa.int64(), "BIGINT"),
    float: (pa.float64(), "DOUBLE"),
    bool: (pa.bool_(), "BOOLEAN"),
    datetime: (pa.timestamp("us", tz="UTC"), "TIMESTAMPTZ"),
}


def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of a table, in the order of its record's fields, with the schema version in its metadata."""
    fields = [
        pa.field(name, _types(info.annotation)[0], nullable=not info.is_required() and info.default is None)
        for name, info in record(table).model_fields.items()
    ]
    return pa.schema(fields, metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()})


def to_arrow(table: str, rows: Sequence[SQLModel]) -> pa.Table:
    """Rows of one table as an Arrow table, built by column. Lone surrogates, which Arrow can't hold, become U+FFFD.

    Where the record has a column `text_replaced`, it is true in the rows in which that happened.
    Raises RecordError when a row is not of the table's record.
    """
    model = record(table)
    for row in rows:
        if not isinstance(row, model):
            raise RecordError(
                f"Table `{table}` holds {model.__name__} rows, found {type(row).__name__}. Build the row with its record class."
            )
    schema = arrow_schema(table)
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    replaced = [False] * len(rows)
    for name, values in columns.items():
        if schema.field(name).type in (pa.string(), pa.list_(pa.string())):
            for i, value in enumerate(values):
                clean = _without_surrogates(value)
                if clean is not value:
                    values[i], replaced[i] = clean, True
    if "text_replaced" in columns:
        columns["text_replaced"] = [a or b for a, b in zip(columns["text_replaced"], replaced, strict=True)]
    return pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def validate_rows(table: str, rows: Sequence[Row | Mapping[str, Any]]) -> list[Row]:
    """Rows as record instances. Raises RecordError that names the table, the row's key and every bad column."""
    model = record(table)
    valid: list[Row] = []
    for row in rows:
        if isinstance(row, model):
            valid.append(row)  # type: ignore[arg-type]
            continue
        values = row if isinstance(row, Mapping) else row.model_dump()
        try:
            valid.append(model.model_validate(values))  # type: ignore[arg-type]
        except ValidationError as error:
            key = values.get(primary_key(table), "without a key")
            found = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'row'}: {e['msg']}" for e in error.errors())
            raise RecordError(
                f"A row of table `{table}` ({key}) breaks its record: {found}. See schemas/v{SCHEMA_VERSION}/{table}.json."
            ) from error
    return valid


def ddl(table: str) -> str:
    """CREATE TABLE in SQL that DuckDB and Postgres read, with keys and links."""
    model = record(table)
    lines = []
    for name, info in model.model_fields.items():
        null = "" if not info.is_required() and info.default is None else " NOT NULL"
        lines.append(f"    {name} {_types(info.annotation)[1]}{null}")
    lines.append(f"    PRIMARY KEY ({', '.join(_keys(table))})")
    lines += [f"    FOREIGN KEY ({column}) REFERENCES {other} ({key})" for column, other, key in foreign_keys(table)]
    return f"CREATE TABLE {table} (\n" + ",\n".join(lines) + "\n);\n"


def json_schema(table: str) -> dict[str, Any]:
    """JSON Schema of one row, with `x-primary-key` and `x-links`."""
    rendered = record(table).model_json_schema(mode="serialization")
    rendered["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    rendered["x-schema-version"] = SCHEMA_VERSION
    rendered["x-primary-key"] = _keys(table)
    rendered["x-links"] = {column: f"{other}.{key}" for column, other, key in foreign_keys(table)}
    return rendered


def render_schemas() -> dict[str, str]:
    """File name -> content of everything under `schemas/v<version>/`."""
    files = {"tables.sql": "\n".join(ddl(table) for table in TABLES)}
    for table in TABLES:
        files[f"{table}.json"] = json.dumps(json_schema(table), indent=2, sort_keys=True) + "\n"
        files[f"{table}.arrow.txt"] = "".join(
            f"{f.name}: {f.type}{'' if f.nullable else ' not null'}\n" for f in arrow_schema(table)
        )
    return files


def write_schemas(folder: Path) -> list[Path]:
    """Write the renderings into `folder`/v<version>; returns the paths."""
    target = folder / f"v{SCHEMA_VERSION}"
    target.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, content in render_schemas().items():
        path = target / name
        path.write_text(content, encoding="utf-8")
        paths.append(path)
    return paths


def record(table: str) -> type[SQLModel]:
    """The record class of a table. Raises QueryError for a name that is no table."""
    try:
        return TABLES[table]
    except KeyError:
        raise QueryError(f"Expected one of the tables {', '.join(TABLES)}; found `{table}`. Choose one of them.") from None


def primary_key(table: str) -> str:
    """The first key column; registry's `launch` has a second one, `launch`."""
    return _keys(table)[0]


def foreign_keys(table: str) -> list[tuple[str, str, str]]:
    """(column, other table, its column) of every link, in field order."""
    links = []
    for name, info in record(table).model_fields.items():
        target = getattr(info, "foreign_key", None)
        if isinstance(target, str):
            other, key = target.split(".")
            links.append((name, other, key))
    return links


TABLES: dict[str, type[SQLModel]] = {**REGISTRY_TABLES, **TRAJECTORY_TABLES}
"""Every table, registry first."""


def _keys(table: str) -> list[str]:
    return [name for name, info in record(table).model_fields.items() if getattr(info, "primary_key", None) is True]


def _types(annotation: Any) -> tuple[pa.DataType, str]:
    """(Arrow type, SQL type) of a field's annotation; optional types lose their None."""
    if get_origin(annotation) in (Union, types.UnionType):
        (inner,) = [a for a in get_args(annotation) if a is not type(None)]
        return _types(inner)
    if get_origin(annotation) is Literal:
        return SCALARS[str]
    if get_origin(annotation) is list:
        arrow, sql = _types(get_args(annotation)[0])
        return pa.list_(arrow), sql + "[]"
    return SCALARS[annotation]


def _without_surrogates(value: Any) -> Any:
    """The same object when there is nothing to replace."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    elif isinstance(value, list) and any(isinstance(v, str) for v in value):
        clean = [_without_surrogates(v) for v in value]
        return clean if any(a is not b for a, b in zip(clean, value, strict=True)) else value
    return value
