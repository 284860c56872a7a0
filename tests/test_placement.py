"""Which response takes which slot, on hand-made groups of four."""

import pytest
from scripted import problem

from mentor_audit.config import MentoringSection
from mentor_audit.episode import Episode, Sampled
from mentor_audit.protocols import Completion, Grade, Usage, Verdict
from mentor_audit.training.placement import place, spare_slots

NO_COST = Usage("c", None, 0, 0, 0, 0, 0.0, 0.0, 0.0)


def group(responses: str, answered: int = 2) -> Episode:
    """Four failed attempts; a response is `+` verified, `-` failed, `?` without a verdict."""

    def sampled(name: str, role: str, mark: str, position: int) -> Sampled:
        verdict = {"+": Verdict(True, "correct"), "-": Verdict(False, "incorrect"), "?": Verdict(None, "truncated")}[mark]
        parent = f"a{answered}" if role == "follow_up" else None
        completion = Completion("p", [1], "t", [1], "eos", NO_COST)
        return Sampled(name, role, position, completion, Grade(verdict, None), parent_attempt_id=parent)

    attempts = [sampled(f"a{i}", "attempt", "-", i) for i in range(4)]
    return Episode(
        0, "g", problem("0"), attempts, responses=[sampled(f"f{i}", "follow_up", m, i) for i, m in enumerate(responses)]
    )


def placed(responses: str, **knobs: object) -> tuple[list[tuple[int, str]], list[str], bool]:
    episode = group(responses)
    insertions = place(episode, "mentor", MentoringSection(**knobs))
    trained = [a.attempt_id for a in (*episode.attempts, *episode.responses) if a.trained]
    return [(i.slot, i.response.attempt_id) for i in insertions], trained, bool(episode.zero_reward_after)


@pytest.mark.parametrize(
    ("responses", "knobs", "slots", "trained", "still_zero"),
    [
        ("+", {}, [(2, "f0")], ["a0", "a1", "a3", "f0"], False),
        ("-", {}, [], ["a0", "a1", "a2", "a3"], True),
        ("-++", {}, [(2, "f1")], ["a0", "a1", "a3", "f1"], False),
        ("-", {"train_on_failed_follow_ups": True}, [(2, "f0")], ["a0", "a1", "a3", "f0"], True),
        ("?", {"train_on_failed_follow_ups": True}, [], ["a0", "a1", "a2", "a3"], True),
        ("+-+", {"placement": "append", "follow_ups": 3}, [(4, "f0"), (5, "f2")], ["a0", "a1", "a2", "a3", "f0", "f2"], False),
        (
            "-+--",
            {"placement": "instructed_group"},
            [(0, "f0"), (1, "f1"), (2, "f2"), (3, "f3")],
            ["f0", "f1", "f2", "f3"],
            False,
        ),
        ("----", {"placement": "instructed_group"}, [], ["a0", "a1", "a2", "a3"], True),
        ("", {}, [], ["a0", "a1", "a2", "a3"], True),
    ],
)
def test_placements(responses: str, knobs: dict, slots: list, trained: list[str], still_zero: bool) -> None:
    assert placed(responses, **knobs) == (slots, trained, still_zero)


def test_the_attempt_that_lost_its_slot_names_its_successor() -> None:
    episode = group("+")
    place(episode, "mentor", MentoringSection())
    assert [a.replaced_by for a in episode.attempts] == [None, None, "f0", None]


def test_spare_slots_follow_the_placement_and_the_arm() -> None:
    append = MentoringSection(placement="append", follow_ups=2)
    assert [spare_slots(arm, append) for arm in ("vanilla", "mentor", "resample")] == [0, 2, 6]
    assert spare_slots("mentor", MentoringSection()) == 0
