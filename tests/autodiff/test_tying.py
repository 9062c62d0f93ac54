"""Weight tying: one parameter in many places, its gradient the sum over the places."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.autodiff import CircularConvolution, tied_gradient, tied_matrix


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("window", "size"), [((3,), (7,)), ((2, 3), (4, 5)), ((1, 1), (2, 2)), ((2, 2, 2), (3, 2, 4))])
def test_convolution_against_loops(window, size):
    layer = CircularConvolution(2, 3, window, key=jax.random.key(0))
    layer = eqx.tree_at(lambda c: c.bias, layer, jnp.array([0.1, -0.2, 0.3]))
    x = np.asarray(jax.random.normal(jax.random.key(1), (2, *size)))
    expected = np.zeros((3, *size))
    for o in range(3):
        for place in np.ndindex(size):
            total = float(layer.bias[o])
            for c in range(2):
                for shift in np.ndindex(window):
                    at = tuple((p + s) % n for p, s, n in zip(place, shift, size, strict=True))
                    total += float(layer.kernel[(o, c, *shift)]) * x[(c, *at)]
            expected[(o, *place)] = total
    np.testing.assert_allclose(layer(x), expected, atol=1e-13)
    dense = layer.dense(size) @ x.ravel() + np.repeat(layer.bias, int(np.prod(size)))
    np.testing.assert_allclose(dense, expected.ravel(), atol=1e-13)


def test_tied_matrix_and_gradient():
    pattern = np.array([[0, -1, 1], [1, 0, 0]])
    u = jnp.array([2.0, 3.0])
    np.testing.assert_allclose(tied_matrix(u, pattern), [[2, 0, 3], [3, 2, 2]])
    dense = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(tied_gradient(dense, pattern, 2), [0 + 4 + 5, 2 + 3])
