"""The data sets of the field, as settings of `task.name = "table"` and `"code"`: columns, where the answer stands, prompt.

A preset only fills in what the settings leave open, so `task.path` may name a local copy or a mirror, and every other setting wins
over it too.
"""

from typing import Any

from mentor_audit.config import nearest
from mentor_audit.tasks.reading import is_file

STEPS = "Solve the problem step by step. Put the final answer in \\boxed{}."

MATHS: dict[str, dict[str, Any]] = {
    "gsm8k": {
        "path": "openai/gsm8k", "config_name": "main", "heldout_split": "test",
        "prompt_column": "question", "answer_column": "answer", "answer_is": "after_hashes",
    },
    "math": {
        "path": "DigitalLearningGmbH/MATH-lighteval", "heldout_split": "test",
        "prompt_column": "problem", "answer_column": "solution", "answer_is": "last_box",
    },
    "math500": {"path": "HuggingFaceH4/MATH-500", "train_split": "test", "prompt_column": "problem", "answer_column": "answer"},
    "amc": {
        "path": "AI-MO/aimo-validation-amc", "prompt_column": "problem", "answer_column": "answer", "answer_is": "whole_number",
    },
    "aime": {
        "path": "AI-MO/aimo-validation-aime", "prompt_column": "problem", "answer_column": "answer", "answer_is": "whole_number",
    },
    "omni_math": {"path": "KbsdJames/Omni-MATH", "train_split": "test", "prompt_column": "problem", "answer_column": "answer"},
    "deepmath": {"path": "zwhe99/DeepMath-103K", "prompt_column": "question", "answer_column": "final_answer"},
    "big_math": {"path": "SynthLabsAI/Big-Math-RL-Verified", "prompt_column": "problem", "answer_column": "answer"},
    "dapo_17k": {
        "path": "BytedTsinghua-SIA/DAPO-Math-17k", "prompt_column": "prompt", "answer_column": "reward_model.ground_truth",
        "template": "{problem}",
    },
}  # fmt: skip
"""Preset -> settings. `answer_column` may lead into nested columns with dots. A prompt column of chat messages is posed as it is."""

for _settings in MATHS.values():
    _settings.setdefault("template", f"{{problem}}\n\n{STEPS}")

PYTHON = "Answer with a whole Python program in one ```python block."

CODE: dict[str, dict[str, Any]] = {
    "mbpp": {
        "path": "google-research-datasets/mbpp", "config_name": "full", "heldout_split": "test", "shape": "asserts",
        "prompt_column": "text", "tests_column": "test_list", "setup_column": "test_setup_code", "solution_column": "code",
        "show_tests": 1, "template": "{problem}\n\nAnswer with the whole function in one ```python block.",
    },
    "livecodebench": {
        "path": "lighteval/code_generation_lite", "config_name": "release_latest", "train_split": "test", "shape": "livecodebench",
        "prompt_column": "question_content", "inputs_column": "public_test_cases", "outputs_column": "private_test_cases",
        "solution_column": None,
        "template": f"{{problem}}\n\nRead from standard input, write to standard output. {PYTHON}",
    },
}  # fmt: skip
"""LiveCodeBench comes from lighteval's copy: livecodebench/code_generation_lite needs a loading script, which `datasets` no longer runs."""


def of_preset(values: Any, known: dict[str, dict[str, Any]]) -> Any:
    """Settings as given, over those of the preset that they name. Raises ValueError for an unknown one."""
    preset = values.get("preset") if isinstance(values, dict) else None
    if preset is None:
        return values
    if not isinstance(preset, str) or preset not in known:
        raise ValueError(f"expected preset to be one of {', '.join(known)}, found {preset!r}{nearest(str(preset), list(known))}")
    base = dict(known[preset])
    if "path" in values and is_file(str(values["path"])):  # it has no splits; its held-out problems are for the settings to say
        base = {k: v for k, v in base.items() if k not in ("config_name", "train_split", "heldout_split")}
    return {**base, **values}
