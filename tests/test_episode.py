"""The straight line on scripted actors: exact rows for every arm, and what happens when an actor fails."""

import random
from collections.abc import Sequence

import pytest
from scripted import CheckedWordTask, ScriptedPolicy, WordTask, problem

from mentor_audit.config import MentoringSection, MentorSection
from mentor_audit.episode import Episode, Plan, Unit, attempt, decide, rows, run, verifier_grader
from mentor_audit.errors import TrainingError
from mentor_audit.mentor.reading import ReadingMentor
from mentor_audit.mentor.scripted import ScriptedMentor

UNIT = Unit("r", 1, 7, "train")
REPLY = '{"error_location": "bad-2", "error_type": "slip", "diagnosis": "two is off", "instruction": "mind step two"}'


def play(
    arm: str,
    replies: Sequence[str],
    *,
    task: WordTask | None = None,
    mentor_replies: Sequence[str] = (),
    knobs: MentoringSection | None = None,
    problems: int = 1,
    size: int = 2,
    fallback: str = "nothing",
    scripted_accuracy: float | None = None,
    limit: int | None = None,
) -> tuple[list[Episode], dict[str, list], ScriptedPolicy]:
    task = task or WordTask()
    policy = ScriptedPolicy(list(replies), max_prompt_tokens=limit)
    mentor = ReadingMentor("hf", ScriptedPolicy(list(mentor_replies), name="mentor-model"), MentorSection(max_tokens=10))
    if scripted_accuracy is not None:
        mentor = ScriptedMentor(task, policy, scripted_accuracy)
    plan = Plan(arm, knobs or MentoringSection(), seed=5, fallback=fallback)
    episodes = run([problem(str(i)) for i in range(problems)], policy, task, mentor, plan, UNIT, size)
    assert not policy.replies, "the arm sampled less than the script holds"
    return episodes, rows(episodes, UNIT, task, plan, mentor), policy


def test_mentor_line_gives_linked_rows_with_every_column_right() -> None:
    (episode,), tables, policy = play("mentor", ["a bad-2 x", "b bad-2 y", "now right"], mentor_replies=[REPLY])
    (group,) = tables["attempt_group"]
    assert (group.group_id, group.num_incorrect, group.zero_reward, group.triggered) == ("r.l1.t7.g0", 2, True, True)
    assert group.trigger_reason == "all_wrong: 2 of 2 verified wrong, 0 correct, 0 without a verdict"
    first, second, follow_up = tables["attempt"]
    assert [a.attempt_id for a in (first, second, follow_up)] == ["r.l1.t7.g0.a0", "r.l1.t7.g0.a1", "r.l1.t7.g0.f0"]
    assert [a.is_correct for a in (first, second, follow_up)] == [False, False, True]
    assert follow_up.role == "follow_up"
    assert follow_up.parent_attempt_id == episode.failure.attempt_id
    assert follow_up.instruction_id == "r.l1.t7.g0.i0"
    assert follow_up.prompt == "Q 0 hint[mind step two]"
    (diagnosis,) = tables["diagnosis"]
    assert (diagnosis.attempt_id, diagnosis.location, diagnosis.error_type) == (follow_up.parent_attempt_id, "bad-2", "slip")
    assert (diagnosis.claim, diagnosis.parse_status, diagnosis.raw_reply) == ("two is off", "ok", REPLY)
    assert diagnosis.mentor_model == "mentor-model"
    (instruction,) = tables["instruction"]
    assert (instruction.diagnosis_id, instruction.source, instruction.text) == ("r.l1.t7.g0.d0", "diagnosis", "mind step two")
    assert instruction.is_fitting is None, "this task can't tell"
    costs = {c.phase: c for c in tables["cost"]}
    assert [(c.owner_table, c.owner_id, c.payer) for c in costs.values()] == [
        ("attempt_group", "r.l1.t7.g0", "learner"),
        ("diagnosis", "r.l1.t7.g0.d0", "mentor"),
        ("instruction", "r.l1.t7.g0.i0", "learner"),
    ]
    assert (costs["rollout"].sequences, costs["rollout"].prompt_tokens, costs["rollout"].output_tokens) == (2, 4, 6)
    assert (costs["rollout"].padded_tokens, costs["rollout"].flops, costs["rollout"].wall_seconds) == (2, 10.0, 1.0)
    assert costs["follow_up"].prompt_tokens == len(["Q", "0", "hint[mind", "step", "two]"])
    assert costs["mentor"].output_tokens == len(REPLY.split())
    assert [n for _, n in policy.calls] == [2, 1]


def test_vanilla_samples_once_and_never_acts() -> None:
    _, tables, policy = play("vanilla", ["x", "y"])
    assert len(policy.calls) == 1
    assert [len(tables[t]) for t in ("attempt_group", "attempt", "diagnosis", "instruction", "cost")] == [1, 2, 0, 0, 1]
    assert tables["attempt_group"][0].triggered is False


@pytest.mark.parametrize(
    ("arm", "shown"),
    [("retry", "Q 0 hint[] seen[a x]"), ("verdict_only", "Q 0 hint[wrong]")],
)
def test_arms_without_a_mentor_show_what_they_say(arm: str, shown: str) -> None:
    _, tables, policy = play(arm, ["a x", "a x", "right"])
    assert policy.calls[1] == ([shown], 1)
    assert tables["diagnosis"] == []
    assert tables["instruction"][0].diagnosis_id is None


def test_placebo_has_the_length_of_the_instruction_that_it_replaces_and_costs_as_much() -> None:
    _, tables, policy = play("placebo", ["x", "y", "right"], mentor_replies=[REPLY])
    assert policy.calls[1][0] == ["Q 0 hint[care care care]"]
    assert [c.phase for c in tables["cost"]] == ["rollout", "mentor", "follow_up"]
    assert tables["instruction"][0].source == "template"


def test_shuffled_other_gives_each_failure_the_other_problems_diagnosis() -> None:
    other = REPLY.replace("mind step two", "mind step nine")
    _, tables, policy = play("shuffled_other", ["x", "y", "x", "y", "n", "right"], mentor_replies=[REPLY, other], problems=2)
    assert policy.calls[1][0] == ["Q 0 hint[mind step nine]", "Q 1 hint[mind step two]"]
    assert [(i.attempt_id[:10], i.diagnosis_id) for i in tables["instruction"]] == [
        ("r.l1.t7.g0", "r.l1.t7.g1.d0"),
        ("r.l1.t7.g1", "r.l1.t7.g0.d0"),
    ]


def test_shuffled_other_without_another_problem_says_so_and_shows_nothing() -> None:
    _, tables, _ = play("shuffled_other", ["x", "y"], mentor_replies=[REPLY])
    assert tables["instruction"] == []
    assert tables["attempt_group"][0].trigger_reason.endswith("nothing to show (mentor's reply: ok)")
    assert {c.phase: c.disposition for c in tables["cost"]} == {"rollout": "used", "mentor": "discarded"}


def test_wrong_never_fits_and_oracle_always_does() -> None:
    script = ["bad-1 x", "bad-1 x", "right"]
    _, wrong, _ = play("wrong", script, task=CheckedWordTask(), scripted_accuracy=1.0)
    _, oracle, policy = play("oracle", script, task=CheckedWordTask())
    assert [(i.text, i.is_fitting, i.source) for i in wrong["instruction"]] == [("fix bad-elsewhere", False, "altered")]
    assert [(i.text, i.is_fitting, i.source) for i in oracle["instruction"]] == [("fix bad-1", True, "truth")]
    assert policy.calls[1][0] == ["Q 0 hint[fix bad-1]"]
    assert oracle["diagnosis"] == []


@pytest.mark.parametrize(("accuracy", "location", "right"), [(1.0, "bad-1", True), (0.0, "bad-elsewhere", False)])
def test_scripted_mentor_is_right_as_often_as_set_and_is_audited(accuracy: float, location: str, right: bool) -> None:
    _, tables, _ = play("mentor", ["bad-1 x", "bad-1 x", "right"], task=CheckedWordTask(), scripted_accuracy=accuracy)
    assert tables["diagnosis"][0].location == location
    assert {(a.aspect, a.verdict) for a in tables["diagnosis_audit"]} == {("location", right), ("cause", True)}
    mentor_cost = next(c for c in tables["cost"] if c.phase == "mentor")
    assert (mentor_cost.prompt_tokens, mentor_cost.output_tokens) == (2 + 2, 2 + 1), "charged for reading and writing"


def test_resample_buys_what_the_mentor_and_its_follow_up_would_have_cost() -> None:
    # sample: 2 prompt + 2 output = 4 tokens; scripted mentor reads 2 + 2, writes 3; follow-up 2 + 3 + 2: 14 tokens, 3.5 samples
    counts = set()
    for seed in range(40):
        task, policy = CheckedWordTask(), ScriptedPolicy(["bad-1 x"] * 2 + ["n n"] * 4)
        plan = Plan("resample", MentoringSection(), seed=seed)
        (episode,) = run([problem("0")], policy, task, ScriptedMentor(task, policy, 1.0), plan, UNIT, 2)
        counts.add(len(episode.responses))
    assert counts == {3, 4}
    assert {r.role for r in episode.responses} == {"extra_sample"}
    tables = rows([episode], UNIT, task, plan, None)
    assert [(c.phase, c.owner_table) for c in tables["cost"]] == [("rollout", "attempt_group"), ("extra_sample", "attempt_group")]


@pytest.mark.parametrize(
    ("completions", "acts", "reason"),
    [
        (["x", "right"], False, "1 of 2 verified wrong, 1 correct, 0 without a verdict"),
        (["x", "y..."], False, "1 of 2 verified wrong, 0 correct, 1 without a verdict"),
        (["x...", "y..."], False, "0 of 2 verified wrong, 0 correct, 2 without a verdict"),
        (["x", "crash"], False, "1 of 2 verified wrong, 0 correct, 1 without a verdict"),
        (["x", "y"], True, "2 of 2 verified wrong, 0 correct, 0 without a verdict"),
    ],
)
def test_truncated_and_unscored_attempts_are_not_wrong(completions: list[str], acts: bool, reason: str) -> None:
    task, policy = WordTask(), ScriptedPolicy(list(completions))
    (episode,) = attempt([problem("0")], policy, verifier_grader(task), UNIT, 2)
    decide(episode, Plan("mentor", MentoringSection(), seed=5), UNIT)
    assert (episode.triggered, episode.trigger_reason) == (acts, f"all_wrong: {reason}")


@pytest.mark.parametrize(
    ("knobs", "acts"),
    [
        ({"trigger": "below", "success_threshold": 0.6}, True),
        ({"trigger": "below", "success_threshold": 0.5}, False),
        ({"trigger": "always"}, True),
        ({"trigger": "always", "stop": "warm_up", "stop_step": 8}, True),
        ({"trigger": "always", "stop": "warm_up", "stop_step": 7}, False),
        ({"trigger": "always", "stop": "cosine", "stop_step": 7}, False),
    ],
)
def test_triggers_and_stops(knobs: dict, acts: bool) -> None:
    policy = ScriptedPolicy(["x", "right"])
    (episode,) = attempt([problem("0")], policy, verifier_grader(WordTask()), UNIT, 2)
    decide(episode, Plan("mentor", MentoringSection(**knobs), seed=5), UNIT)
    assert episode.triggered is acts
    assert (episode.failure is not None) is acts


def test_unparsable_reply_keeps_its_slot_its_text_and_its_cost() -> None:
    _, tables, policy = play("mentor", ["x", "y"], mentor_replies=["I would think again"])
    (diagnosis,) = tables["diagnosis"]
    assert (diagnosis.parse_status, diagnosis.raw_reply, diagnosis.location) == ("unparsable", "I would think again", None)
    assert diagnosis.error == "expected a JSON object, found none"
    assert tables["instruction"] == []
    cost = next(c for c in tables["cost"] if c.phase == "mentor")
    assert (cost.output_tokens, cost.disposition) == (4, "discarded")
    assert len(policy.calls) == 2, "the follow-up call is made, empty: ranks stay in lockstep"


@pytest.mark.parametrize(("fallback", "shown"), [("placebo", "Q 0 hint[]"), ("raw_reply", "Q 0 hint[think again]")])
def test_fallback_is_what_the_settings_say_and_marked(fallback: str, shown: str) -> None:
    _, tables, policy = play("mentor", ["x", "y", "z"], mentor_replies=["think again"], fallback=fallback)
    assert policy.calls[1][0] == [shown]
    assert tables["instruction"][0].source == "fallback"


def test_follow_ups_a_failure_are_all_recorded() -> None:
    knobs = MentoringSection(follow_ups=3)
    _, tables, _ = play("mentor", ["x", "y", "n", "right", "m"], mentor_replies=[REPLY], knobs=knobs)
    follow_ups = [a for a in tables["attempt"] if a.role == "follow_up"]
    assert [(a.position, a.is_correct) for a in follow_ups] == [(0, False), (1, True), (2, False)]


def test_an_instructed_prompt_that_is_too_long_is_not_cut_but_left_out_with_the_reason() -> None:
    _, tables, _ = play("mentor", ["x", "y"], mentor_replies=[REPLY], limit=4)
    assert tables["attempt_group"][0].trigger_reason.endswith("the instructed prompt has 5 tokens, the model leaves room for 4")
    assert len(tables["instruction"]) == 1


def test_learner_may_see_diagnosis_and_attempt() -> None:
    knobs = MentoringSection(learner_sees="diagnosis_and_instruction", show_attempt=True)
    _, _, policy = play("mentor", ["x", "x", "right"], mentor_replies=[REPLY], knobs=knobs)
    assert policy.calls[1][0] == ["Q 0 hint[two is off\nmind step two] seen[x]"]


def test_same_seed_same_rows_and_another_seed_draws_another_attempt() -> None:
    def drawn(seed: int) -> list[str]:
        policy = ScriptedPolicy(["x"] * 40)
        plan = Plan("retry", MentoringSection(trigger="always"), seed=seed)
        episodes = attempt([problem(str(i)) for i in range(5)], policy, verifier_grader(WordTask()), UNIT, 8)
        for episode in episodes:
            decide(episode, plan, UNIT)
        return [e.failure.attempt_id for e in episodes]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_arm_without_its_mentor_is_an_error_of_ours() -> None:
    policy = ScriptedPolicy(["x", "y"])
    with pytest.raises(TrainingError, match="Arm mentor calls a mentor, found none"):
        run([problem("0")], policy, WordTask(), None, Plan("mentor", MentoringSection(), 5), UNIT, 2)


def control_mentor(policy: ScriptedPolicy, *replies: str) -> ReadingMentor:
    return ReadingMentor("hf", ScriptedPolicy(list(replies), name="mentor-model"), MentorSection(max_tokens=10))


def test_shuffled_same_shows_what_the_mentor_says_of_another_attempt() -> None:
    (episode,), tables, policy = play("shuffled_same", ["a x", "b x", "right"], mentor_replies=[REPLY])
    (diagnosis,), (instruction,) = tables["diagnosis"], tables["instruction"]
    assert {diagnosis.attempt_id, instruction.attempt_id} == {"r.l1.t7.g0.a0", "r.l1.t7.g0.a1"}
    assert (instruction.source, instruction.diagnosis_id) == ("other_attempt", diagnosis.diagnosis_id)
    assert instruction.attempt_id == episode.failure.attempt_id
    assert policy.calls[1][0] == ["Q 0 hint[mind step two]"]


@pytest.mark.parametrize(
    ("arm", "source", "from_diagnosis", "owner"),
    [("paraphrase", "reworded", True, "instruction"), ("wrong", "altered", True, "instruction")],
)
def test_a_control_that_the_mentor_writes_is_a_second_call_with_its_own_cost(
    arm: str, source: str, from_diagnosis: bool, owner: str
) -> None:
    second = '{"instruction": "other words"}'
    _, tables, policy = play(arm, ["a x", "b x", "right"], mentor_replies=[REPLY, second])
    (instruction,) = tables["instruction"]
    assert (instruction.text, instruction.source) == ("other words", source)
    assert (instruction.diagnosis_id == "r.l1.t7.g0.d0") is from_diagnosis
    calls = [(c.owner_table, c.payer, c.output_tokens) for c in tables["cost"] if c.phase == "mentor"]
    assert calls == [("diagnosis", "mentor", len(REPLY.split())), (owner, "mentor", 3)]
    assert policy.calls[1][0] == ["Q 0 hint[other words]"]


def test_a_problem_hint_is_written_without_the_attempt() -> None:
    _, tables, policy = play("problem_hint", ["unseen x", "unseen x", "right"], mentor_replies=['{"instruction": "count"}'])
    assert tables["diagnosis"] == []
    assert [(i.text, i.source, i.diagnosis_id) for i in tables["instruction"]] == [("count", "problem", None)]
    writer = control_mentor(policy, '{"instruction": "count"}')
    writer.hint([_failure("unseen words")], random.Random(0))
    (asked,), _ = writer._policy.calls[0]
    assert "unseen words" not in asked and "Q 0" in asked


def test_a_control_that_cannot_be_read_shows_nothing_and_keeps_both_costs() -> None:
    _, tables, _ = play("paraphrase", ["a x", "b x"], mentor_replies=[REPLY, "no JSON here"])
    assert tables["instruction"] == []
    assert tables["attempt_group"][0].trigger_reason.endswith("nothing to show (mentor's reply: unparsable)")
    costs = [(c.owner_table, c.phase, c.disposition) for c in tables["cost"] if c.phase == "mentor"]
    assert costs == [("diagnosis", "mentor", "discarded"), ("attempt_group", "mentor", "discarded")]


def test_answer_only_shows_the_answer_and_scrubbed_takes_it_out() -> None:
    _, tables, policy = play("answer_only", ["a x", "b x", "right"])
    assert policy.calls[1][0] == ["Q 0 hint[The answer is right.]"]
    assert tables["instruction"][0].source == "gold"
    told = REPLY.replace("mind step two", "the answer is right")
    _, tables, policy = play("scrubbed", ["a x", "b x", "right"], mentor_replies=[told])
    assert policy.calls[1][0] == ["Q 0 hint[the answer is [removed]]"]
    assert (tables["instruction"][0].source, tables["instruction"][0].diagnosis_id) == ("scrubbed", "r.l1.t7.g0.d0")


def test_fixed_demo_shows_every_failure_the_same_text() -> None:
    _, tables, policy = play(
        "fixed_demo", ["a x", "b x"] * 2 + ["n", "n"], knobs=MentoringSection(demonstration="see how"), problems=2
    )
    assert policy.calls[1][0] == ["Q 0 hint[see how]", "Q 1 hint[see how]"]
    assert {i.source for i in tables["instruction"]} == {"demonstration"}


def test_randomised_groups_draw_their_arm_with_the_recorded_chance() -> None:
    drawn = []
    for seed in range(200):
        policy = ScriptedPolicy(["x", "y", "right", "n"])
        episodes = attempt([problem("0"), problem("1")], policy, verifier_grader(WordTask()), UNIT, 2)
        plan = Plan("randomised", MentoringSection(), seed=seed, chances={"vanilla": 0.25, "retry": 0.75})
        for episode in episodes:
            decide(episode, plan, UNIT)
        failed, solved = episodes
        assert (solved.arm, solved.triggered) == (None, False), "nothing failed, nothing was drawn"
        assert failed.triggered is (failed.arm == "retry")
        row = rows([failed], UNIT, WordTask(), plan, None)["attempt_group"][0]
        assert row.assignment_probability == {"vanilla": 0.25, "retry": 0.75}[row.arm]
        drawn.append(failed.arm)
    assert 120 <= drawn.count("retry") <= 175, "150 expected, standard deviation 6"


def test_randomised_arms_share_one_call_a_stage() -> None:
    policy = ScriptedPolicy(["x", "x"] * 6 + ["n"] * 30)
    mentor = control_mentor(policy, *[REPLY] * 6)
    plan = Plan("randomised", MentoringSection(), seed=3, chances={"retry": 0.3, "mentor": 0.4, "placebo": 0.3})
    episodes = run([problem(str(i)) for i in range(6)], policy, WordTask(), mentor, plan, UNIT, 2)
    arms = {e.arm for e in episodes}
    assert arms == {"retry", "mentor", "placebo"}
    assert [n for _, n in policy.calls] == [2, 1] and len(policy.calls[1][0]) == 6
    tables = rows(episodes, UNIT, WordTask(), plan, mentor)
    assert {i.arm for i in tables["instruction"]} == arms
    assert len(tables["diagnosis"]) == sum(e.arm != "retry" for e in episodes)


def _failure(text: str):
    from mentor_audit.protocols import Failure, Verdict

    return Failure(problem("0"), "a0", text, Verdict(False, "incorrect"))
