import jax
import numpy as np
import pytest

from corollary import nets
from corollary.nets import MLP, logistic_to_tanh, tanh_to_logistic

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(9, 3))


@pytest.mark.parametrize("scaling", ["standard", "ntk"])
@pytest.mark.parametrize("bias", [True, False])
def test_logistic_and_tanh_networks(bias, scaling):
    for phi, convert, psi in (
        (nets.logistic, logistic_to_tanh, nets.tanh),
        (nets.tanh, tanh_to_logistic, nets.logistic),
    ):
        net = MLP((3, 5, 4, 2), phi, key=KEY, bias=bias, scaling=scaling)
        other = convert(net)
        assert all(layer.activation is psi for layer in other.layers[:-1])
        np.testing.assert_allclose(jax.vmap(other)(X), jax.vmap(net)(X), rtol=1e-11)
