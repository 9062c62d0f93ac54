import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.inspection import partial_dependence as scikit_dependence
from sklearn.neural_network import MLPRegressor

from corollary.attribution import coalition_accuracies, partial_dependence

X = np.random.RandomState(0).randn(6, 3)


@pytest.fixture
def network():
    return eqx.nn.MLP(3, "scalar", 4, 1, activation=jnp.tanh, key=jax.random.key(0), dtype=jnp.float64)


def by_hand(network, x, kept, at):
    mixed = np.repeat(x[None], len(at), 0)
    mixed[:, :, kept] = at[:, None, kept]
    return np.asarray(jax.vmap(jax.vmap(network))(jnp.asarray(mixed))).mean(1)


@pytest.mark.parametrize("kept", [[], [1], [0, 2], [0, 1, 2]])
def test_others_are_averaged_over_the_data(network, kept):
    at = np.random.RandomState(1).randn(4, 3)
    found = partial_dependence(network, X, tuple(kept), at=at, batch_size=7)
    np.testing.assert_allclose(found, by_hand(network, X, kept, at), atol=1e-14)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_scikit_learn_agrees():
    fitted = MLPRegressor(hidden_layer_sizes=(5,), activation="tanh", max_iter=5, random_state=0).fit(X, X[:, 0])
    (w, v), (b, c) = fitted.coefs_, fitted.intercepts_
    grid = np.linspace(-1, 1, 4)
    theirs = scikit_dependence(fitted, X, [1], custom_values={1: grid}, method="brute")["average"][0]
    ours = partial_dependence(
        lambda one: (jnp.tanh(one @ w + b) @ v + c)[0], X, 1, at=np.column_stack([0 * grid, grid, 0 * grid])
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-14)


def test_accuracies_of_all_sets(network):
    y = np.array([0, 1, 0, 1, 1, 0])
    found = coalition_accuracies(network, "agreement", (X, y), batch_size=20)
    for number in range(8):
        kept = [i for i in range(3) if number >> i & 1]
        np.testing.assert_allclose(found[number], 1 - np.abs(by_hand(network, X, kept, X) - y).mean(), atol=1e-14)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda network: partial_dependence(network, X, 3), "kept must be from 0 to 2"),
        (lambda network: partial_dependence(network, X, 0, at=X[:, :2]), "of the shape of those of x"),
        (lambda network: partial_dependence(network, X[:0], 0), "x must not be empty"),
        (lambda network: coalition_accuracies(network, "agreement", (np.zeros((2, 21)), np.zeros(2))), "21 have"),
    ],
)
def test_sentences(network, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(network)
