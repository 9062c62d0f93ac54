import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from corollary.nets import (
    conjunction_error,
    nested_step,
    opposing_sum,
    smooth_and,
    smooth_clip,
    smooth_step,
    smooth_xnor,
    smooth_xor,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 300))


@pytest.mark.parametrize("eps", [1.0, 0.3, 0.05])
def test_formulas_against_scipy(eps):
    def s(z):
        return special.expit(z / eps)

    first = s(s(X) + s(Y) - 1.5)
    third = s(s(-X) + s(-Y) - 1.5)
    second, fourth = s(s(-X) + s(Y) - 1.5), s(s(X) + s(-Y) - 1.5)
    np.testing.assert_allclose(smooth_step(X, eps), s(X), rtol=1e-13)
    np.testing.assert_allclose(smooth_clip(X, eps), s(X - 0.5), rtol=1e-13)
    np.testing.assert_allclose(smooth_and(X, Y, eps), first, rtol=1e-11)
    np.testing.assert_allclose(smooth_and(X, Y, eps, 1.2), s(s(X) + s(Y) - 1.2), rtol=1e-11)
    np.testing.assert_allclose(opposing_sum(X, Y, eps), first + third, rtol=1e-11)
    np.testing.assert_allclose(smooth_xnor(X, Y, eps), s(first + third - 0.5), rtol=1e-10)
    np.testing.assert_allclose(smooth_xor(X, Y, eps), s(second + fourth - 0.5), rtol=1e-10)


def test_distance_from_the_step():
    for eps in (0.5, 0.1):
        above = integrate.quad(lambda x, e=eps: 1 - float(smooth_step(x, e)), 0, 40 * eps)[0]
        np.testing.assert_allclose(2 * above, 2 * eps * np.log(2), rtol=1e-8)


def test_nested_steps_sharpen():
    eps = 0.01
    for depth in (1, 2, 3):
        slope = jax.grad(lambda x, d=depth: nested_step(x, eps, d))(0.0)
        np.testing.assert_allclose(slope, 1 / 4**depth / eps**depth, rtol=1e-12)
    np.testing.assert_allclose(nested_step(X, 0.2, 2), smooth_clip(smooth_step(X, 0.2), 0.2))


def test_conjunction_error_is_attained_and_never_exceeded():
    margin, eps = 0.2, 0.05
    ticks = np.concatenate([-np.linspace(margin, 2, 40), np.linspace(margin, 2, 40)])
    x, y = np.meshgrid(ticks, ticks)
    error = np.abs(smooth_and(x, y, eps) - ((x > 0) & (y > 0)))
    np.testing.assert_allclose(error.max(), conjunction_error(margin, eps), rtol=1e-9)
    three = smooth_step(3 * smooth_step(margin, eps) - 2.5, eps)
    np.testing.assert_allclose(1 - three, conjunction_error(margin, eps, 3), rtol=1e-9)
    np.testing.assert_allclose(
        1 - smooth_and(margin, margin, eps, 1.9), conjunction_error(margin, eps, 2, 0.1), rtol=1e-9
    )


def test_far_out_and_dtype():
    np.testing.assert_allclose(smooth_step([-1e6, 1e6], 1e-3), [0.0, 1.0])
    assert jnp.isfinite(jax.grad(smooth_and)(1e5, 1.0, 1e-3))
    assert smooth_xor(np.float32(1), np.float32(-1), np.float32(0.1)).dtype == jnp.float32
    assert jax.jit(jax.vmap(smooth_and, (0, 0, None)))(X, Y, 0.1).shape == X.shape


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: smooth_step(1.0, 0.0), "eps must be positive"),
        (lambda: smooth_step(np.nan, 0.1), "x must be finite"),
        (lambda: smooth_clip("a", 0.1), "z must be an array of numbers"),
        (lambda: smooth_and(1.0, 1.0, 0.1, np.inf), "shift must be finite"),
        (lambda: smooth_xor(1.0, 1j, 0.1), "y must be real"),
        (lambda: opposing_sum(np.nan, 1.0, 0.1), "x must be finite"),
        (lambda: conjunction_error(-1.0, 0.1), "margin must be positive"),
        (lambda: conjunction_error(1.0, 0.1, 0), "conditions must be at least 1"),
        (lambda: conjunction_error(1.0, 0.1, 2, 0.0), "gap must be positive"),
        (lambda: nested_step(1.0, 0.1, 0), "depth must be at least 1"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
