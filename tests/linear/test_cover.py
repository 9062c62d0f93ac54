"""Cover's count against enumeration: by linear programming, by angles in the plane, by exact fractions."""

from fractions import Fraction
from math import log2

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from corollary.linear import (
    count_dichotomies,
    cover_capacity,
    cover_count,
    cover_crossing,
    cover_fraction,
    cover_table,
    in_general_position,
    labelings,
    log2_cover_count,
    realisable,
)


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def test_numbers_of_the_catalog():
    assert [cover_count(*sn) for sn in [(5, 2), (6, 3), (8, 3), (8, 4)]] == [10, 32, 58, 128]
    assert [cover_count(s, 9) for s in range(1, 10)] == [2**s for s in range(1, 10)]


def test_recursion_and_sum_agree():
    table = cover_table(40, 30)
    assert all(table[s - 1][n] == cover_count(s, n) for s in range(1, 41) for n in range(31))


def test_fraction_against_exact_and_against_a_coin():
    s, n = np.meshgrid(np.arange(1, 120), np.arange(1, 60))
    exact = [
        float(Fraction(cover_count(a, b), 2**a)) for a, b in zip(s.ravel().tolist(), n.ravel().tolist(), strict=True)
    ]
    np.testing.assert_allclose(cover_fraction(s, n).ravel(), exact, rtol=1e-11)
    np.testing.assert_allclose(cover_fraction(s, n), binom.cdf(n - 1, s - 1, 0.5), rtol=1e-11)


@pytest.mark.parametrize("n", [1, 7, 40])
def test_logarithm(n):
    s = np.array([1, 2, n, n + 1, 5 * n, 1000])
    np.testing.assert_allclose(log2_cover_count(s, n), [log2(cover_count(int(v), n)) for v in s], rtol=1e-12)
    assert np.isfinite(float(log2_cover_count(1e9, n)))


def test_capacity_and_crossing():
    assert cover_capacity(7) == 14
    sizes = np.arange(2, 40)
    np.testing.assert_allclose(cover_crossing(sizes, cover_fraction(sizes, 7)), 14, atol=1e-9)
    np.testing.assert_allclose(cover_crossing([1.0, 2.0, 4.0], [1.0, 0.75, 0.25]), 3.0)
    assert np.isnan(float(jax.jit(cover_crossing)(jnp.arange(2.0), jnp.ones(2))))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: cover_count(0, 1), "s must be at least 1, got 0."),
        (lambda: cover_count(3, -1), "n must be at least 0, got -1."),
        (lambda: cover_table(3, 1.0), "n must be an integer, got 1.0."),
        (lambda: cover_fraction(0.0, 1), "s must be at least 1, got 0.0."),
        (lambda: log2_cover_count(3.0, 0), "n must be at least 1, got 0."),
        (lambda: cover_capacity(0), "n must be at least 1, got 0."),
        (
            lambda: cover_crossing([1.0, 2.0], [1.0, 0.6]),
            "fractions must fall from one half or more to less than one half.",
        ),
        (lambda: cover_crossing([2.0, 1.0], [1.0, 0.2]), "sizes must be increasing."),
        (lambda: realisable(np.ones((21, 2))), "x must hold at most 20 points, since all 2^s labellings are tried"),
        (lambda: labelings(21), "s must be from 1 to 20, got 21."),
        (lambda: in_general_position(np.ones((60, 30))), "x has too many subsets to look at"),
        (lambda: count_dichotomies([[np.inf]]), "x must be finite, got inf at index (0, 0)."),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(sentence)
