"""Truncated matrices against NumPy's decomposition, and truncated networks against their definition."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generalization import (
    compression_error,
    quantise,
    truncate,
    truncate_singular_values,
    truncation_level,
)
from corollary.generalization.compression import on_grid
from corollary.generalization.low_rank import LEVELS
from corollary.nets import MLP, relu

RNG = np.random.default_rng(0)


def planted(scale=1e-2):
    """A network whose matrices are of rank 2 but for a little noise, and data."""
    network = MLP((8, 10, 10, 3), relu, key=jax.random.key(0))
    for i, layer in enumerate(network.layers):
        m, n = layer.weight.shape
        weight = RNG.normal(size=(m, 2)) @ RNG.normal(size=(2, n)) / 2 + scale * RNG.normal(size=(m, n))
        network = eqx.tree_at(lambda net, i=i: net.layers[i].weight, network, jnp.asarray(weight))
    return network, (RNG.normal(size=(30, 8)), RNG.integers(0, 3, 30))


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (1, 4)])
def test_matrix_against_numpy(shape):
    a = RNG.normal(size=shape)
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    for delta in (0.1, 0.5, 1.0):
        rank = int((s >= delta * s[0] * (1 - 1e-12)).sum())
        found = truncate_singular_values(a, delta)
        assert found.rank == rank
        np.testing.assert_allclose(found.matrix, (u[:, :rank] * s[:rank]) @ vt[:rank], atol=1e-12)
    assert truncate_singular_values(np.zeros(shape), 0.5).rank == 0


def test_level():
    np.testing.assert_allclose(truncation_level([2.0, 3.0], 0.5, 4.0), 0.5 / (3 * 2 * 4 * 6))


def test_network_keeps_few_singular_values_and_its_outputs():
    network, data = planted()
    margin = 2.0
    found = truncate(network, margin, data, batch_size=7)
    assert compression_error(network, found.network, data[0]) <= margin
    ranks = [np.linalg.matrix_rank(layer.weight, tol=1e-9) for layer in found.network.layers]
    shapes = [layer.weight.shape for layer in network.layers]
    numbers = [min(r * (m + n), m * n) for r, (m, n) in zip(ranks, shapes, strict=True)]
    assert found.description.parameters == sum(numbers) + 10 + 10 + 3
    assert found.description.parameters < quantise(network, 2).description.parameters
    np.testing.assert_allclose(
        found.description.nats["values"], float(found.description.parameters) * 64 * np.log(2), rtol=1e-12
    )
    for before, after in zip(network.layers, found.network.layers, strict=True):
        np.testing.assert_array_equal(before.bias, after.bias)


def test_no_larger_level_of_the_grid_nearby_would_do():
    network, data = planted(0.1)
    margin = 1.0
    found = truncate(network, margin, data)

    def at(delta):
        def one(a):
            if a.ndim < 2:
                return a
            low = truncate_singular_values(a, delta) if delta else None
            return low.matrix if delta and float(low.rank) * sum(a.shape) < a.size else a

        return jax.tree.map(lambda a: one(a) if eqx.is_array(a) else a, network)

    moved = np.array([float(compression_error(network, at(d), data[0])) for d in LEVELS])
    chosen = int(np.argmin(np.abs(moved - float(compression_error(network, found.network, data[0])))))
    np.testing.assert_allclose(found.network.layers[1].weight, at(LEVELS[chosen]).layers[1].weight, atol=1e-12)
    assert moved[chosen] <= margin < moved[chosen - 1]
    assert 0 < chosen < len(LEVELS) - 1


def test_with_levels_the_factors_are_rounded_too():
    network, data = planted()
    found = truncate(network, 8.0, data, levels=4096)
    assert compression_error(network, found.network, data[0]) <= 8.0
    np.testing.assert_allclose(found.network.layers[0].bias, on_grid(network.layers[0].bias, 4096), atol=1e-12)
    nats = found.description.nats
    np.testing.assert_allclose(nats["values"], float(found.description.parameters) * np.log(4096), rtol=1e-12)
    np.testing.assert_allclose(nats["scales"], (3 * 2 + 3) * 64 * np.log(2))
    bound = found.bound(data, 0.05).check()
    assert bound.value > bound.terms["training error"]


@pytest.mark.parametrize("noise", [1e-2, 0.0])
def test_nothing_is_truncated_where_nothing_may_move(noise):
    network, data = planted(noise)
    found = truncate(network, 1e-300, data)
    assert compression_error(network, found.network, data[0]) == 0
    assert found.description.parameters == 8 * 10 + 100 + 30 + 23


def test_convolutions_count_as_one_row_per_channel():
    network = eqx.nn.Sequential(
        [eqx.nn.Conv2d(1, 6, 3, key=jax.random.key(0)), eqx.nn.Lambda(lambda a: jnp.ravel(jnp.maximum(a, 0)))]
    )
    x = RNG.normal(size=(4, 1, 4, 4))
    found = truncate(network, 100.0, (x, np.zeros(4, int)))
    kernel = np.asarray(found.network.layers[0].weight).reshape(6, 9)
    assert np.linalg.matrix_rank(kernel, tol=1e-9) == 1
    assert found.description.parameters == 6 + 9 + 6


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: truncate_singular_values(np.ones((2, 2)), 0.0), r"delta must be in \(0, 1\]"),
        (lambda: truncation_level([1.0, 0.0], 1.0, 1.0), "norms must be positive"),
        (lambda: truncate(planted()[0], 0.0, planted()[1]), "margin must be positive"),
        (lambda: truncate(planted()[0], 1e-6, planted()[1], levels=4), "levels must be more for this margin"),
        (lambda: truncate(planted()[0], 1.0, planted()[1][0]), r"data must be a pair \(x, y\)"),
        (lambda: truncate(planted()[0], 1.0, planted()[1], levels=1), "levels must be from 2"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
