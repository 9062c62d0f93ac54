import jax.numpy as jnp
import numpy as np

from corollary.nets.recurrent import iterate_map


def test_iterate_map():
    np.testing.assert_array_equal(iterate_map(lambda z: 2 * z, jnp.array([1.0, 3.0]), 4, keep=2), [[8, 24], [16, 48]])
    assert iterate_map(lambda z: z + 1, 0.0, 3).tolist() == [3.0]
