"""Replay: the same failures, from a frozen policy, given every arm's answer.

`run_replay` samples groups and keeps them as the failure bank, then gives every zero-reward group of it each arm: one diagnosis a failure,
shared by the arms that stand on it, and the arms in random order. What is in the store is never sampled again: an interrupted replay goes
on where it stopped, and a new arm on an old bank samples that arm only. A bank may be replayed under another policy.

The bank is a run of its own (`SUITE-bank`), the answers another (`SUITE-REPLAY`). An answer is a group whose `source_group_id` names
the bank's group; its responses name the bank's failed attempt as their parent.
"""

import hashlib
import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mentor_audit.config import ARMS, SuiteConfig
from mentor_audit.episode import Episode, Plan, Sampled, Unit, answer, attempt, choose_failure, rows, verifier_grader
from mentor_audit.errors import ConfigError
from mentor_audit.mentor import load_mentor
from mentor_audit.protocols import Completion, Grade, Mentor, MentorReply, Policy, Task, TaskProblem, Usage, Verdict
from mentor_audit.records import Run
from mentor_audit.store import Store
from mentor_audit.store.batches import BatchRun
from mentor_audit.store.run_row import make_run
from mentor_audit.suite import Report, RunProgress, learner_folder, make_task
from mentor_audit.suite import validate as validate_suite
from mentor_audit.tasks.canaries import HasCanaries, check_canaries

SEQUENCES_A_PASS = 256


@dataclass(frozen=True)
class Actors:
    """Who takes part. `facts`: what the run row says of the policy."""

    task: Task
    policy: Policy
    mentor: Mentor
    facts: dict[str, Any]


@dataclass(frozen=True)
class BankGroup:
    """A failure of the bank: a group without a correct attempt."""

    group_id: str
    problem: TaskProblem
    attempts: list[Sampled]


def run_replay(config: SuiteConfig, progress: Report | None = None) -> Store:
    """Make the bank and give its failures the arms of `[replay]`, as far as the store lacks them; returns the store.

    Raises ConfigError for settings that can't be, or that differ from those of the bank or replay of the same name.
    """
    validate(config)
    say = progress or (lambda news: None)
    store = Store.create(config.store.path, registry_url=config.store.registry_url, exist_ok=True)
    actors = load_actors(config, say)
    make_bank(config, store, actors, say)
    answer_bank(config, store, actors, say)
    return store


def validate(config: SuiteConfig) -> list[str]:
    """As suite.validate, for the arms of `[replay]`. Raises ConfigError."""
    section = config.replay
    asked = config.model_copy(update={"suite": config.suite.model_copy(update={"arms": list(section.arms)})})
    notes = validate_suite(asked)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "Expected a replay in one process, found a distributed launcher. Start it without one; it is resumable."
        )
    if section.name == "bank":
        raise ConfigError("Expected another replay.name than `bank`, which is the failure bank's. Choose another name.")
    return notes


def bank_id(config: SuiteConfig) -> str:
    return config.replay.bank or f"{config.suite.name}-bank"


def replay_id(config: SuiteConfig) -> str:
    return f"{config.suite.name}-{config.replay.name}"


def load_actors(config: SuiteConfig, say: Report) -> Actors:
    """The task, the frozen policy and the mentor. Raises ConfigError, TaskError and ModelError as they do."""
    import torch

    from mentor_audit.policy.hf import HFPolicy
    from mentor_audit.policy.load import load_model

    task = make_task(config)
    if isinstance(task, HasCanaries):
        check_canaries(task)
    section = config.learner
    device = section.device or ("cuda" if torch.cuda.is_available() else None)
    model, tokenizer, info = load_model(
        _policy_name(config, say),
        dtype=section.dtype,
        revision=section.revision,
        device=device,
        attn_implementation=section.attn_implementation,
    )
    policy = HFPolicy(
        model,
        tokenizer,
        max_new_tokens=section.max_completion_tokens,
        temperature=section.temperature,
        top_p=section.top_p,
        batch_size=config.train.micro_batch or SEQUENCES_A_PASS,
        name=config.replay.policy or (Path(info.name).name if config.learner.model == "embedded" else info.name),
    )

    def other(mentor: Any) -> Policy:
        if mentor.model is None:
            return policy
        found, its_tokenizer, _ = load_model(mentor.model, revision=mentor.revision, device=device)
        return HFPolicy(found, its_tokenizer, max_new_tokens=mentor.max_tokens, temperature=mentor.temperature)

    work = Path(config.store.path) / "work" / replay_id(config) / "endpoint"
    return Actors(task, policy, load_mentor(config.mentor, task, policy, other, work), {"policy": asdict(info)})


def make_bank(config: SuiteConfig, store: Store, actors: Actors, say: Report) -> None:
    """Sample the groups that the bank lacks, batch by batch in the problems' order, up to `replay.failures` zero-reward ones."""
    section, name = config.replay, bank_id(config)
    wanted = actors.task.problems(section.split)[: section.problems]
    batches = list(_batches(wanted, section.batch))
    if section.bank is not None:
        if not any(run.run_id == name for run in store.registry.runs()):
            raise ConfigError(
                f"Expected the bank {name} in {store.root}, found no such run. Make it first, or leave replay.bank out."
            )
        return
    run = _run(config, actors, name, "bank", _bank_settings(config))
    _check_settings(store, run)
    found = _failures_there(store, name, failed_groups(config))
    done = _batches_there(store, name)
    if done >= len(batches) or (section.failures is not None and found >= section.failures):
        return
    if done and _bank_is_of_another_policy(store, name, actors):
        raise ConfigError(
            f"Expected bank {name} to be extended by the policy that made it, found {actors.policy.name}. Lower replay.problems to what the bank "
            "has, or use another suite.name."
        )
    grade = verifier_grader(actors.task)
    plan = Plan("bank", config.mentoring, section.seed)
    with BatchRun(store, run, "replay") as bank:
        for number in range(done, len(batches)):
            if section.failures is not None and found >= section.failures:
                break
            started = time.perf_counter()
            unit = Unit(name, bank.launch, bank.step, "replay", batch=number)
            seed = random.Random(f"{section.seed}:bank:{number}").getrandbits(48)
            episodes = attempt(batches[number], actors.policy, grade, unit, section.num_generations, seed=seed)
            for episode in episodes:
                episode.arm, episode.trigger_reason = "bank", "the bank answers nothing"
            bank.put_problems([e.problem.row for e in episodes])
            bank.commit(rows(episodes, unit, actors.task, plan, None), time.perf_counter() - started)
            bank.flush()
            found = _failures_there(store, name, failed_groups(config))
            say(RunProgress(name, number + 1, len(batches), f"{found} failures"))
    say(RunProgress(name, len(batches), len(batches), "ended"))


def answer_bank(config: SuiteConfig, store: Store, actors: Actors, say: Report) -> None:
    """Give the bank's failures the arms that they lack, batch by batch; within a batch in random order, in one call a stage."""
    section, name = config.replay, replay_id(config)
    run = _run(config, actors, name, "replay", _replay_settings(config))
    _check_settings(store, run)
    bank = read_bank(store, bank_id(config), actors.task, failed_groups(config))[: section.failures]
    done, replies = _answered(store, name), _replies(store, name)
    batches = [(i, part) for i, part in enumerate(_batches(bank, section.batch)) if _missing(part, section.arms, done)]
    if not batches:
        return
    grade = verifier_grader(actors.task)
    with BatchRun(store, run, "replay") as replay:
        for number, (batch, part) in enumerate(batches, 1):
            started = time.perf_counter()
            unit = Unit(name, replay.launch, replay.step, "replay", batch=batch)
            todo = _missing(part, section.arms, done)
            random.Random(f"{section.seed}:replay:{batch}:order").shuffle(todo)
            given = {arm for _, arm in todo}
            plan = Plan(
                "replay",
                config.mentoring,
                section.seed,
                config.mentor.fallback,
                config.mentor.sees,
                {arm: 1.0 for arm in ARMS if arm in given},
            )
            episodes = [_treatment(group, arm, i, unit, plan, replies) for i, (group, arm) in enumerate(todo)]
            answer([e for e in episodes if e.triggered], actors.policy, actors.task, actors.mentor, grade, plan, unit)
            replay.put_problems([group.problem.row for group in part])
            replay.commit(rows(episodes, unit, actors.task, plan, actors.mentor), time.perf_counter() - started)
            say(RunProgress(name, number, len(batches), "replaying"))
    say(RunProgress(name, len(batches), len(batches), "ended"))


def failed_groups(config: SuiteConfig) -> str:
    """SQL that tells a failure of the bank: no attempt was verified correct, and one can be answered.

    With the trigger all_wrong every attempt has to be verified wrong; with the others one is enough, beside truncated and unscored ones.
    """
    return "num_incorrect = num_generations" if config.mentoring.trigger == "all_wrong" else "zero_reward AND num_incorrect > 0"


def read_bank(store: Store, name: str, task: Task, is_failure: str) -> list[BankGroup]:
    """The bank's failures, in its order. `is_failure`: see `failed_groups`.

    Raises ConfigError when it has none, or when a problem isn't one of the task's.
    """
    problems = {p.row.problem_id: p for split in ("train", "heldout") for p in task.problems(split)}
    found: dict[str, BankGroup] = {}
    for row in store.arrow(
        "SELECT a.* FROM attempt a JOIN attempt_group g USING (group_id) "
        f"WHERE g.run_id = '{name}' AND a.role = 'attempt' AND {is_failure} "
        "ORDER BY g.step, a.group_id, a.position"
    ).to_pylist():
        if row["problem_id"] not in problems:
            raise ConfigError(
                f"Expected the problems of bank {name} among those of task `{task.name}`, found {row['problem_id']}, which is not. Use the "
                "settings of [task] that the bank was made with."
            )
        group = found.setdefault(row["group_id"], BankGroup(row["group_id"], problems[row["problem_id"]], []))
        group.attempts.append(_sampled(row))
    if not found:
        raise ConfigError(
            f"Expected failures in bank {name}, found none: no group had every attempt verified wrong (or, with another "
            "mentoring.trigger than all_wrong, one of them and none correct). Use harder problems, a weaker policy or "
            "more of replay.problems."
        )
    return list(found.values())


def _treatment(
    group: BankGroup, arm: str, index: int, unit: Unit, plan: Plan, replies: dict[str, tuple[str, MentorReply]]
) -> Episode:
    """One arm's answer to one failure. Which of the failed attempts is answered depends on seed and problem, not on the arm."""
    episode = Episode(index, unit.group_id(index), group.problem, group.attempts, arm=arm, source_group_id=group.group_id)
    choose_failure(episode, random.Random(f"{plan.seed}:{group.problem.row.problem_id}:failure"))
    episode.triggered = arm != "vanilla"
    episode.trigger_reason = f"replay of {group.group_id}"
    if episode.read is not None and episode.read.attempt_id in replies:
        episode.diagnosis_id, episode.reply = replies[episode.read.attempt_id]
        episode.shares_diagnosis = True
    return episode


def _missing(part: Sequence[BankGroup], arms: Sequence[str], done: set[tuple[str, str]]) -> list[tuple[BankGroup, str]]:
    return [(group, arm) for group in part for arm in arms if (group.group_id, arm) not in done]


def _answered(store: Store, name: str) -> set[tuple[str, str]]:
    text = f"SELECT source_group_id, arm FROM attempt_group WHERE run_id = '{name}'"
    return {(row["source_group_id"], row["arm"]) for row in store.arrow(text).to_pylist()}


def _replies(store: Store, name: str) -> dict[str, tuple[str, MentorReply]]:
    """Attempt id -> (diagnosis id, the reply) of what this replay's mentor said already."""
    text = (
        "SELECT diagnosis_id, attempt_id, parse_status, raw_reply AS raw, error, location, error_type, claim, proposed_instruction AS instruction "
        f"FROM diagnosis WHERE run_id = '{name}'"
    )
    found = {}
    for row in store.arrow(text).to_pylist():
        diagnosis_id, attempt_id = row.pop("diagnosis_id"), row.pop("attempt_id")
        found[attempt_id] = (diagnosis_id, MentorReply(usage=None, **row))
    return found


def _sampled(row: dict[str, Any]) -> Sampled:
    """A stored attempt as the episode knows it; what it cost stands in the bank."""
    prompt_tokens = row["prompt_tokens"]
    usage = Usage("", None, prompt_tokens, 0, row["completion_tokens"], 0, None, None, 0.0)
    completion = Completion(row["prompt"], [], row["completion"], row["completion_ids"], row["finish_reason"], usage)
    verdict = Verdict(row["is_correct"], row["status"], row["extracted_answer"], row["status_detail"])
    return Sampled(row["attempt_id"], "attempt", row["position"], completion, Grade(verdict, row["reward"]))


def _policy_name(config: SuiteConfig, say: Report) -> str:
    """What to load: a run's final weights, a folder, or the learner as it starts."""
    named = config.replay.policy
    if named is None:
        folder = learner_folder(config, say)
        return str(folder) if folder else config.learner.model
    final = Path(config.store.path) / "work" / named / "final"
    return str(final) if final.is_dir() else named


def _failures_there(store: Store, name: str, is_failure: str) -> int:
    text = f"SELECT count(*) AS n FROM attempt_group WHERE run_id = '{name}' AND {is_failure}"
    return int(store.arrow(text).to_pylist()[0]["n"])


def _batches_there(store: Store, name: str) -> int:
    return int(store.arrow(f"SELECT count(*) AS n FROM train_step WHERE run_id = '{name}'").to_pylist()[0]["n"])


def _bank_is_of_another_policy(store: Store, name: str, actors: Actors) -> bool:
    made = next(run for run in store.registry.runs() if run.run_id == name)
    return bool(json.loads(made.config)["policy"] != actors.facts["policy"])


def _bank_settings(config: SuiteConfig) -> dict[str, Any]:
    """What can change a row of the bank; how many problems and failures it goes to only makes it longer."""
    kept = config.replay.model_dump(include={"seed", "split", "num_generations", "batch", "policy"})
    return {**config.model_dump(mode="json", include={"task", "learner"}), "replay": kept}


def _replay_settings(config: SuiteConfig) -> dict[str, Any]:
    """The same of the answers. Arms may be added."""
    kept = config.replay.model_dump(include={"seed", "batch", "bank", "policy"})
    return {**config.model_dump(mode="json", include={"task", "learner", "mentor", "mentoring"}), "replay": kept}


def _run(config: SuiteConfig, actors: Actors, name: str, arm: str, settings: dict[str, Any]) -> Run:
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return make_run(
        name,
        suite=config.suite.name,
        arm=arm,
        seed=config.replay.seed,
        config={**config.model_dump(mode="json"), **actors.facts, "config_hash": digest, "notes": list(config.suite.notes)},
        learner=actors.policy.name,
        learner_params=actors.facts["policy"]["params"],
        mentor=f"{actors.mentor.name}:{actors.mentor.model}" if arm == "replay" else "-",
        task=actors.task.name,
        device=config.learner.device or "auto",
    )


def _check_settings(store: Store, run: Run) -> None:
    for known in store.registry.runs():
        if known.run_id == run.run_id and known.config_hash != run.config_hash:
            raise ConfigError(
                f"Expected {run.run_id} in {store.root} to be of these settings ({run.config_hash[:12]}), found it made with others "
                f"({known.config_hash[:12]}). Use another replay.name or suite.name, or restore the settings."
            )


def _batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
