"""Exact laws of sums against repeated convolution, SciPy and enumeration."""

import itertools
from functools import reduce

import jax
import numpy as np
import pytest
from scipy import stats

from corollary.foundations import poisson_binomial, signed_sums, upper_tail


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_poisson_binomial_is_a_convolution():
    p = np.random.default_rng(0).uniform(size=30)
    expected = reduce(np.convolve, [np.array([1 - q, q]) for q in p])
    np.testing.assert_allclose(poisson_binomial(p), expected, rtol=1e-12)


def test_smallest_tails_are_relatively_accurate():
    tail = upper_tail(poisson_binomial(np.full(200, 0.01)))
    np.testing.assert_allclose(tail[:60], stats.binom.sf(np.arange(60) - 1, 200, 0.01), rtol=1e-11)
    assert tail[0] == pytest.approx(1.0)


def test_signed_sums_are_all_of_them():
    w = np.array([0.3, 1.0, 2.5, -0.7, 4.0])
    expected = sorted(
        sum(s * v for s, v in zip(signs, w, strict=True)) for signs in itertools.product((-1, 1), repeat=5)
    )
    np.testing.assert_allclose(np.sort(signed_sums(w)), expected, atol=1e-14)
    np.testing.assert_allclose(np.sort(signed_sums([2.0])), [-2, 2])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: poisson_binomial([0.5, 1.5]), r"p must be in \[0, 1\], got 1.5 at index 1"),
        (lambda: upper_tail([-1.0]), "law must be zero or more"),
        (lambda: signed_sums(np.ones(25)), "weights must hold at most 24 numbers, got 25"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
