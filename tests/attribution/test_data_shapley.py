"""Values of training points against sums over all orders of a few points."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.attribution import data_shapley
from corollary.foundations import average_deviation

KEY = jax.random.key(0)
Y = np.array([1.0, -0.5, 2.0, 0.25, 0.0])


def _fit(train, weights):
    """The root of what is there: not additive, never falling."""
    return jnp.sqrt(jnp.sum(weights * train**2))


def _exact(y):
    utility = lambda s: np.sqrt(np.sum(y[list(s)] ** 2))  # noqa: E731
    values = np.zeros(len(y))
    orders = list(itertools.permutations(range(len(y))))
    for order in orders:
        for i, point in enumerate(order):
            values[point] += utility(order[: i + 1]) - utility(order[:i])
    return values / len(orders)


@pytest.mark.parametrize("batch_size", [None, 100])
def test_against_all_orders(batch_size):
    found = data_shapley(_fit, lambda u: u, Y, orders=3000, width=2.0, key=KEY, batch_size=batch_size)
    exact = _exact(Y)
    # gains spread over at most 2: four standard errors of the mean are 0.07 at most
    np.testing.assert_allclose(found.values, exact, atol=0.07)
    np.testing.assert_allclose(found.values.sum(), np.sqrt(np.sum(Y**2)), rtol=1e-12)
    assert np.all(np.abs(found.values - exact) <= found.error)
    np.testing.assert_allclose(found.error, average_deviation(0.05 / 5, 3000, 4.0), rtol=1e-12)
    assert np.all(found.truncated == 0)
    assert int(found.evaluations) == 3000 * 4 + 2


def test_truncation_saves_trainings_and_is_counted():
    whole = data_shapley(_fit, lambda u: u, Y, orders=500, width=2.0, key=KEY)
    short = data_shapley(_fit, lambda u: u, Y, orders=500, width=2.0, key=KEY, tolerance=0.3)
    assert int(short.evaluations) < 0.8 * int(whole.evaluations)
    # the same orders: what differs is what was left out, and a measure that never falls bounds it
    assert np.all(np.abs(short.values - whole.values) <= short.truncated * 0.3 + 1e-12)
    assert np.any(np.abs(short.values - whole.values) > 1e-3)
    np.testing.assert_allclose(short.error, whole.error + short.truncated.max() * 0.3, rtol=1e-12)
    assert abs(float(short.values.sum() - whole.values.sum())) <= 0.3


def test_a_vector_of_measures():
    both = data_shapley(_fit, lambda u: jnp.stack([u, -2 * u]), Y, orders=50, width=4.0, key=KEY, tolerance=0.3)
    # the order ends where both are near: the second within 0.3, the first within 0.15
    one = data_shapley(_fit, lambda u: u, Y, orders=50, width=4.0, key=KEY, tolerance=0.15)
    np.testing.assert_allclose(both.values, np.stack([one.values, -2 * one.values], 1), atol=1e-12)
    np.testing.assert_array_equal(both.truncated, one.truncated)


def test_sentences():
    with pytest.raises(TypeError, match="fit must be a function"):
        data_shapley(None, lambda u: u, Y, orders=3, width=1.0, key=KEY)
    with pytest.raises(ValueError, match="orders must be at least 1"):
        data_shapley(_fit, lambda u: u, Y, orders=0, width=1.0, key=KEY)
    with pytest.raises(ValueError, match="width must be positive"):
        data_shapley(_fit, lambda u: u, Y, orders=3, width=0.0, key=KEY)
    with pytest.raises(ValueError, match="tolerance must be zero or more"):
        data_shapley(_fit, lambda u: u, Y, orders=3, width=1.0, key=KEY, tolerance=-1.0)
    with pytest.raises(ValueError, match="measure must return a number or a vector"):
        data_shapley(_fit, lambda u: jnp.ones((2, 2)), Y, orders=3, width=1.0, key=KEY)
