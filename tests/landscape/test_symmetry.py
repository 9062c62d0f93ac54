"""Symmetry of hidden units."""

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.landscape import (
    SumNet,
    all_orders,
    committee_descent,
    committee_polish,
    relu_overlaps,
    segment,
    sum_net_loss,
    symmetrise,
)
from corollary.nets import tanh

RNG = np.random.default_rng(0)
W, X, Y = RNG.normal(size=(3, 2)), RNG.normal(size=(20, 2)), RNG.normal(size=20)


def test_sum_net_and_its_loss():
    expected = np.tanh(X @ W.T).sum(1)
    np.testing.assert_allclose(SumNet(tanh, W)(X), expected, rtol=1e-12)
    assert SumNet(tanh, W)(X[0]) == pytest.approx(expected[0])
    assert sum_net_loss(tanh, W, X, Y) == pytest.approx(0.5 * np.mean((expected - Y) ** 2))


def test_orders_and_their_mean():
    orders = all_orders(W)
    assert orders.shape == (6, 3, 2)
    expected = np.array([W[list(p)] for p in permutations(range(3))])
    np.testing.assert_array_equal(orders, expected)
    np.testing.assert_allclose(symmetrise(W), expected.mean(0), rtol=1e-12)


def test_segment():
    t, values = segment(lambda w: jnp.sum(w**2), W, -W, 5)
    np.testing.assert_allclose(t, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(values, np.sum(W**2) * np.array([1, 0.25, 0, 0.25, 1]), atol=1e-15)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: SumNet(jnp.tanh, W), TypeError, "activation must be an Activation"),
        (lambda: SumNet(tanh, W[0]), ValueError, "weights must have shape"),
        (lambda: SumNet(tanh, W)(np.ones((4, 3))), ValueError, "x must have shape"),
        (lambda: sum_net_loss(tanh, W, X, Y[:2]), ValueError, "y must have shape"),
        (lambda: all_orders(np.ones((8, 2))), ValueError, "the number of units must be from 1 to 7"),
        (lambda: symmetrise(np.ones(2)), ValueError, "weights must have shape"),
        (lambda: segment(3, W, W), TypeError, "f must be a function of a point"),
        (lambda: segment(jnp.sum, W, W[:2]), ValueError, "a and b must have the same shape"),
        (lambda: segment(jnp.sum, W, W, 1), ValueError, "points must be at least 2"),
        (lambda: relu_overlaps(W, np.ones((2, 3))), ValueError, "v must have shape"),
        (lambda: committee_descent(0, W, key=jax.random.key(0), trials=1), ValueError, "width must be at least 1"),
        (
            lambda: committee_descent(1, W, key=jax.random.key(0), trials=1, step=0.0),
            ValueError,
            "step must be positive",
        ),
        (lambda: committee_polish(W, W), ValueError, "weights must have shape"),
        (lambda: committee_polish(W[None], W, steps=0), ValueError, "steps must be at least 1"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
