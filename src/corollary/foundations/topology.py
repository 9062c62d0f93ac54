"""Open, closed, compact: exact on finite unions of intervals; finite subcovers; rationals between any two numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf, isfinite, isnan
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import real
from corollary.catalog import implements


class Interval(NamedTuple):
    """One interval; a flag says whether the end belongs to it. A point has equal ends, both included."""

    low: float
    high: float
    with_low: bool
    with_high: bool


@implements("B01.30")
@dataclass(frozen=True)
class IntervalSet:
    """A finite union of intervals of the line, in the one form in which they are apart and in order.

    Build it with `open`, `closed`, `point` and `|`. Ends are compared exactly, so fractions work as well as floats.
    """

    parts: tuple[Interval, ...] = ()

    def __post_init__(self):
        checked = [_interval(*part) for part in self.parts]
        object.__setattr__(self, "parts", _joined([p for p in checked if p is not None]))

    @classmethod
    def open(cls, low: float, high: float) -> "IntervalSet":
        return cls((Interval(low, high, False, False),))

    @classmethod
    def closed(cls, low: float, high: float) -> "IntervalSet":
        return cls((Interval(low, high, True, True),))

    @classmethod
    def point(cls, x: float) -> "IntervalSet":
        return cls.closed(x, x)

    def __or__(self, other: "IntervalSet") -> "IntervalSet":
        return IntervalSet(self.parts + other.parts)

    def __contains__(self, x) -> bool:
        return any(
            p.low < x < p.high or (x == p.low and p.with_low) or (x == p.high and p.with_high) for p in self.parts
        )

    @property
    def complement(self) -> "IntervalSet":
        """All other numbers."""
        gaps, start, with_start = [], -inf, False
        for p in self.parts:
            gaps.append(Interval(start, p.low, with_start, not p.with_low))
            start, with_start = p.high, not p.with_high
        return IntervalSet((*gaps, Interval(start, inf, with_start, False)))

    @property
    def limit_points(self) -> "IntervalSet":
        """The points of which every neighbourhood holds another point of the set: no isolated points."""
        return IntervalSet(tuple(Interval(p.low, p.high, True, True) for p in self.parts if p.low < p.high))

    @property
    def closure(self) -> "IntervalSet":
        """The set and its limit points."""
        return self | self.limit_points

    @property
    def interior(self) -> "IntervalSet":
        """The points with a whole neighbourhood inside."""
        return self.complement.closure.complement

    @property
    def is_open(self) -> bool:
        """Whether every point has a neighbourhood inside."""
        return all((not p.with_low or p.low == -inf) and (not p.with_high or p.high == inf) for p in self.parts)

    @property
    def is_closed(self) -> bool:
        """Whether the complement is open."""
        return self.complement.is_open

    @property
    def is_bounded(self) -> bool:
        return all(isfinite(p.low) and isfinite(p.high) for p in self.parts)

    @property
    def is_compact(self) -> bool:
        """Closed and bounded (Heine and Borel)."""
        return self.is_closed and self.is_bounded

    def is_dense_in(self, other: "IntervalSet") -> bool:
        """Whether the closure holds all of `other`."""
        return (self.closure | other) == self.closure


class Subcover(NamedTuple):
    """Which intervals of a cover were chosen, whether they cover, and if not, the first point they leave out."""

    chosen: jax.Array
    covers: jax.Array
    reached: jax.Array

    __repr__ = shown


@implements("B01.30")
def finite_subcover(low: Scalar, high: Scalar, lefts: Float[ArrayLike, "n"], rights: Float[ArrayLike, "n"]) -> Subcover:
    r"""As few of the open intervals $(l_i,r_i)$ as cover $[a,b]$: always the one that reaches farthest."""
    dims = {}
    low, high = real("low", low, ""), real("high", high, "")
    lefts, rights = real("lefts", lefts, "n", dims), real("rights", rights, "n", dims)

    def extend(state):
        point, chosen, _ = state
        reach = jnp.where((lefts < point) & (point < rights), rights, -jnp.inf)
        best = jnp.argmax(reach)
        found = reach[best] > point
        return jnp.where(found, reach[best], point), chosen.at[best].set(chosen[best] | found), ~found

    start = low.astype(jnp.result_type(low, rights)), jnp.zeros(lefts.shape, bool), jnp.zeros((), bool)
    point, chosen, _ = jax.lax.while_loop(lambda s: (s[0] <= high) & ~s[2], extend, start)
    return Subcover(chosen, point > high, point)


@implements("B01.31")
def rational_between(a: Fraction, b: Fraction) -> Fraction:
    r"""A rational strictly between $a<b$: $p/q$ with $q=\lfloor1/(b-a)\rfloor+1$ and $p=\lfloor qa\rfloor+1$. Exact."""
    a, b = _ends(a, b)
    q = floor(1 / (b - a)) + 1
    return Fraction(floor(q * a) + 1, q)


@implements("B01.31")
def simplest_between(a: Fraction, b: Fraction) -> Fraction:
    r"""The rational strictly between $a<b$ with the smallest denominator, along the continued fraction of the two."""
    a, b = _ends(a, b)
    steps = []
    while True:  # the denominators fall as in Euclid's algorithm
        whole = floor(a)
        if whole + 1 < b:
            break
        steps.append(whole)
        a, b = a - whole, b - whole
        if a == 0:  # between 0 and b: the least n with 1/n < b
            a, b = Fraction(floor(1 / b)), Fraction(floor(1 / b) + 2)
            whole = floor(a)
            break
        a, b = 1 / b, 1 / a
    found = Fraction(whole + 1)
    for term in reversed(steps):
        found = term + 1 / found
    return found


def _ends(a, b) -> tuple[Fraction, Fraction]:
    try:
        a, b = Fraction(a), Fraction(b)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"a and b must be finite numbers, got {a!r} and {b!r}.") from None
    if not a < b:
        raise ValueError(f"a must be below b, got {a} and {b}.")
    return a, b


def _interval(low, high, with_low, with_high) -> Interval | None:
    """The interval with infinite ends left out; None if it is empty."""
    if isnan(low) or isnan(high) or low > high:
        raise ValueError(f"An interval must run from a low end to a high one, got {low} and {high}.")
    with_low, with_high = bool(with_low) and low != -inf, bool(with_high) and high != inf
    return None if low == high and not (with_low and with_high) else Interval(low, high, with_low, with_high)


def _joined(parts) -> tuple[Interval, ...]:
    """The same set as intervals that neither meet nor touch."""
    out: list[Interval] = []
    for p in sorted(parts, key=lambda p: (p.low, not p.with_low)):
        if out and (p.low < out[-1].high or (p.low == out[-1].high and (p.with_low or out[-1].with_high))):
            last = out[-1]
            high, with_high = max((last.high, last.with_high), (p.high, p.with_high))
            out[-1] = Interval(last.low, high, last.with_low, with_high)
        else:
            out.append(p)
    return tuple(out)
