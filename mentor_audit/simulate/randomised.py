"""Rows of randomised training: every failed group draws its arm, with chances that change half-way through."""

import numpy as np

from mentor_audit.config import ARMS_RESAMPLING
from mentor_audit.simulate.answers import add_answer, add_diagnoses, make_failure
from mentor_audit.simulate.failures import luck
from mentor_audit.simulate.rows import Rows, add_run, attempt, cost, group, problem, train_step, unit_id, unit_of, with_gaps
from mentor_audit.simulate.world import Randomised


def add_randomised(rows: Rows, suite: str, trained: Randomised, rng: np.random.Generator) -> None:
    """Runs `<suite>-randomised-s<seed>`, on the same problems."""
    first = f"{suite}-randomised-s{trained.seeds[0]}"
    rows["problem"] += [problem(f"q{p}", first) for p in range(trained.problems)]
    ease_P = rng.random(trained.problems)
    lucky_P = luck(trained.failures, ease_P)
    for seed in trained.seeds:
        run_id = f"{suite}-randomised-s{seed}"
        mentor = {"kind": "scripted", "accuracy": trained.failures.accuracy}
        add_run(rows, suite, run_id, "randomised", seed, "scripted", {"suite": {"name": suite}, "mentor": mentor})
        for step in range(trained.steps):
            _add_step(rows, trained, run_id, step, ease_P, lucky_P, rng)


def _add_step(
    rows: Rows, trained: Randomised, run_id: str, step: int, ease_P: np.ndarray, lucky_P: np.ndarray, rng: np.random.Generator
) -> None:
    unit, failures = unit_of(run_id, step, "train"), trained.failures
    is_first = step < trained.steps // 2
    chances = trained.first if is_first else trained.second
    problems = rng.integers(trained.problems, size=trained.groups_a_step)
    correct = rng.random((trained.groups_a_step, trained.attempts)) < lucky_P[problems][:, None]
    drawn = rng.choice(list(chances), size=trained.groups_a_step, p=list(chances.values()))
    zero = rescued = inserted = 0
    for g, (p, arm, given) in enumerate(zip(problems, drawn, with_gaps(correct, failures.unscored, rng), strict=True)):
        key, arm, name = f"{unit_id(unit)}.g{g}", str(arm), f"q{p}"
        failure = make_failure(failures, key, name, given, float(ease_P[p]), float(lucky_P[p]), rng)
        rows["attempt"] += [attempt(unit, f"{key}.a{n}", key, name, "attempt", n, v) for n, v in enumerate(given)]
        zero += True not in given
        if failure is None:
            rows["attempt_group"].append(group(unit, key, name, given, False))
            continue
        rows["attempt_group"].append(group(unit, key, name, given, arm != "vanilla", arm, chances[arm]))
        add_diagnoses(rows, unit, failure, key, (arm,))
        number = trained.extra_samples if arm in ARMS_RESAMPLING else trained.follow_ups
        later = 0.0 if is_first else trained.later
        answers = add_answer(
            rows, unit, failures, failure, key, arm, number, rng, diagnoses=key, probability=chances[arm], later=later
        )
        rescued += True in answers
        inserted += answers.count(True)
    rows["cost"].append(cost(unit, ("train_step", unit_id(unit)), "rollout", "learner", 4e8))
    rows["cost"].append(cost(unit, ("train_step", unit_id(unit)), "optimizer", "learner", 6e8))
    rows["train_step"].append(train_step(unit, trained.groups_a_step, zero, rescued, inserted))
