import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.data import book_sequence_table
from corollary.nets.recurrent import Jordan, lagged_table

KEY = jax.random.key(0)


def test_lagged_table_is_table_13_2():
    features, labels = lagged_table(*book_sequence_table())
    rows = [
        (1.025, np.nan, -0.041),
        (0.893, -0.041, -0.033),
        (1.068, -0.033, -0.029),
        (1.035, -0.029, -0.026),
        (1.028, -0.026, -0.024),
    ]
    np.testing.assert_allclose(np.concatenate([features, labels], axis=1), rows, rtol=1e-12)


def test_more_lags_of_vectors():
    xs, ys = jnp.arange(8.0).reshape(4, 2), 10 + jnp.arange(4.0)
    features, labels = lagged_table(xs, ys, lags=2)
    np.testing.assert_array_equal(features[2:], [[4, 5, 11, 10], [6, 7, 12, 11]])
    assert np.isnan(features[0, 2:]).all()
    np.testing.assert_array_equal(np.isnan(features[1]), [False, False, False, True])
    np.testing.assert_array_equal(labels[:, 0], ys)


def test_one_step_and_rollout_are_the_formula():
    model = Jordan(1, 1, key=KEY)
    (weight,), bias = np.asarray(model.network.layers[0].weight), np.asarray(model.network.layers[0].bias)[0]
    xs, ys = np.array([0.3, -0.5, 0.8]), np.array([0.1, 0.2, -0.4])
    predicted = np.tanh(weight[0] * xs[1:] + weight[1] * ys[:-1] + bias)
    np.testing.assert_allclose(model.one_step(xs[:, None], ys[:, None])[:, 0], predicted, rtol=1e-12)
    assert model.loss(xs[:, None], ys[:, None]) == pytest.approx(np.mean((ys[1:] - predicted) ** 2), rel=1e-12)
    y, fed = 0.1, []
    for x in xs:
        y = np.tanh(weight[0] * x + weight[1] * y + bias)
        fed.append(y)
    np.testing.assert_allclose(model.rollout(xs[:, None], [0.1])[:, 0], fed, rtol=1e-12)


def test_hidden_layers():
    assert Jordan(2, 3, (5,), key=KEY).rollout(jnp.ones((4, 2)), jnp.zeros(3)).shape == (4, 3)


def test_bad_arguments():
    with pytest.raises(ValueError, match="lags must be less than the 3 steps, got 3"):
        lagged_table(jnp.ones(3), jnp.ones(3), lags=3)
    with pytest.raises(ValueError, match="ys must have shape"):
        lagged_table(jnp.ones(3), jnp.ones(4))
    with pytest.raises(ValueError, match="xs must have at least two steps"):
        Jordan(1, 1, key=KEY).one_step(jnp.ones((1, 1)), jnp.ones((1, 1)))
    with pytest.raises(TypeError, match="activation must be a function of a number"):
        Jordan(1, 1, (), 1.0, key=KEY)
