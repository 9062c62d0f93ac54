"""The tangent kernel of graph networks against vectors, permutations, and the gradients of finite networks."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.kernels import graph_ntk, ntk

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(3, 4, 2))
ADJACENCY = np.triu(RNG.random((3, 4, 4)) < 0.5, 1) * 1.0
ADJACENCY = ADJACENCY + np.swapaxes(ADJACENCY, 1, 2)


def test_a_graph_of_one_node_is_a_vector():
    x = RNG.normal(size=(5, 1, 3))
    got = graph_ntk(x, np.zeros((5, 1, 1)), blocks=2, layers=2)
    np.testing.assert_allclose(got, ntk(x[:, 0], depth=4), rtol=1e-12)


def test_the_order_of_nodes_and_padding_do_not_matter():
    order = RNG.permutation(4)
    kernel = graph_ntk(FEATURES, ADJACENCY, blocks=2, layers=1)
    moved = FEATURES[:, order], ADJACENCY[:, order][:, :, order]
    np.testing.assert_allclose(graph_ntk(FEATURES, ADJACENCY, *moved, blocks=2), kernel, rtol=1e-9)
    padded = np.pad(FEATURES, ((0, 0), (0, 2), (0, 0))), np.pad(ADJACENCY, ((0, 0), (0, 2), (0, 2)))
    np.testing.assert_allclose(graph_ntk(FEATURES, ADJACENCY, *padded, blocks=2), kernel, rtol=1e-9)
    assert np.linalg.eigvalsh(kernel).min() > 0


def test_against_the_gradients_of_finite_networks():
    # one block of one layer: the mean over weights is the limit at every width
    width, draws = 8, 4000

    def network(params, x, a):
        h = np.sqrt(2) * (x + a @ x) @ params[0] / np.sqrt(x.shape[-1])
        return np.sqrt(2) * jnp.sum(jax.nn.relu(h), 0) @ params[1] / np.sqrt(width)

    def gram(key):
        one, two = jax.random.split(key)
        params = jax.random.normal(one, (2, width)), jax.random.normal(two, (width,))
        rows = jax.vmap(lambda x, a: jax.flatten_util.ravel_pytree(jax.grad(network)(params, x, a))[0])
        j = rows(jnp.asarray(FEATURES), jnp.asarray(ADJACENCY))
        return j @ j.T

    samples = np.asarray(jax.vmap(gram)(jax.random.split(jax.random.key(0), draws)))
    error = samples.std(0) / np.sqrt(draws)
    assert (np.abs(samples.mean(0) - graph_ntk(FEATURES, ADJACENCY)) < 5 * error).all()
    assert (error < 0.05 * samples.mean(0).max()).all()


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: graph_ntk(FEATURES[0], ADJACENCY), ValueError, "features must have shape (n, v, d), got (4, 2)."),
        (lambda: graph_ntk(FEATURES, ADJACENCY[:, :2]), ValueError, "adjacency must have shape (n, v, v) with v = 4"),
        (
            lambda: graph_ntk(FEATURES, ADJACENCY, FEATURES),
            ValueError,
            "others and other_adjacency must be given together",
        ),
        (lambda: graph_ntk(FEATURES, ADJACENCY, blocks=0), ValueError, "blocks must be at least 1, got 0."),
        (lambda: graph_ntk(FEATURES, ADJACENCY, layers=0), ValueError, "layers must be at least 1, got 0."),
        (lambda: graph_ntk(FEATURES, ADJACENCY, weight_std=-1), ValueError, "weight_std must be zero or more, got -1"),
    ],
)
def test_sentences(call, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        call()
