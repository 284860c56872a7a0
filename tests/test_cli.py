"""The command line: every command has help with an example, says what it did, and exits 0, 1 or 2."""

import json
from pathlib import Path

import pytest
from golden import build
from typer.testing import CliRunner

from mentor_audit import cli, schema
from mentor_audit.records import SCHEMA_VERSION
from mentor_audit.store import Store
from mentor_audit.store.reader import live_files

COMMANDS = [
    *(
        "audit",
        "audit-score",
        "check",
        "compact",
        "demo",
        "label",
        "leakage",
        "power",
        "replay",
        "report",
        "sandbox-check",
        "schema",
    ),
    *("show", "sql", "suite", "train", "validate"),
]
MENTOR = "golden-mentor-s1"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return build(tmp_path_factory.mktemp("cli") / "store")


def call(*arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, standard output and error of `mentor-audit ...`, through the same `main` as the console script's."""
    monkeypatch.setattr("sys.argv", ["mentor-audit", *arguments])
    monkeypatch.setattr(cli, "out", cli.Console(width=160))
    monkeypatch.setattr(cli, "err", cli.Console(stderr=True, width=160))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_the_commands_are_these_and_each_has_help_with_an_example() -> None:
    runner = CliRunner()
    names = sorted(command.name or command.callback.__name__ for command in cli.app.registered_commands)
    assert names == COMMANDS
    for name in COMMANDS:
        shown = runner.invoke(cli.app, [name, "--help"])
        assert shown.exit_code == 0
        assert "Example: mentor-audit" in shown.output, name


def test_every_command_stands_in_the_readme() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"mentor-audit {name}" in readme or f"make {name}" in readme, name


def test_sql_lists_runs_and_shows_queries(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call("sql", str(store.root), "--list", monkeypatch=monkeypatch, capsys=capsys)
    assert code == 0
    assert "rescue_rate" in out
    code, out, _ = call("sql", str(store.root), "--name", "rescue_rate", "--json", monkeypatch=monkeypatch, capsys=capsys)
    assert (code, json.loads(out)[0]["rescued_fraction"]) == (0, 0.5)
    code, out, _ = call(
        "sql", str(store.root), "SELECT count(*) AS n FROM attempt", "--json", monkeypatch=monkeypatch, capsys=capsys
    )
    assert (code, json.loads(out)) == (0, [{"n": 34}])
    code, out, _ = call("sql", str(store.root), "SELECT NULL AS nothing", monkeypatch=monkeypatch, capsys=capsys)
    assert "NULL" in out
    code, out, _ = call("sql", str(store.root), "--name", "chain", "--show", monkeypatch=monkeypatch, capsys=capsys)
    assert "-- question:" in out


def test_show_strips_control_codes(store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call("show", str(store.root), f"{MENTOR}.l1.t0.g0.f0", monkeypatch=monkeypatch, capsys=capsys)
    assert code == 0
    assert "fix s2" in out
    assert "\x1b[31m" not in out


def test_check_is_0_when_all_holds_and_1_when_not(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call("check", str(store.root), monkeypatch=monkeypatch, capsys=capsys)
    assert (code, "every link, key, count and checksum holds" in out) == (0, True)
    broken = build(tmp_path / "broken")
    part = Path(live_files(broken.root)["attempt"][0])
    part.write_bytes(part.read_bytes()[:-1])
    code, out, _ = call("check", str(broken.root), "--json", monkeypatch=monkeypatch, capsys=capsys)
    assert (code, json.loads(out)[0]["severity"]) == (1, "error")


def test_schema_prints_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call("schema", "cost", monkeypatch=monkeypatch, capsys=capsys)
    assert json.loads(out)["x-primary-key"] == ["cost_id"]
    code, _, _ = call("schema", "--write", str(tmp_path), monkeypatch=monkeypatch, capsys=capsys)
    assert (code, {p.name for p in (tmp_path / f"v{SCHEMA_VERSION}").iterdir()}) == (0, set(schema.render_schemas()))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sql", "{nowhere}", "SELECT 1"], "found no readable store.json"),
        (["sql", "{store}", "SELECT * FROM nothing"], "DuckDB can't run this"),
        (["sql", "{store}"], "found both or neither"),
        (["sql", "{store}", "--name", "rescue"], "found `rescue`"),
        (["show", "{store}", "nobody"], "found no such attempt"),
        (["report", "{store}", "-o", "{nowhere}", "--budget", "hours"], "found 'hours'"),
        (["check", "{nowhere}"], "found no readable store.json"),
        (["validate", "{nowhere}/none.toml"], "found none that can be read"),
        (["train", "{toml}", "--arm", "mentr"], "did you mean `mentor`?"),
        (["validate", "{toml}", "--set", "train.stepz=3"], "did you mean `train.steps`?"),
        (["validate", "{toml}", "--set", "task.num_trian=3"], "did you mean `num_train`?"),
        (["validate", "{toml}", "--set", "train.grpo.betta=3"], "did you mean `beta`?"),
        (
            ["validate", "{toml}", "--set", "learner.model=./nowhere", "--set", "task.name=table", "--set", "task.path=x.jsonl"],
            "scripted",
        ),
        (["validate", "{toml}", "--set", "task.name=chian"], "did you mean `chain`?"),
        (["validate", "{toml}", "--set", "replay.name=bank"], "Expected another replay.name than `bank`"),
        (["schema", "atempt"], "found `atempt`"),
        (["sandbox-check", "--mode", "landlok"], "did you mean `landlock`"),
    ],
)
def test_bad_input_is_exit_2_with_expected_found_and_what_next(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    toml = tmp_path / "suite.toml"
    toml.write_text('[suite]\narms = ["vanilla", "mentor"]\n[mentor]\nkind = "scripted"\n')
    places = {"store": str(store.root), "nowhere": str(tmp_path / "nowhere"), "toml": str(toml)}
    code, _, err = call(*[a.format(**places) for a in arguments], monkeypatch=monkeypatch, capsys=capsys)
    assert code == 2, err
    assert words in err.replace("\n", " ")
    assert not (tmp_path / "nowhere").exists(), "nothing half-written"


@pytest.mark.parametrize("name", ["llama32_3b_math", "own_data", "smollm2", "instructed_context"])
def test_examples_are_valid(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[1] / "examples" / f"{name}.toml"
    monkeypatch.chdir(path.parents[1])
    code, out, err = call("validate", str(path), "--json", monkeypatch=monkeypatch, capsys=capsys)
    assert code == 0, err
    assert json.loads(out)["valid"] is True


def test_the_demos_settings_are_valid() -> None:
    from mentor_audit.config import load_config
    from mentor_audit.suite import validate

    config = load_config(Path(cli.__file__).with_name("demo.toml"))
    assert validate(config) == []
    assert len(config.suite.seeds) >= 3
