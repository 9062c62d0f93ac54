"""The network of signs and its training against automatic differentiation in NumPy's order of things."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.dynamics.shallow import ScaledNetwork, tangent_parts
from corollary.dynamics.wide_two_layer import draw_signed, wide_descent

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4, 3)), RNG.normal(size=4)
X /= np.linalg.norm(X, axis=1, keepdims=True)


def test_signs_and_pairs():
    net = draw_signed(10, 3, key=jax.random.key(0), activation="relu")
    assert set(np.asarray(net.outer)) == {-1.0, 1.0}
    by_hand = np.maximum(X @ np.asarray(net.inner).T, 0) @ np.asarray(net.outer) / 10**0.5
    np.testing.assert_allclose(net(X), by_hand, atol=1e-14)
    pairs = draw_signed(10, 3, key=jax.random.key(0), activation="relu", antisymmetric=True, width=6)
    np.testing.assert_allclose(pairs(X), 0, atol=1e-15)
    half = ScaledNetwork(pairs.outer[:6:2], pairs.inner[:6:2], activation="relu")
    np.testing.assert_allclose(tangent_parts(pairs, X)[1], tangent_parts(half, X)[1], atol=1e-14)


@pytest.mark.parametrize("outer", [False, True])
def test_descent_is_gradient_descent_by_autodiff(outer):
    net = draw_signed(6, 3, key=jax.random.key(1), activation="softplus")
    seen, end = wide_descent(net, X, Y, 0.1, [0, 1, 5], outer=outer)
    params = np.asarray(net.outer), np.asarray(net.inner)

    def loss(outer, inner):
        f = jnp.logaddexp(X @ inner.T, 0) @ outer / 6**0.5
        return jnp.sum((f - Y) ** 2) / 2

    for _ in range(5):
        c, w = jax.grad(loss, (0, 1))(*params)
        params = params[0] - 0.1 * c * outer, params[1] - 0.1 * w
    np.testing.assert_allclose(end.outer, params[0], atol=1e-12)
    np.testing.assert_allclose(end.inner, params[1], atol=1e-12)
    np.testing.assert_allclose(seen[0], net(X), atol=1e-14)
    np.testing.assert_allclose(seen[2], end(X), atol=1e-14)


def test_the_average_moves_its_outputs_as_fast():
    net = draw_signed(8, 3, key=jax.random.key(2), activation="softplus", gamma=1.0)
    _, end = wide_descent(net, X, Y, 0.1, [1])
    # one step by hand at the rate 0.1 times the width
    slope = 1 / (1 + np.exp(-X @ np.asarray(net.inner).T))
    miss = Y - np.asarray(net(X))
    gradient = -(slope * np.asarray(net.outer) / 8).T @ (miss[:, None] * X)
    np.testing.assert_allclose(end.inner, np.asarray(net.inner) - 0.8 * gradient, atol=1e-13)


NET = ScaledNetwork(np.ones(2), np.ones((2, 3)), activation="relu")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: draw_signed(0, 3, key=jax.random.key(0)), "units must be at least 1"),
        (lambda: draw_signed(3, 3, key=jax.random.key(0), antisymmetric=True), "units must be even"),
        (lambda: draw_signed(4, 3, key=jax.random.key(0), antisymmetric=True, width=3), "width must be even"),
        (lambda: draw_signed(4, 0, key=jax.random.key(0)), "features must be at least 1"),
        (lambda: wide_descent("net", X, Y, 0.1, [1]), "network must be a ShallowNetwork"),
        (lambda: wide_descent(NET, X[:, :2], Y, 0.1, [1]), "x must have shape"),
        (lambda: wide_descent(NET, X, Y[:2], 0.1, [1]), "y must have shape"),
        (lambda: wide_descent(NET, X, Y, 0.0, [1]), "step must be positive"),
        (lambda: wide_descent(NET, X, Y, 0.1, [3, 1]), "checkpoints must increase"),
        (lambda: wide_descent(NET, X, Y, 0.1, [-1, 1]), "checkpoints must hold labels from 0 or more"),
        (lambda: wide_descent(NET, X, Y, 0.1, [1], observe=3), "observe must be a function"),
    ],
)
def test_bad_input_is_refused(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
