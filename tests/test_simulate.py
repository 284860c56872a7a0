"""The simulator keeps its word: what it writes follows from what a world says, and `truth` is what it amounts to."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import beta as beta_function

from mentor_audit.config import ARMS
from mentor_audit.errors import ConfigError
from mentor_audit.records import TRAJECTORY_TABLES
from mentor_audit.simulate import (
    LADDER,
    Causes,
    Failures,
    Randomised,
    Replays,
    SimulatedStore,
    World,
    as_arrow,
    gains,
    simulate,
    truth,
    write,
)
from mentor_audit.simulate.truth import mean_of_clipped_normal

CAUSES = Causes(context=0.1, form=0.1, residual=0.1, correctness=0.4, leakage=0.3)
FAILURES = Failures(CAUSES, tilt=0.8, spread=0.6, leak_rate=0.4)
MANY = World(replays=Replays(FAILURES, ARMS, problems=1500, follow_ups=2, extra_samples=3))


def rates(rows: dict[str, list[dict[str, Any]]], run: str, mode: str) -> dict[str, tuple[float, float, float, int]]:
    """Arm -> share of answered failures rescued, share of scored responses correct, share without a verdict, failures."""
    arm_of = {g["group_id"]: g["arm"] for g in rows["attempt_group"] if g["run_id"].startswith(run) and g["mode"] == mode}
    given: dict[str, dict[str, list[bool | None]]] = defaultdict(lambda: defaultdict(list))
    for row in rows["attempt_group"]:
        if row["group_id"] in arm_of and row["num_incorrect"] == row["num_generations"]:
            given[row["arm"]][row["group_id"]] = []
    for row in rows["attempt"]:
        if row["role"] in ("follow_up", "extra_sample") and row["group_id"] in arm_of:
            given[arm_of[row["group_id"]]][row["group_id"]].append(row["is_correct"])
    found = {}
    for arm, groups in given.items():
        verdicts = [v for answers in groups.values() for v in answers]
        scored = [v for v in verdicts if v is not None]
        rescued = np.mean([True in answers for answers in groups.values()])
        gaps = 1 - len(scored) / len(verdicts) if verdicts else 0.0
        found[arm] = (float(rescued), float(np.mean(scored)) if scored else 0.0, gaps, len(groups))
    return found


# --- what is written follows from the world


@pytest.fixture(scope="module")
def many() -> dict[str, list[dict[str, Any]]]:
    return simulate(MANY, seed=1)


def test_every_arm_is_rescued_as_often_as_its_causes_say(many: dict[str, list[dict[str, Any]]]) -> None:
    found, known = rates(many, "simulated-replay", "replay"), truth(MANY)
    assert set(found) == set(ARMS)
    for arm in ARMS:
        rescued, success, _, failures = found[arm]
        assert failures > 1500
        # Clustered by problem, so twice a binomial standard error is about one; four of those are wide enough for 32 numbers.
        assert rescued == pytest.approx(known[f"rescue/{arm}"], abs=4 * 2 * np.sqrt(0.25 / failures)), arm
        if arm != "vanilla":
            assert success == pytest.approx(known[f"success/{arm}"], abs=4 * 2 * np.sqrt(0.25 / failures)), arm
    assert found["mentor"][0] - found["wrong"][0] > 0.15


def test_diagnoses_audits_and_leaks_come_at_their_rates(many: dict[str, list[dict[str, Any]]]) -> None:
    leaking = {row["instruction_id"]: row["is_leak"] for row in many["leak_audit"]}
    by_arm = defaultdict(list)
    for row in many["instruction"]:
        by_arm[row["arm"]].append(leaking[row["instruction_id"]])
    assert np.mean(by_arm["mentor"]) == pytest.approx(0.4, abs=0.05)
    assert all(by_arm["answer_only"]) and not any(by_arm["scrubbed"])
    fits = [row["is_fitting"] for row in many["instruction"] if row["arm"] == "shuffled_other"]
    assert np.mean(fits) == pytest.approx(FAILURES.accidental, abs=0.03)
    assert all(row["is_fitting"] is None for row in many["instruction"] if row["arm"] in ("placebo", "retry"))


def test_a_judge_errs_at_its_rates() -> None:
    failures = replace(FAILURES, judge=(0.9, 0.7))
    rows = simulate(World(replays=Replays(failures, ("wrong", "mentor"), problems=1200)))
    verdicts: dict[str, dict[str, bool]] = defaultdict(dict)
    for row in rows["diagnosis_audit"]:
        verdicts[row["auditor"]][row["diagnosis_id"]] = row["verdict"]
    program, judge = verdicts["planted_truth"], verdicts["judge"]
    assert program.keys() == judge.keys()
    assert np.mean([judge[d] for d, right in program.items() if right]) == pytest.approx(0.9, abs=0.04)
    assert np.mean([not judge[d] for d, right in program.items() if not right]) == pytest.approx(0.7, abs=0.06)


def test_a_tilt_makes_right_diagnoses_look_helpful_where_they_do_nothing() -> None:
    failures = Failures(Causes(form=0.4), accuracy=0.5, tilt=1.0, spread=1.0)
    rows = simulate(World(replays=Replays(failures, ("wrong", "mentor"), problems=1500)))
    right = {row["instruction_id"]: row["is_fitting"] for row in rows["instruction"] if row["arm"] == "mentor"}
    success = {
        verdict: np.mean([row["is_correct"] for row in rows["attempt"] if right.get(row["instruction_id"]) is verdict])
        for verdict in (True, False)
    }
    assert success[True] - success[False] > 0.15
    known = truth(World(replays=Replays(failures, ("wrong", "mentor"))))
    assert known["rescue/mentor - wrong"] == pytest.approx(0)


def test_verdicts_are_missing_at_their_rates_and_move_no_truth() -> None:
    failures = Failures(Causes(form=0.3), unscored=0.1)
    world = World(replays=Replays(failures, ("resample", "placebo"), problems=1500))
    rows = simulate(world)
    found, known = rates(rows, "simulated-replay", "replay"), truth(world)
    assert found["resample"][2] == pytest.approx(0.1, abs=0.02)
    assert found["placebo"][2] == pytest.approx(0.2, abs=0.025)
    assert found["placebo"][1] == pytest.approx(known["success/placebo"], abs=0.04)
    for row in rows["attempt_group"]:
        counted = row["num_correct"] + row["num_incorrect"] + row["num_truncated"] + row["num_unscored"]
        assert counted == row["num_generations"]
    for kind in ("num_truncated", "num_unscored"):
        assert sum(row[kind] for row in rows["attempt_group"]) > 100
    found_statuses = {row["status"] for row in rows["attempt"] if row["is_correct"] is None}
    assert found_statuses == {"truncated", "verifier_timeout"}


def test_randomised_training_misleads_without_its_chances() -> None:
    trained = Randomised(
        Failures(Causes(form=0.2)),
        first={"placebo": 0.9, "mentor": 0.1},
        second={"placebo": 0.1, "mentor": 0.9},
        later=0.5,
        problems=400,
        steps=40,
        groups_a_step=24,
    )
    world = World(randomised=trained)
    rows = simulate(world)
    known = truth(world)
    assert known["randomised/mentor - placebo"] == pytest.approx(0)
    found = rates(rows, "simulated-randomised", "train")
    assert found["mentor"][0] - found["placebo"][0] > 0.2
    rescued = {row["group_id"] for row in rows["attempt"] if row["role"] == "follow_up" and row["is_correct"]}
    weighted: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for row in rows["attempt_group"]:
        if row["arm"] is not None:
            weighted[row["arm"]].append((1 / row["assignment_probability"], row["group_id"] in rescued))
    for arm, pairs in weighted.items():
        weights, hits = zip(*pairs, strict=True)
        assert np.average(hits, weights=weights) == pytest.approx(known[f"randomised/{arm}"], abs=0.06)


# --- the truth, worked out by hand


def test_luck_alone_is_beta_binomial() -> None:
    """After G failures of Beta(a, b) luck, k samples are all wrong with chance B(a, b + G + k) / B(a, b + G)."""
    a, b, attempts, k = 0.5, 3.0, 4, 3
    known = truth(World(replays=Replays(Failures(lucky=(a, b)), ("resample",), attempts=attempts, extra_samples=k)))
    by_hand = 1 - beta_function(a, b + attempts + k) / beta_function(a, b + attempts)
    assert known["rescue/resample"] == pytest.approx(by_hand, abs=1e-4)
    assert known["success/resample"] == pytest.approx(a / (a + b + attempts), abs=1e-4)


def test_causes_act_by_themselves() -> None:
    """Without luck: form 0.5 and a right diagnosis of 0.5, right half of the time, leave (1 - 0.5) x (1 - 0.25) failed."""
    failures = Failures(Causes(form=0.5, correctness=0.5), lucky=(1e-9, 1.0), accuracy=0.5)
    known = truth(World(replays=Replays(failures, (*LADDER, "oracle", "shuffled_same"))))
    assert known["rescue/vanilla"] == 0.0
    assert known["rescue/placebo"] == pytest.approx(0.5, abs=1e-6)
    assert known["rescue/mentor"] == pytest.approx(1 - 0.5 * 0.75, abs=1e-6)
    assert known["rescue/oracle"] == pytest.approx(1 - 0.5 * 0.5, abs=1e-6)
    assert known["rescue/shuffled_same"] == pytest.approx(1 - 0.5 * (1 - 0.25 * 0.5), abs=1e-6)
    assert known["rescue/mentor - wrong"] == pytest.approx(0.125, abs=1e-6)
    twice = truth(World(replays=Replays(failures, ("mentor",), follow_ups=2)))
    assert twice["rescue/mentor"] == pytest.approx(
        1 - (0.25 + 0.0625) / 2, abs=1e-6
    )  # both wrong: a right text 1/16, a wrong one 1/4


def test_a_leak_is_the_mentors_alone() -> None:
    failures = Failures(Causes(leakage=0.8), lucky=(1e-9, 1.0), leak_rate=0.5)
    known = truth(World(replays=Replays(failures, ("answer_only", "wrong", "scrubbed", "paraphrase", "mentor"))))
    rescued = {arm: round(known[f"rescue/{arm}"], 6) for arm in ("answer_only", "wrong", "scrubbed", "paraphrase", "mentor")}
    assert rescued == {"answer_only": 0.8, "wrong": 0.0, "scrubbed": 0.0, "paraphrase": 0.4, "mentor": 0.4}


def test_transfer_is_read_at_the_smallest_compute_and_between_evaluations() -> None:
    """vanilla ends at 15e9 FLOPs: the mentor's line between 0 and 20e9 is three quarters up."""
    world = World(
        gain={"vanilla": 0.0, "mentor": 0.4}, flops_a_step={"vanilla": 0.75e9}, eval_every=20, problem_spread=0.0, seed_spread=0.0
    )  # fmt: skip
    known = truth(world)
    assert known["transfer/vanilla"] == pytest.approx(0.2)
    assert known["transfer/mentor"] == pytest.approx(0.2 + 0.75 * 0.4)
    assert known["transfer/mentor - vanilla"] == pytest.approx(0.3)


@pytest.mark.parametrize(("mean", "deviation"), [(0.2, 0.15), (-0.1, 0.3), (0.9, 0.2), (0.5, 1e-3)])
def test_the_mean_of_a_clipped_normal_is_its_integral(mean: float, deviation: float) -> None:
    x = np.linspace(mean - 9 * deviation, mean + 9 * deviation, 200_001)
    density = stats.norm.pdf(x, mean, deviation)
    by_sum = float(np.sum(np.clip(x, 0, 1) * density) * (x[1] - x[0]))
    assert mean_of_clipped_normal(mean, deviation) == pytest.approx(by_sum, abs=1e-5)


def test_held_out_accuracy_follows_the_truth_with_gaps_or_without() -> None:
    world = World(
        gain={"vanilla": 0.0, "mentor": 0.5}, heldout=600, samples=8, steps=2, eval_every=2, groups_a_step=1, unscored={"mentor": 0.3}
    )  # fmt: skip
    rows, known = simulate(world), truth(world)
    for arm in ("vanilla", "mentor"):
        last = [r for r in rows["attempt"] if r["role"] == "eval" and f"-{arm}-" in r["run_id"] and r["step"] == 2]
        scored = [r["is_correct"] for r in last if r["is_correct"] is not None]
        assert 1 - len(scored) / len(last) == pytest.approx(0.3 if arm == "mentor" else 0.0, abs=0.01)
        assert np.mean(scored) == pytest.approx(known[f"transfer/{arm}"], abs=0.03)


def test_gains_add_up_along_the_ladder() -> None:
    assert gains(("vanilla", "resample", "wrong", "mentor"), sampling=0.1, form=0.2, leakage=0.3) == pytest.approx(
        {"vanilla": 0.0, "resample": 0.1, "wrong": 0.3, "mentor": 0.6}
    )


# --- rows and stores

EVERYTHING = World(
    gain=gains(("vanilla", "scrubbed", "mentor"), correctness=0.3),
    seeds=(1,),
    steps=2,
    eval_every=2,
    heldout=3,
    replays=Replays(replace(FAILURES, unscored=0.1, judge=(0.9, 0.9)), ARMS, problems=8),
    randomised=Randomised(FAILURES, {"vanilla": 0.5, "shuffled_same": 0.5}, {"vanilla": 0.2, "shuffled_same": 0.8}, steps=2, seeds=(1,)),
)  # fmt: skip


def test_the_same_seed_gives_the_same_rows() -> None:
    assert simulate(EVERYTHING, 3) == simulate(EVERYTHING, 3)
    assert simulate(EVERYTHING, 3)["attempt"] != simulate(EVERYTHING, 4)["attempt"]


def test_a_store_on_disk_checks_and_holds_the_same_rows(tmp_path: Path) -> None:
    rows = simulate(EVERYTHING, 3)
    store = write(EVERYTHING, tmp_path / "store", 3)
    assert store.check() == []
    for table in TRAJECTORY_TABLES:
        written = as_arrow(table, rows[table])
        key = (
            written.column_names[1]
            if table == "problem"
            else next(c for c in written.column_names if c.endswith("_id") and c != "run_id")
        )
        found = store.arrow(f"SELECT * FROM {table}_raw").select(written.column_names)
        assert sorted(found.to_pylist(), key=lambda r: str(r[key])) == sorted(written.to_pylist(), key=lambda r: str(r[key])), (
            table
        )
    memory = SimulatedStore(rows)
    count = "SELECT arm, count(*) AS n, count(response_id) AS responses FROM chain GROUP BY arm ORDER BY arm"
    assert memory.arrow(count).to_pylist() == store.arrow(count).to_pylist()


def test_a_treatment_group_names_its_failure_and_answers_it() -> None:
    rows = simulate(EVERYTHING, 3)
    bank = {g["group_id"]: g for g in rows["attempt_group"] if g["run_id"] == "simulated-bank"}
    treated = [g for g in rows["attempt_group"] if g["run_id"] == "simulated-replay"]
    failed = [g for g in bank.values() if g["num_incorrect"] == g["num_generations"]]
    assert len(treated) == len(ARMS) * len(failed) > 0
    for group in treated:
        source = bank[group["source_group_id"]]
        assert source["zero_reward"] and group["problem_id"] == source["problem_id"]
        assert (group["num_incorrect"], group["num_truncated"]) == (source["num_incorrect"], source["num_truncated"])
    wrong = {a["attempt_id"] for a in rows["attempt"] if a["is_correct"] is False and a["role"] == "attempt"}
    responses = [a for a in rows["attempt"] if a["run_id"] == "simulated-replay"]
    assert len(responses) == len(treated) - len(failed)  # one each, but for vanilla
    assert {a["parent_attempt_id"] for a in responses} <= wrong
    diagnoses = [d for d in rows["diagnosis"] if d["run_id"] == "simulated-replay"]
    assert len(diagnoses) == 2 * len(failed)  # shared by the arms; shuffled_same stands on a second one
    assert {d["group_id"] for d in diagnoses} <= bank.keys()


def test_worlds_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"causes.form from 0 to 1, found 1.2"):
        Causes(form=1.2)
    with pytest.raises(ConfigError, match=r"causes.form x \(1 \+ spread\)"):
        Failures(Causes(form=0.7), spread=0.6)
    with pytest.raises(ConfigError, match="found mentr"):
        Replays(FAILURES, ("mentr",))
    with pytest.raises(ConfigError, match="add up to 1"):
        Randomised(FAILURES, {"mentor": 0.5, "wrong": 0.6}, {"mentor": 0.5, "wrong": 0.5})
    with pytest.raises(ConfigError, match="found luck"):
        gains(("mentor",), luck=0.1)
