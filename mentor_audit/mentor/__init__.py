"""Mentors: what reads a failed attempt and returns a diagnosis and an instruction; and arms, which decide what is shown.

`load_mentor` builds what `[mentor]` names. A mentor never raises for a bad reply: a call that failed or a reply that can't be
parsed is data, with its cost.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mentor_audit.config import MentorSection
from mentor_audit.errors import ConfigError
from mentor_audit.mentor.endpoint import EndpointMentor
from mentor_audit.mentor.reading import ReadingMentor
from mentor_audit.mentor.scripted import ScriptedMentor
from mentor_audit.protocols import ChecksSteps, Mentor, Policy, Task


def load_mentor(
    section: MentorSection,
    task: Task,
    learner: Policy,
    load_policy: Callable[[MentorSection], Policy],
    folder: Path | None = None,
) -> Mentor:
    """The mentor that the settings name.

    `learner` samples at the live weights; `load_policy(section)` loads another model (`section.model` None: the learner's start
    weights), and is called for kinds `hf` and `frozen` only. `folder` is where an endpoint's paid replies are kept, one folder a run;
    None: they are not kept. Raises ConfigError when the task lacks what the mentor needs, or an endpoint its settings or key.
    """
    if section.kind == "scripted":
        if not isinstance(task, ChecksSteps):
            raise ConfigError(
                f'Expected a task that checks steps for mentor.kind = "scripted", found `{task.name}`, which can\'t say where an '
                'attempt goes wrong. Use mentor.kind = "self" or "hf", or task.name = "chain".'
            )
        return ScriptedMentor(task, learner, section.accuracy, charged=section.charged_as == "learner")
    if section.kind == "self":
        return ReadingMentor("self", learner, section)
    if section.kind == "frozen":
        return ReadingMentor("frozen", load_policy(section), section)
    if section.kind == "hf":
        return ReadingMentor("hf", load_policy(section), section)
    if section.kind == "endpoint":
        return EndpointMentor(section, learner, folder)
    mentor: Mentor = load_attribute(section.kind)(task=task, learner=learner, **section.options)
    return mentor


def load_attribute(path: str) -> Any:
    """What `module:attr` names. Raises ConfigError when it isn't there."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"Expected `{path}` to name a module and an attribute in it, found none ({error}). Check the spelling, and that the "
            "module can be imported from here."
        ) from error
