"""A memory that can be read, written and differentiated: the content-addressed head of a neural Turing machine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import MemoryHead, address, read, write


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_memory():
    memory = jnp.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    weights = address(memory, jnp.array([0.0, 5.0]), 2.0)
    np.testing.assert_allclose(weights, np.exp([0, 2, 0]) / (2 + np.exp(2)), rtol=1e-12)
    np.testing.assert_allclose(read(memory, weights), weights @ memory)
    after = write(memory, jnp.array([0.0, 1.0, 0.0]), jnp.array([1.0, 0.0]), jnp.array([7.0, 1.0]))
    np.testing.assert_allclose(after, [[1, 0], [7, 3], [0, 0]])
    slope = jax.grad(lambda m: jnp.sum(read(m, address(m, jnp.array([1.0, 1.0]), 3.0)) ** 2))(memory)
    assert np.isfinite(slope).all()
    head = MemoryHead(3, 2, key=jax.random.key(0))
    out = jax.jit(lambda m, s: head(m, s))(memory, jnp.ones(3))
    assert out.read.shape == (2,)
    assert out.memory.shape == (3, 2)
    np.testing.assert_allclose(out.weights.sum(), 1.0)
    np.testing.assert_allclose(out.read, out.weights @ memory, rtol=1e-12)
