"""Lipschitz constants: exact for linear maps, above every Jacobian, and infinite where nothing is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from corollary import Network
from corollary.generalization import lipschitz, operator_norms

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(12, 4))
Y = np.arange(12) % 2


def test_a_linear_map_has_its_norm_from_both_sides():
    a = jax.random.normal(KEY, (3, 4))
    found = lipschitz(Network(lambda w, x: w @ x + 1, a), (X, Y), key=KEY, steps=60)
    np.testing.assert_allclose([found.lower, found.upper], np.linalg.norm(a, 2), rtol=1e-6)


def test_relu_layers_have_the_product_of_their_norms():
    network = eqx.nn.MLP(4, 2, 8, 2, key=KEY)
    found = lipschitz(network, (X, Y), key=KEY)
    norms = operator_norms(network, (4,))
    np.testing.assert_allclose(found.upper, np.prod([float(n.upper) for n in norms]), rtol=1e-12)
    slopes = np.linalg.norm(jax.jit(jax.vmap(jax.jacobian(network)))(X), 2, (1, 2))
    np.testing.assert_allclose(found.lower, max(slopes), rtol=1e-2)
    assert found.lower <= max(slopes) * (1 + 1e-9) <= found.upper


# entrywise, with the greatest slope that a fine grid finds
ENTRYWISE = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "silu": jax.nn.silu,
    "mish": jax.nn.mish,
    "elu": lambda z: jax.nn.elu(z, 1.5),
    "selu": jax.nn.selu,
    "leaky": lambda z: jax.nn.leaky_relu(z, 0.2),
    "clipped": lambda z: jnp.clip(z, -1, 1),
    "relu6": jax.nn.relu6,
    "absolute": jnp.abs,
}


@pytest.mark.parametrize("name", ENTRYWISE)
def test_entrywise_functions_have_their_greatest_slope(name):
    phi = ENTRYWISE[name]
    z = jnp.linspace(-8, 8, 4001)[:, None]
    found = lipschitz(Network(lambda w, x: phi(w * x), jnp.ones(1)), (z, jnp.zeros(4001)), key=KEY, steps=1)
    greatest = np.abs(np.asarray(jax.jit(jax.vmap(jax.grad(lambda v: phi(v))))(z[:, 0]))).max()
    np.testing.assert_allclose(found.lower, greatest, rtol=1e-6)
    assert greatest * (1 - 1e-9) <= found.upper <= greatest * 1.001


# linear, or made of maxima: the largest singular value of the Jacobian where it is greatest
SHAPES = {
    "pooled sums": (lambda x: lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "VALID"), 2.9),
    "pooled maxima": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "VALID"), 1.0),
    "sum": (jnp.sum, 2.0),
    "mean": (jnp.mean, 0.5),
    "repeated": (lambda x: jnp.concatenate([x, x[::-1], x[:2]]), np.sqrt(3)),
    "residual": (lambda x: x + jnp.tanh(x), 2.0),
    "two branches": (lambda x: jnp.concatenate([2 * x, jnp.tanh(x)]), np.sqrt(5)),
    "largest": (lambda x: jnp.max(x), 1.0),
    "between": (lambda x: jnp.maximum(x[:2], x[2:]), 1.0),
    "flat": (lambda x: 0 * x * x, 0.0),
}


@pytest.mark.parametrize("name", SHAPES)
def test_other_operations_are_bounded_from_above(name):
    apply, least = SHAPES[name]
    near = jnp.concatenate([X / 100, jnp.zeros((1, 4))])
    found = lipschitz(Network(lambda w, x: apply(w * x), jnp.ones(())), (near, jnp.zeros(13)), key=KEY, steps=40)
    assert found.lower <= found.upper
    if name != "flat":
        assert least * 0.8 <= found.upper <= 2.1 * max(least, 1.0)


def test_periodic_padding_is_a_part_of_the_layer():
    conv = eqx.nn.Conv1d(1, 1, 3, padding=1, padding_mode="CIRCULAR", key=KEY)
    conv = eqx.tree_at(lambda c: c.weight, conv, jnp.full((1, 1, 3), 1 / 3))
    found = lipschitz(conv, (jnp.ones((2, 1, 8)), jnp.zeros(2)), key=KEY, steps=60)
    np.testing.assert_allclose([found.lower, found.upper], 1.0, rtol=1e-6)


def test_what_has_no_bound_is_named():
    found = lipschitz(Network(lambda w, x: (w @ x) ** 2, jnp.eye(4)), (X, Y), key=KEY)
    assert np.isinf(found.upper)
    assert np.isfinite(found.lower)
    assert found.unknown in (("integer_pow",), ("square",))


def test_a_lipschitz_constant_inside_a_compiled_program():
    apply = lambda w, x: w @ jax.nn.relu(w @ x)  # noqa: E731
    found = jax.jit(lambda w: lipschitz(Network(apply, w), (X, Y), key=KEY)[:2])(2 * jnp.eye(4))
    np.testing.assert_allclose(found, 4.0, rtol=1e-6)


def test_a_kink_at_an_example_does_not_mislead():
    # x - relu(x) + relu(-x) is 0 everywhere, and its derivative by rule is 1 at 0
    network = Network(lambda w, x: w * (x - jax.nn.relu(x) + jax.nn.relu(-x)), jnp.ones(2))
    data = jnp.array([[0.0, 0.0], [1.0, 0.0]])
    assert lipschitz(network, (data, Y[:2]), key=KEY).lower == 0


# the ReLU as PyTorch's is read, a leaky one, and one with a jump
CHOICES = {
    "relu": (lambda z: jnp.where(z <= 0, 0.0, z), 1.0),
    "leaky": (lambda z: jnp.where(z > 0, z, -0.2 * z), 1.0),
    "steep": (lambda z: jnp.where(z < 0, 3 * z, z), 3.0),
    "shifted": (lambda z: jnp.where(z > 1, z, 1.0), 1.0),
    "a jump": (lambda z: jnp.where(z > 1, z, 0.0), np.inf),
    "other entries": (lambda z: jnp.where(z > 0, z[::-1], 0.0), np.inf),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_are_bounded_where_they_are_continuous(name):
    phi, expected = CHOICES[name]
    found = lipschitz(Network(lambda w, x: phi(w @ x), jnp.eye(4)), (X, Y), key=KEY)
    np.testing.assert_allclose(found.upper, expected, rtol=1e-9)
