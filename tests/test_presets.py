"""Presets on small files of the data sets' shapes: columns, where the answer stands, prompt, verdict, and what the hub is asked for."""

from pathlib import Path
from typing import Any

import pytest
from preset_rows import NAMES, answer, livecodebench, maths_rows, mbpp, question, write
from pydantic import ValidationError

from mentor_audit.config import load_config
from mentor_audit.errors import TaskError
from mentor_audit.suite import validate
from mentor_audit.tasks import load_task, settings_model
from mentor_audit.tasks.presets import CODE, MATHS, STEPS
from mentor_audit.tasks.reading import read_rows
from mentor_audit.tasks.table import read_gold

PRESETS = [*(("table", name) for name in MATHS), *(("code", name) for name in CODE)]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("preset", MATHS)
def test_a_maths_preset_reads_poses_and_grades(tmp_path: Path, preset: str, suffix: str) -> None:
    task: Any = load_task("table", {"preset": preset, "path": write(tmp_path / f"rows{suffix}", maths_rows(preset))})
    problems = task.problems("train") + task.problems("heldout")
    assert {(p.row.prompt, p.row.gold) for p in problems} == {(question(i), str(answer(i))) for i in range(len(NAMES))}
    for problem in problems[:2]:
        assert task.verify(problem, f"So it is \\boxed{{{problem.row.gold}}}.", "eos").is_correct is True
        assert task.verify(problem, f"So it is \\boxed{{{problem.row.gold}1}}.", "eos").is_correct is False
        posed = problem.row.prompt if preset == "dapo_17k" else f"{problem.row.prompt}\n\n{STEPS}"
        assert problem.prompt == [{"role": "user", "content": posed}]


@pytest.mark.parametrize(
    ("text", "answer_is", "gold"),
    [
        ("48/2=<<48/2=24>>24\n#### 72", "after_hashes", "72"),
        ("#### 1\nno: #### 2,125 ", "after_hashes", "2,125"),
        ("72", "after_hashes", ""),
        ("\\boxed{1}, then $\\boxed{\\frac{1}{\\sqrt{2}}}$.", "last_box", "\\frac{1}{\\sqrt{2}}"),
        ("The answer is 72", "last_box", ""),
        ("142.0", "whole_number", "142"),
        ("025", "whole_number", "25"),
        ("000", "whole_number", "0"),
        ("9007199254740993", "whole_number", "9007199254740993"),
        ("-3.0", "whole_number", "-3"),
        ("12.5", "whole_number", ""),
        ("none", "whole_number", ""),
        (" \\frac{1}{2}\n", "whole", "\\frac{1}{2}"),
    ],
)
def test_where_the_answer_stands(text: str, answer_is: str, gold: str) -> None:
    assert read_gold(text, answer_is) == gold


def test_dapos_messages_are_posed_as_they_are_and_its_answer_line_is_read(tmp_path: Path) -> None:
    found = maths_rows("dapo_17k")
    asks = "Solve it step by step. The last line should be of the form Answer: $Answer (without quotes).\n\nWhat is {1, 2}\u2028of 3?"
    found[0]["prompt"] = [{"role": "system", "content": "{problem}"}, {"role": "user", "content": asks}]
    settings = {"preset": "dapo_17k", "path": write(tmp_path / "rows.jsonl", found), "system_prompt": "Not this one."}
    task: Any = load_task("table", settings)
    (problem,) = (p for p in task.problems("train") + task.problems("heldout") if p.row.prompt == asks)
    assert problem.prompt == found[0]["prompt"] and problem.row.gold == "6"
    assert task.verify(problem, "2 times 3.\nAnswer: $6$", "eos").is_correct is True
    assert task.verify(problem, "2 times 3.\nAnswer: 5", "eos").is_correct is False


def test_csv_cells_are_text_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('id,problem,answer\n1,"one\ntwo",025\n2,three,123456789012345678901234567890\n3,four,1e2\n')
    assert read_rows(str(path), "train") == [
        {"id": "1", "problem": "one\ntwo", "answer": "025"},
        {"id": "2", "problem": "three", "answer": "123456789012345678901234567890"},
        {"id": "3", "problem": "four", "answer": "1e2"},
    ]


def test_a_row_without_an_answer_where_it_should_stand_is_left_out_and_named(tmp_path: Path) -> None:
    found = [*maths_rows("gsm8k"), {"question": "How many are none of them?", "answer": "No hashes: 7"}]
    task: Any = load_task("table", {"preset": "gsm8k", "path": write(tmp_path / "rows.jsonl", found)})
    assert len(task.problems("train") + task.problems("heldout")) == len(NAMES)
    assert list(task.unscorable.values()) == ["no answer where task.answer_is = 'after_hashes' looks for one"]


@pytest.mark.parametrize(
    ("preset", "change", "says"),
    [
        ("gsm8k", {"question": " "}, "Expected text or chat messages in `question` .* of row 0"),
        ("gsm8k", {"question": 3}, "found 3 and"),
        ("gsm8k", {"answer": None}, "an answer, text or number, in `answer` of row 0 .* and None"),
        (
            "gsm8k",
            {"answer": "72"},
            "found none in 1 rows.* no answer where task.answer_is = 'after_hashes'.* Set task.answer_column",
        ),
        ("math", {"solution": "It is 72."}, "found none in 1 rows"),
        ("aime", {"answer": "12.5"}, "no answer where task.answer_is = 'whole_number'"),
        ("omni_math", {"answer": ["1", "2"]}, "an answer, text or number"),
        ("deepmath", {"final_answer": ""}, "found none in 1 rows"),
        ("dapo_17k", {"prompt": []}, r"found \[\]"),
        ("dapo_17k", {"prompt": ["text"]}, "found \\['text'\\]"),
        ("dapo_17k", {"prompt": [{"content": "no role"}]}, "Expected text or chat messages in `prompt`"),
        ("dapo_17k", {"prompt": [{"role": "user", "content": None}]}, "Expected text or chat messages in `prompt`"),
        ("dapo_17k", {"reward_model": {"style": "rule"}}, "an answer, text or number, in `reward_model.ground_truth` of row 0"),
        ("dapo_17k", {"reward_model": {"ground_truth": {"value": 1}}}, "found .* and {'value': 1}"),
    ],
)
def test_maths_rows_that_can_not_be_used_are_refused(tmp_path: Path, preset: str, change: dict[str, Any], says: str) -> None:
    row = maths_rows(preset)[0] | change
    with pytest.raises(TaskError, match=says):
        load_task("table", {"preset": preset, "path": write(tmp_path / "rows.jsonl", [row])})


def test_a_missing_column_names_the_nearest_and_the_setting(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [{"questoin": "What?", "answer": "#### 1"}])
    with pytest.raises(TaskError, match=r"column `question` .*did you mean `questoin`.*Set task.prompt_column"):
        load_task("table", {"preset": "gsm8k", "path": path})
    path = write(tmp_path / "cases.jsonl", [{k: v for k, v in livecodebench(0).items() if k != "private_test_cases"}])
    with pytest.raises(TaskError, match=r"column `private_test_cases` .*Set task.outputs_column"):
        load_task("code", {"preset": "livecodebench", "path": path})


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_every_other_setting_wins_over_the_preset(name: str, preset: str) -> None:
    other: dict[str, Any] = {"show_tests": 7, "answer_is": "whole", "shape": "stdio"}
    for setting, value in {**MATHS, **CODE}[preset].items():
        wanted = other.get(setting, f"other {value}")
        made = settings_model(name).model_validate({"preset": preset, setting: wanted})
        assert getattr(made, setting) == wanted != value
        rest = set({**MATHS, **CODE}[preset]) - {setting}
        assert all(getattr(made, key) == {**MATHS, **CODE}[preset][key] for key in rest)


def test_a_file_has_no_splits_and_a_mirror_has_those_of_the_data_set(tmp_path: Path) -> None:
    made: Any = settings_model("table").model_validate({"preset": "gsm8k", "path": str(tmp_path / "rows.jsonl")})
    assert (made.config_name, made.train_split, made.heldout_split) == (None, "train", None)
    made = settings_model("table").model_validate({"preset": "gsm8k", "path": "someone/gsm8k"})
    assert (made.path, made.config_name, made.heldout_split) == ("someone/gsm8k", "main", "test")


@pytest.mark.parametrize(
    ("name", "preset", "near"), [("table", "gsm8", "gsm8k"), ("code", "mbp", "mbpp"), ("table", ["gsm8k"], "gsm8k")]
)
def test_an_unknown_preset_names_the_nearest(name: str, preset: Any, near: str) -> None:
    with pytest.raises(ValidationError, match=f"did you mean `{near}`"):
        load_task(name, {"preset": preset})


HUB = {
    "gsm8k": ("openai/gsm8k", "main", "train", "test"),
    "math": ("DigitalLearningGmbH/MATH-lighteval", None, "train", "test"),
    "math500": ("HuggingFaceH4/MATH-500", None, "test", None),
    "amc": ("AI-MO/aimo-validation-amc", None, "train", None),
    "aime": ("AI-MO/aimo-validation-aime", None, "train", None),
    "omni_math": ("KbsdJames/Omni-MATH", None, "test", None),
    "deepmath": ("zwhe99/DeepMath-103K", None, "train", None),
    "big_math": ("SynthLabsAI/Big-Math-RL-Verified", None, "train", None),
    "dapo_17k": ("BytedTsinghua-SIA/DAPO-Math-17k", None, "train", None),
    "mbpp": ("google-research-datasets/mbpp", "full", "train", "test"),
    "livecodebench": ("lighteval/code_generation_lite", "release_latest", "test", None),
}
"""Preset -> id, configuration, training split, held-out split; None: the held-out problems are drawn from the training split."""


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_the_hub_is_asked_for_the_splits_that_the_data_set_has(monkeypatch: pytest.MonkeyPatch, name: str, preset: str) -> None:
    path, config_name, train, heldout = HUB[preset]
    made = {"mbpp": mbpp, "livecodebench": livecodebench}
    found = [made[preset](i) for i in range(4)] if preset in made else maths_rows(preset)
    asked = []

    def load_dataset(*arguments: Any, split: str) -> list[dict[str, Any]]:
        asked.append((*arguments, split))
        return found if heldout is None else found[:2] if split == heldout else found[2:]

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    task: Any = load_task(name, {"preset": preset})
    assert asked == [(path, config_name, split) for split in (train, heldout) if split]
    assert task.problems("heldout") and len(task.problems("train") + task.problems("heldout")) == len(found)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_settings_are_judged_without_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, preset: str) -> None:
    def load_dataset(*arguments: Any, **keywords: Any) -> None:
        raise AssertionError("validate reached for the hub")

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    path = tmp_path / "suite.toml"
    path.write_text(
        f'[task]\nname = "{name}"\npreset = "{preset}"\n\n[learner]\nmodel = "some/model"\n\n[store]\npath = "{tmp_path}/store"\n'
    )
    assert f"data set `{HUB[preset][0]}` is looked up when training starts" in validate(load_config(path))
