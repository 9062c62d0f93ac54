import jax
import jax.numpy as jnp
import numpy as np

from corollary.nets import tanh
from corollary.nets.normalisation import NormalisedMLP

RNG = np.random.default_rng(0)


def test_normalised_mlp_in_batches_and_one_by_one():
    x = jnp.asarray(RNG.normal(size=(7, 3)))
    model = NormalisedMLP((3, 5, 4, 1), tanh, key=jax.random.key(0), unbiased=True, eps=0.0)
    out, statistics = model.batch(x)
    assert (out.shape, len(statistics)) == ((7, 1), 2)
    np.testing.assert_allclose(jax.vmap(lambda a: model(a, statistics))(x), out, rtol=1e-10)
    h = np.asarray(x)
    for weight in model.weights[:-1]:
        h = h @ np.asarray(weight).T
        h = np.tanh((h - h.mean(0)) / h.std(0, ddof=1))
    np.testing.assert_allclose(out, h @ np.asarray(model.weights[-1]).T, rtol=1e-10)
    for kind in ("layer", "none"):
        alone = NormalisedMLP((3, 5, 1), tanh, key=jax.random.key(0), kind=kind, rescale=kind == "layer")
        out, statistics = alone.batch(x)
        assert statistics == ()
        np.testing.assert_allclose(alone(x[2]), out[2], rtol=1e-12)
