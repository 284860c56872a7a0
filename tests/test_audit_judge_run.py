"""Judges in a store: costs, canaries, blindness, going on after an interruption, calls that fail; and models as judges."""

import json
import shutil
from pathlib import Path

import pytest
from scripted import ScriptedPolicy, problem
from test_audit import TASK, audited_store, case
from test_audit_judge import ScriptedJudge, always, lying, reply, shown
from test_leakage_run import InterruptedAfter

from mentor_audit.audit.canaries import CanaryMaker
from mentor_audit.audit.judge import JudgeAuditor
from mentor_audit.audit.load_judge import EndpointJudge, PolicyJudge, load_judge
from mentor_audit.audit.opinions import CanaryCounts
from mentor_audit.audit.run import run_audit
from mentor_audit.config import MentorSection
from mentor_audit.errors import ConfigError, ModelError
from mentor_audit.store import Store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return audited_store(tmp_path_factory.mktemp("made") / "store").root


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Store:
    shutil.copytree(made, tmp_path / "store")
    return Store.open(tmp_path / "store")


def test_every_call_is_paid_by_the_audit_and_the_canaries_are_recorded(store: Store) -> None:
    judge = ScriptedJudge(lying(0.0))
    summary = run_audit(store, "judge", task=TASK, judge=judge, batch=5, seed=2)
    assert (summary.auditor, summary.run_id, summary.num_new) == ("judge:scripted", "s-audit-judge-scripted", 12)
    assert summary.warnings == () and len(judge.prompts) == 12 + 2 * 3
    assert summary.canaries == CanaryCounts(true_asked=12, true_found=12, false_asked=6, false_found=6)
    totals = store.sql(
        "SELECT sum(prompt_tokens) AS tokens, sum(flops) AS flops, sum(sequences) AS calls FROM cost WHERE phase = 'audit'"
    ).row(0)
    assert totals == (18 * 10, 18 * 12.0, 18)
    assert store.sql("SELECT DISTINCT payer, owner_table, model FROM cost WHERE phase = 'audit'").rows() == [
        ("audit", "diagnosis_audit", "scripted")
    ]
    rows = store.sql(
        "SELECT a.*, d.location FROM diagnosis_audit a JOIN diagnosis d USING (diagnosis_id) WHERE auditor = 'judge:scripted'"
    ).to_dicts()
    assert len(rows) == 48 and {r["confidence"] for r in rows} == {0.9}
    assert all(r["verdict"] == (r["location"] != "bad-elsewhere") for r in rows if r["aspect"] == "location")
    canaries = store.sql("SELECT DISTINCT diagnosis_id FROM diagnosis_audit").height
    assert canaries == 12, "a canary leaves no row"
    config = json.loads(store.sql("SELECT config FROM run WHERE arm = 'audit'")["config"].item())["audit"]
    assert config["prompt_template"].startswith("judge.txt@") and config["with_reference"] is False
    assert store.check() == []


def test_a_judge_sees_no_arm_no_follow_up_and_no_verdict(store: Store) -> None:
    judge = ScriptedJudge(always("true"))
    run_audit(store, "judge", task=TASK, judge=judge)
    text = "\n".join(judge.prompts)
    hidden = store.sql("SELECT completion FROM attempt WHERE role = 'follow_up'")["completion"].to_list()
    assert hidden and not [t for t in set(hidden) if t in text]
    assert "mentor" not in text and "s-replay" not in text and "incorrect" not in text


def test_a_judge_that_finds_everything_right_fails_its_canaries(store: Store) -> None:
    summary = run_audit(store, "judge", task=TASK, judge=ScriptedJudge(always("true")))
    assert summary.canaries.false_found == 0 and summary.canaries.true_found == summary.canaries.true_asked
    (warning,) = summary.warnings
    assert "found 0 of 4 verdicts on canaries that are known to be wrong: expected at least 80%" in warning
    without = run_audit(store, "judge", judge=ScriptedJudge(always("cannot tell"), name="unsure"))
    assert "whether the judge would know one is not known" in without.warnings[0] and "found 0 of" in without.warnings[1]


def test_a_killed_audit_goes_on_with_the_same_questions(store: Store, made: Path, tmp_path: Path) -> None:
    judge = ScriptedJudge(lying(0.0))
    with pytest.raises(KeyboardInterrupt):
        run_audit(store, "judge", task=TASK, judge=judge, batch=5, progress=InterruptedAfter(1))
    summary = run_audit(store, "judge", task=TASK, judge=judge, batch=5)
    assert (summary.num_new, summary.canaries.true_asked) == (7, 12)
    shutil.copytree(made, tmp_path / "whole")
    at_once = ScriptedJudge(lying(0.0))
    run_audit(Store.open(tmp_path / "whole"), "judge", task=TASK, judge=at_once, batch=5)
    assert judge.prompts == at_once.prompts and judge.seeds == at_once.seeds
    asked = len(judge.prompts)
    assert run_audit(store, "judge", task=TASK, judge=judge, batch=5).num_new == 0 and len(judge.prompts) == asked
    assert store.check() == []


def test_a_call_that_failed_is_no_verdict_and_a_server_that_is_down_ends_the_audit(store: Store) -> None:
    with pytest.raises(ModelError, match="found that all 16 calls of a batch failed"):
        run_audit(store, "judge", task=TASK, judge=ScriptedJudge(lambda prompt, nonce: None), batch=12)
    assert store.sql("SELECT count(*) AS n FROM diagnosis_audit WHERE auditor LIKE 'judge%'")["n"].item() == 0
    failing = ScriptedJudge(lambda prompt, nonce: None if "bad-3" in prompt else reply(nonce))
    summary = run_audit(store, "judge", task=TASK, judge=failing, batch=12)
    assert summary.num_new == 12 and {c.cannot_tell for c in summary.aspects} == {1}
    why = store.sql("SELECT DISTINCT why FROM diagnosis_audit WHERE auditor LIKE 'judge%' AND verdict IS NULL")["why"].item()
    assert why.startswith("the call of the judge failed: call") and store.check() == []


def test_a_judge_with_the_reference_is_another_auditor(store: Store) -> None:
    run_audit(store, "judge", judge=ScriptedJudge(always("true")))
    judge = ScriptedJudge(always("true"))
    summary = run_audit(store, "judge", judge=judge, with_reference=True)
    assert (summary.auditor, summary.num_new) == ("judge:scripted+reference", 12)
    assert all(shown(prompt, "Reference answer") == "right" for prompt in judge.prompts)


# --- models as judges


def make_scripted(name: str) -> ScriptedJudge:
    return ScriptedJudge(always("true"), name=name)


def test_a_judge_is_loaded_from_a_section() -> None:
    section = MentorSection(kind="test_audit_judge_run:make_scripted", options={"name": "mine"})
    assert load_judge(section).name == "mine"
    endpoint = load_judge(MentorSection(kind="endpoint", model="m", options={"base_url": "http://127.0.0.1:9/v1"}))
    assert isinstance(endpoint, EndpointJudge) and (endpoint.name, endpoint.settings["model"]) == ("m", "m")
    with pytest.raises(ConfigError, match="A judge is a model of its own"):
        load_judge(MentorSection(kind="self"))


def test_a_policy_judges_in_one_call_and_a_reply_that_was_cut_says_so() -> None:
    policy = ScriptedPolicy(["whole", "cut ..."])
    judge = PolicyJudge(policy, MentorSection(kind="hf", model="m", max_tokens=9))
    answers = judge.ask(["one", "two"], 5)
    assert [a.text for a in answers] == ["whole", "cut ..."] and [a.error is None for a in answers] == [True, False]
    assert policy.calls == [([[{"role": "user", "content": "one"}], [{"role": "user", "content": "two"}]], 1)]
    assert all(a.usage is not None for a in answers)


def test_a_model_from_a_folder_judges_and_nonsense_is_no_verdict(tmp_path: Path) -> None:
    from tiny import tiny_model, tiny_tokenizer

    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    judge = load_judge(MentorSection(kind="hf", model=str(tmp_path), max_tokens=4), as_chat=False)
    problems = {"words-1": problem("1")}
    (audited,) = JudgeAuditor(judge, CanaryMaker([case()], TASK, problems), False).audit([case()], 0).audited
    assert [opinion.verdict for opinion in audited.opinions] == [None] * 4
    assert "could not be read" in audited.opinions[0].why and "too long" in audited.opinions[0].why
    assert audited.usage is not None and audited.usage.flops is not None


def test_an_endpoint_that_is_down_gives_answers_with_reasons() -> None:
    section = MentorSection(
        kind="endpoint", model="m", options={"base_url": "http://127.0.0.1:9/v1", "retries": 0, "timeout_s": 2}
    )
    (answer,) = load_judge(section).ask(["one"], 5)
    assert answer.text is None and "ConnectError" in str(answer.error)
