"""What every shape is brought to, and the checks that every row passes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mentor_audit.errors import TaskError


@dataclass(frozen=True)
class LabelledSolution:
    """One solution with people's verdict.

    source            the shape
    first_error       index of the first wrong step, from 0; None: no step is wrong
    answer            the reference answer; None: the data set does not give one
    answer_is_right   its final answer is the reference answer; None: not said. A wrong step may lead to a right answer
    """

    source: str
    id: str
    problem: str
    steps: tuple[str, ...]
    first_error: int | None
    answer: str | None = None
    answer_is_right: bool | None = None


@dataclass(frozen=True)
class Imported:
    """`left_out`: why -> how many rows say nothing that could be scored."""

    solutions: tuple[LabelledSolution, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LeftOut:
    """A row that is in order and has no verdict."""

    why: str


class Fields:
    """One row, read field by field. Every method raises TaskError that names row, field, what was expected and what was found."""

    def __init__(self, row: Mapping[str, Any], where: str) -> None:
        self._row, self._where = row, where

    def text(self, name: str) -> str:
        found = self._row.get(name)
        if not isinstance(found, str) or not found.strip():
            raise self.wrong(name, "text")
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        found = self._row.get(name)
        if not isinstance(found, list) or not found or not all(isinstance(step, str) for step in found):
            raise self.wrong(name, "a list of texts")
        return tuple(found)

    def optional(self, name: str) -> Any:
        return self._row.get(name)

    def has(self, name: str) -> bool:
        return name in self._row

    def index(self, name: str, steps: tuple[str, ...], first: int = 0) -> int:
        """An index into `steps` that counts from `first`, as one from 0. A number in quotes is one too."""
        found = self._row.get(name)
        if isinstance(found, str) and found.strip().isdecimal():
            found = int(found)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if isinstance(found, bool) or not isinstance(found, int) or not first <= found < first + len(steps):
            raise self.wrong(name, f"a step from {first} to {first + len(steps) - 1}")
        return found - first

    def inner(self, name: str) -> "Fields":
        found = self._row.get(name)
        if not isinstance(found, dict):
            raise self.wrong(name, "an object")
        return Fields(found, f"`{name}` of {self._where}")

    def inners(self, name: str) -> "list[Fields]":
        found = self._row.get(name)
        if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
            raise self.wrong(name, "a list of objects")
        return [Fields(one, f"`{name}` {i} of {self._where}") for i, one in enumerate(found)]

    def wrong(self, name: str, expected: str) -> TaskError:
        found = (
            repr(self._row[name]) if name in self._row else f"no such field (fields: {', '.join(sorted(self._row)) or 'none'})"
        )
        return TaskError(
            f"Expected {expected} in `{name}` of {self._where}, found {found[:200]}. Correct or remove the row, or name another "
            "shape."
        )
