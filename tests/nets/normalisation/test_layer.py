import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.nets.normalisation import layer_normalise, layer_normalise_jacobian

RNG = np.random.default_rng(0)
Z = RNG.normal(2.0, 3.0, (6, 4))
SCALE, SHIFT = RNG.normal(size=4), RNG.normal(size=4)


def test_layer_normalise_is_equinox_s_own_and_its_jacobian():
    theirs = eqx.tree_at(lambda m: (m.weight, m.bias), eqx.nn.LayerNorm(4), (jnp.asarray(SCALE), jnp.asarray(SHIFT)))
    np.testing.assert_allclose(layer_normalise(Z, SCALE, SHIFT), jax.vmap(theirs)(jnp.asarray(Z)), rtol=1e-12)
    found = layer_normalise_jacobian(Z[0], eps=0.2)
    np.testing.assert_allclose(found, jax.jacobian(lambda z: layer_normalise(z, eps=0.2))(Z[0]), atol=1e-14)
    assert np.linalg.matrix_rank(np.asarray(layer_normalise_jacobian(Z[0], eps=0.0)), tol=1e-12) == 2
