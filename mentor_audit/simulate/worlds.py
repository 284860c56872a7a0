"""Named worlds: one cause each, mixtures of two or three, nothing at all, and what misleads.

Each has a training suite, a replay, or both with the same causes; one has randomised training. They are small, so that hundreds of stores of each can be judged.
"""

from collections.abc import Mapping
from dataclasses import replace

from mentor_audit.simulate.world import LADDER, Causes, Failures, Randomised, Replays, World, gains

REPLAYED = (*LADDER, "shuffled_other", "shuffled_same")
UNLUCKY, LUCKY = (0.2, 3.0), (1.5, 3.0)
"""After four failures the next sample is correct 3 % and 18 % of the time."""


def _world(transfer: Mapping[str, float], causes: Causes, lucky: tuple[float, float] = UNLUCKY, leak_rate: float = 0.0) -> World:
    """`transfer`: cause -> held-out points, as a share, that it adds by the end of training."""
    return World(
        gain=gains(LADDER, **transfer),
        seeds=(1, 2, 3, 4),
        steps=2,
        eval_every=2,
        heldout=40,
        samples=4,
        train_problems=4,
        groups_a_step=1,
        replays=Replays(Failures(causes, lucky=lucky, leak_rate=leak_rate), REPLAYED),
    )


def _failing(world: World, **changed: float | tuple[float, float]) -> World:
    """The same with another population of failures."""
    assert world.replays is not None
    return replace(world, replays=replace(world.replays, failures=replace(world.replays.failures, **changed)))  # type: ignore[arg-type]


def _only_replayed(world: World) -> World:
    return replace(world, gain={})


def _replayed(world: World, **changed: int) -> World:
    assert world.replays is not None
    return replace(world, replays=replace(world.replays, **changed))  # type: ignore[arg-type]


_nothing = _world({}, Causes())
_sampling = _replayed(_world({"sampling": 0.3}, Causes(), LUCKY), problems=150)
_form = _world({"form": 0.3}, Causes(form=0.4))
_correctness = _world({"correctness": 0.3}, Causes(correctness=0.6))

WORLDS: dict[str, World] = {
    "nothing": _nothing,
    "sampling": _sampling,
    "context": _only_replayed(_world({}, Causes(context=0.4))),
    "form": _form,
    "correctness": _correctness,
    "leakage": _world({"leakage": 0.3}, Causes(leakage=0.7), leak_rate=0.6),
    "sampling and correctness": _replayed(
        _world({"sampling": 0.15, "correctness": 0.25}, Causes(correctness=0.5), LUCKY), problems=150
    ),
    "form, correctness and leakage": _world(
        {"form": 0.15, "correctness": 0.2, "leakage": 0.15}, Causes(form=0.3, correctness=0.5, leakage=0.5), leak_rate=0.6
    ),
    "nothing, seeds differ": replace(_nothing, seed_spread=0.08, seeds=(1, 2, 3, 4, 5), replays=None),
    "sampling, unequal prices": replace(
        _replayed(_sampling, extra_samples=3),
        steps=4,
        flops_a_step={"vanilla": 0.6e9, "resample": 0.6e9, "retry": 0.6e9},
    ),
    "sampling, several follow-ups": _only_replayed(_replayed(_sampling, follow_ups=4, extra_samples=4)),
    "sampling, several follow-ups, verdicts missing": _only_replayed(
        _failing(_replayed(_sampling, follow_ups=4, extra_samples=4), unscored=0.1)
    ),
    "form, easy failures diagnosed right": _only_replayed(
        _failing(_form, tilt=1.0, spread=1.0, accuracy=0.5, judge=(0.85, 0.8), lucky=(0.5, 3.0))
    ),
    "correctness, verdicts missing": replace(
        _failing(_correctness, unscored=0.1), unscored={"vanilla": 0.1, "wrong": 0.2, "scrubbed": 0.2, "mentor": 0.2}
    ),
    "correctness, few problems": replace(_replayed(_correctness, problems=15), heldout=12, seeds=(1, 2, 3)),
    "correctness, many failures a problem": _only_replayed(
        _replayed(_failing(_correctness, tilt=0.5, spread=0.6, lucky=(0.5, 2.0)), problems=40, groups=5, follow_ups=2)
    ),
    "form, chances of arms change": World(
        randomised=Randomised(
            Failures(Causes(form=0.3), lucky=UNLUCKY),
            first={"vanilla": 0.2, "resample": 0.2, "placebo": 0.2, "wrong": 0.3, "mentor": 0.1},
            second={"vanilla": 0.1, "resample": 0.1, "placebo": 0.1, "wrong": 0.1, "mentor": 0.6},
            later=0.4,
        )
    ),
}
"""Name -> world. Behind the comma stands what misleads."""
