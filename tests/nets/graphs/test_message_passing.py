"""Message passing: every vertex hears its neighbours' messages all together and changes its features."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary import data
from corollary.nets.graphs import MessagePassing

RNG = np.random.default_rng(0)
# a triangle with a tail, and a vertex of its own
A = data.adjacency([(0, 1), (1, 2), (0, 2), (2, 3)], 5)
X = RNG.normal(size=(5, 3))
NEIGHBOURS = [np.flatnonzero(row) for row in A]


def test_message_passing_with_a_loop_over_vertices():
    w, v = RNG.normal(size=(2, 5)), RNG.normal(size=(2, 3))
    layer = MessagePassing(lambda z: jnp.tanh(jnp.asarray(w) @ z), lambda x: jnp.asarray(v) @ x, "sum")
    brute = np.stack([np.tanh(w @ np.concatenate([X[i], (X[n] @ v.T).sum(0)])) for i, n in enumerate(NEIGHBOURS)])
    np.testing.assert_allclose(jax.jit(lambda x: layer(x, A))(X), brute, rtol=1e-12)
