"""`python -m mentor_audit` is the same as `mentor-audit`."""

from mentor_audit.cli import main

main()
