import jax
import jax.numpy as jnp
import numpy as np

from corollary.nets.convolutional.blocks import ConvNorm

KEY = jax.random.key(0)


def test_projection_is_a_matrix_at_every_second_pixel():
    layer = ConvNorm(2, 3, 1, 2, key=KEY)
    image = np.random.default_rng(0).normal(size=(1, 5, 5, 2))
    out, _ = layer(jnp.asarray(image), layer.state(), False)
    np.testing.assert_allclose(out * np.sqrt(1 + 1e-5), image[:, ::2, ::2] @ np.asarray(layer.kernel[0, 0]), rtol=1e-10)
