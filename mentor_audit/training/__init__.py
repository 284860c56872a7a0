"""The episode inside GRPO. The only package that imports trl."""

import os

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func: we know, and test it against the pinned range of versions

from mentor_audit.training.rows import RowTask, task_dataset
from mentor_audit.training.trainer import MentorGRPOTrainer, verified_reward

__all__ = ["MentorGRPOTrainer", "RowTask", "task_dataset", "verified_reward"]
