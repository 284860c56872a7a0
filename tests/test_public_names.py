"""The public surface, frozen: a name that comes or goes changes this list, and the changelog."""

import mentor_audit

PUBLIC = [
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


def test_the_public_names_are_these_in_this_order() -> None:
    assert mentor_audit.__all__ == PUBLIC == sorted(PUBLIC)


def test_every_public_name_is_there_and_documented() -> None:
    for name in PUBLIC:
        found = getattr(mentor_audit, name)
        assert found.__doc__, f"{name} has no docstring"


def test_the_package_is_typed() -> None:
    from pathlib import Path

    assert (Path(mentor_audit.__file__).parent / "py.typed").exists()
