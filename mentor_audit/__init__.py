"""mentor_audit: train with a mentor on TRL's GRPO and find out whether the diagnosis or the extra sampling helped."""

__version__ = "0.1.0"
