"""A small golden store, every number of which can be worked out by hand: two arms, two launches, what is unscored, cut and discarded.

`vanilla` seed 1: one launch, steps 0 and 1, one group of two attempts each.
`mentor` seed 1: launch 1 has steps 0 and 1; launch 2 starts at step 1 and runs it again. One group of two attempts a step; the mentor is
right at step 0 and wrong at step 1; the follow-up succeeds at step 0 only. Held-out evaluations of two problems x 3 samples at 0 and 2.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mentor_audit.records import (
    Attempt,
    AttemptGroup,
    Cost,
    Diagnosis,
    DiagnosisAudit,
    Instruction,
    LeakAudit,
    Problem,
    Run,
    TrainStep,
)
from mentor_audit.store import StepRows, Store

HOSTILE = "two \x1b[31mred [/INST] {x} \\frac{1}{2} \u202e end"


def build(path: Path) -> Store:
    store = Store.create(path)
    problems = [
        Problem(
            problem_id=f"p{i}", run_id="-", task="sums", split="heldout" if i > 1 else "train", prompt=f"what is {i}", gold=str(i),
            source="golden", fingerprint=f"f{i}",
        )
        for i in range(4)
    ]  # fmt: skip
    with store.writer(_run("vanilla")) as writer:
        writer.put_problems(problems)
        for step in (0, 1):
            writer.commit_step(_unit("vanilla", 1, step, verdicts=[step == 1, False]))
        for step, correct in ((0, 1), (2, 2)):
            writer.commit_step(_eval("vanilla", 1, step, correct))
    with store.writer(_run("mentor")) as writer:
        writer.put_problems(problems)
        writer.commit_step(_eval("mentor", 1, 0, 1))
        writer.commit_step(_unit("mentor", 1, 0, verdicts=[False, False], right=True, follow_up=True))
        writer.commit_step(_unit("mentor", 1, 1, verdicts=[False, False], right=True, follow_up=None))
    with store.writer(_run("mentor"), 1) as writer:
        writer.commit_step(_unit("mentor", 2, 1, start=1, verdicts=[False, False], right=False, follow_up=False))
        writer.commit_step(_eval("mentor", 2, 2, 4, start=1))
    return store


def add_replay(store: Store) -> Store:
    """A failure bank of three groups, one with a success; vanilla, resample (3 samples) and mentor (2 follow-ups) on the two failures; two
    auditors after the fact, of which `judge` can't tell about the second diagnosis' cause; a leak audit and a person's label.

    By failure, the verdicts of resample's samples: FFF and TFT; of the mentor's follow-ups: TF and ?T (one without a verdict).
    """
    bank = {"run_id": "golden-bank", "launch": 1, "step": 0, "mode": "replay"}
    groups = [f"golden-bank.l1.r0.g{g}" for g in range(3)]
    rows: dict[str, list[Any]] = {"attempt": [], "attempt_group": [], "cost": []}
    for g, (key, verdicts) in enumerate(zip(groups, ([False, False], [False, False], [True, False]), strict=True)):
        about = {**bank, "problem_id": f"p{g % 2}"}
        rows["attempt"] += [_attempt(about, key, f"a{i}", v, "attempt", i) for i, v in enumerate(verdicts)]
        rows["attempt_group"].append(_group(about, key, verdicts, arm="bank"))
        rows["cost"].append(_cost(bank, ("attempt_group", key), "rollout", "learner", (4, 6), 100.0))
    with store.writer(_run("bank", "golden-bank")) as writer:
        writer.commit_step(_whole(bank, "golden-bank.l1.r0", 0, rows, False))
    with store.writer(_run("replay", "golden-replay")) as writer:
        writer.commit_step(_answers(groups[:2]))
    audit = {"run_id": "golden-audit-judge", "launch": 1, "step": 0, "mode": "audit"}
    verdicts = {("d0", "location"): True, ("d0", "cause"): False, ("d1", "location"): True, ("d1", "cause"): None}
    audits = [
        DiagnosisAudit(
            **audit, audit_id=f"judge.{d}.{aspect}", diagnosis_id=f"golden-replay.l1.r0.{d}", auditor="judge", aspect=aspect,
            verdict=verdict,
        )
        for (d, aspect), verdict in verdicts.items()
    ]  # fmt: skip
    leaks = [
        LeakAudit(
            **audit, leak_audit_id=f"judge.i{i}", instruction_id=f"golden-replay.l1.r0.g{3 * i + 2}.i0", auditor="judge", is_leak=leak,
            answered=answered, logprob_change=change,
        )
        for i, (leak, answered, change) in enumerate([(True, True, 1.5), (None, False, None)])
    ]  # fmt: skip
    cost = _cost(audit, ("diagnosis_audit", audits[0].audit_id), "audit", "audit", (3, 1), 5.0)
    with store.writer(_run("audit", "golden-audit-judge")) as writer:
        found = {"diagnosis_audit": audits, "leak_audit": leaks, "cost": [cost]}
        writer.commit_step(_whole(audit, "golden-audit-judge.l1.a0", 0, found, False))
    return store


def _answers(failures: list[str]) -> StepRows:
    """Of a replay on two failures of the bank: every arm's treatment group, and what it holds."""
    unit = {"run_id": "golden-replay", "launch": 1, "step": 0, "mode": "replay"}
    tables = ("attempt", "attempt_group", "diagnosis", "diagnosis_audit", "instruction", "cost")
    rows: dict[str, list[Any]] = {table: [] for table in tables}
    sampled, followed = ([False, False, False], [True, False, True]), ([True, False], [None, True])
    for f, source in enumerate(failures):
        about, parent = {**unit, "problem_id": f"p{f}"}, f"{source}.a1"
        named = f"golden-replay.l1.r0.d{f}"
        rows["diagnosis"].append(
            Diagnosis(
                **unit, diagnosis_id=named, group_id=source, attempt_id=parent, attempts_read=[parent], mentor="scripted", saw_gold=False,
                parse_status="ok",
            )
        )  # fmt: skip
        rows["diagnosis_audit"] += [
            DiagnosisAudit(**unit, audit_id=f"{named}.{a}", diagnosis_id=named, auditor="checker", aspect=a, verdict=f == 0)
            for a in ("location", "cause")
        ]
        rows["cost"].append(_cost(unit, ("diagnosis", named), "mentor", "mentor", (7, 2), 30.0 + f))
        for a, arm in enumerate(("vanilla", "resample", "mentor")):
            key = f"golden-replay.l1.r0.g{3 * f + a}"
            rows["attempt_group"].append(_group(about, key, [False, False], arm=arm, source_group_id=source, triggered=True))
            answer = {"parent_attempt_id": parent}
            if arm == "resample":
                rows["attempt"] += [
                    _attempt(about, key, f"x{i}", v, "extra_sample", i, **answer) for i, v in enumerate(sampled[f])
                ]
                rows["cost"].append(_cost(unit, ("attempt_group", key), "extra_sample", "learner", (2, 9), 45.0))
            if arm == "mentor":
                shown = {"instruction_id": f"{key}.i0", "diagnosis_id": named, "arm": arm, "is_fitting": f == 0}
                rows["instruction"].append(
                    Instruction(**unit, **shown, group_id=key, attempt_id=parent, text="fix s2", source="diagnosis")
                )
                answer["instruction_id"] = f"{key}.i0"
                rows["attempt"] += [_attempt(about, key, f"f{i}", v, "follow_up", i, **answer) for i, v in enumerate(followed[f])]
                rows["cost"].append(_cost(unit, ("instruction", f"{key}.i0"), "follow_up", "learner", (5, 6), 20.0))
    return _whole(unit, "golden-replay.l1.r0", 0, rows, False)


def _group(about: dict[str, Any], key: str, verdicts: list[bool | None], **more: Any) -> AttemptGroup:
    zero = not any(verdicts)
    return AttemptGroup(
        **about, group_id=key, num_generations=len(verdicts), num_correct=verdicts.count(True), num_incorrect=verdicts.count(False),
        num_truncated=verdicts.count(None), num_unscored=0, zero_reward=zero, zero_reward_after=zero,
        triggered=more.pop("triggered", False), trigger_reason="replay", assignment_probability=1.0, **more,
    )  # fmt: skip


def _run(arm: str, run_id: str | None = None) -> Run:
    return Run(
        run_id=run_id or f"golden-{arm}-s1",
        suite="golden",
        arm=arm,
        seed=1,
        config=json.dumps({"mentor": {"accuracy": 0.5}}),
        config_hash="c",
        learner="tiny",
        learner_params=10,
        mentor="scripted:tiny" if arm == "mentor" else "-",
        task="sums",
        code_version="0",
        packages="{}",
        hardware="{}",
        created_at=datetime(2026, 12, 1, tzinfo=UTC),
    )


def _attempt(unit: dict[str, Any], group: str, name: str, correct: bool | None, role: str, position: int, **more: Any) -> Attempt:
    status = {True: "correct", False: "incorrect", None: "truncated"}[correct]
    return Attempt(
        **unit, attempt_id=f"{group}.{name}", group_id=group, role=role, position=position, prompt="Q", completion=HOSTILE,
        completion_ids=[5, 6, 7], finish_reason="length" if correct is None else "eos", prompt_tokens=2, completion_tokens=3,
        is_correct=correct, status=status, **more,
    )  # fmt: skip


def _cost(
    unit: dict[str, Any], owner: tuple[str, str], phase: str, payer: str, tokens: tuple[int, int], flops: float, **more: Any
) -> Cost:
    return Cost(
        **unit, cost_id=f"{owner[1]}.{phase}", call_id="c", owner_table=owner[0], owner_id=owner[1], phase=phase, payer=payer, model="tiny",
        sequences=2, prompt_tokens=tokens[0], cached_tokens=1, output_tokens=tokens[1], padded_tokens=4, flops=flops,
        flops_prefix_cached=flops / 2, wall_seconds=0.25, disposition=more.pop("disposition", "used"),
    )  # fmt: skip


def _unit(
    arm: str,
    launch: int,
    step: int,
    *,
    verdicts: list[bool | None],
    start: int = 0,
    right: bool | None = None,
    follow_up: bool | None = None,
) -> StepRows:
    run_id = f"golden-{arm}-s1"
    unit: dict[str, Any] = {"run_id": run_id, "launch": launch, "step": step, "mode": "train"}
    step_id = f"{run_id}.l{launch}.t{step}"
    group, problem = f"{step_id}.g0", f"p{step}"
    rows: dict[str, list[Any]] = {}
    about = {**unit, "problem_id": problem}
    rows["attempt"] = [
        _attempt(about, group, f"a{i}", v, "attempt", i, trained=True, advantage=0.0) for i, v in enumerate(verdicts)
    ]
    zero = not any(verdicts)
    rescued = right is not None and follow_up is True
    rows["attempt_group"] = [
        AttemptGroup(
            **about, group_id=group, num_generations=2, num_correct=sum(v is True for v in verdicts),
            num_incorrect=sum(v is False for v in verdicts), num_truncated=0, num_unscored=0, zero_reward=zero,
            zero_reward_after=zero and not rescued, triggered=right is not None, trigger_reason="all_wrong",
        )
    ]  # fmt: skip
    rows["cost"] = [_cost(unit, ("attempt_group", group), "rollout", "learner", (4, 6), 100.0)]
    if right is not None:
        answer = {"parent_attempt_id": f"{group}.a1", "instruction_id": f"{group}.i0"}
        rows["attempt"].append(_attempt(about, group, "f0", follow_up, "follow_up", 0, trained=rescued, **answer))
        rows["diagnosis"] = [
            Diagnosis(
                **unit, diagnosis_id=f"{group}.d0", group_id=group, attempt_id=f"{group}.a1", attempts_read=[f"{group}.a1"],
                mentor="scripted", mentor_model="tiny", saw_gold=False, raw_reply="fix s2", parse_status="ok", location="s2",
                error_type="slip", claim="s2 is off", proposed_instruction="fix s2",
            )
        ]  # fmt: skip
        rows["diagnosis_audit"] = [
            DiagnosisAudit(
                **unit, audit_id=f"{group}.d0.{aspect}", diagnosis_id=f"{group}.d0", auditor="step_checker", aspect=aspect, verdict=verdict,
            )
            for aspect, verdict in (("location", right), ("cause", None))
        ]  # fmt: skip
        rows["instruction"] = [
            Instruction(
                **unit, instruction_id=f"{group}.i0", group_id=group, attempt_id=f"{group}.a1", diagnosis_id=f"{group}.d0", arm=arm,
                text="fix s2", source="diagnosis", is_fitting=right,
            )
        ]  # fmt: skip
        rows["cost"] += [
            _cost(unit, ("diagnosis", f"{group}.d0"), "mentor", "mentor", (7, 2), 30.0),
            _cost(
                unit, ("instruction", f"{group}.i0"), "follow_up", "learner", (5, 3), 20.0,
                disposition="used" if follow_up else "discarded",
            ),
        ]  # fmt: skip
    rows["cost"].append(_cost(unit, ("train_step", step_id), "optimizer", "learner", (12, 0), 1000.0))
    return _whole(unit, step_id, start, rows, zero)


def _eval(arm: str, launch: int, step: int, correct: int, start: int = 0) -> StepRows:
    """Two problems x 3 samples: the first `correct` of the six are right, the very last one is cut."""
    run_id = f"golden-{arm}-s1"
    unit: dict[str, Any] = {"run_id": run_id, "launch": launch, "step": step, "mode": "eval"}
    step_id = f"{run_id}.l{launch}.e{step}"
    rows: dict[str, list[Any]] = {"attempt": [], "attempt_group": [], "cost": []}
    for g in range(2):
        group, about = f"{step_id}.g{g}", {**unit, "problem_id": f"p{g + 2}"}
        verdicts: list[bool | None] = [g * 3 + i < correct for i in range(3)]
        if g == 1:
            verdicts[2] = None
        rows["attempt"] += [_attempt(about, group, f"a{i}", v, "eval", i) for i, v in enumerate(verdicts)]
        rows["attempt_group"].append(
            AttemptGroup(
                **about, group_id=group, num_generations=3, num_correct=sum(v is True for v in verdicts),
                num_incorrect=sum(v is False for v in verdicts), num_truncated=sum(v is None for v in verdicts), num_unscored=0,
                zero_reward=not any(verdicts), zero_reward_after=not any(verdicts), triggered=False, trigger_reason="evaluation",
            )
        )  # fmt: skip
        rows["cost"].append(_cost(unit, ("attempt_group", group), "eval", "eval", (6, 9), 7.0))
    return _whole(unit, step_id, start, rows, False)


def _whole(unit: dict[str, Any], step_id: str, start: int, rows: dict[str, list[Any]], zero: bool) -> StepRows:
    counts = {table: len(found) for table, found in rows.items()}
    rows["train_step"] = [
        TrainStep(
            **unit, train_step_id=step_id, launch_start_step=start, world_size=1, num_groups=1, num_zero_reward_groups=int(zero),
            zero_reward_fraction=float(zero), num_inserted=0, wall_seconds=1.0, metrics="{}",
            row_counts=json.dumps({**counts, "train_step": 1}),
        )
    ]  # fmt: skip
    return StepRows(unit["step"], unit["mode"], rows)
