"""A person as auditor: labels of the registry, copied into diagnosis_audit so that they stand beside the others."""

from collections.abc import Sequence
from typing import Any

from mentor_audit.audit.cases import ASPECTS, Case
from mentor_audit.audit.opinions import Audited, BatchAudit, Opinion
from mentor_audit.errors import ConfigError
from mentor_audit.records import Aspect, HumanLabel

PREFIX = "human:"


def choose_person(labels: Sequence[HumanLabel], name: str) -> str:
    """`human:NAME`, or `human` for the only person. Raises ConfigError when there is none, or it takes a choice."""
    people = sorted({label.person for label in labels})
    person = name.removeprefix(PREFIX) if name.startswith(PREFIX) else None
    if person in people:
        return str(person)
    if not people:
        raise ConfigError("Expected labels by people, found none. Label some: mentor-audit label STORE.")
    if person is not None or len(people) > 1:
        named = "none named" if person is None else f"`{person}`"
        raise ConfigError(f"Expected one of the people with labels ({', '.join(people)}), found {named}. Name one: human:NAME.")
    return people[0]


class HumanAuditor:
    """`labels` may hold those of others; only what this person has labelled gets an opinion."""

    def __init__(self, person: str, labels: Sequence[HumanLabel]) -> None:
        self.name = f"{PREFIX}{person}"
        self.settings: dict[str, Any] = {"person": person}
        self._labels = {(label.diagnosis_id, label.aspect): label for label in labels if label.person == person}

    def aspects_of(self, case: Case) -> tuple[Aspect, ...]:
        return tuple(aspect for aspect in ASPECTS if (case.diagnosis_id, aspect) in self._labels)

    def audit(self, cases: Sequence[Case], seed: int) -> BatchAudit:
        return BatchAudit([Audited([self._opinion(case, aspect) for aspect in self.aspects_of(case)]) for case in cases])

    def _opinion(self, case: Case, aspect: Aspect) -> Opinion:
        label = self._labels[case.diagnosis_id, aspect]
        return Opinion(aspect, label.verdict, label.note or f"labelled by a person at {label.labelled_at:%Y-%m-%d %H:%M} UTC")
