"""Everything that the report says, as one dictionary: the content of report.json, from which the pages are made.

    format, format_version   "mentor_audit.report", 1: keys are only ever added within a version
    suite, task, learner, arms, seeds
    verdict       of the training: code (correct_diagnoses, extra_sampling, both, leakage, instruction_form, no_gain, cannot_tell), sentence,
                  paragraph, reasons (why it can't be told), caveats; null without training
    transfer      unit (flops, tokens or seconds), budget (matched; null: none), range {low, high, limited_by}, refusal, left_out {run: why},
                  num_problems, arms [], decomposition [] (adds up from vanilla to mentor), contrasts [], pass_at_k [], pairs [],
                  curves [{run_id, arm, seed, steps, compute, accuracy}]
                  bands {arm: [points]}, matched [], trajectory [] (adds up from placebo to mentor), equal_sampling
    replays       []     a row a replay: arms [], contrasts [], decomposition [], trajectory [], equal_sampling, verdict as above
    chance        []     a row a replay: what fresh samples would have rescued anyway, by a beta-binomial fit to its bank
    strata        []     a row a replay and auditor; descriptive
    randomised    null, or arms [], contrasts [] by inverse-probability weighting
    leakage       rates [], sensitivity []
    audits        agreement [], corrected [], canaries []
    health        []     a row an arm, with a series and flags
    rescue        arms [], contrasts []
    zero_reward   []     a row an arm, with a series
    diagnoses     []     a row an arm and auditor
    instructions  []     a row an arm, source and whether it names the true first error; descriptive
    compute       lines [] (arm, mode, payer, phase), training_per_run [], all {}, calibration []
    statuses      []
    assumed       notes [], warm_up {}, knobs [{key, value, differs}], rules []
    reproduce     runs [], config_hashes, code_versions, packages, hardware, table_versions, seeds, commands, ...
    sources       block -> {queries [], function}: what each block above was made from
    queries       name -> {question, grain, units, note, sql}

An estimate is {value, low, high, standard_error, degrees_of_freedom, p, num_seeds, num_problems}; rates and differences are fractions
(0.05 is 5 points). null is "not known" or "does not apply", never 0.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from mentor_audit.report import settings, training
from mentor_audit.report.audits import audit_findings
from mentor_audit.report.chance import chance_rescue
from mentor_audit.report.data import Data
from mentor_audit.report.health import health
from mentor_audit.report.leaks import leakage
from mentor_audit.report.randomised import randomised
from mentor_audit.report.replay import replays
from mentor_audit.report.strata import strata
from mentor_audit.report.transfer import Curve, Transfer, compare
from mentor_audit.report.verdict import decide, decide_replay

SOURCES = {
    "verdict": (["runs", "evaluations", "heldout"], "report.verdict.decide"),
    "accuracy": (["evaluations", "heldout"], "report.transfer.compare, report.statistics.cluster_bootstrap"),
    "contrasts": (
        ["evaluations", "heldout"],
        "report.transfer.compare, report.statistics.cluster_bootstrap, holm, equivalence_p",
    ),
    "curves": (["evaluations", "heldout"], "report.transfer.curves_of"),
    "pass_at_k": (["evaluations", "heldout"], "report.statistics.pass_at_k, cluster_bootstrap"),
    "pairs": (["evaluations", "heldout"], "report.statistics.mcnemar_p"),
    "replays": (["replay", "runs"], "report.replay.replays, report.statistics.cluster_bootstrap, joint_bootstrap, holm"),
    "replay_verdicts": (["replay", "runs"], "report.verdict.decide_replay"),
    "chance": (["bank", "replay"], "report.chance.chance_rescue"),
    "strata": (["replay_strata", "replay"], "report.strata.strata, report.statistics.cluster_bootstrap"),
    "randomised": (["randomised"], "report.randomised.randomised, report.statistics.joint_bootstrap"),
    "leakage": (["leaks", "leaking", "replay"], "report.leaks.leakage, report.statistics.joint_bootstrap"),
    "audits": (["audits"], "report.audits.audit_findings"),
    "health": (["health", "drift", "off_policy", "runs"], "report.health.health"),
    "rescue": (["rescue"], "report.training.rescue, report.statistics.cluster_bootstrap"),
    "zero_reward": (["zero_reward"], "report.training.zero_reward"),
    "diagnoses": (["diagnoses", "runs"], "report.training.diagnoses, report.statistics.cluster_bootstrap"),
    "instructions": (["instructions"], "report.training.instructions, report.statistics.cluster_bootstrap"),
    "compute": (["compute"], "report.training.compute"),
    "calibration": (["runs"], "report.training.compute"),
    "statuses": (["statuses"], "report.training.statuses"),
    "assumed": (["runs"], "report.settings.assumed"),
    "reproduce": (["runs"], "report.settings.reproduce"),
}


def find(data: Data, root: str, unit: str, seed: int) -> dict[str, Any]:
    """Compute everything. The result is plain JSON: dictionaries, lists, text, finite numbers and None."""
    transfer = compare(data, unit, seed)
    in_replays = replays(data, unit, seed)
    found_replays = [{**vars(replay), "verdict": decide_replay(replay)} for replay in in_replays]
    is_only_replays = bool(found_replays) and not data.trained
    found = {
        "format": "mentor_audit.report",
        "format_version": 1,
        "suite": data.suite,
        "task": sorted({run["task"] for run in data.runs}),
        "learner": sorted({run["learner"] for run in data.runs}),
        "arms": data.arms,
        "seeds": data.seeds,
        "verdict": None if is_only_replays else decide(transfer, settings.data_caveats(data)),
        "transfer": _transfer(transfer),
        "replays": found_replays,
        "chance": chance_rescue(data, in_replays, seed),
        "strata": strata(data, seed),
        "randomised": randomised(data, seed),
        "leakage": leakage(data, seed),
        "audits": audit_findings(data, seed),
        "health": health(data),
        "rescue": training.rescue(data, seed),
        "zero_reward": training.zero_reward(data),
        "diagnoses": training.diagnoses(data, seed),
        "instructions": training.instructions(data, seed),
        "compute": training.compute(data),
        "statuses": training.statuses(data),
        "assumed": settings.assumed(data),
        "reproduce": settings.reproduce(data, root, unit, seed),
        "sources": {block: {"queries": names, "function": function} for block, (names, function) in SOURCES.items()},
        "queries": {query.name: {k: v for k, v in vars(query).items() if k != "name"} for query in data.queries},
    }
    plain: dict[str, Any] = _plain(found)
    return plain


def _transfer(transfer: Transfer) -> dict[str, Any]:
    common = transfer.common
    return {
        "unit": transfer.unit,
        "budget": transfer.budget,
        "range": vars(common) if common else None,
        "refusal": transfer.refusal,
        "left_out": transfer.left_out,
        "num_problems": len(transfer.problems),
        "arms": transfer.arms,
        "decomposition": transfer.decomposition,
        "contrasts": transfer.contrasts,
        "pass_at_k": transfer.pass_at_k,
        "pairs": transfer.pairs,
        "bands": transfer.bands,
        "matched": transfer.matched,
        "trajectory": transfer.trajectory,
        "equal_sampling": transfer.equal_sampling,
        "curves": [_curve(curve) for curve in transfer.curves],
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "run_id": curve.run_id,
        "arm": curve.arm,
        "seed": curve.seed,
        "steps": curve.steps_E,
        "compute": curve.compute_E,
        "accuracy": curve.accuracy_E,
    }


def _plain(value: Any) -> Any:
    """Dataclasses and arrays as JSON's own types; what is not finite as None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(vars(value))
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
