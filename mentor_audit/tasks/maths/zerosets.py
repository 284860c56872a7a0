"""Equations and inequalities in several variables as sets of points: lines, curves, half planes."""

import sympy

from mentor_audit.tasks.maths.exact import differs, equal, is_zero

_SAMPLES = [sympy.Rational(p, q) for p, q in ((1, 2), (-3, 5), (7, 3), (2, 1), (-11, 4), (9, 5))]


def same_zeros(a: sympy.Expr, b: sympy.Expr) -> bool | None:
    """Do a = 0 and b = 0 hold at the same real points? None: not shown either way."""
    if a.free_symbols != b.free_symbols:
        return None if _is_constant(a) or _is_constant(b) else False
    if _is_constant(a) or _is_constant(b):
        return equal(a, b)
    ratio = sympy.simplify(a / b)
    if not ratio.free_symbols:
        return is_zero(ratio) is False
    symbols = sorted(a.free_symbols, key=lambda s: s.name)
    parts = [sympy.fraction(sympy.together(e))[0] for e in (a, b)]
    if not all(p.is_polynomial(*symbols) for p in parts):
        return None
    p, q = (sympy.Poly(sympy.sqf_part(x, *symbols), *symbols) for x in parts)
    if p.monic() == q.monic():
        return True
    if len(symbols) == 1:
        real = [sympy.real_roots(x) for x in (p, q)]
        return len(real[0]) == len(real[1]) and all(equal(x, y) is True for x, y in zip(*real, strict=True))
    return False if _point_of_one_only(p, q, symbols) or _point_of_one_only(q, p, symbols) else None


def same_side(a: sympy.Expr, b: sympy.Expr, same_strictness: bool) -> bool | None:
    """Do a > 0 and b > 0 (or >=) hold at the same points? Shown only for a positive constant between them."""
    ratio = sympy.simplify(a / b)
    if ratio.free_symbols:
        symbols = a.free_symbols | b.free_symbols
        return False if all(e.is_polynomial(*symbols) and sympy.total_degree(e, *symbols) <= 1 for e in (a, b)) else None
    return bool(ratio > 0) and same_strictness


def _is_constant(e: sympy.Expr) -> bool:
    return not e.free_symbols


def _point_of_one_only(p: sympy.Poly, q: sympy.Poly, symbols: list[sympy.Symbol]) -> bool:
    """A real point on p = 0 that is certainly not on q = 0."""
    *given, last = symbols
    for shift in range(len(_SAMPLES)):
        point = {s: _SAMPLES[(shift + i) % len(_SAMPLES)] for i, s in enumerate(given)}
        restricted = p.as_expr().subs(point)
        if not restricted.has(last) or not restricted.is_polynomial(last):
            continue
        for root in sympy.Poly(restricted, last).nroots(n=30, maxsteps=200):
            if abs(sympy.im(root)) < 1e-20 and differs(
                sympy.nsimplify(q.as_expr().subs({**point, last: sympy.re(root)}), rational=True)
            ):
                value = abs(q.as_expr().subs({**point, last: sympy.re(root)}))
                if value > sympy.Float("1e-12", 30):
                    return True
    return False
