"""What the step checker found, without the libraries that found it."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class WrongStep:
    """`index` counts the steps from 0; `equality` is the claim that does not hold, `why` what its sides are."""

    index: int
    text: str
    equality: str
    why: str


@dataclass(frozen=True)
class StepReport:
    """`wrong` None: none of the `num_checked` claims is false. `num_unchecked` equalities could not be checked. `why`: nothing
    was checked, and why.
    """

    steps: list[str] = field(default_factory=list)
    num_checked: int = 0
    num_unchecked: int = 0
    wrong: WrongStep | None = None
    why: str | None = None


def report_from(values: dict[str, Any]) -> StepReport:
    """From a StepReport as a dict."""
    wrong = values["wrong"]
    return StepReport(**{**values, "wrong": None if wrong is None else WrongStep(**wrong)})
