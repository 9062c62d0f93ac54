"""Chains of matrices: the weights of a linear network, the first layer first."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np

from corollary.landscape._chain import around


def network(sizes, seed=1):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(m, n)) for n, m in pairwise(sizes))


def test_around_leaves_out_one_layer():
    weights = network((4, 5, 2, 3))
    after, before = around(tuple(map(jnp.asarray, weights)))[1]
    np.testing.assert_allclose(after, weights[2], rtol=1e-14)
    np.testing.assert_allclose(before, weights[0], rtol=1e-14)
    after, before = around(tuple(map(jnp.asarray, weights)))[0]
    np.testing.assert_allclose(after, weights[2] @ weights[1], rtol=1e-14)
    np.testing.assert_allclose(before, np.eye(4))
