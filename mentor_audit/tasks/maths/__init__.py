"""A maths verifier and a step checker that decide exactly, in worker processes that can be killed. Policy: docs/maths.md."""

from mentor_audit.tasks.maths.report import StepReport, WrongStep
from mentor_audit.tasks.maths.verifier import MathItem, MathReward, MathVerifier

__all__ = ["MathItem", "MathReward", "MathVerifier", "StepReport", "WrongStep"]
