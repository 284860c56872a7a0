"""Programs as answers: problems with tests, graded in a sandbox."""

from mentor_audit.tasks.code.base import CodeProblem, SandboxSettings
from mentor_audit.tasks.code.extract import extract_code, function_program
from mentor_audit.tasks.code.task import CodeSettings, CodeTask

__all__ = ["CodeProblem", "CodeSettings", "CodeTask", "SandboxSettings", "extract_code", "function_program"]
