"""Settings: what is refused, with which words, and what the hash covers."""

from pathlib import Path

import pytest

from mentor_audit.config import ARMS, SuiteConfig, load_config, parse_config
from mentor_audit.errors import ConfigError


@pytest.mark.parametrize(
    ("values", "overrides", "words"),
    [
        ({"trian": {}}, [], "unknown setting `trian`; did you mean `train`?"),
        ({"train": {"step": 3}}, [], "unknown setting `train.step`; did you mean `train.steps`?"),
        ({}, ["train.stepz=3"], "unknown setting `train.stepz`; did you mean `train.steps`?"),
        ({}, ["train.steps"], "Expected an override as key=value, found 'train.steps'"),
        ({}, ["train.steps=0"], "`train.steps`: Input should be greater than or equal to 1, found 0"),
        ({"suite": {"arms": ["vanila"]}}, [], "found 'vanila'"),
        ({"suite": {"seeds": [1, 1]}}, [], "expected each entry once, found [1, 1]"),
        ({"mentor": {"kind": "hf"}}, [], 'expected mentor.model with kind = "hf", found none'),
        ({"mentor": {"kind": "scriptd"}}, [], "did you mean `scripted`?"),
        ({"mentoring": {"trigger": "below"}}, [], 'trigger = "below" and success_threshold go together'),
        ({"mentoring": {"stop_step": 3}}, [], "stop_step go together"),
        ({"mentoring": {"placement": "append", "follow_ups": 9}}, [], "at most num_generations follow-ups"),
        ({"train": {"learning_rate": 0}}, [], "`train.learning_rate`"),
    ],
)
def test_impossible_settings_are_refused_in_words(values: dict, overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(values, overrides)
    assert words in str(caught.value)


def test_malformed_and_missing_files_are_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[suite\nname = 1")
    with pytest.raises(ConfigError, match=r"Expected TOML in .*broken.toml, found a mistake: .*line 1"):
        load_config(broken)
    with pytest.raises(ConfigError, match="found none that can be read"):
        load_config(tmp_path / "nowhere.toml")


def test_overrides_are_toml_and_bare_words_are_text(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_text('[suite]\nname = "a"\n[train]\nsteps = 5\n')
    config = load_config(path, ["train.steps=7", 'suite.arms=["mentor"]', "learner.model=some/model", "train.grpo.beta=0.1"])
    assert (config.train.steps, config.suite.arms, config.learner.model) == (7, ["mentor"], "some/model")
    assert config.train.grpo == {"beta": 0.1}


def test_json_of_a_config_reads_as_the_same_config(tmp_path: Path) -> None:
    config = parse_config({"train": {"steps": 3}, "task": {"name": "chain", "num_train": 4}})
    path = tmp_path / "settings.json"
    path.write_text(config.model_dump_json())
    assert load_config(path) == config
    assert load_config(path).hash() == config.hash()


def test_hash_covers_what_changes_rows_and_nothing_else() -> None:
    base = SuiteConfig().hash()
    same = [
        ["store.path=elsewhere"],
        ["suite.workers=2"],
        ["suite.seeds=[9]"],
        ['suite.arms=["wrong"]'],
        ["report.budget=tokens"],
    ]
    other = [["train.steps=51"], ["mentoring.correction=none"], ["task.num_train=3"], ["budget.tokens=5"], ["learner.top_p=0.9"]]
    assert {parse_config({}, o).hash() for o in same} == {base}
    assert base not in {parse_config({}, o).hash() for o in other}


def test_every_arm_is_there() -> None:
    assert set(ARMS) == {
        "vanilla", "resample", "resample_flops", "retry", "verdict_only", "placebo", "fixed_demo", "problem_hint", "shuffled_other",
        "shuffled_same", "wrong", "answer_only", "scrubbed", "paraphrase", "oracle", "mentor",
    }  # fmt: skip
