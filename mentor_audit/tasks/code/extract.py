"""Which code a completion gives.

Of a completion with fenced blocks the last one counts (```` ```python ````, `py`, `python3` or no language; one that is never closed
runs to the end; one that only closes ends the code before it), else the whole text. Code that defines the entry point replaces the prompt's function; the prompt's imports and
helpers still run before it. Any other code is taken for the body and continues the prompt.
"""

import ast
import re
import textwrap

from mentor_audit.tasks.sandbox.verify import Program

_FENCE = re.compile(r"[ \t]*```[ \t]*([\w+-]*)[ \t]*")


def extract_code(completion: str) -> str | None:
    """None: the completion is blank, or all its blocks are in another language or empty."""
    completion = completion.replace("\r\n", "\n")
    blocks = _blocks(completion)
    if blocks is None:
        return completion if completion.strip() else None
    return blocks[-1] if blocks and blocks[-1].strip() else None


def function_program(prompt: str, code: str, entry_point: str) -> Program:
    """The candidate for a prompt that ends in the head of `entry_point`.

    A body that lost its indentation, or that of its first line, gets it back where the program parses with it.
    """
    tree = _parsed(code)
    if tree is not None and any(_defines(node, entry_point) for node in tree.body):
        return Program(code, preamble(prompt, entry_point))
    if not code.lstrip("\n").startswith((" ", "\t")):
        for body in (textwrap.indent(code, "    "), f"    {code}"):
            if _parsed(prompt + body) is not None:
                return Program(prompt + body)
    return Program(prompt + code)


def preamble(prompt: str, entry_point: str) -> str:
    """What stands in the prompt before the function: imports, helpers. Empty when the prompt is not Python."""
    tree = _parsed(prompt) or _parsed(f"{prompt.rstrip()}\n    pass\n")
    for node in tree.body if tree else []:
        if _defines(node, entry_point):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            return "".join(prompt.splitlines(keepends=True)[: first - 1])
    return ""


def _blocks(text: str) -> list[str] | None:
    """Python's blocks in order; None: the text has no fence."""
    blocks: list[tuple[str, list[str]]] = []
    lines: list[str] = []
    inside: str | None = None
    for line in text.split("\n"):
        mark = _FENCE.fullmatch(line)
        if inside is None and mark:
            inside, lines = mark[1].lower(), []
        elif inside is not None and mark and not mark[1]:
            blocks.append((inside, lines))
            inside = None
        elif inside is not None:
            lines.append(line)
    if inside is not None:
        before = text.split("\n")[: -len(lines) - 1]
        if not blocks and not inside and not "".join(lines).strip() and _parsed("\n".join(before)) is not None:
            return ["\n".join(before) + "\n"]
        if not blocks or "".join(lines).strip():
            blocks.append((inside, lines))
    if not blocks:
        return None
    return ["\n".join(body) + "\n" for language, body in blocks if language in ("", "python", "python3", "py")]


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name == name
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    return False


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
