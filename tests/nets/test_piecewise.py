import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from corollary.nets import parameter_count, piecewise_linear, relu_network, smooth_maximum

RNG = np.random.default_rng(0)


def test_smooth_maximum_against_scipy():
    x = RNG.normal(size=(20, 7)) * 5
    for beta in (3.0, 0.1, 0.01):
        np.testing.assert_allclose(smooth_maximum(x, beta), beta * special.logsumexp(x / beta, axis=1), rtol=1e-12)
    np.testing.assert_allclose(smooth_maximum(np.array([1e5, 1e5]), 1e-3), 1e5 + 1e-3 * np.log(2), rtol=1e-15)
    gradient = jax.grad(lambda v: smooth_maximum(v, 0.3))(x[0])
    np.testing.assert_allclose(gradient, special.softmax(x[0] / 0.3), rtol=1e-12)


def test_pieces_and_network_against_interpolation():
    knots, slopes, value = np.sort(RNG.normal(size=6)), RNG.normal(size=7), 0.7
    heights = value + np.concatenate([[0.0], np.cumsum(slopes[1:-1] * np.diff(knots))])
    x = np.linspace(-5, 5, 301)
    reference = np.interp(x, knots, heights)
    reference = np.where(x < knots[0], heights[0] + slopes[0] * (x - knots[0]), reference)
    reference = np.where(x > knots[-1], heights[-1] + slopes[-1] * (x - knots[-1]), reference)
    np.testing.assert_allclose(piecewise_linear(x, knots, slopes, value), reference, atol=1e-13)
    network = relu_network(knots, slopes, value)
    np.testing.assert_allclose(jax.vmap(network)(x[:, None])[:, 0], reference, atol=1e-13)
    assert parameter_count(network) == 7 * 2 + 7 + 1


def test_one_knot_and_exercise():
    x = np.linspace(-2, 3, 51)
    np.testing.assert_allclose(piecewise_linear(x, [0.0], [-1.0, 1.0]), np.abs(x), atol=1e-15)
    np.testing.assert_allclose(jax.vmap(relu_network([0.0], [-1.0, 1.0]))(x[:, None])[:, 0], np.abs(x), atol=1e-15)
    f = np.where(x < 0, -2 * x, np.where(x < 1, 0.0, 3 * (x - 1)))
    np.testing.assert_allclose(piecewise_linear(x, [0.0, 1.0], [-2.0, 0.0, 3.0]), f, atol=1e-15)


def test_transformations():
    value = jax.jit(lambda s: relu_network(jnp.array([0.0, 1.0]), s)(jnp.array([2.0]))[0])
    np.testing.assert_allclose(jax.grad(value)(jnp.array([1.0, 2.0, 3.0])), [0.0, 1.0, 1.0])
    assert piecewise_linear(np.float32(1), np.float32([0]), np.float32([0, 1]), np.float32(0)).dtype == jnp.float32


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: smooth_maximum(np.ones(3), 0.0), "beta must be positive"),
        (lambda: smooth_maximum(1.0, 1.0), "x must have shape"),
        (lambda: piecewise_linear(1.0, [0.0, 1.0], [1.0, 2.0]), "slopes must be one more than the knots, 3, got 2"),
        (lambda: piecewise_linear(1.0, [1.0, 0.0], [1.0, 2.0, 3.0]), "knots must increase"),
        (lambda: relu_network([0.0, 0.0], [1.0, 2.0, 3.0]), "knots must increase"),
        (lambda: relu_network([0.0], [1.0, np.nan]), "slopes must be finite"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
