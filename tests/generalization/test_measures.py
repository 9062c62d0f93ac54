"""Margins, distances, stability and the set of zero loss, against loops and closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.generalization import distance_from, loss_stability, margins, zero_loss_dimension

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(9, 3))
W = np.array([1.0, -2.0, 0.5])


@pytest.fixture
def network():
    return eqx.nn.MLP(3, 3, 6, 1, key=KEY)


@pytest.fixture
def line():
    return Network(lambda w, x: w @ x, jnp.asarray(W))


def test_margins_of_classes_and_of_signs(network, line):
    y = np.arange(9) % 3
    out = np.asarray(jax.vmap(network)(X))
    expected = [row[c] - max(v for j, v in enumerate(row) if j != c) for row, c in zip(out, y, strict=True)]
    np.testing.assert_allclose(margins(network, (X, y), batch_size=4), expected, rtol=1e-12)
    signs = np.where(y == 1, 1, -1)
    values = np.asarray(X) @ W
    np.testing.assert_allclose(margins(line, (X, signs)), signs * values, rtol=1e-12)
    np.testing.assert_allclose(margins(line, (X, (y == 1).astype(int))), signs * values, rtol=1e-12)


def test_distance(network):
    moved = jax.tree.map(lambda a: a + 0.5 if eqx.is_array(a) else a, network)
    found = distance_from(moved, network)
    sizes = [a.size for a in jax.tree.leaves(eqx.filter(network, eqx.is_array))]
    np.testing.assert_allclose(found.total, 0.5 * np.sqrt(sum(sizes)), rtol=1e-12)
    np.testing.assert_allclose(sorted(map(float, found.arrays.values())), sorted(0.5 * np.sqrt(sizes)), rtol=1e-12)
    assert "layers.0.weight" in found.arrays
    start = np.sqrt(sum(float(jnp.sum(a**2)) for a in jax.tree.leaves(eqx.filter(network, eqx.is_array))))
    np.testing.assert_allclose(found.relative, found.total / start, rtol=1e-12)


def test_stability_of_a_loss_whose_extreme_is_known(line):
    # (w·x - y)²/2 with |w' - w| ≤ ρ: the residual grows to |r| + ρ|x|
    y = jnp.linspace(-1, 1, 9)
    found = loss_stability(line, "squared", (X, y), 0.3, key=KEY, batch_size=4)
    r, size = np.asarray(X @ W - y), np.linalg.norm(np.asarray(X), axis=1)
    exact = np.max(((np.abs(r) + 0.3 * size) ** 2 - r**2) / 2)
    np.testing.assert_allclose(found.gamma, exact, rtol=1e-10)
    np.testing.assert_allclose(found.constant, exact / 0.3, rtol=1e-10)
    np.testing.assert_allclose(found.gradient, np.max(np.abs(r) * size), rtol=1e-12)


def test_zero_loss_dimension_is_that_of_the_free_parameters(line):
    y = X @ W
    found = zero_loss_dimension(line, (X[:2], y[:2]))
    assert (int(found.dimension), int(found.rank), found.size) == (1, 2, 3)
    same = jnp.concatenate([X[:1], X[:1]])
    assert int(zero_loss_dimension(line, (same, jnp.tile(y[:1], 2))).dimension) == 2
    assert int(zero_loss_dimension(line, (X, y)).dimension) == 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda network, line: margins(network, (X, np.linspace(0, 1, 9))),
            "y must hold whole numbers as class labels, got",
        ),
        (lambda network, line: margins(network, (X, np.full(9, 3))), "y must hold labels from 0 to 2, got 3"),
        (lambda network, line: margins(line, (X, np.linspace(0, 1, 9))), "y must hold labels -1 and 1, or 0 and 1"),
        (lambda network, line: margins(network, X), "data must be a pair"),
        (lambda network, line: margins(3, (X, X)), "network must be callable"),
        (lambda network, line: distance_from(network, line), "initial must have the structure of the network"),
        (lambda network, line: loss_stability(line, "squared", (X, X[:, 0]), 0.0, key=KEY), "radius must be positive"),
        (lambda network, line: zero_loss_dimension(line, (X, X[:, 0])), "network must fit its data to .*: train it on"),
        (lambda network, line: zero_loss_dimension(line, (X, X)), "y must hold a target for every output"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence, network, line):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call(network, line)
