from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.attribution import Game, feature_importance, permutation_importance, shapley

KEY = jax.random.key(0)
X = np.random.RandomState(0).randn(12, 3)
Y = np.random.RandomState(1).randn(12, 1)


@pytest.fixture
def network():
    return eqx.nn.MLP(3, 1, 4, 1, activation=jnp.tanh, key=KEY, dtype=jnp.float64)


def worths(network):
    """The negative squared loss of every coalition, its members from one example and the rest from another, by hand."""
    masks = np.array(list(product([0, 1], repeat=3)))[:, ::-1]  # that of S at the sum of 2^i
    pairs = np.where(masks[:, None, None].astype(bool), X[None, :, None], X[None, None])
    out = jax.jit(jax.vmap(network))(jnp.asarray(pairs.reshape(-1, 3))).reshape(8, 12, 12)
    return np.mean(-0.5 * (np.asarray(out) - Y[:, 0][None, :, None]) ** 2, (1, 2))


def test_intervals_hold_the_exact_values(network):
    found = feature_importance(network, "squared", (X, Y), key=KEY, draws=4000, confidence=0.9999)
    # over these twelve examples nothing but the draws is random: both estimates converge to what all pairs give
    exact = np.asarray(shapley(Game.of_values(worths(network))).values)
    np.testing.assert_allclose(found.shapley.values, exact, atol=0.05 * np.abs(exact).max())
    alone = np.asarray(permutation_importance(network, "squared", (X, Y)).values)
    np.testing.assert_allclose(found.permutation.values, alone, atol=0.05 * np.abs(alone).max())
    low, high = found.shapley.interval
    assert (low <= exact).all()
    assert (exact <= high).all()
    assert found.shapley.evaluations == 12 * 4000 * 7


def test_several_inputs_and_whole_numbers():
    """What one input is worth where another is not looked at; words are exchanged like numbers."""
    x = {"a": jnp.asarray(X), "words": jnp.arange(12) % 4}
    y = jnp.asarray(X[:, 0])
    owner = {"a": np.array([0, 0, 0]), "words": np.array(1)}
    found = feature_importance(lambda one: one["a"][0], "squared", (x, y), key=KEY, players=owner, draws=50)
    assert float(found.shapley.values[0]) > 0.5
    assert float(found.shapley.values[1]) == 0
    with pytest.raises(ValueError, match="players must hold one array of whole numbers for each array of an example"):
        feature_importance(lambda one: one["a"][0], "squared", (x, y), key=KEY)
    with pytest.raises(ValueError, match="for each array of an example, with its shape"):
        feature_importance(lambda one: one["a"][0], "squared", (x, y), key=KEY, players=owner | {"a": np.array([0])})
