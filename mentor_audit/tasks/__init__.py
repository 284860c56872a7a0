"""Tasks: problems with prompts and a verifier. `[task] name` is a built-in one, or `module:attr`.

`MathVerifier` is a TRL reward function by itself.
"""

import importlib
from typing import Any

from pydantic import BaseModel

from mentor_audit.config import nearest
from mentor_audit.errors import ConfigError
from mentor_audit.protocols import Task
from mentor_audit.tasks.maths import MathVerifier

__all__ = ["BUILT_IN", "MathVerifier", "load_task", "settings_model", "task_class"]

BUILT_IN = {
    "chain": ("mentor_audit.tasks.chain", "ChainTask", "ChainSettings"),
    "table": ("mentor_audit.tasks.table", "TableTask", "TableSettings"),
    "code": ("mentor_audit.tasks.code", "CodeTask", "CodeSettings"),
    "humaneval": ("mentor_audit.tasks.humaneval", "HumanEvalTask", "HumanEvalSettings"),
    "reasoning_gym": ("mentor_audit.tasks.gym", "GymTask", "GymSettings"),
}


def load_task(name: str, settings: dict[str, Any]) -> Task:
    """Build the task. Raises ConfigError for an unknown name, pydantic.ValidationError for its settings, TaskError for its data."""
    task: Task = task_class(name)(settings_model(name).model_validate(settings))
    return task


def task_class(name: str) -> type[Any]:
    found: type[Any] = _attribute(name, 1)
    return found


def settings_model(name: str) -> type[BaseModel]:
    """The pydantic model of the task's own settings; of a `module:attr` task its attribute `Settings`."""
    found: type[BaseModel] = _attribute(name, 2)
    return found


def _attribute(name: str, which: int) -> Any:
    if name in BUILT_IN:
        return getattr(importlib.import_module(BUILT_IN[name][0]), BUILT_IN[name][which])
    if ":" not in name:
        raise ConfigError(
            f"Expected task.name to be one of {', '.join(BUILT_IN)} or module:attr, found `{name}`{nearest(name, list(BUILT_IN))}"
        )
    module, _, attribute = name.partition(":")
    try:
        kind = getattr(importlib.import_module(module), attribute)
        return kind if which == 1 else kind.Settings
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"Expected `{name}` to name a task class with an attribute `Settings`, found none ({error}). Check the spelling, and that the "
            "module can be imported from here."
        ) from error
