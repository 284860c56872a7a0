"""Replay on scripted actors and a real store: the bank, every arm on the same failures, going on after an interruption, adding an arm."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scripted import CheckedWordTask, ScriptedPolicy, problem

from mentor_audit import replay
from mentor_audit.config import SuiteConfig, parse_config
from mentor_audit.errors import ConfigError
from mentor_audit.mentor.scripted import ScriptedMentor
from mentor_audit.protocols import Completion, Prompt
from mentor_audit.replay import Actors, answer_bank, make_bank
from mentor_audit.store import Store

ALL = ["vanilla", "resample", "retry", "placebo", "shuffled_other", "shuffled_same", "wrong", "scrubbed", "oracle", "mentor"]


class RulePolicy(ScriptedPolicy):
    """Right when told the fitting place, or when the problem is an easy one; what it gets wrong depends on prompt, seed and sample."""

    dies_at: int | None = None

    def sample(
        self, prompts: Sequence[Prompt], num_samples: int, *, seed: int | None = None, **settings: Any
    ) -> list[list[Completion]]:
        if self.dies_at is not None and len(self.calls) >= self.dies_at:
            raise KeyboardInterrupt
        for i, prompt in enumerate(prompts):
            self.replies += [self.text(str(prompt), f"{seed}:{i}:{n}") for n in range(num_samples)]
        return super().sample(prompts, num_samples, seed=seed)

    def text(self, prompt: str, key: str) -> str:
        place = f"bad-{prompt.split()[1]}"
        if f"fix {place}" in prompt or "easy" in prompt:
            return "now right"
        return f"{place} {hashlib.sha256(key.encode()).hexdigest()[:6]}"


def actors(names: Sequence[str] = ("1", "2", "3", "easy", "5"), policy: RulePolicy | None = None) -> Actors:
    task, policy = CheckedWordTask([problem(name) for name in names]), policy or RulePolicy([])
    return Actors(
        task, policy, ScriptedMentor(task, policy, 1.0), {"policy": {"name": policy.name, "revision": "1", "params": 1}}
    )


def config(root: Path, **section: Any) -> SuiteConfig:
    settings = {"arms": ALL, "batch": 2, "num_generations": 3, **section}
    return parse_config(
        {
            "suite": {"name": "s"},
            "task": {"name": "words"},
            "mentor": {"kind": "scripted"},
            "mentoring": {"follow_ups": 2},
            "replay": settings,
            "store": {"path": str(root)},
        }
    )


def play(root: Path, who: Actors | None = None, **section: Any) -> Store:
    settings, store, who = config(root, **section), Store.create(root, exist_ok=True), who or actors()
    make_bank(settings, store, who, lambda news: None)
    answer_bank(settings, store, who, lambda news: None)
    return store


def test_every_arm_answers_the_same_failures_and_every_link_holds(tmp_path: Path) -> None:
    store = play(tmp_path / "store")
    bank = store.sql("SELECT * FROM attempt_group WHERE run_id = 's-bank'")
    assert bank.height == 5 and bank["num_generations"].to_list() == [3] * 5 and bank["zero_reward"].sum() == 4
    given = store.sql(
        "SELECT source_group_id, arm, problem_id, num_incorrect, mode, assignment_probability FROM attempt_group WHERE run_id = 's-replay'"
    )
    assert given.height == 4 * len(ALL) and set(given["arm"]) == set(ALL)
    assert (
        set(given["num_incorrect"]) == {3} and set(given["mode"]) == {"replay"} and set(given["assignment_probability"]) == {1.0}
    )
    answered = store.sql(
        "SELECT g.source_group_id, count(DISTINCT a.parent_attempt_id) AS n FROM attempt_group g JOIN attempt a USING (group_id) "
        "WHERE g.run_id = 's-replay' GROUP BY ALL"
    )
    assert answered["n"].to_list() == [1] * 4, "one failed attempt of each group is answered, by every arm the same"
    success = dict(
        store.sql(
            "SELECT g.arm, avg(a.is_correct::INT) AS rate FROM attempt_group g JOIN attempt a USING (group_id) WHERE g.run_id = 's-replay' "
            "GROUP BY g.arm"
        ).rows()
    )
    right = {"mentor", "scrubbed", "shuffled_same", "oracle"}
    assert success == {arm: float(arm in right) for arm in ALL if arm != "vanilla"}
    assert store.check() == []


def test_one_diagnosis_serves_every_arm_that_stands_on_it(tmp_path: Path) -> None:
    store = play(tmp_path / "store")
    diagnoses = store.sql("SELECT attempt_id, group_id, run_id FROM diagnosis")
    assert diagnoses.height == 8, "of each failure: the attempt that is answered, and the other one of shuffled_same"
    assert diagnoses["attempt_id"].n_unique() == 8 and set(diagnoses["run_id"]) == {"s-replay"}
    assert all(group.startswith("s-bank.") for group in diagnoses["group_id"])
    costs = store.sql(
        "SELECT owner_table, phase, payer, count(*) AS n FROM cost WHERE run_id = 's-replay' GROUP BY ALL ORDER BY ALL"
    )
    assert costs.rows() == [
        ("attempt_group", "extra_sample", "learner", 4),
        ("diagnosis", "mentor", "mentor", 8),
        ("instruction", "follow_up", "learner", 4 * (len(ALL) - 2)),
    ]
    assert store.sql("SELECT count(*) FROM cost WHERE run_id = 's-replay' AND phase = 'rollout'").item() == 0, "paid by the bank"


def test_the_chain_has_a_row_for_every_arms_response(tmp_path: Path) -> None:
    store = play(tmp_path / "store", arms=["mentor", "wrong", "vanilla"])
    chain = store.table("chain")
    assert sorted(chain.filter(chain["arm"] == "mentor")["response_is_correct"].to_list()) == [True] * 8
    assert sorted(chain.filter(chain["arm"] == "wrong")["response_is_correct"].to_list()) == [False] * 8
    mentors = chain.filter(chain["arm"] == "mentor")
    assert mentors["diagnosis_location"].null_count() == 0 and set(mentors["mode"]) == {"replay"}


def test_again_samples_nothing_and_a_new_arm_samples_only_itself(tmp_path: Path) -> None:
    play(tmp_path / "store", arms=["vanilla", "mentor", "wrong"])
    again = actors()
    store = play(tmp_path / "store", again, arms=["vanilla", "mentor", "wrong"])
    assert again.policy.calls == [] and [run.launch for run in store.registry.launches()] == [1, 1]
    more = actors()
    store = play(tmp_path / "store", more, arms=["vanilla", "mentor", "wrong", "retry", "placebo"])
    assert [(len(prompts), n) for prompts, n in more.policy.calls] == [(4, 2), (4, 2)], (
        "two batches of two failures and two new arms"
    )
    assert store.sql("SELECT count(*) FROM diagnosis").item() == 4, "the placebo stands on the diagnoses that are there"
    assert store.sql("SELECT count(*) FROM attempt_group WHERE run_id = 's-replay'").item() == 20
    assert store.check() == []


def test_more_failures_extend_the_bank_and_the_answers(tmp_path: Path) -> None:
    play(tmp_path / "store", arms=["retry"], failures=2)
    store = play(tmp_path / "store", arms=["retry"])
    assert store.sql("SELECT count(*) FROM attempt_group WHERE run_id = 's-bank'").item() == 5
    assert store.sql("SELECT count(*) FROM attempt_group WHERE run_id = 's-replay'").item() == 4


def rows_without_launch(store: Store) -> list[tuple[Any, ...]]:
    return sorted(
        store.sql(
            "SELECT regexp_replace(attempt_id, '\\.l[0-9]+\\.', '.') AS id, prompt, completion, is_correct, regexp_replace(coalesce(instruction_id, ''), "
            "'\\.l[0-9]+\\.', '.') AS shown FROM attempt"
        ).rows()
    )


@pytest.mark.parametrize("dies_at", [1, 2, 3, 5])
def test_an_interrupted_replay_goes_on_to_the_same_rows(tmp_path: Path, dies_at: int) -> None:
    whole = play(tmp_path / "whole")
    policy = RulePolicy([])
    policy.dies_at = dies_at
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path / "broken", actors(policy=policy))
    rest = actors()
    store = play(tmp_path / "broken", rest)
    assert rows_without_launch(store) == rows_without_launch(whole)
    assert len(rest.policy.calls) < sum(1 for _ in whole.sql("SELECT DISTINCT call_id FROM cost").iter_rows())
    assert [f for f in store.check() if f.severity == "error"] == []
    assert "interrupted" in {launch.ended_how for launch in store.registry.launches()}


def test_another_seed_answers_other_attempts_in_another_order(tmp_path: Path) -> None:
    def answered(root: str, seed: int) -> list[tuple[Any, ...]]:
        text = (
            "SELECT group_id, arm, source_group_id FROM attempt_group WHERE mode = 'replay' AND arm <> 'bank' ORDER BY group_id"
        )
        return play(tmp_path / root, seed=seed).sql(text).rows()

    assert answered("a", 1) == answered("b", 1) != answered("c", 2)


def test_a_bank_is_replayed_under_another_policy_beside_the_first_replay(tmp_path: Path) -> None:
    play(tmp_path / "store", arms=["mentor"])
    better = RulePolicy([], name="later")
    better.text = lambda prompt, key: "now right"  # type: ignore[method-assign]
    store = play(tmp_path / "store", actors(policy=better), arms=["mentor", "retry"], name="late", bank="s-bank", policy="later")
    rates = store.sql(
        "SELECT run_id, avg(is_correct::INT) AS rate FROM attempt WHERE role = 'follow_up' GROUP BY run_id ORDER BY run_id"
    )
    assert rates.rows() == [("s-late", 1.0), ("s-replay", 1.0)]
    assert store.sql("SELECT count(*) FROM attempt_group WHERE run_id = 's-bank'").item() == 5
    assert {run.run_id: run.learner for run in store.registry.runs()}["s-late"] == "later"


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"num_generations": 4}, "Expected s-bank in .* to be of these settings"),
        ({"bank": "nobody"}, "Expected the bank nobody in"),
    ],
)
def test_other_settings_under_the_same_name_are_refused(tmp_path: Path, second: dict[str, Any], words: str) -> None:
    play(tmp_path / "store", arms=["retry"])
    with pytest.raises(ConfigError, match=words):
        play(tmp_path / "store", arms=["retry"], **second)


def test_a_bank_without_failures_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Expected failures in bank s-bank, found none"):
        play(tmp_path / "store", actors(["easy"]), arms=["retry"])


def test_a_policy_is_a_runs_final_weights_or_a_folder(tmp_path: Path) -> None:
    settings = config(tmp_path, policy="s-mentor-s1")
    assert replay._policy_name(settings, lambda news: None) == "s-mentor-s1"
    (tmp_path / "work" / "s-mentor-s1" / "final").mkdir(parents=True)
    assert replay._policy_name(settings, lambda news: None) == str(tmp_path / "work" / "s-mentor-s1" / "final")


def test_a_group_with_a_truncated_attempt_is_a_failure_only_when_the_trigger_is_not_all_wrong(tmp_path: Path) -> None:
    def failures(root: str, **mentoring: Any) -> int:
        policy = RulePolicy([])
        policy.text = lambda prompt, key: "cut..." if key.endswith(":0") else "bad-1 x"  # type: ignore[method-assign]
        settings = config(tmp_path / root, arms=["retry"]).model_copy(
            update={"mentoring": parse_config({"mentoring": mentoring}).mentoring}
        )
        store, who = Store.create(tmp_path / root), actors(["1"], policy)
        make_bank(settings, store, who, lambda news: None)
        return len(replay.read_bank(store, "s-bank", who.task, replay.failed_groups(settings)))

    assert failures("below", trigger="below", success_threshold=0.5) == 1
    with pytest.raises(ConfigError, match="found none"):
        failures("all")


def test_an_audit_that_died_within_a_batch_is_done_again_and_the_store_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mentor_audit.audit.run import run_audit
    from mentor_audit.store.writer import RunWriter

    store, task = play(tmp_path / "store", arms=["mentor", "wrong"]), actors().task
    commit = RunWriter._commit

    def dies(self: RunWriter, table: str, parts: list[Any]) -> None:
        if table == "train_step":
            raise KeyboardInterrupt
        commit(self, table, parts)

    with monkeypatch.context() as patch:
        patch.setattr(RunWriter, "_commit", dies)
        with pytest.raises(KeyboardInterrupt):
            run_audit(store, "planted_truth", task=task, batch=2)
    torn = store.sql("SELECT count(*) FROM diagnosis_audit_raw WHERE mode = 'audit'").item()
    assert torn > 0 and store.sql("SELECT count(*) FROM diagnosis_audit WHERE mode = 'audit'").item() == 0
    run_audit(store, "planted_truth", task=task, batch=2)
    found = store.sql("SELECT count(*) AS n, count(DISTINCT audit_id) AS ids FROM diagnosis_audit").row(0)
    assert found[0] == found[1] >= 4 * torn / 2
    assert [f for f in store.check() if f.severity == "error"] == []
