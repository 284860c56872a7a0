"""The episode inside GRPO. The only package that imports trl."""

from mentor_audit.training.rows import RowTask, task_dataset
from mentor_audit.training.trainer import MentorGRPOTrainer, verified_reward

__all__ = ["MentorGRPOTrainer", "RowTask", "task_dataset", "verified_reward"]
