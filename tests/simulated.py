"""The worlds that the report's tests look at; rows and stores come from mentor_audit.simulate."""

from mentor_audit.simulate import SimulatedStore, World, as_arrow, simulate

ALL_SAMPLING = World(
    gain={"vanilla": 0.0, "resample": 0.4, "placebo": 0.4, "wrong": 0.4, "shuffled_other": 0.4, "mentor": 0.4},
    rescue={"resample": 0.3, "placebo": 0.3, "wrong": 0.3, "shuffled_other": 0.3, "mentor": 0.3},
    samples=4,
)
ALL_DIAGNOSIS = World(
    gain={"vanilla": 0.0, "resample": 0.0, "placebo": 0.0, "wrong": 0.0, "shuffled_other": 0.05, "mentor": 0.4},
    rescue={"resample": 0.02, "placebo": 0.02, "wrong": 0.02, "shuffled_other": 0.1, "mentor": 0.8},
)
BOTH = World(
    gain={"vanilla": 0.0, "resample": 0.2, "retry": 0.2, "placebo": 0.2, "wrong": 0.22, "shuffled_other": 0.25, "mentor": 0.55},
    rescue={"resample": 0.1, "retry": 0.1, "placebo": 0.08, "wrong": 0.08, "shuffled_other": 0.15, "mentor": 0.7},
    flops_a_step={"vanilla": 8e8, "resample": 1.2e9},
    seed_spread=0.03,
)
ALL_FORM = World(gain={"vanilla": 0.0, "resample": 0.0, "placebo": 0.4, "wrong": 0.4, "mentor": 0.4}, samples=4)
NOTHING = World(gain={"vanilla": 0.0, "resample": 0.0, "placebo": 0.0, "wrong": 0.0, "mentor": 0.0})

__all__ = ["ALL_DIAGNOSIS", "ALL_FORM", "ALL_SAMPLING", "BOTH", "NOTHING", "SimulatedStore", "World", "as_arrow", "simulate"]
