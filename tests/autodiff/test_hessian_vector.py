"""The Hessian-vector product on pytrees of all kinds, against the dense Hessian."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from corollary.autodiff import hessian_operator, hessian_vector_product

PARAMS = {"a": jnp.arange(1.0, 4.0), "b": (jnp.ones((2, 2)), 0.5)}


def loss(p):
    return jnp.sum(jnp.sin(p["a"])) * jnp.sum(p["b"][0] ** 3) * p["b"][1] ** 2


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("way", [hessian_vector_product, lambda f, p, v: hessian_operator(f, p)(v)])
def test_pytrees(way):
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), PARAMS)
    flat, back = ravel_pytree(params)
    v = jax.random.normal(jax.random.key(0), flat.shape)
    expected = jax.jit(jax.hessian(lambda t: loss(back(t))))(flat) @ v
    np.testing.assert_allclose(ravel_pytree(way(loss, params, back(v)))[0], expected, rtol=1e-11)


def test_jit_vmap_and_grad():
    params, v = {"a": jnp.arange(3.0)}, {"a": jnp.eye(3)}
    f = lambda p: jnp.sum(p["a"] ** 4)  # noqa: E731
    product = jax.jit(jax.vmap(lambda p, v: hessian_vector_product(f, p, v), (None, 0)))(params, v)
    np.testing.assert_allclose(product["a"], np.diag(12 * np.arange(3.0) ** 2))
    curvature = lambda p: hessian_vector_product(f, p, {"a": jnp.ones(3)})["a"].sum()  # noqa: E731
    np.testing.assert_allclose(jax.grad(curvature)(params)["a"], 24 * np.arange(3.0))


def test_fixed_leaves_of_a_module_stay_fixed():
    net = eqx.nn.MLP(2, 1, 4, 1, activation=jnp.tanh, key=jax.random.key(0))
    x = jnp.array([0.3, -0.2])
    product = hessian_vector_product(lambda n: n(x)[0] ** 2, net, net)
    flat, back = ravel_pytree(eqx.filter(net, eqx.is_array))
    static = eqx.filter(net, eqx.is_array, inverse=True)
    expected = jax.jit(jax.hessian(lambda t: eqx.combine(back(t), static)(x)[0] ** 2))(flat) @ flat
    np.testing.assert_allclose(ravel_pytree(product)[0], expected, rtol=1e-6, atol=1e-7)
    counted = hessian_vector_product(lambda p: p["w"] ** 2 * p["n"], {"w": 1.0, "n": 3}, {"w": 1.0, "n": None})
    assert counted["w"] == 6.0
    assert counted["n"] is None


def test_follows_the_type():
    product = hessian_vector_product(lambda t: jnp.sum(t**3), jnp.ones(2, jnp.float32), np.ones(2))
    assert product.dtype == jnp.float32


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ((1, jnp.ones(2), jnp.ones(2)), TypeError, "objective must be a function"),
        ((lambda p: p, jnp.ones(2), jnp.ones(2)), ValueError, "objective must return a real scalar"),
        ((jnp.sum, jnp.ones(2), jnp.ones(3)), ValueError, r"vector must have shape \(2,\)"),
        ((lambda p: p["a"], {"a": 1.0}, [1.0]), ValueError, "structure of params"),
        ((lambda p: p["a"], {"a": 1.0}, {"a": np.nan}), ValueError, r"vector\['a'\] must be finite"),
        ((jnp.sum, jnp.ones(2, int), jnp.ones(2)), ValueError, "at least one floating-point leaf"),
        ((lambda p: jnp.abs(p).sum(), jnp.ones(2, complex), jnp.ones(2)), TypeError, "params must be real"),
    ],
)
def test_sentences(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        hessian_vector_product(*arguments)
