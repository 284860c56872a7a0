"""Schemas: the committed renderings are those of the records; rows go to Arrow and back; bad rows are refused."""

import math
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentor_audit import schema
from mentor_audit.errors import QueryError, RecordError
from mentor_audit.records import SCHEMA_VERSION, TRAJECTORY_TABLES, Problem

COMMITTED = Path(__file__).parents[1] / "schemas" / f"v{SCHEMA_VERSION}"
PROBLEM = {"problem_id": "p", "run_id": "r", "task": "t", "split": "train", "prompt": "q", "source": "s", "fingerprint": "f"}


def test_committed_schemas_are_those_of_the_records() -> None:
    rendered = schema.render_schemas()
    assert {p.name for p in COMMITTED.iterdir()} == rendered.keys(), "run `make schemas`"
    for name, content in rendered.items():
        assert (COMMITTED / name).read_text(encoding="utf-8") == content, f"{name} drifted: run `make schemas`"


def test_every_link_names_a_table_and_its_key() -> None:
    for table in schema.TABLES:
        for column, other, key in schema.foreign_keys(table):
            assert key == schema.primary_key(other), (table, column)
            assert schema.arrow_schema(table).field(column).type == schema.arrow_schema(other).field(key).type


def test_the_schema_version_travels_with_the_data() -> None:
    assert schema.arrow_schema("attempt").metadata[schema.VERSION_KEY] == str(SCHEMA_VERSION).encode()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"split": "test"}, "split: Input should be 'train' or 'heldout'"),
        ({"extra": 1}, "extra: Extra inputs are not permitted"),
        ({"prompt": None}, "prompt: Input should be a valid string"),
    ],
)
def test_a_bad_row_is_refused_with_its_key_and_column(change: dict, words: str) -> None:
    with pytest.raises(RecordError, match=r"A row of table `problem` \(p\) breaks its record") as caught:
        schema.validate_rows("problem", [{**PROBLEM, **change}])
    assert words in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused_at_the_door(value: float) -> None:
    cost = {
        "run_id": "r", "launch": 1, "step": 0, "mode": "train", "cost_id": "c", "call_id": "c", "owner_table": "train_step",
        "owner_id": "o", "phase": "rollout", "payer": "learner", "sequences": 1, "flops": value, "wall_seconds": 0.1,
        "disposition": "used",
    }  # fmt: skip
    with pytest.raises(RecordError, match="expected a finite number"):
        schema.validate_rows("cost", [cost])


def test_rows_are_frozen() -> None:
    row = Problem(**PROBLEM)
    with pytest.raises(ValueError, match="frozen"):
        row.prompt = "other"


@given(st.text(alphabet=st.characters(), max_size=40))
def test_text_survives_arrow_except_lone_surrogates(text: str) -> None:
    (back,) = schema.to_arrow("problem", [Problem(**{**PROBLEM, "prompt": text})]).to_pylist()
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        assert "\ufffd" in back["prompt"] or back["prompt"].encode("utf-16", "surrogatepass") == text.encode(
            "utf-16", "surrogatepass"
        )
    else:
        assert back["prompt"] == text


def test_a_replaced_surrogate_is_flagged() -> None:
    from mentor_audit.records import Instruction

    def row(text: str) -> Instruction:
        return Instruction(
            run_id="r", launch=1, step=0, mode="train", instruction_id="i", group_id="g", attempt_id="a", arm="mentor", text=text,
            source="diagnosis",
        )  # fmt: skip

    found = schema.to_arrow("instruction", [row("fine"), row("a\ud800b")]).to_pylist()
    assert [(r["text"], r["text_replaced"]) for r in found] == [("fine", False), ("a\ufffdb", True)]


def test_ddl_is_sql_that_duckdb_takes_with_all_its_links() -> None:
    import duckdb

    connection = duckdb.connect()
    for table in schema.TABLES:
        connection.execute("\n".join(line for line in schema.ddl(table).splitlines() if "attempt_id) REFERENCES attempt " not in line
                                     and "instruction_id) REFERENCES" not in line) if table == "attempt" else schema.ddl(table))  # fmt: skip
    assert {row[0] for row in connection.execute("SHOW TABLES").fetchall()} == set(schema.TABLES)


def test_arrow_tables_have_exactly_the_records_columns() -> None:
    for table, model in TRAJECTORY_TABLES.items():
        assert schema.arrow_schema(table).names == list(model.model_fields)
        assert schema.to_arrow(table, []).schema == schema.arrow_schema(table)
    assert schema.arrow_schema("attempt").field("completion_ids").type == pa.list_(pa.int64())


def test_unknown_table_is_named() -> None:
    with pytest.raises(QueryError, match="found `atempt`"):
        schema.record("atempt")
