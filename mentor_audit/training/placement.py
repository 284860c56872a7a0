"""Where an answered failure enters GRPO's batch. Plain Python, no tensors.

GRPO sees a batch of slots, `slots_per_group` in a row for each group: the G attempts and, for placement `append`, spare slots
behind them. A placement says which slots get a response instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mentor_audit.config import ARMS_RESAMPLING, MentoringSection
from mentor_audit.episode import Episode, Sampled

SPARE_SLOTS_A_RESAMPLE = 3
"""Resampling arms afford several extra samples for one follow-up's price, so `append` keeps more spare slots for them."""


@dataclass(frozen=True)
class Insertion:
    """Slot `slot` (0-based, in its group) of the group gets `response`; `attempt` loses it (None: the slot was spare)."""

    slot: int
    response: Sampled
    attempt: Sampled | None


def spare_slots(arm: str, knobs: MentoringSection) -> int:
    """Spare slots a group behind its G attempts."""
    if knobs.placement != "append" or arm == "vanilla":
        return 0
    return knobs.follow_ups * (SPARE_SLOTS_A_RESAMPLE if arm in ARMS_RESAMPLING else 1)


def place(episode: Episode, arm: str, knobs: MentoringSection) -> list[Insertion]:
    """The insertions of one group, in slot order. Sets `trained`, `replaced_by` and `zero_reward_after` on the episode.

    replace_one       the first verified response takes the slot of the failed attempt that was answered
    append            every verified response takes a spare slot
    instructed_group  the responses, failed ones too, take the group's slots, if one of them was verified
    With `train_on_failed_follow_ups` responses that failed count as verified ones do in the first two.
    """
    candidates = [r for r in episode.responses if r.verdict.is_correct]
    if knobs.train_on_failed_follow_ups:
        candidates = [r for r in episode.responses if r.verdict.is_correct is not None]
    if knobs.placement == "instructed_group":
        insertions = _whole_group(episode)
    elif knobs.placement == "append":
        size = len(episode.attempts)
        spare = candidates[: spare_slots(arm, knobs)]
        insertions = [Insertion(size + i, response, None) for i, response in enumerate(spare)]
    else:
        insertions = [_replace(episode, response) for response in candidates[:1]]
    lost = set()
    for insertion in insertions:
        insertion.response.trained = True
        if insertion.attempt is not None:
            insertion.attempt.replaced_by = insertion.response.attempt_id
            lost.add(insertion.attempt.attempt_id)
    for attempt in episode.attempts:
        attempt.trained = attempt.attempt_id not in lost
    kept: Sequence[Sampled] = [a for a in episode.attempts if a.trained] + [i.response for i in insertions]
    episode.zero_reward_after = not any(a.verdict.is_correct for a in kept)
    return insertions


def _replace(episode: Episode, response: Sampled) -> Insertion:
    slot = next(i for i, a in enumerate(episode.attempts) if a.attempt_id == response.parent_attempt_id)
    return Insertion(slot, response, episode.attempts[slot])


def _whole_group(episode: Episode) -> list[Insertion]:
    if not any(r.verdict.is_correct for r in episode.responses):
        return []
    pairs = zip(episode.attempts, episode.responses, strict=False)
    return [Insertion(slot, response, attempt) for slot, (attempt, response) in enumerate(pairs)]
