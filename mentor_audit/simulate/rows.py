"""Rows as dictionaries, one function a table, with what never differs between worlds filled in. A key left out is NULL."""

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mentor_audit.records import REGISTRY_TABLES, TRAJECTORY_TABLES

Rows = dict[str, list[dict[str, Any]]]
"""Table -> rows, registry included."""
PROMPT_TOKENS, OUTPUT_TOKENS = 10, 20
"""Of every sample."""
SAMPLE_FLOPS = 1e6
STATUS = {True: "correct", False: "incorrect", None: "verifier_timeout"}


def no_rows() -> Rows:
    return {table: [] for table in (*REGISTRY_TABLES, *TRAJECTORY_TABLES)}


def add_run(rows: Rows, suite: str, run_id: str, arm: str, seed: int, mentor: str, config: dict[str, Any]) -> None:
    """The run and its only launch."""
    created = datetime(2026, 12, 1, tzinfo=UTC)
    rows["run"].append(
        {
            "run_id": run_id,
            "suite": suite,
            "arm": arm,
            "seed": seed,
            "config": json.dumps(config),
            "config_hash": "c0ffee" * 10,
            "learner": "embedded",
            "learner_params": 252_000,
            "mentor": mentor,
            "task": "chain",
            "code_version": "0.1.0",
            "packages": json.dumps({"torch": "2.13.0", "trl": "1.16.0"}),
            "hardware": json.dumps({"cores": 2, "device": "cpu"}),
            "created_at": created,
            "flop_calibration": json.dumps({"rollout": {"counted": 1.0e9, "computed": 1.001e9, "ratio": 1.001}}),
        }
    )
    rows["launch"].append({"run_id": run_id, "launch": 1, "started_at": created, "ended_how": "finished", "pid": 1, "host": "h"})


def unit_of(run_id: str, step: int, mode: str) -> dict[str, Any]:
    return {"run_id": run_id, "launch": 1, "step": step, "mode": mode, "rank": 0}


def unit_id(unit: dict[str, Any]) -> str:
    """Also the key of the unit's train_step row."""
    return f"{unit['run_id']}.l{unit['launch']}.{unit['mode'][0]}{unit['step']}"


def problem(name: str, run_id: str) -> dict[str, Any]:
    """`h...` is held out."""
    return {
        "problem_id": name,
        "run_id": run_id,
        "task": "chain",
        "split": "heldout" if name.startswith("h") else "train",
        "prompt": f"problem {name}",
        "gold": "1",
        "source": "simulated",
        "fingerprint": name,
    }


def attempt(
    unit: dict[str, Any],
    attempt_id: str,
    group: str,
    problem_id: str,
    role: str,
    position: int,
    is_correct: bool | None,
    parent: str | None = None,
    instruction: str | None = None,
) -> dict[str, Any]:
    """`is_correct` None: without a verdict, because it was cut at the length limit or, at odd positions, its verifier took too long."""
    was_cut = is_correct is None and position % 2 == 0
    return {
        **unit,
        "attempt_id": attempt_id,
        "group_id": group,
        "problem_id": problem_id,
        "role": role,
        "position": position,
        "parent_attempt_id": parent,
        "instruction_id": instruction,
        "prompt": "p",
        "completion": "c",
        "completion_ids": [1],
        "text_replaced": False,
        "flags": [],
        "finish_reason": "length" if was_cut else "eos",
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": OUTPUT_TOKENS,
        "is_correct": is_correct,
        "status": "truncated" if was_cut else STATUS[is_correct],
        "reward": None if is_correct is None else float(is_correct),
        "trained": False,
    }


def group(
    unit: dict[str, Any],
    group_id: str,
    problem_id: str,
    verdicts: list[bool | None],
    triggered: bool,
    arm: str | None = None,
    chance: float | None = None,
    source: str | None = None,
) -> dict[str, Any]:
    zero = True not in verdicts
    return {
        **unit,
        "group_id": group_id,
        "problem_id": problem_id,
        "num_generations": len(verdicts),
        "num_correct": verdicts.count(True),
        "num_incorrect": verdicts.count(False),
        "num_truncated": verdicts[::2].count(None),
        "num_unscored": verdicts[1::2].count(None),
        "zero_reward": zero,
        "zero_reward_after": zero,
        "triggered": triggered,
        "trigger_reason": "simulated",
        "arm": arm,
        "assignment_probability": chance,
        "source_group_id": source,
    }


def diagnosis(unit: dict[str, Any], diagnosis_id: str, group_id: str, attempt_id: str) -> dict[str, Any]:
    return {
        **unit,
        "diagnosis_id": diagnosis_id,
        "group_id": group_id,
        "attempt_id": attempt_id,
        "attempts_read": [attempt_id],
        "mentor": "scripted",
        "saw_gold": False,
        "raw_reply": "{}",
        "parse_status": "ok",
        "location": "s1",
        "error_type": "carry",
        "text_replaced": False,
    }


def diagnosis_audit(unit: dict[str, Any], diagnosis_id: str, auditor: str, aspect: str, verdict: bool) -> dict[str, Any]:
    return {
        **unit,
        "audit_id": f"{diagnosis_id}.{auditor}.{aspect}",
        "diagnosis_id": diagnosis_id,
        "auditor": auditor,
        "aspect": aspect,
        "verdict": verdict,
    }


def cost(
    unit: dict[str, Any],
    owner: tuple[str, str],
    phase: str,
    payer: str,
    flops: float | None,
    sequences: int = 12,
) -> dict[str, Any]:
    """One call: `owner` is table and key. Tokens are those of `sequences` samples."""
    return {
        **unit,
        "cost_id": f"{owner[1]}.{phase}",
        "call_id": f"{owner[1]}.{phase}",
        "owner_table": owner[0],
        "owner_id": owner[1],
        "phase": phase,
        "payer": payer,
        "model": "embedded",
        "sequences": sequences,
        "prompt_tokens": sequences * PROMPT_TOKENS,
        "cached_tokens": sequences * PROMPT_TOKENS - PROMPT_TOKENS,
        "output_tokens": sequences * OUTPUT_TOKENS,
        "padded_tokens": 30,
        "flops": flops,
        "flops_prefix_cached": flops,
        "wall_seconds": 0.5,
        "disposition": "used",
    }


def train_step(unit: dict[str, Any], groups: int = 0, zero: int = 0, rescued: int = 0, inserted: int = 0) -> dict[str, Any]:
    """Of a unit with `groups` groups, `zero` of them without a success and `rescued` of those with one after insertion."""
    return {
        **unit,
        "train_step_id": unit_id(unit),
        "launch_start_step": 0,
        "world_size": 1,
        "num_groups": groups,
        "num_zero_reward_groups": zero,
        "zero_reward_fraction": zero / groups if groups else None,
        "zero_reward_fraction_after": (zero - rescued) / groups if groups else None,
        "num_inserted": inserted,
        "wall_seconds": 1.0,
        "metrics": "{}",
        "row_counts": "{}",
    }


def count_rows(rows: Rows) -> None:
    """Let every train_step row promise the rows that its unit has."""
    found: dict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    for table in TRAJECTORY_TABLES:
        if table != "problem":
            for row in rows[table]:
                found[row["run_id"], row["step"], row["mode"]][table] += 1
    for row in rows["train_step"]:
        row["row_counts"] = json.dumps(found[row["run_id"], row["step"], row["mode"]], sort_keys=True)


def with_gaps(correct: np.ndarray, share: float, rng: np.random.Generator) -> list[Any]:
    """Nested lists of verdicts: True, False, or None for a share of them, whether right or not. Nothing is drawn for a share of 0."""
    if share == 0:
        return list(correct.tolist())
    verdicts = correct.astype(object)
    verdicts[rng.random(correct.shape) < share] = None
    return list(verdicts.tolist())
