"""What was assumed and how to reproduce: every setting that the runs carry, the report's own rules, versions and commands."""

import json
from collections.abc import Iterator
from typing import Any

from mentor_audit.report.data import Data
from mentor_audit.report.statistics import CONFIDENCE, NUM_RESAMPLES
from mentor_audit.report.transfer import MARGIN
from mentor_audit.report.verdict import MIN_PROBLEMS

SHOWN_APART = ("notes", "warm_up", "config_hash")
PATHS = ("output_dir", "logging_dir", "run_name")


def assumed(data: Data) -> dict[str, Any]:
    """Notes, warm-up facts, every setting with the values that runs have, and the report's own rules."""
    configs = [(run, json.loads(run["config"])) for run in data.runs]
    values: dict[str, dict[str, list[str]]] = {}
    for run, config in configs:
        for key, value in _flat({k: v for k, v in config.items() if k not in SHOWN_APART}):
            if key.rsplit(".", 1)[-1] not in PATHS:
                values.setdefault(key, {}).setdefault(value, []).append(f"{run['arm']}, seed {run['seed']}")
    knobs = [
        {"key": key, "value": next(iter(found)) if len(found) == 1 else None, "differs": found if len(found) > 1 else None}
        for key, found in sorted(values.items())
    ]
    notes = list(dict.fromkeys(note for _, config in configs for note in config.get("notes") or []))
    warm_up: dict[str, str] = {}
    for _, config in configs:
        warm_up.update(_flat(config["warm_up"]) if isinstance(config.get("warm_up"), dict) else [])
    return {"notes": notes, "warm_up": warm_up, "knobs": knobs, "rules": RULES}


def reproduce(data: Data, root: str, unit: str, seed: int) -> dict[str, Any]:
    """Hashes, versions, seeds and the commands."""
    runs = [
        {
            key: run[key]
            for key in (
                "run_id",
                "arm",
                "seed",
                "learner",
                "mentor",
                "config_hash",
                "launches",
                "ended_how",
                "train_steps",
                "evaluations",
            )
        }
        for run in data.runs
    ]
    return {
        "runs": runs,
        "config_hashes": _distinct(run["config_hash"] for run in data.runs),
        "code_versions": _distinct(run["code_version"] for run in data.runs),
        "packages": _merged(run["packages"] for run in data.runs),
        "hardware": _merged(run["hardware"] for run in data.runs),
        "created": [str(min(run["created_at"] for run in data.runs)), str(max(run["created_at"] for run in data.runs))],
        "table_versions": data.versions,
        "seeds": data.seeds,
        "report_seed": seed,
        "commands": [
            "mentor-audit suite CONFIG.toml",
            f"mentor-audit check {root}",
            f"mentor-audit report {root} -o DIR --budget {unit}",
        ],
    }


def data_caveats(data: Data) -> list[str]:
    """What qualifies any verdict on these runs."""
    found = []
    hashes = {run["config_hash"] for run in data.trained}
    if len(hashes) > 1:
        found.append(f"The runs were made with {len(hashes)} different settings; see which under what was assumed.")
    open_runs = [run["run_id"] for run in data.trained if run["ended_how"] not in ("finished", "budget")]
    if open_runs:
        found.append(
            f"{len(open_runs)} of {len(data.trained)} runs have not ended by themselves: they are training, or were interrupted."
        )
    return found


RULES = [
    "Accuracy is the share verified correct among samples with a verdict, averaged over held-out problems; no instruction is shown.",
    "Arms are compared at the largest training compute that every compared run reached, mentor and superseded steps included, held-out "
    "evaluation excluded. Between evaluations a straight line is read; nothing is extrapolated. The budget is taken as fixed.",
    f"Intervals are {100 * CONFIDENCE:.0f} %, from a paired cluster bootstrap over problems and seeds with {NUM_RESAMPLES} resamples of each kind, "
    "Student's t with Satterthwaite's degrees of freedom.",
    f"Differences under {100 * MARGIN:.0f} points count as none; that there is none takes a one-sided {100 * CONFIDENCE:.0f} % bound below them.",
    "A verdict asks its questions in a fixed order, each at 5 %; the p values in the tables are adjusted by Holm's method as well. The steps "
    "of a decomposition have simultaneous intervals: they hold together with 95 % confidence.",
    "In a replay a failure is rescued when one response to it is correct, whatever their number; failures of which a response has no verdict are "
    f"left out. Fewer than {MIN_PROBLEMS} problems with a failure get no verdict.",
]


def _flat(values: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(dotted key, value as JSON) of nested dictionaries."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + str(key), value if isinstance(value, str) else json.dumps(value)


def _distinct(values: Any) -> list[str]:
    return list(dict.fromkeys(values))


def _merged(texts: Any) -> dict[str, list[str]]:
    """Key to the distinct values over all runs."""
    found: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        for key, value in json.loads(text).items():
            said = "not known" if value is None else str(value)
            if said not in found.setdefault(key, []):
                found[key].append(said)
    return found
