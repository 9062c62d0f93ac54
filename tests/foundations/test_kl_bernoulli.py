"""The relative entropy of coins and its inverse against eighty digits of mpmath."""

import jax
import mpmath
import numpy as np
import pytest

from corollary.foundations import kl_bernoulli, kl_inverse

EXACT = mpmath.MPContext()
EXACT.dps = 80
NUMBERS = np.array([0.0, 1e-30, 1e-12, 1e-5, 0.3, 0.5, 0.7, 1 - 1e-5, 1 - 1e-12, 1.0])


def reference(q, p):
    q, p = EXACT.mpf(q), EXACT.mpf(p)
    first = q * EXACT.log(q / p) if q > 0 else 0
    return first + ((1 - q) * EXACT.log((1 - q) / (1 - p)) if q < 1 else 0)


def inverse(q, c, upper):
    """By halving: between 0 and q, or q and 1, on a logarithmic scale while the ends are far apart."""
    q, c = EXACT.mpf(q), EXACT.mpf(c)
    inside, outside = q, EXACT.mpf(1) if upper else EXACT.mpf(10) ** -400
    for _ in range(340):
        far = min(inside, outside) > 0 and max(inside, outside) > 2 * min(inside, outside)
        middle = EXACT.sqrt(inside * outside) if far else (inside + outside) / 2
        if middle < 1 and reference(q, middle) <= c:
            inside = middle
        else:
            outside = middle
    return inside


def test_relative_entropy_to_fourteen_digits_however_near():
    pairs = [
        (q, p)
        for q in NUMBERS
        for e in (1e-15, 1e-9, 1e-5, 1e-2, 0.1, 0.5, -1e-12, -1e-6, -0.03, -0.3, -0.9)
        if 0 < (p := q * (1 + e) if q < 0.5 else 1 - (1 - q) * (1 + e)) < 1
    ]
    measured = np.asarray(kl_bernoulli(*np.array(pairs).T))
    exact = np.array([float(reference(*pair)) for pair in pairs])
    np.testing.assert_allclose(measured, exact, rtol=1e-14, atol=0)


def test_ends():
    assert kl_bernoulli(0.0, 0.0) == kl_bernoulli(1.0, 1.0) == 0
    assert np.isinf(kl_bernoulli(0.5, np.array([0.0, 1.0]))).all()
    np.testing.assert_allclose(kl_bernoulli(0.0, 1e-9), -np.log1p(-1e-9), rtol=1e-15)
    assert kl_inverse(0.3, 0.0) == kl_inverse(0.3, 0.0, side="lower") == 0.3
    assert kl_inverse(1.0, 0.5) == kl_inverse(0.3, np.inf) == 1
    assert kl_inverse(0.0, 0.5, side="lower") == kl_inverse(0.3, np.inf, side="lower") == 0
    np.testing.assert_allclose(kl_inverse(0.0, [1e-9, 0.1, 5.0]), -np.expm1([-1e-9, -0.1, -5.0]), rtol=1e-15)
    assert kl_inverse(0.3, 1e-40) == 0.3


@pytest.mark.parametrize("upper", [True, False])
def test_inverse_to_fourteen_digits(upper):
    pairs = [
        (q, c) for q in NUMBERS[2:-1] for c in (1e-18, 1e-10, 1e-6, 1e-3, 0.05, 0.7, 3.0, 20.0) if upper or c < 20 * q
    ]
    measured = np.asarray(kl_inverse(*np.array(pairs).T, side="upper" if upper else "lower"))
    exact = np.array([float(inverse(*pair, upper)) for pair in pairs])
    np.testing.assert_allclose(measured, exact, rtol=1e-14, atol=0)


def test_single_precision():
    q, c = np.float32(0.028), np.float32(0.094)
    value = kl_inverse(q, c)
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, float(inverse(float(q), float(c), True)), rtol=5e-7)


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize(("q", "c"), [(0.1, 0.05), (0.4, 0.3), (0.9, 1e-4), (0.02, 0.01)])
def test_derivatives_by_differences(q, c, side):
    h = 1e-6

    def f(q, c):
        return kl_inverse(q, c, side=side)

    slopes = jax.jit(jax.grad(f, (0, 1)))(q, c)
    differences = [
        (f(q * (1 + h), c) - f(q * (1 - h), c)) / (2 * h * q),
        (f(q, c + h * c) - f(q, c - h * c)) / (2 * h * c),
    ]
    np.testing.assert_allclose(slopes, differences, rtol=1e-7)
    slope = jax.jit(jax.grad(f, 1))
    second = (slope(q, c * (1 + h)) - slope(q, c * (1 - h))) / (2 * h * c)
    np.testing.assert_allclose(jax.jit(jax.grad(jax.grad(f, 1), 1))(q, c), second, rtol=1e-6)
    p = 0.3
    forward = jax.jit(jax.grad(kl_bernoulli, (0, 1)))(q, p)
    np.testing.assert_allclose(forward[0], np.log(q * (1 - p) / p / (1 - q)), rtol=1e-12)
    np.testing.assert_allclose(forward[1], (p - q) / (p * (1 - p)), rtol=1e-12)


def test_derivatives_at_the_ends():
    np.testing.assert_allclose(jax.grad(lambda c: kl_inverse(0.0, c))(0.1), np.exp(-0.1), rtol=1e-14)
    np.testing.assert_allclose(jax.grad(lambda p: kl_bernoulli(0.0, p))(0.1), 1 / 0.9, rtol=1e-14)
    assert np.isinf(jax.grad(lambda c: kl_inverse(0.3, c))(0.0))
    assert jax.grad(lambda q: kl_inverse(q, 0.0))(0.3) == 1
    assert jax.vmap(lambda c: kl_inverse(0.2, c))(np.array([0.1, 0.2])).shape == (2,)


def test_sentences():
    with pytest.raises(ValueError, match=r"q must be in \[0, 1\], got 1.5"):
        kl_inverse(1.5, 0.1)
    with pytest.raises(ValueError, match="c must be zero or more, got -0.1"):
        kl_inverse(0.5, -0.1)
    with pytest.raises(ValueError, match="side must be one of 'upper', 'lower', got 'left'"):
        kl_inverse(0.5, 0.1, side="left")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inverse_never_turns_back(dtype):
    q, c = np.meshgrid(np.array([0.0, 1e-6, 0.03, 0.5, 0.9, 0.999], dtype), np.geomspace(1e-3, 1e5, 400).astype(dtype))
    for side, sign in (("upper", 1), ("lower", -1)):
        found = np.asarray(kl_inverse(q, c, side=side))
        assert (sign * np.diff(found, axis=0) >= -4 * np.finfo(dtype).eps).all()
        assert (found[-1, 1:] == (side == "upper")).all()
