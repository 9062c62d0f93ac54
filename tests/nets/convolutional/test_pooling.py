"""Pooling: what is kept of a window, in any number of dimensions."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.nets import convolutional as cv

RNG = np.random.default_rng(1)


def test_pooling():
    x = RNG.normal(size=(2, 6, 7))
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(1, 2))
    np.testing.assert_array_equal(cv.max_pool(x, 2), windows[:, ::2, ::2].max((3, 4)))
    np.testing.assert_array_equal(cv.max_pool(x, (2, 2), stride=1), windows.max((3, 4)))
    np.testing.assert_allclose(cv.mean_pool(x, 2, stride=(2, 3)), windows[:, ::2, ::3].mean((3, 4)), rtol=1e-12)
    np.testing.assert_array_equal(cv.max_pool(x[0, 0], 3), x[0, 0, :6].reshape(2, 3).max(1))
    np.testing.assert_array_equal(cv.global_pool(x), x.max((1, 2)))
    np.testing.assert_allclose(cv.global_pool(x, "mean"), x.mean((1, 2)))
    np.testing.assert_array_equal(jax.grad(lambda v: cv.max_pool(v, 3)[0])(jnp.array([1.0, 2.0, 2.0])), [0, 1, 0])
    assert cv.mean_pool(jnp.ones((1, 4), jnp.float32), 2).dtype == jnp.float32
