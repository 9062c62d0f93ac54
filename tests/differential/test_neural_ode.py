import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from corollary.differential import NeuralODE
from corollary.kernels import empirical_ntk

KEY = jax.random.key(0)


def test_a_linear_network_gives_the_matrix_exponential():
    network = eqx.nn.Linear(2, 2, use_bias=False, key=KEY)
    ode = NeuralODE(network, horizon=0.7, steps=40)
    u = jnp.array([1.0, -2.0])
    np.testing.assert_allclose(ode(u), expm(0.7 * np.asarray(network.weight)) @ u, rtol=1e-8)
    path = ode.path(u)
    np.testing.assert_array_equal(path[0], u)
    assert path.shape == (41, 2)
    np.testing.assert_allclose(np.asarray(ode.times)[[0, -1]], [0, 0.7])


def test_it_is_a_network():
    ode = NeuralODE(eqx.nn.MLP(2, 2, 4, 1, jnp.tanh, key=KEY), steps=4)
    x = jax.random.normal(KEY, (5, 2))
    kernel = empirical_ntk(ode, x)
    jacobian = jax.vmap(lambda x: jax.jacrev(lambda p: eqx.combine(p, static)(x))(params))
    params, static = eqx.partition(ode, eqx.is_inexact_array)
    flat = jnp.concatenate([leaf.reshape(5, 2, -1) for leaf in jax.tree.leaves(jacobian(x))], -1)
    np.testing.assert_allclose(kernel, jnp.einsum("iap,jap->ij", flat, flat), rtol=1e-6)


def test_with_a_condition():
    ode = NeuralODE(lambda both: both[1] * both[0], steps=50)
    np.testing.assert_allclose(ode(jnp.ones(1), jnp.full(1, -0.5)), np.exp(-0.5), rtol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"network": 3}, "network must be a function"),
        ({"horizon": 0.0}, "horizon must be"),
        ({"horizon": "long"}, "horizon must be a number"),
        ({"steps": 0}, "steps must be"),
        ({"method": "adaptive"}, "method must be"),
    ],
)
def test_bad_input(arguments, sentence):
    arguments = {"network": lambda u: u, **arguments}
    with pytest.raises((TypeError, ValueError), match=sentence):
        NeuralODE(arguments.pop("network"), **arguments)
