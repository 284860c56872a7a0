"""Answers as one spelling: `clean` removes what only changes the look; `split` cuts where no bracket is open."""

import re
from collections.abc import Callable

_UNICODE = {
    "−": "-", "–": "-", "×": "\\cdot ", "·": "\\cdot ", "⋅": "\\cdot ", "÷": "/", "π": "\\pi ", "∞": "\\infty ", "≤": "\\leq ",
    "≥": "\\geq ", "≠": "\\neq ", "∪": "\\cup ", "∩": "\\cap ", "∈": "\\in ", "∅": "\\emptyset ", "±": "\\pm ", "°": "^\\circ ",
    "½": "\\frac{1}{2}", "¼": "\\frac{1}{4}", "¾": "\\frac{3}{4}", "²": "^{2}", "³": "^{3}", "…": "\\ldots ", "≈": "\\approx ",
    "ℝ": "\\mathbb{R}", "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ",
    "\u00a0": " ", "\u2009": " ", "\u202f": " ",
}  # fmt: skip
_SPELLINGS: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"\\(?:displaystyle|textstyle|limits|nolimits|middle)(?![A-Za-z])", ""),
    (r"\\(?:left|right)\s*\.", ""),
    (r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])", ""),
    (r"(?<=\d)(?:\\,|\\ |,\\!|\\:|\\;)(?=\d{3}(?!\d))", ","),
    (r"\\[!,;:> ]|\\q?quad(?![A-Za-z])|~|\\hspace\{[^{}]*\}", " "),
    (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
    (r"\\(?:times|ast)(?![A-Za-z])|\*+", r"\\cdot "),
    (r"\{([^{}]*)\\choose([^{}]*)\}", r"\\binom{\1}{\2}"),
    (r"(\\mathbb\{R\})\s*-\s*(?=\\\{)", r"\1\\setminus "),
    (r"\\div(?![A-Za-z])", "/"),
    (r"\\l[bv]race(?![A-Za-z])", r"\\{"), (r"\\rbrace(?![A-Za-z])", r"\\}"),
    (r"\\[lr]vert(?![A-Za-z])|\\mid(?![A-Za-z])|\\vert(?![A-Za-z])", "|"),
    (r"\\langle(?![A-Za-z])", "⟨"), (r"\\rangle(?![A-Za-z])", "⟩"),
    (r"\\lt(?![A-Za-z])", "<"), (r"\\gt(?![A-Za-z])", ">"),
    (r"\\le(?:q|qslant)?(?![A-Za-z])|<=", r"\\leq "), (r"\\ge(?:q|qslant)?(?![A-Za-z])|>=", r"\\geq "),
    (r"\\ne(?:q)?(?![A-Za-z])|!=(?!=)", r"\\neq "),
    (r"\\(?:l?dots|cdots|dotsc|dotsb|dotsm)(?![A-Za-z])|(?<!\.)\.\.\.(?!\.)", r"\\ldots "),
    (r"\\(?:simeq|thickapprox)(?![A-Za-z])", r"\\approx "),
    (r"\\(?:varnothing|O)(?![A-Za-z])", r"\\emptyset "),
    (r"\\bmod(?![A-Za-z])", r"\\mod "),
    (r"\\[CNQRZ](?![A-Za-z])", lambda m: f"\\mathbb{{{m[0][1]}}}"),
    (r"\\math(?:bb|bf|cal)\s*\{?([CNQRZ])\}?(?![A-Za-z])", r"\\mathbb{\1}"),
    (r"\\(?:mathbf|boldsymbol|mathit|bm|mathsf|mathnormal)\{([A-Za-z])\}", r"\1"),
    (r"\\mathrm\{([ie])\}", r"\1"),
    (r"\\(?:text(?:bf|it|rm|sf|tt|normal|up)|mathrm|mathbf|mathit|mbox|hbox|textnormal|operatorname\*?)\s*\{", r"\\text{"),
    (r"\\text\{\s*(sin|cos|tan|sec|csc|cot|arcsin|arccos|arctan|log|ln|exp)\s*\}", r"\\\1 "),
    (r"\^\s*\{?\s*\\(?:circ|degree)\s*\}?|\\degree(?![A-Za-z])", r"^\\circ "),
    (r"(?<![\\A-Za-z])(sqrt|sin|cos|tan|sec|csc|cot|arcsin|arccos|arctan|log|ln|exp|pi|binom)(?![A-Za-z])", r"\\\1 "),
    (r"(?<![\\A-Za-z])(?:infinity|infty|inf|oo)(?![A-Za-z])", r"\\infty "),
    (r"\\log_(\d)\s*", r"\\log_{\1} "),
    (r"\^\s*(-\d+)", r"^{\1}"),
    (r"\s+([\^_])", r"\1"),
]  # fmt: skip
_COMPILED = [(re.compile(pattern), replacement) for pattern, replacement in _SPELLINGS]
_MONEY = re.compile(r"\\\$\s*(-?[\d.,]*\d)")
_PLAIN_MONEY = re.compile(r"^(-?)\$\s*([\d.,]*\d)(?=\s|$|[A-Za-z])")
_ROW = "\ue000"  # stands for the row separator of a matrix while spaces are removed
_ARGUMENTS = {"\\frac": 2, "\\binom": 2, "\\sqrt": 1}
_ARGUMENT = re.compile(r"\s*(\\[A-Za-z]+|[0-9A-Za-z])")
_EUROS, _POUNDS = re.compile(r"€\s*([\d.,]*\d)"), re.compile(r"£\s*([\d.,]*\d)")
_SPACED = re.compile(r"^[-+]?\d{1,3}(?: \d{3})+(?:\.\d+)?$")
SMALL_WORDS = {"the", "a", "an"}


def clean(text: str) -> str:
    """One spelling of commands, signs and spaces; dollar signs, sizes and a final stop removed. Idempotent for what the readers
    take.
    """
    text = re.sub(r"\\text\s*\{\s*\}", " ", text.strip().strip("*")).replace("{,}", ",").strip()
    if text.count("$") - text.count("\\$") == 1:
        text = _PLAIN_MONEY.sub(r"\1\2\\text{dollars}", text)
    text = _MONEY.sub(r"\1\\text{dollars}", text).replace("\\%", "%")
    text = _POUNDS.sub(r"\1\\text{pounds sterling}", _EUROS.sub(r"\1\\text{euros}", text))
    text = _SPACED.sub(lambda m: m[0].replace(" ", ","), text)
    for wrong, right in _UNICODE.items():
        text = text.replace(wrong, right)
    text = re.sub(r"√\s*(\d+|[A-Za-z])", r"\\sqrt{\1}", text).replace("√", "\\sqrt ")
    text = text.replace("\\\\", _ROW)
    text = re.sub(r"\$+|\\[()]|(?<!\\)\\[\[\]]", " ", text)
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    text = _parentheses_to_braces(_with_braces(" ".join(text.split()))).replace(_ROW, "\\\\")
    text = _without_outer_braces(re.sub(r"(?<!\\ldots)(?<!\\)\s*[.;:,]+$", "", text.strip()).strip())
    return re.sub(r"\s*([{}()\[\]=<>+/,^_-])\s*", r"\1", text) if "\\text" not in text and not _wordy(text) else text


def plain(text: str) -> str:
    """Words as they are compared: without markup, case, articles and punctuation at the ends."""
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)
    words = re.sub(r"[\s,.!;:\"'`()*]+", " ", text.casefold().replace(".m.", "m")).split()
    return " ".join(w for w in words if w not in SMALL_WORDS)


def split(text: str, *separators: str) -> list[str]:
    """Cut at the separators that stand outside all brackets, absolute values and environments. Parts are stripped; empty ones
    stay.
    """
    parts, start, i = [], 0, 0
    depth = 0
    while i < len(text):
        if text.startswith("\\begin", i):
            depth += 1
        elif text.startswith("\\end", i):
            depth -= 1
        found = next((s for s in separators if text.startswith(s, i)), None) if depth == 0 else None
        if found is not None:
            parts.append(text[start:i].strip())
            i += len(found)
            start = i
            continue
        if text[i] == "\\" and i + 1 < len(text) and text[i + 1] in "{}":
            depth += 1 if text[i + 1] == "{" else -1
            i += 2
            continue
        depth += (text[i] in "({[⟨") - (text[i] in ")}]⟩")
        i += 1
    return [*parts, text[start:].strip()]


def closing(text: str, start: int) -> int | None:
    """Where the bracket that opens at `start` closes, whichever of ) ] } it closes with; None: nowhere."""
    depth, i = 0, start
    while i < len(text):
        depth += (text[i] in "({[⟨") - (text[i] in ")}]⟩")
        if depth == 0:
            return i
        i += 1
    return None


def _wordy(text: str) -> bool:
    return re.search(r"(?<![\\A-Za-z])[A-Za-z]{2,}", text) is not None


def _without_outer_braces(text: str) -> str:
    while text.startswith("{") and closing(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _with_braces(text: str) -> str:
    """`\\frac12` and `\\sqrt x` with their arguments in braces, as TeX reads them."""
    for command, count in _ARGUMENTS.items():
        at = text.rfind(command)
        while at >= 0:
            end = at + len(command)
            if command == "\\sqrt" and text.startswith("[", end):
                end = (closing(text, end) or end - 1) + 1
            for _ in range(count):
                text, end = _brace_argument(text, end)
            at = text.rfind(command, 0, at)
    return text


def _brace_argument(text: str, start: int) -> tuple[str, int]:
    """The text with braces around the argument at `start`, and where it ends. Anything but one letter, digit or command stays."""
    found = _ARGUMENT.match(text, start)
    if found:
        text = f"{text[:start]}{{{found[1]}}}{text[found.end() :]}"
    elif text[start : start + 1] == " ":
        text = text[:start] + text[start:].lstrip()
    end = closing(text, start) if text[start : start + 1] == "{" else None
    return text, start if end is None else end + 1


def _parentheses_to_braces(text: str) -> str:
    """`\\sqrt(2)` and `x^(2n)` as plain text means them."""
    for before in ("\\sqrt(", "\\sqrt (", "^(", "^ ("):
        at = text.find(before)
        while at >= 0:
            opened = at + len(before) - 1
            end = closing(text, opened)
            if end is None:
                return text
            text = f"{text[:opened].rstrip()}{{{text[opened + 1 : end]}}}{text[end + 1 :]}"
            at = text.find(before, at)
    return text
