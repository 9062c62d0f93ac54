"""Networks cut behind their affine first part: the same outputs, and a first part that is affine."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.robustness._affine import affine_first

KEY = jax.random.key(0)
with jax.enable_x64(True):
    DENSE = eqx.nn.MLP(3, 2, 7, 2, key=KEY)
    CONV = eqx.nn.Conv2d(1, 2, 3, key=KEY)
    WEIGHT = jax.random.normal(KEY, (3, 3))

#: networks with an example, and the shape behind the first part
NETWORKS = {
    "dense": (DENSE, (3,), (7,)),
    "scaled and shifted": (lambda x: jnp.tanh(WEIGHT @ ((x - 0.5) / 2)), (3,), (3,)),
    "convolution": (lambda x: jax.nn.relu(CONV(x)).sum((1, 2)), (1, 6, 6), (2, 4, 4)),
    "all affine": (lambda x: WEIGHT @ x, (3,), (3,)),
    "flattened": (lambda x: jax.nn.relu(x.reshape(-1)[:3] @ WEIGHT), (2, 3), (3,)),
    "seen twice": (lambda x: x + jnp.tanh(WEIGHT @ x), (3,), (3,)),
    "squared": (lambda x: WEIGHT @ (x * x), (3,), (3,)),
    "normalised": (lambda x: WEIGHT @ (x / jnp.linalg.norm(x)), (3,), (3,)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_parts_make_the_network(name):
    network, shape, behind = NETWORKS[name]
    x, noise = jax.random.normal(KEY, (2, *shape))
    head, tail = affine_first(network, x)
    np.testing.assert_allclose(tail(head(x)), network(x), rtol=1e-12)
    assert head(x).shape == behind
    together = head(x) + head(noise) - head(jnp.zeros(shape))
    np.testing.assert_allclose(head(x + noise), together, atol=1e-12)


def test_what_is_not_affine_stays_in_the_second_part():
    for name in ("seen twice", "squared", "normalised"):
        network, shape, _ = NETWORKS[name]
        x = jax.random.normal(KEY, shape)
        np.testing.assert_array_equal(affine_first(network, x)[0](x), x)


def test_several_inputs_are_left_whole():
    x = {"a": jnp.ones(2), "b": jnp.ones(2)}
    head, tail = affine_first(lambda x: x["a"] * x["b"], x)
    assert tail(head(x)).tolist() == [1, 1]
