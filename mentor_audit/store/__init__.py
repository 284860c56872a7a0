"""The trajectory store: Parquet parts in Delta tables, one whole step at a time, and a registry of runs."""

from mentor_audit.store.store import Store
from mentor_audit.store.untrusted import Limits
from mentor_audit.store.writer import RankWriter, RunWriter, StepRows

__all__ = ["Limits", "RankWriter", "RunWriter", "StepRows", "Store"]
