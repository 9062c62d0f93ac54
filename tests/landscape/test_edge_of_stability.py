"""Full-batch gradient descent with an eye on the sharpness: where the step decides how sharp a minimum can be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import BatchLoss
from corollary.landscape import sharpness_path


def test_sharpness_of_a_quadratic_is_its_own_whatever_the_step():
    with jax.enable_x64(True):
        scale = jnp.linspace(0.1, 4.0, 30)
        start = jax.random.normal(jax.random.key(0), (30,))
        bowl = BatchLoss(lambda w, d: 0.5 * jnp.sum(d * w**2))
        path = sharpness_path(start, bowl, scale, [0.1, 0.4], steps=60, every=20)
        np.testing.assert_allclose(path.sharpness, 4.0, rtol=1e-3)
        np.testing.assert_array_equal(path.steps, [0, 20, 40, 60])
        np.testing.assert_array_equal(path.uphill, 0)
        spec = path.plot().to_dict()
        assert {(r["step size"], r["sharpness"]) for r in spec["data"]["values"] if r["curve"] == "2/η"} == {
            ("η = 0.1", 20),
            ("η = 0.4", 5),
        }
        assert spec["encoding"]["strokeDash"]["scale"]["range"] == [[1, 0], [5, 4]]
        exact = 0.5 * jnp.sum(scale * ((1 - 0.4 * scale) ** 60 * start) ** 2)
        np.testing.assert_allclose(path.losses[1, -1], exact, rtol=1e-10)
        above = sharpness_path(start, bowl, scale, [0.51], steps=60, every=20)
        assert above.uphill[0, -1] == 1


def test_bad_input():
    with pytest.raises(ValueError, match="step must be positive"):
        sharpness_path(jnp.ones(3), BatchLoss(lambda w, d: jnp.sum(w**2)), jnp.ones(3), [0.1, -1.0])
    with pytest.raises(TypeError, match="loss must be a name"):
        sharpness_path(jnp.ones(3), None, jnp.ones(3), [0.1])
