"""Tables and generated problems as tasks, their answers, and what is refused."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mentor_audit.config import parse_config
from mentor_audit.errors import ConfigError, TaskError
from mentor_audit.protocols import Answer, Verdict, VerifiesBatches
from mentor_audit.suite import validate
from mentor_audit.tasks import load_task, settings_model
from mentor_audit.tasks.canaries import HasCanaries, check_canaries
from mentor_audit.tasks.prompting import fence_marker, instructed_prompt, placebo


def table(path: Path, **settings: object) -> object:
    return load_task("table", {"path": str(path), "heldout_fraction": 0.25, **settings})


def write(path: Path, rows: list[dict]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        names = list(rows[0])
        path.write_text("\n".join([",".join(names), *(",".join(str(r[n]) for n in names) for r in rows)]))
    else:
        path.write_text("\n".join(json.dumps(r) for r in rows))
    return path


ROWS = [{"prompt": f"what is {i} plus {i}", "answer": str(2 * i)} for i in range(8)]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.parquet"])
def test_files_of_every_kind_give_the_same_problems(tmp_path: Path, name: str) -> None:
    task = table(write(tmp_path / name, ROWS), system_prompt="Add.")
    train, heldout = task.problems("train"), task.problems("heldout")
    assert (len(train), len(heldout)) == (6, 2)
    assert {p.row.prompt for p in train} | {p.row.prompt for p in heldout} == {r["prompt"] for r in ROWS}
    assert train[0].prompt[0] == {"role": "system", "content": "Add."}
    assert {p.row.gold for p in train + heldout} == {r["answer"] for r in ROWS}


def test_the_same_seed_holds_out_the_same_problems(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", ROWS)

    def drawn(seed: int) -> set[str]:
        return {p.row.problem_id for p in table(path, seed=seed).problems("heldout")}

    assert drawn(1) == drawn(1)
    assert any(drawn(1) != drawn(seed) for seed in range(2, 6))


def test_a_problem_in_both_files_is_refused_or_leaves_training(tmp_path: Path) -> None:
    train, heldout = write(tmp_path / "train.jsonl", ROWS), write(tmp_path / "heldout.jsonl", ROWS[:3])
    with pytest.raises(TaskError, match=r"found 3 of 8 training problems that repeat"):
        table(train, heldout_path=str(heldout))
    task = table(train, heldout_path=str(heldout), overlap="drop")
    assert len(task.problems("train")) == 5
    assert task.num_overlapping == 3


def test_answers_that_nothing_can_be_scored_against_are_found_before_training(tmp_path: Path) -> None:
    rows = [*ROWS, {"prompt": "a cut one", "answer": "\\frac{1}{"}, {"prompt": "an empty one", "answer": ""}]
    task = table(write(tmp_path / "rows.jsonl", rows))
    assert len(task.problems("train")) + len(task.problems("heldout")) == len(ROWS)
    assert len(task.unscorable) == 2
    with pytest.raises(TaskError, match="that can be scored, found none in 1 rows"):
        table(write(tmp_path / "bad.jsonl", rows[-1:]))


def test_verdicts_are_the_maths_verifiers_one_by_one_and_in_batches(tmp_path: Path) -> None:
    task = table(
        write(tmp_path / "rows.jsonl", [{"prompt": f"half of {i}", "answer": f"\\frac{{{i}}}{{2}}"} for i in range(1, 9)])
    )
    problems = task.problems("train")
    answers = [Answer(p, "so \\boxed{0.5}", "eos") for p in problems] + [Answer(problems[0], "no idea\nat all", "length")]
    verdicts = task.verify_batch(answers)
    assert [v.is_correct for v in verdicts] == [p.row.prompt == "half of 1" for p in problems] + [None]
    assert verdicts[:2] == [task.verify(*a) for a in answers[:2]]
    assert isinstance(task, VerifiesBatches)


@pytest.mark.parametrize("name", ["table", "reasoning_gym"])
def test_canaries_find_a_verifier_that_is_wrong(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("reasoning_gym")
    task = (
        table(write(tmp_path / "rows.jsonl", ROWS))
        if name == "table"
        else load_task(name, {"dataset": "products", "num_train": 4, "num_heldout": 2})
    )
    assert isinstance(task, HasCanaries)
    check_canaries(task)
    for always in (True, False, None):
        monkeypatch.setattr(task, "verify", lambda *a, always=always: Verdict(always, "verifier_error"))
        with pytest.raises(TaskError, match="Expected the verifier to find a known-"):
            check_canaries(task)


@pytest.mark.parametrize(
    ("content", "settings", "words"),
    [
        (None, {}, "found none. Check task.path"),
        ("{]", {}, "Expected json rows"),
        ('"text"', {}, "it does not hold a list of objects"),
        ('{"prompt": "q", "anwser": "1"}', {}, "Expected a column `answer` in"),
        ('{"prompt": "q", "answer": null}', {}, "of row 0"),
        ('{"prompt": "", "answer": "1"}', {}, "of row 0"),
        ("", {}, "Expected rows in"),
        ('{"prompt": "q", "answer": "1"}', {"prompt_column": "promt"}, "did you mean `prompt`?"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path: Path, content: str | None, settings: dict, words: str) -> None:
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(TaskError) as caught:
        table(path, **settings)
    assert words in str(caught.value)


def test_unknown_tasks_and_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean `chain`"):
        load_task("chian", {})
    with pytest.raises(ConfigError, match="Expected `nowhere:Task` to name a task class"):
        settings_model("nowhere:Task")
    with pytest.raises(ValidationError):
        load_task("table", {"path": "x", "columns": 3})


def test_reasoning_gym_problems_are_scored_by_their_generator() -> None:
    pytest.importorskip("reasoning_gym")
    settings = {"dataset": "products", "options": {"min_digits": 1, "max_digits": 1}, "num_train": 10, "num_heldout": 4}
    task = load_task("reasoning_gym", settings)
    train, heldout = task.problems("train"), task.problems("heldout")
    assert (len(train), len(heldout)) == (10, 4)
    assert not {p.row.fingerprint for p in train} & {p.row.fingerprint for p in heldout}
    problem = train[0]
    assert task.verify(problem, f"Answer: {problem.row.gold}", "eos").status == "correct"
    assert task.verify(problem, "Answer: -1", "eos").is_correct is False
    assert task.verify(problem, "Answer: -1", "length").status == "truncated"
    again = load_task("reasoning_gym", settings)
    assert [p.row.problem_id for p in again.problems("train")] == [p.row.problem_id for p in train]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dataset": "product"}, "did you mean `products`?"),
        ({"dataset": "products", "options": {"digits": 1}}, "refuses these task.options"),
        (
            {"dataset": "products", "options": {"min_digits": 1, "max_digits": 1}, "num_train": 5000},
            "Expected 5000 different problems",
        ),
    ],
)
def test_impossible_generators_are_refused(settings: dict, words: str) -> None:
    pytest.importorskip("reasoning_gym")
    with pytest.raises(TaskError) as caught:
        load_task("reasoning_gym", settings)
    assert words in str(caught.value)


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_text_can_close_its_fence(instruction: str, attempt: str) -> None:
    prompt = instructed_prompt("solve", instruction, attempt)
    assert isinstance(prompt, str)
    assert fence_marker(attempt) not in attempt
    assert prompt.count(fence_marker(attempt)) >= 2


def test_braces_and_roles_pass_through() -> None:
    prompt = instructed_prompt(
        [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}], r"use \frac{a}{b} {0}", None
    )
    assert [m["role"] for m in prompt] == ["system", "user"]
    assert r"use \frac{a}{b} {0}" in prompt[1]["content"]


def test_a_placebo_has_the_length_of_what_it_replaces() -> None:
    text = placebo("one two three four five six seven", random.Random(1))
    assert len(text.split()) == 7
    assert placebo("a b", random.Random(1)) != placebo("a b c d e f g h", random.Random(1))


def test_validate_says_how_much_of_the_data_is_left_out(tmp_path: Path) -> None:
    rows = [*ROWS, {"prompt": "a cut one", "answer": "\\frac{1}{"}]
    values = {"task": {"name": "table", "path": str(write(tmp_path / "rows.jsonl", rows))}, "learner": {"model": "some/model"}}
    assert [
        n for n in validate(parse_config(values)) if n.startswith("1 problems are left out because no answer could be scored")
    ]
    values["task"] |= {"heldout_path": values["task"]["path"], "overlap": "drop"}
    values["task"]["path"] = str(write(tmp_path / "train.jsonl", [*ROWS[:2], {"prompt": "another with 77", "answer": "1"}]))
    assert "2 training problems are left out because they repeat a held-out one" in validate(parse_config(values))
    values["task"]["path"] = str(tmp_path / "none.jsonl")
    with pytest.raises(TaskError, match=r"found none\. Check task\.path"):
        validate(parse_config(values))
