"""Every named query on the golden store: exact values, worked out by hand from `golden.py`."""

import io

import pytest
from golden import HOSTILE, add_replay, build

from mentor_audit.errors import QueryError
from mentor_audit.store import Store
from mentor_audit.store.chain import chain_sections, plain, render_chain

MENTOR, VANILLA = "golden-mentor-s1", "golden-vanilla-s1"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """With a replay and an audit of it, which no query of training may count."""
    return add_replay(build(tmp_path_factory.mktemp("golden") / "store"))


def test_the_golden_store_is_sound(store: Store) -> None:
    assert store.check() == []


def test_every_query_says_what_it_answers(store: Store) -> None:
    found = store.queries()
    assert [q.name for q in found] == [
        "audit_agreement", "chain", "cost_by_arm", "cost_per_success", "diagnosis_accuracy", "follow_up_by_correctness", "leak_rate",
        "pass_at_k", "replay_rescue", "rescue_rate", "zero_reward_fraction",
    ]  # fmt: skip
    for query in found:
        assert query.question.endswith("?")
        assert query.grain
        assert query.units


def test_zero_reward_fraction(store: Store) -> None:
    assert store.query("zero_reward_fraction").rows() == [
        ("mentor", 1, 0, 1, 1.0, 0.0),
        ("mentor", 1, 1, 1, 1.0, 1.0),
        ("vanilla", 1, 0, 1, 1.0, 1.0),
        ("vanilla", 1, 1, 1, 0.0, 0.0),
    ]


def test_rescue_rate(store: Store) -> None:
    columns = (
        "arm", "num_zero_reward_groups", "num_acted_on", "num_answered", "num_responses", "num_scored_responses", "success_a_response",
        "rescued_fraction",
    )  # fmt: skip
    assert store.query("rescue_rate").select(columns).rows() == [
        ("mentor", 2, 2, 2, 2, 2, 0.5, 0.5),
        ("vanilla", 1, 0, 0, 0, 0, None, None),
    ]


def test_diagnosis_accuracy_counts_what_the_auditor_could_judge(store: Store) -> None:
    assert store.query("diagnosis_accuracy").rows() == [
        ("mentor", "scripted", "cause", "step_checker", 2, 0, 0, None),
        ("mentor", "scripted", "every", "step_checker", 2, 1, 0, 0.0),
        ("mentor", "scripted", "location", "step_checker", 2, 2, 1, 0.5),
        ("replay", "scripted", "cause", "checker", 2, 2, 1, 0.5),
        ("replay", "scripted", "cause", "judge", 2, 1, 0, 0.0),
        ("replay", "scripted", "every", "checker", 2, 2, 1, 0.5),
        ("replay", "scripted", "every", "judge", 2, 1, 0, 0.0),
        ("replay", "scripted", "location", "checker", 2, 2, 1, 0.5),
        ("replay", "scripted", "location", "judge", 2, 2, 2, 1.0),
    ]


def test_auditors_are_paired_through_the_diagnosis(store: Store) -> None:
    # checker: d0 right in both, d1 wrong in both; judge: locations right, d0's cause wrong, d1's cause not told
    assert store.query("audit_agreement").rows() == [
        ("cause", "checker", "judge", 1, 0, 1, 0, 0, 0.0),
        ("location", "checker", "judge", 2, 1, 0, 1, 0, 0.5),
    ]


def test_leak_rate_is_of_what_could_be_judged(store: Store) -> None:
    assert store.query("leak_rate").rows() == [("replay", "mentor", "judge", 2, 1, 1, 1.0, 2, 0.5, 1.5)]


def test_replay_rescue_leaves_unknown_out_and_charges_the_diagnosis(store: Store) -> None:
    # mentor: one of the second failure's follow-ups has no verdict; two diagnoses of 9 tokens, 30 and 31 FLOPs, follow-ups of 11 tokens, 20 FLOPs
    assert store.query("replay_rescue").rows() == [
        ("golden-replay", "mentor", 2, 1, 1, 1.0, 4, 3, pytest.approx(2 / 3), 20.0, 50.5),
        ("golden-replay", "resample", 2, 0, 1, 0.5, 6, 6, pytest.approx(2 / 6), 11.0, 45.0),
        ("golden-replay", "vanilla", 2, 0, 0, 0.0, 0, 0, None, 0.0, 0.0),
    ]


def test_follow_up_by_correctness_is_marked_descriptive(store: Store) -> None:
    assert store.query("follow_up_by_correctness").rows() == [
        ("replay", "mentor", False, 2, 1, 1, 1.0),
        ("replay", "mentor", True, 2, 2, 1, 0.5),
        ("train", "mentor", False, 1, 1, 0, 0.0),
        ("train", "mentor", True, 1, 1, 1, 1.0),
    ]
    (query,) = (q for q in store.queries() if q.name == "follow_up_by_correctness")
    assert query.note.startswith("descriptive, not causal")


def test_cost_by_arm_keeps_superseded_and_discarded_apart(store: Store) -> None:
    frame = store.query("cost_by_arm")
    columns = [
        "payer",
        "phase",
        "disposition",
        "superseded",
        "num_sequences",
        "prompt_tokens",
        "output_tokens",
        "flops",
        "flops_prefix_cached",
    ]
    assert frame.filter(frame["arm"] == "mentor").select(columns).rows() == [
        ("eval", "eval", "used", False, 8, 24, 36, 28.0, 14.0),
        ("learner", "follow_up", "discarded", False, 2, 5, 3, 20.0, 10.0),
        ("learner", "follow_up", "discarded", True, 2, 5, 3, 20.0, 10.0),
        ("learner", "follow_up", "used", False, 2, 5, 3, 20.0, 10.0),
        ("learner", "optimizer", "used", False, 4, 24, 0, 2000.0, 1000.0),
        ("learner", "optimizer", "used", True, 2, 12, 0, 1000.0, 500.0),
        ("learner", "rollout", "used", False, 4, 8, 12, 200.0, 100.0),
        ("learner", "rollout", "used", True, 2, 4, 6, 100.0, 50.0),
        ("mentor", "mentor", "used", False, 4, 14, 4, 60.0, 30.0),
        ("mentor", "mentor", "used", True, 2, 7, 2, 30.0, 15.0),
    ]
    (total,) = store.arrow("SELECT sum(flops) AS f FROM cost_raw").to_pylist()
    assert frame["flops"].sum() == total["f"]


def test_cost_per_success_counts_everything_that_was_spent(store: Store) -> None:
    # mentor: one success (the follow-up of step 0); three launches' steps: tokens 3 x (10 + 9 + 8), FLOPs 3 x 1150
    assert store.query("cost_per_success").rows() == [
        ("mentor", 1, 81, 3450.0, 81.0, 3450.0),
        ("vanilla", 1, 20, 2200.0, 20.0, 2200.0),
    ]


def test_pass_at_k_is_unbiased_and_null_where_samples_are_too_few(store: Store) -> None:
    frame = store.query("pass_at_k")
    last = frame.filter((frame["arm"] == "vanilla") & (frame["step"] == 2)).sort("k")
    # p2: 2 of 3 right; p3: 0 of 2 right, one cut. pass@1 = (2/3 + 0)/2, pass@2 = (1 + 0)/2, pass@3: p3 has two samples only
    assert last["pass_at_k"].to_list() == [pytest.approx(1 / 3), pytest.approx(0.5), None]
    assert last["num_unscored_samples"].to_list() == [1, 1, 1]
    assert last["cumulative_flops"].to_list() == [2200.0] * 3
    assert last["cumulative_tokens"].to_list() == [20] * 3
    mentor = frame.filter((frame["arm"] == "mentor") & (frame["k"] == 1)).sort("step")
    assert mentor["cumulative_flops"].to_list() == [0.0, 3450.0], "the dead launch's step counts"
    assert mentor["pass_at_k"].to_list() == [pytest.approx(1 / 6), pytest.approx((1 + 1 / 2) / 2)]


def test_chain_has_every_link_side_by_side(store: Store) -> None:
    rows = store.query("chain").to_dicts()
    assert [(r["attempt_id"], r["response_id"], r["response_is_correct"], r["location_is_right"]) for r in rows] == [
        (f"{MENTOR}.l1.t0.g0.a1", f"{MENTOR}.l1.t0.g0.f0", True, True),
        (f"{MENTOR}.l2.t1.g0.a1", f"{MENTOR}.l2.t1.g0.f0", False, False),
    ]
    first = rows[0]
    assert (first["rollout_flops"], first["mentor_flops"], first["response_flops"]) == (100.0, 30.0, 20.0)
    assert (first["rollout_tokens"], first["mentor_tokens"], first["response_tokens"]) == (10, 9, 8)
    assert (first["instruction_text"], first["instruction_is_fitting"], first["diagnosis_claim"]) == ("fix s2", True, "s2 is off")


def test_chain_keeps_failures_that_nothing_answered(store: Store) -> None:
    (row,) = store.chain(f"{VANILLA}.l1.t0.g0.a0").to_dicts()
    assert (row["response_id"], row["diagnosis_id"], row["instruction_id"]) == (None, None, None)


def test_a_chain_is_found_from_its_follow_up_too(store: Store) -> None:
    assert store.chain(f"{MENTOR}.l1.t0.g0.f0").equals(store.chain(f"{MENTOR}.l1.t0.g0.a1"))


@pytest.mark.parametrize(
    ("attempt_id", "words"), [("nobody", "found no such attempt"), (f"{VANILLA}.l1.t1.g0.a0", "found one that did not fail")]
)
def test_unknown_attempts_are_refused_with_examples(store: Store, attempt_id: str, words: str) -> None:
    with pytest.raises(QueryError) as caught:
        store.chain(attempt_id)
    assert words in str(caught.value)
    assert f"{MENTOR}.l1.t0.g0.a1" in str(caught.value)


def test_what_a_model_wrote_can_not_steer_a_terminal(store: Store) -> None:
    from rich.console import Console

    frame = store.chain(f"{MENTOR}.l1.t0.g0.a1")
    assert frame["completion"][0] == HOSTILE, "stored as it was written"
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(render_chain(frame))
    text = console.export_text()
    assert "[/INST]" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert plain("\x1b]0;evil\x07") == "\\x1b]0;evil\\x07"
    titles = [section.title for section in chain_sections(frame)]
    assert titles[0] == "problem"
    assert f"follow up {MENTOR}.l1.t0.g0.f0" in titles
