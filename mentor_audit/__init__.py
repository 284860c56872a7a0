"""mentor_audit: train with a mentor on TRL's GRPO and find out whether the diagnosis or the extra sampling helped.

The public names, sorted; each loads its module when it is first used, so that `import mentor_audit` loads neither torch nor trl.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Limits": "mentor_audit.store",
    "MathVerifier": "mentor_audit.tasks",
    "MentorAuditError": "mentor_audit.errors",
    "MentorGRPOTrainer": "mentor_audit.training",
    "Report": "mentor_audit.report",
    "Store": "mentor_audit.store",
    "SuiteConfig": "mentor_audit.config",
    "audit_score": "mentor_audit.audit.score",
    "build_report": "mentor_audit.report",
    "create_store": "mentor_audit.api",
    "label_diagnoses": "mentor_audit.audit.label",
    "load_config": "mentor_audit.config",
    "open_store": "mentor_audit.api",
    "plan_power": "mentor_audit.report.power",
    "run_attacks": "mentor_audit.tasks.sandbox.check",
    "run_audit": "mentor_audit.audit.run",
    "run_leak_audit": "mentor_audit.audit.leakage_run",
    "run_replay": "mentor_audit.replay",
    "run_suite": "mentor_audit.suite",
    "task_dataset": "mentor_audit.training",
    "train_run": "mentor_audit.suite",
    "validate": "mentor_audit.suite",
}

__all__ = [
    "Limits",
    "MathVerifier",
    "MentorAuditError",
    "MentorGRPOTrainer",
    "Report",
    "Store",
    "SuiteConfig",
    "audit_score",
    "build_report",
    "create_store",
    "label_diagnoses",
    "load_config",
    "open_store",
    "plan_power",
    "run_attacks",
    "run_audit",
    "run_leak_audit",
    "run_replay",
    "run_suite",
    "task_dataset",
    "train_run",
    "validate",
]

if TYPE_CHECKING:
    from mentor_audit.api import create_store, open_store
    from mentor_audit.audit.label import label_diagnoses
    from mentor_audit.audit.leakage_run import run_leak_audit
    from mentor_audit.audit.run import run_audit
    from mentor_audit.audit.score import audit_score
    from mentor_audit.config import SuiteConfig, load_config
    from mentor_audit.errors import MentorAuditError
    from mentor_audit.replay import run_replay
    from mentor_audit.report import Report, build_report
    from mentor_audit.report.power import plan_power
    from mentor_audit.store import Limits, Store
    from mentor_audit.suite import run_suite, train_run, validate
    from mentor_audit.tasks import MathVerifier
    from mentor_audit.tasks.sandbox.check import run_attacks
    from mentor_audit.training import MentorGRPOTrainer, task_dataset


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mentor_audit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
