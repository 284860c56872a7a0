"""The registry's row of a run: what it was made with."""

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import psutil

from mentor_audit import __version__
from mentor_audit.records import Run

PACKAGES = ("torch", "transformers", "trl", "accelerate", "datasets", "duckdb", "pyarrow", "deltalake", "polars", "mentor_audit")


def make_run(
    run_id: str,
    *,
    suite: str,
    arm: str,
    seed: int,
    config: Mapping[str, Any],
    learner: str,
    learner_params: int | None,
    mentor: str,
    task: str,
    device: str,
) -> Run:
    """`config` is stored as JSON, what JSON lacks as text; its hash covers it all but the paths of outputs and logs."""
    content = json.dumps(config, sort_keys=True, default=str)
    stable = {
        **config,
        "grpo": {k: v for k, v in config.get("grpo", {}).items() if k not in ("output_dir", "logging_dir", "run_name")},
    }
    hardware = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "device": device,
        "python": platform.python_version(),
    }
    return Run(
        run_id=run_id,
        suite=suite,
        arm=arm,
        seed=seed,
        config=content,
        config_hash=str(
            config.get("config_hash") or hashlib.sha256(json.dumps(stable, sort_keys=True, default=str).encode()).hexdigest()
        ),
        learner=learner,
        learner_params=learner_params,
        mentor=mentor,
        task=task,
        code_version=__version__,
        packages=json.dumps({name: _version(name) for name in PACKAGES}),
        hardware=json.dumps(hardware),
        created_at=datetime.now(UTC),
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
