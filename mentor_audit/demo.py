"""The demo: three replays of one failure bank, with mentors of different accuracy, and a short suite of trainings, in one store."""

from mentor_audit.config import SuiteConfig
from mentor_audit.replay import run_replay
from mentor_audit.store import Store
from mentor_audit.suite import Report, run_suite

ACCURACIES = (1.0, 0.7, 0.0)
"""How often the scripted mentor of a replay is right: the share of the gain that is correctness must follow it."""


def run_demo(config: SuiteConfig, progress: Report | None = None) -> Store:
    """As run_replay and run_suite, which it calls: what is there already is not done again."""
    for accuracy in ACCURACIES:
        mentor = config.mentor.model_copy(update={"accuracy": accuracy})
        section = config.replay.model_copy(update={"name": f"right-{100 * accuracy:03.0f}"})
        run_replay(config.model_copy(update={"mentor": mentor, "replay": section}), progress)
    return run_suite(config, progress)
