"""Arithmetic of dimensions: numbers, names, and sums of products of names in one canonical spelling.

An unknown result is no fault, a wrong equality is: what has no canonical spelling becomes `"?"`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from gerules.ir import UNKNOWN_DIM, Dim

LARGEST_DIM: Final = 2**63 - 1
"""Shapes are int64 wherever they are written."""

_MOST_TERMS: Final = 8
_MOST_FACTORS: Final = 6
_LONGEST_NAME: Final = 200

_MIN: Final = "min("

_Polynomial = dict[tuple[str, ...], int]
"""Coefficients by sorted product of names; the empty product is the constant."""

_TOKEN: Final = re.compile(r"\s*(?:(\d{1,18})(?!\w)|([^\W\d]\w*)|([*+-]))")


def add_dims(left: Dim, right: Dim) -> Dim:
    """Return the sum.

    >>> add_dims("N", 2), add_dims("N+2", "N")
    ('N+2', '2*N+2')
    """
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if right == 0:
        return left
    if left == 0:
        return right
    return _combined("+", left, right)


def sub_dims(left: Dim, right: Dim) -> Dim:
    """Return the difference; `N - N` is 0."""
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    if right == 0:
        return left
    if left == right and left != UNKNOWN_DIM:
        return 0
    return _combined("-", left, right)


def mul_dims(left: Dim, right: Dim) -> Dim:
    """Return the product."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if right == 1:
        return left
    if left == 1:
        return right
    if left == 0 or right == 0:
        return 0
    return _combined("*", left, right)


def floordiv_dim(dim: Dim, divisor: int) -> Dim:
    """Return `dim // divisor`, rounded down, for a positive divisor."""
    if isinstance(dim, int):
        return dim // divisor
    if divisor == 1:
        return dim
    terms = _parsed(dim)
    if terms is None:
        return UNKNOWN_DIM
    if any(count % divisor for names, count in terms.items() if names):
        return UNKNOWN_DIM
    return _spelled({names: count // divisor for names, count in terms.items()})


def ceildiv_dim(dim: Dim, divisor: int) -> Dim:
    """Return `dim / divisor`, rounded up, for a positive divisor."""
    return floordiv_dim(add_dims(dim, divisor - 1), divisor)


def product(dims: Iterable[Dim]) -> Dim:
    """Return the number of elements of a shape; 0 when any dim is 0."""
    total: Dim = 1
    is_zero = False
    for dim in dims:
        is_zero = is_zero or dim == 0
        total = mul_dims(total, dim)
    return 0 if is_zero else total


def quotient(dims: Sequence[Dim], divisors: Sequence[Dim]) -> Dim | None:
    """Return the product of `dims` over the product of `divisors`; None when it is no whole number.

    Equal names cancel first, so that `[N, S, 12]` over `[S, N]` is 12 whatever N and S are.
    """
    left, right = Counter(dims), Counter(divisors)
    common = left & right
    del common[UNKNOWN_DIM]
    above = product((left - common).elements())
    below = product((right - common).elements())
    if isinstance(above, int) and isinstance(below, int):
        if below == 0:
            return UNKNOWN_DIM
        return above // below if above % below == 0 else None
    if isinstance(below, int):
        # A whole number by what the model promises; only an exact division can be spelled.
        return _divided(above, below, ())
    terms = _parsed(below)
    if terms is None or len(terms) != 1:
        return UNKNOWN_DIM
    ((names, count),) = terms.items()
    return _divided(above, count, names)


def broadcast_dims(left: Dim, right: Dim) -> Dim | None:
    """Return the dim two broadcast dims make, or None when they cannot.

    A name may turn out to be 1, so two unlike names make an unknown dim; a number other than 1 wins
    over a name. `N` and `min(N,128)` make N: were they not the same, the smaller would be 1, and N too.
    """
    if left == right:
        return left
    if left == 1:
        return right
    if right == 1:
        return left
    if isinstance(left, int):
        return left if isinstance(right, str) else None
    if isinstance(right, int):
        return right
    if left.startswith(_MIN) and left.startswith(f"{_MIN}{right},"):
        return right
    return left if right.startswith(f"{_MIN}{left},") else UNKNOWN_DIM


def at_most(dim: Dim, limit: int) -> Dim:
    """Return the smaller of a size and a number: `min(N,128)`, or unknown where that has no spelling.

    >>> at_most(3, 2), at_most("N", 128), at_most("N+1", 128)
    (2, 'min(N,128)', '?')
    """
    if isinstance(dim, int):
        return min(dim, limit)
    return f"{_MIN}{dim},{limit})" if dim.isidentifier() and limit > 1 else UNKNOWN_DIM


def broadcast_shapes(left: tuple[Dim, ...], right: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """Return the shape two shapes broadcast to, as numpy does, or None when they cannot."""
    if left == right:
        return left
    n_lead = len(left) - len(right)
    if n_lead < 0:
        left, right, n_lead = right, left, -n_lead
    out = list(left[:n_lead])
    for one, two in zip(left[n_lead:], right, strict=True):
        if one == two or two == 1:
            out.append(one)
            continue
        dim = broadcast_dims(one, two)
        if dim is None:
            return None
        out.append(dim)
    return tuple(out)


def _divided(above: Dim, count: int, names: tuple[str, ...]) -> Dim:
    terms = _parsed(above)
    if terms is None or count == 0:
        return UNKNOWN_DIM
    out: _Polynomial = {}
    need = Counter(names)
    for factors, many in terms.items():
        have = Counter(factors)
        if many % count or need - have:
            return UNKNOWN_DIM
        out[tuple(sorted((have - need).elements()))] = many // count
    return _spelled(out)


@lru_cache(maxsize=4096)
def _combined(sign: str, left: Dim, right: Dim) -> Dim:
    first, second = _parsed(left), _parsed(right)
    if first is None or second is None:
        return UNKNOWN_DIM
    out: _Polynomial = {}
    if sign == "*":
        if len(first) * len(second) > _MOST_TERMS * 2:
            return UNKNOWN_DIM
        for one, many in first.items():
            for two, more in second.items():
                names = tuple(sorted(one + two))
                out[names] = out.get(names, 0) + many * more
        return _spelled(out)
    out.update(first)
    for names, many in second.items():
        out[names] = out.get(names, 0) + (many if sign == "+" else -many)
    return _spelled(out)


@lru_cache(maxsize=4096)
def _parsed(dim: Dim) -> _Polynomial | None:
    """Read a dim as a polynomial, or None when it is unknown or a name that is no sum of products."""
    if isinstance(dim, int):
        return {(): dim}
    if len(dim) > _LONGEST_NAME:
        return None
    out: _Polynomial = {}
    sign, count, names, wants_factor, place = 1, 1, list[str](), True, 0
    while place < len(dim):
        match = _TOKEN.match(dim, place)
        if match is None:
            return None
        place = match.end()
        number, name, mark = match.groups()
        if wants_factor == (mark is not None):
            return None
        wants_factor = mark is not None
        if number is not None:
            count *= int(number)
        elif name is not None:
            names.append(name)
            # `seq-len` may be one opaque name; only numbers are subtracted.
            if sign < 0:
                return None
        elif mark != "*":
            _count(out, names, sign * count)
            sign, count, names = (1 if mark == "+" else -1), 1, []
    if wants_factor:
        return None
    _count(out, names, sign * count)
    return out


def _count(terms: _Polynomial, names: list[str], count: int) -> None:
    key = tuple(sorted(names))
    terms[key] = terms.get(key, 0) + count


def _spelled(terms: _Polynomial) -> Dim:
    """Spell a polynomial canonically: long products first, then by name, the constant last."""
    constant = terms.get((), 0)
    named = sorted(
        ((names, count) for names, count in terms.items() if names and count),
        key=lambda term: (-len(term[0]), term[0]),
    )
    if not named:
        return constant
    if len(named) > _MOST_TERMS or any(count < 0 or len(names) > _MOST_FACTORS for names, count in named):
        return UNKNOWN_DIM
    text = "+".join("*".join(([str(count)] if count != 1 else []) + list(names)) for names, count in named)
    if constant:
        text += f"{constant:+d}"
    return text if len(text) <= _LONGEST_NAME else UNKNOWN_DIM
