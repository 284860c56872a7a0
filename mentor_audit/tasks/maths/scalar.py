"""One LaTeX expression as one exact sympy expression, by latex2sympy2_extended behind a guard.

The library drops what it does not know, adds `(2)(3)` as a mixed number and reads words as products of letters. So its input is
checked first against a list of commands and characters, decimals are made fractions, and adjacent factors are always
multiplied.
"""

import re
from functools import lru_cache

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, _Latex2Sympy
from sympy.core.function import AppliedUndef

from mentor_audit.tasks.maths.exact import evaluate

MAX_CHARACTERS = 1000


class Unreadable(Exception):
    """A text that can't be read fully. The message says which part."""


GREEK = ["alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota", "kappa",
    "lambda", "mu", "nu", "xi", "rho", "varrho", "sigma", "tau", "upsilon", "phi", "varphi", "chi", "psi", "omega", "Gamma",
    "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega"]  # fmt: skip
_FUNCTIONS = ["sin", "cos", "tan", "sec", "csc", "cot", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln", "exp"]
_COMMANDS = {
    *GREEK,
    *_FUNCTIONS,
    *[
        "frac",
        "sqrt",
        "cdot",
        "pi",
        "infty",
        "binom",
        "lfloor",
        "rfloor",
        "lceil",
        "rceil",
        "sum",
        "prod",
        "int",
        "lim",
        "to",
        "gcd",
        "min",
        "max",
    ],
}
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_CHARACTERS = re.compile(r"[@0-9A-Za-z+\-*/^_{}()\[\]|!=, .]*")
_MIXED = re.compile(r"(?<![\w.^}\\])(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\overline\{(\d+)\}")
_DECIMAL = re.compile(r"(?<![\d.])(\d*)\.(\d+)(?![\d.])")
_SCIENTIFIC = re.compile(r"(\d+(?:\.\d+)?)[eE]([+-]?\d+)")


class _Reader(_Latex2Sympy):
    """The library's reader, in which adjacent factors are multiplied."""

    def convert_postfix_list(self, arr: list, i: int = 0) -> sympy.Basic:
        first = self.convert_postfix(arr[i])
        if i == len(arr) - 1 or not isinstance(first, sympy.Expr):
            return super().convert_postfix_list(arr, i)
        return self.mul_flat(first, self.convert_postfix_list(arr, i + 1))


@lru_cache(maxsize=4096)
def read_scalar(text: str) -> sympy.Expr:
    """`text` as `clean` leaves it. Variables are real symbols, `i` is the imaginary unit, `e` is Euler's number.

    Raises Unreadable for anything that is not read to its end as one number or one expression.
    """
    latex = _prepared(text)
    _guard(latex)
    config = ConversionConfig(interpret_as_mixed_fractions=False, lowercase_symbols=False)
    try:
        read = _Reader(is_real=True, config=config).parse(latex)
    except (RecursionError, MemoryError):
        raise
    except Exception as error:  # the library raises bare Exception for a syntax error
        raise Unreadable(
            f"`{text}` is no expression ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
        ) from error
    if not isinstance(read, sympy.Expr) or read.has(AppliedUndef, sympy.Float) or read.has(sympy.nan):
        raise Unreadable(f"`{text}` is no expression of numbers and variables")
    value = evaluate(read)
    if not isinstance(value, sympy.Expr) or value.has(sympy.nan, sympy.zoo):
        raise Unreadable(f"`{text}` has no value")
    return evaluate(value.xreplace({sympy.Symbol("i", real=True): sympy.I}))


def _prepared(text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(f"longer than {MAX_CHARACTERS} characters")
    scientific = _SCIENTIFIC.fullmatch(text.lstrip("+-"))
    if scientific:
        sign = "-" if text.startswith("-") else ""
        text = f"{sign}{scientific[1]}\\cdot 10^{{{scientific[2]}}}"
    text = re.sub(r"^([+-]?)(\d+) +(\d+)/(\d+)$", r"\1\2\\frac{\3}{\4}", text)
    text = re.sub(r"(\d+(?:\.\d+)?)\^\\circ", r"(\1\\cdot\\frac{\\pi}{180})", text)
    text = _MIXED.sub(_mixed, text)
    text = _REPEATING.sub(_repeating, text)
    text = _DECIMAL.sub(lambda m: f"\\frac{{{int(m[1] + m[2])}}}{{{10 ** len(m[2])}}}", text)
    return text.replace("^\\circ", "\\cdot\\frac{\\pi}{180}")


def _mixed(found: re.Match) -> str:
    whole, top, bottom = found.groups()
    if int(top) >= int(bottom):
        raise Unreadable(f"`{found[0]}` may be a mixed number or a product")
    return f"({whole}+\\frac{{{top}}}{{{bottom}}})"


def _repeating(found: re.Match) -> str:
    head, fixed, again = found.groups()
    top = int((head or "0") + fixed + again) - int((head or "0") + fixed)
    return f"\\frac{{{top}}}{{{(10 ** len(again) - 1) * 10 ** len(fixed)}}}"


def _guard(latex: str) -> None:
    """Raises Unreadable for what the library would drop or misread."""
    for command in _COMMAND.findall(latex):
        if command not in _COMMANDS:
            raise Unreadable(f"`\\{command}` is not read")
    rest = _COMMAND.sub("@", latex)
    if not _CHARACTERS.fullmatch(rest):
        raise Unreadable(f"`{latex}` holds characters that are not read")
    calls = "\\sum" in latex or "\\prod" in latex or "\\lim" in latex or "\\gcd" in latex or "\\min" in latex or "\\max" in latex
    if not calls and ("=" in rest or "," in rest):
        raise Unreadable(f"`{latex}` is more than one expression")
    if "." in rest or "!!" in rest:
        raise Unreadable(f"`{latex}` holds a misplaced point or a double factorial")
    if re.search(r"[A-Za-z]{4,}", rest) or re.search(r"(?<![A-Za-z])[fghFGHPQ]\s*\(", rest):
        raise Unreadable(f"`{latex}` holds a word or an unknown function")
    if re.search(r"\d\s*_", rest):
        raise Unreadable(f"`{latex}` has a subscript on a number")
    if re.search(r"\d\s+\d", rest):
        raise Unreadable(f"`{latex}` holds two numbers side by side")
    if re.search(r"/\s*\d+\s*(?:[A-Za-z(]|\\(?!cdot|rfloor|rceil|to))", latex):
        raise Unreadable(f"`{latex}` may mean a product below or beside the line")
    for opening, closing in ("{}", "()", "[]"):
        if rest.count(opening) != rest.count(closing):
            raise Unreadable(f"`{latex}` has unbalanced brackets")
