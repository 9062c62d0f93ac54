import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neural_network import MLPRegressor

from corollary import nets
from corollary.nets import (
    MLP,
    DeepLinearNetwork,
    ShallowNetwork,
    SigmoidMLP,
    collapse,
    logistic_to_tanh,
    parameter_count,
    permute_hidden,
    tanh_to_logistic,
)

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(9, 3))


@pytest.mark.parametrize(("ours", "theirs"), [(nets.relu, "relu"), (nets.logistic, "logistic"), (nets.tanh, "tanh")])
def test_mlp_against_scikit_learn(ours, theirs):
    net = MLP((3, 5, 4, 2), ours, key=KEY)
    peer = MLPRegressor(hidden_layer_sizes=(5, 4), activation=theirs, max_iter=1).partial_fit(X, np.zeros((9, 2)))
    peer.coefs_ = [np.asarray(layer.weight).T for layer in net.layers]
    peer.intercepts_ = [np.asarray(layer.bias) for layer in net.layers]
    np.testing.assert_allclose(jax.vmap(net)(X), peer.predict(X), rtol=1e-12)
    assert [a.shape[0] for a in net.activations(X[0])] == [3, 5, 4, 2]
    assert parameter_count(net) == 4 * 5 + 6 * 4 + 5 * 2


def test_scaling_and_initialisation_reach_every_layer():
    net = MLP((3, 400, 1), nets.relu, key=KEY, scaling="ntk", initialisation=nets.standard_normal, bias=False)
    assert all(layer.bias is None for layer in net.layers)
    w1, w2 = (np.asarray(layer.weight) for layer in net.layers)
    np.testing.assert_allclose(net(X[0]), w2 @ np.maximum(w1 @ X[0] / 3**0.5, 0) / 20, rtol=1e-12)
    np.testing.assert_allclose(w1.std(), 1, rtol=0.1)


def test_the_texts_networks():
    shallow, sigmoid = ShallowNetwork(3, 6, nets.arctan, key=KEY), SigmoidMLP(3, 6, key=KEY)
    w, b, c = (np.asarray(a) for a in (shallow.hidden.weight, shallow.hidden.bias, shallow.outer))
    np.testing.assert_allclose(jax.vmap(shallow)(X), np.arctan(X @ w.T + b) @ c, rtol=1e-12)
    w, c = np.asarray(sigmoid.hidden), np.asarray(sigmoid.outer)
    np.testing.assert_allclose(jax.vmap(sigmoid)(X), 1 / (1 + np.exp(-X @ w.T)) @ c, rtol=1e-12)
    assert parameter_count(shallow) == 6 * 5
    assert parameter_count(sigmoid) == 6 * 4


@pytest.mark.parametrize("sizes", [(3, 2), (3, 4, 2), (3, 4, 5, 2)])
def test_deep_linear_network(sizes):
    net = DeepLinearNetwork(sizes, key=KEY)
    product = np.eye(3)
    for weight in net.weights:
        product = np.asarray(weight) @ product
    np.testing.assert_allclose(net.end_to_end_matrix(), product, rtol=1e-12)
    np.testing.assert_allclose(net(X[0]), product @ X[0], rtol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scaling", ["standard", "ntk"])
def test_collapse(bias, scaling):
    net = MLP((3, 5, 4, 2), nets.identity, key=KEY, bias=bias, scaling=scaling)
    np.testing.assert_allclose(jax.vmap(collapse(net))(X), jax.vmap(net)(X), rtol=1e-11)
    assert (collapse(net).bias is None) == (not bias)
    shallow = ShallowNetwork(3, 6, nets.identity, key=KEY)
    np.testing.assert_allclose(jax.vmap(collapse(shallow))(X)[:, 0], jax.vmap(shallow)(X), rtol=1e-11)


def test_permutation_moves_the_units():
    net = MLP((3, 4, 2), nets.tanh, key=KEY)
    order = np.array([2, 0, 3, 1])
    other = permute_hidden(net, 0, order)
    np.testing.assert_array_equal(other.layers[0].weight, np.asarray(net.layers[0].weight)[order])
    np.testing.assert_allclose(other.activations(X[0])[1], np.asarray(net.activations(X[0])[1])[order])
    np.testing.assert_allclose(other(X[0]), net(X[0]), rtol=1e-12)
    jax.vmap(lambda p: permute_hidden(net, 0, p))(jnp.stack([order, order]))


def test_bad_input():
    net = MLP((3, 4, 2), nets.tanh, key=KEY)
    with pytest.raises(TypeError, match="sizes must be a sequence of at least two"):
        MLP((3,), key=KEY)
    with pytest.raises(ValueError, match="sizes must be at least 1"):
        MLP((3, 0, 1), key=KEY)
    with pytest.raises(ValueError, match="x must have shape"):
        DeepLinearNetwork((3, 2), key=KEY)(X[0, :2])
    with pytest.raises(ValueError, match="x must have shape"):
        SigmoidMLP(3, 2, key=KEY)(X[0, :2])
    with pytest.raises(ValueError, match="network must have the identity"):
        collapse(net)
    with pytest.raises(TypeError, match="network must be an MLP or a ShallowNetwork"):
        collapse(jnp.sin)
    with pytest.raises(TypeError, match="network must be an MLP"):
        permute_hidden(jnp.sin, 0, [0])
    with pytest.raises(ValueError, match="layer must be from 0 to 0"):
        permute_hidden(net, 1, [0, 1])
    with pytest.raises(ValueError, match="permutation must hold each of 0 to 3 once"):
        permute_hidden(net, 0, [0, 1, 2, 2])
    with pytest.raises(ValueError, match="permutation must hold labels from 0 to 3"):
        permute_hidden(net, 0, [0, 1, 2, 4])
    with pytest.raises(ValueError, match="network must have the activation logistic"):
        logistic_to_tanh(net)
    with pytest.raises(TypeError, match="network must be an MLP"):
        tanh_to_logistic(jnp.sin)
