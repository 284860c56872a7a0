"""Rows of a table: JSONL, JSON, CSV or Parquet files, or a Hugging Face data set."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mentor_audit.config import nearest
from mentor_audit.errors import TaskError

READERS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


def read_rows(path: str, split: str, config_name: str | None = None) -> list[dict[str, Any]]:
    """Every row. `split` and `config_name` are of a Hugging Face data set; a file has neither. Raises TaskError in words."""
    rows = _of_file(Path(path)) if is_file(path) else _of_hub(path, split, config_name)
    if not rows:
        raise TaskError(f"Expected rows in {path}, found none. Check the file.")
    return rows


def is_file(path: str) -> bool:
    """A file or folder that is there, or a name that only a file has. Anything else is the id of a Hugging Face data set."""
    return Path(path).suffix.lower() in READERS or Path(path).exists()


def value(row: dict[str, Any], column: str) -> Any:
    """What stands in a column; dots lead into nested ones: `reward_model.ground_truth`. None when a level is missing."""
    found: Any = row
    for name in [column] if column in row else column.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def require_columns(rows: Sequence[dict[str, Any]], wanted: dict[str, str], path: str) -> None:
    """`wanted`: column -> the setting that names it. Raises TaskError for one that no row has."""
    names = sorted({name for row in rows for name in row})
    for column, setting in wanted.items():
        if column not in names and column.split(".")[0] not in names:
            raise TaskError(
                f"Expected a column `{column}` in {path}, found {', '.join(names)}{nearest(column, names)} Set {setting}."
            )


def _of_hub(path: str, split: str, config_name: str | None) -> list[dict[str, Any]]:
    import datasets

    try:
        loaded = datasets.load_dataset(path, config_name, split=split)
    except Exception as error:
        raise TaskError(
            f"Expected a file or a Hugging Face data set at `{path}` with a split `{split}`, found neither: {type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else 'no message'}. Check task.path, and that this machine reaches the hub."
        ) from error
    return list(loaded)


def _of_file(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet

    suffix = path.suffix.lower()
    if not path.exists():
        raise TaskError(f"Expected a file at {path}, found none. Check task.path; it is looked up from the working folder.")
    if suffix not in READERS:
        raise TaskError(f"Expected a file named {', '.join(READERS)}, found {path}. Convert it to one of them.")
    try:
        if suffix == ".parquet":
            return pa.parquet.read_table(path).to_pylist()
        if suffix == ".csv":
            return _of_csv(path)
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if suffix == ".json" else [json.loads(line) for line in text.split("\n") if line.strip()]
        if not isinstance(values, list) or not all(isinstance(v, dict) for v in values):
            raise ValueError("it does not hold a list of objects")
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TaskError(f"Expected {READERS[suffix]} rows in {path}, found a mistake: {error}. Correct the file.") from error
    return values


def _of_csv(path: Path) -> list[dict[str, Any]]:
    """Every cell as the text that it is: 025 keeps its zero, a long number its digits. Quoted cells may hold line breaks."""
    import pyarrow as pa
    from pyarrow import csv

    parse = csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(path, parse_options=parse) as reader:
        as_text = csv.ConvertOptions(column_types=dict.fromkeys(reader.schema.names, pa.string()))
    return csv.read_csv(path, parse_options=parse, convert_options=as_text).to_pylist()
