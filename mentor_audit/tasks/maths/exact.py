"""Exact equality of two sympy expressions: True, False, or None when neither can be shown. No float decides that two are equal.

Constants: rationals are compared as rationals. Others differ when interval-checked digits say so; they are equal when algebra
says so. Expressions with variables: equal where both are defined over the reals. They differ when they differ at one sampled
point.
"""

import itertools
from functools import lru_cache

import sympy
from sympy.core.evalf import PrecisionExhausted

MAX_BITS = 2_000_000  # a power or factorial with more digits than that is not evaluated
_HUGE = "huge"
_VALUES = [sympy.Rational(p, q) for p, q in ((7, 3), (11, 5), (13, 4), (-5, 7), (1, 3), (-17, 6), (19, 8), (2, 9))]
_WHOLE = [sympy.Integer(n) for n in (3, 4, 7, 5, 2, 6, 9, 8)]


def evaluate(expr: sympy.Basic) -> sympy.Basic:
    """The expression with arithmetic carried out. A number of more than `MAX_BITS` becomes an opaque positive symbol."""
    if isinstance(expr, sympy.UnevaluatedExpr):
        return evaluate(expr.args[0])
    if not expr.args:
        return expr
    args = [evaluate(a) for a in expr.args]
    if isinstance(expr, sympy.Pow) and _bits_of_power(*args) > MAX_BITS:
        return _opaque("pow", tuple(args))
    if isinstance(expr, sympy.Pow) and args[0].is_negative and args[1].is_Rational and args[1].q % 2 == 1 and args[1].q > 1:
        return (-1) ** (args[1].p % 2) * (-args[0]) ** args[1]  # the real root
    if isinstance(expr, (sympy.factorial, sympy.binomial)) and args[0].is_Integer and abs(args[0]) > 100_000:
        return _opaque(type(expr).__name__, tuple(args))
    built = expr.func(*args)
    return built.doit() if isinstance(built, (sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.Derivative)) else built


def is_huge(expr: sympy.Basic) -> bool:
    """Does it hold a number that was too large to evaluate?"""
    return any(isinstance(s, sympy.Dummy) and s.name == _HUGE for s in expr.free_symbols)


def equal(a: sympy.Expr, b: sympy.Expr) -> bool | None:
    """The same with the arguments swapped."""
    if a == b:
        return True
    a, b = sorted((a, b), key=sympy.default_sort_key)
    if not a.is_finite and (a.has(sympy.oo, sympy.zoo, sympy.nan) or b.has(sympy.oo, sympy.zoo, sympy.nan)):
        return False if not (a.has(sympy.nan, sympy.zoo) or b.has(sympy.nan, sympy.zoo)) else None
    if b.has(sympy.oo, sympy.zoo, sympy.nan):
        return None if b.has(sympy.nan, sympy.zoo) else False
    difference = a - b
    if not difference.free_symbols:
        return is_zero(difference)
    if is_huge(difference):
        return True if sympy.expand(difference) == 0 else None
    return _same_function(a, b, difference)


def is_zero(constant: sympy.Expr) -> bool | None:
    """Of an expression without variables."""
    if constant.is_Rational:
        return bool(constant == 0)
    if differs(constant):
        return False
    if sympy.expand(constant) == 0 or sympy.simplify(constant) == 0 or sympy.expand(constant.rewrite(sympy.exp)) == 0:
        return True
    if constant.is_algebraic:
        x = sympy.Dummy("x")
        return bool(sympy.minimal_polynomial(constant, x) == x)
    return None


def differs(constant: sympy.Expr) -> bool:
    """Certainly not zero: its leading digits are known. False says nothing."""
    if constant.is_Rational:
        return bool(constant != 0)
    try:
        value = constant.evalf(20, maxn=4000, strict=True)
    except PrecisionExhausted:
        return False
    return bool(value.is_number and value.is_comparable is not None and value != 0 and not value.has(sympy.nan, sympy.zoo))


def _same_function(a: sympy.Expr, b: sympy.Expr, difference: sympy.Expr) -> bool | None:
    symbols = sorted(difference.free_symbols, key=lambda s: s.name)
    if difference.is_rational_function(*symbols):
        numerator = sympy.fraction(sympy.together(difference))[0]
        zeros = [is_zero(c) for c in sympy.Poly(numerator, *symbols).coeffs()]
        return False if False in zeros else None if None in zeros else True
    whole = _needs_integers(difference)
    values = _WHOLE if whole else _VALUES
    seen_negative: set[sympy.Symbol] = set()
    for shift in range(len(values)):
        point = dict(zip(symbols, itertools.islice(itertools.cycle(values), shift, None), strict=False))
        if not (_defined(a, point) and _defined(b, point)):
            continue
        seen_negative |= {s for s, v in point.items() if v <= 0}
        if differs(difference.subs(point)):
            return False
    narrowed = difference.subs(
        {s: sympy.Dummy(s.name, real=True, integer=whole or None, positive=None if s in seen_negative else True) for s in symbols}
    )
    return True if any(sympy.simplify(proof(narrowed)) == 0 for proof in (sympy.expand, sympy.expand_log)) else None


def _defined(expr: sympy.Expr, point: dict) -> bool:
    """Every even root, real power and logarithm in it has a real value at the point."""
    for part in sympy.preorder_traversal(expr):
        if isinstance(part, sympy.log):
            base = part.args[0]
        elif isinstance(part, sympy.Pow) and not part.exp.is_integer and part.base.free_symbols:
            base = part.base
        else:
            continue
        value = base.subs(point).evalf(15)
        if not (value.is_real and value > 0):
            return False
    return not expr.subs(point).has(sympy.zoo, sympy.nan, sympy.oo)


def _needs_integers(expr: sympy.Expr) -> bool:
    """Written for whole numbers: factorials, floors, sums, a negative number to a variable's power."""
    if expr.has(sympy.factorial, sympy.binomial, sympy.floor, sympy.ceiling, sympy.Mod, sympy.Sum, sympy.Product):
        return True
    return any(p.base.is_negative and p.exp.free_symbols for p in expr.atoms(sympy.Pow))


def _bits_of_power(base: sympy.Expr, exponent: sympy.Expr) -> float:
    if not (base.is_Rational and exponent.is_Rational) or base in (0, 1, -1):
        return 0
    bits = max(abs(base.p).bit_length(), base.q.bit_length())
    return float("inf") if abs(exponent.p) > 10**9 * exponent.q else bits * abs(exponent.p) / exponent.q


@lru_cache(maxsize=256)
def _opaque(name: str, args: tuple) -> sympy.Symbol:
    """One symbol for the same number, however often it is met."""
    return sympy.Dummy(_HUGE, positive=True)
