"""Runs code that a model wrote, and grades it without trusting it. docs/sandbox.md says against whom, and what holds in which mode."""

from mentor_audit.tasks.sandbox.modes import NO_SANDBOX, Availability, Limits, Mode, SandboxError, Setting, available, choose

__all__ = ["NO_SANDBOX", "Availability", "Limits", "Mode", "SandboxError", "Setting", "available", "choose"]
