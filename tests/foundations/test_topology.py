from fractions import Fraction
from math import inf

import jax
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from corollary.foundations import Interval, IntervalSet, finite_subcover, rational_between, simplest_between

flags = st.booleans()
ends = st.integers(-5, 5)
parts = st.tuples(ends, ends, flags, flags).map(lambda p: Interval(min(p[:2]), max(p[:2]), p[2], p[3]))
sets = st.lists(parts, max_size=4).map(lambda ps: IntervalSet(tuple(ps)))
HALVES = [Fraction(k, 2) for k in range(-12, 13)]


def near(s, x):
    """Membership of x and of points just beside it: on integer ends a third is as good as any small number."""
    third = Fraction(1, 3)
    return x - third in s, x in s, x + third in s


@given(st.lists(parts, max_size=4))
def test_normal_form_is_the_union(pieces):
    union = IntervalSet(tuple(pieces))
    for x in HALVES:
        assert (x in union) == any(x in IntervalSet((p,)) for p in pieces)


@given(sets)
def test_topology_pointwise(s):
    for x in HALVES:
        left, here, right = near(s, x)
        assert (x in s.complement) == (not here)
        assert (x in s.limit_points) == (left or right)
        assert (x in s.closure) == (left or here or right)
        assert (x in s.interior) == (left and here and right)
    assert s.is_open == (s.interior == s)
    assert s.is_closed == (s.closure == s)
    assert s.complement.complement == s


def test_named_sets():
    s = IntervalSet.open(0, 1) | IntervalSet.open(1, 2)
    assert s.closure == IntervalSet.closed(0, 2)
    assert s.is_dense_in(IntervalSet.closed(0, 2))
    assert not s.is_dense_in(IntervalSet.closed(0, 3))
    assert IntervalSet.closed(0, 1).is_compact
    assert not IntervalSet.open(0, 1).is_compact
    assert not IntervalSet.closed(0, inf).is_compact
    assert IntervalSet.closed(0, inf).is_closed
    assert IntervalSet.closed(-inf, inf).is_open
    assert IntervalSet().is_open
    assert IntervalSet().is_closed
    with pytest.raises(ValueError, match="from a low end to a high one"):
        IntervalSet.open(1, 0)


def test_finite_subcover():
    lefts, rights = np.array([-0.1, 0.0, 0.3, 0.6, -0.5]), np.array([0.4, 0.2, 0.7, 1.1, 0.1])
    found = jax.jit(finite_subcover)(0.0, 1.0, lefts, rights)
    assert found.covers
    assert found.chosen.tolist() == [True, False, True, True, False]
    gap = finite_subcover(0.0, 1.0, lefts[:3], rights[:3])
    assert not gap.covers
    assert gap.reached == pytest.approx(0.7)
    with pytest.raises(ValueError, match="rights must have shape"):
        finite_subcover(0.0, 1.0, lefts, rights[:2])


@given(st.fractions(-10, 10, max_denominator=300), st.fractions(-10, 10, max_denominator=300))
def test_rationals_between(a, b):
    assume(a < b)
    found, simple = rational_between(a, b), simplest_between(a, b)
    assert a < found < b
    assert a < simple < b
    q = 1
    while not a < Fraction(int(a * q // 1) + 1, q) < b:  # the first denominator that fits, by trial
        q += 1
    assert simple.denominator == q
    assert found.denominator <= 1 / (b - a) + 1


def test_rationals_refuse():
    with pytest.raises(ValueError, match="a must be below b"):
        rational_between(1, 1)
    with pytest.raises(ValueError, match="a and b must be finite"):
        simplest_between(0, inf)
