"""A function of parameters and an example as a network."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.landscape import hessian
from corollary.network import Network

RNG = np.random.default_rng(0)
W, B = RNG.normal(size=(2, 3)), RNG.normal(size=3)
X = RNG.normal(size=(5, 2))
PARAMS = {"w": W, "b": B}


def affine(params, x):
    return x @ params["w"] + params["b"]


def test_one_example_whether_the_function_takes_one_or_a_batch():
    expected = X @ W + B
    one = Network(lambda p, x: p["w"].T @ x + p["b"], PARAMS)
    many = Network(affine, PARAMS, batched=True)
    for network in (one, many):
        np.testing.assert_allclose(network(X[0]), expected[0], rtol=1e-12)
        np.testing.assert_allclose(jax.vmap(network)(X), expected, rtol=1e-12)
        np.testing.assert_allclose(jax.jit(jax.vmap(network))(X), expected, rtol=1e-12)
    np.testing.assert_allclose(many.on_batch(X), expected, rtol=1e-12)
    slopes = jax.vmap(jax.grad(lambda n, x: n(x).sum()), (None, 0))(many, X).params["w"]
    np.testing.assert_allclose(slopes, np.repeat(X[:, :, None], 3, 2), rtol=1e-12)


def test_inputs_may_be_trees():
    network = Network(lambda p, x: p * x["a"] + x["b"], jnp.array(2.0), batched=True)
    assert network({"a": jnp.array(3.0), "b": jnp.array(1.0)}) == 7.0


def test_buffers_come_between():
    network = Network(lambda p, b, x: p * x + b["shift"], jnp.array(2.0), {"shift": jnp.array(5.0)})
    assert network(jnp.array(3.0)) == 11.0


def test_networks_of_the_same_code_are_one_program():
    traces = []

    @eqx.filter_jit
    def apply(network, x):
        traces.append(1)
        return network(x)

    def make(scale, power=2):
        return Network(lambda p, x: (p * x) ** power, jnp.array(scale))

    assert [float(apply(make(s), 3.0)) for s in (1.0, 2.0)] == [9.0, 36.0]
    assert len(traces) == 1
    assert apply(make(1.0, power=3), 3.0) == 27.0
    assert len(traces) == 2


def test_notes_and_refusals():
    assert Network(affine, PARAMS, notes=["read so"]).notes == ("read so",)
    with pytest.raises(TypeError, match="apply must be a function of parameters and an example, got dict"):
        Network(PARAMS, affine)


def test_parameters_as_haiku_has_them():
    """`apply(params, rng, x)` behind a lambda; leaves that are whole numbers or None are not parameters."""

    def apply(params, rng, x):
        assert rng is None
        layer = params["linear"]
        return (x @ layer["w"] + layer["b"])[..., params["order"]] * params["times"]

    params = {"linear": {"w": W, "b": np.ones(3)}, "order": np.array([2, 0]), "times": 3, "unused": None}
    network = Network(lambda params, x: apply(params, None, x), params, batched=True)
    expected = 3 * (X @ W + 1)[:, [2, 0]]
    np.testing.assert_allclose(jax.vmap(network)(X), expected, rtol=1e-12)
    curvature = hessian(network, "squared", (X, expected))
    assert curvature.size == W.size + 3
    assert float(curvature.value()) < 1e-30  # rounding, squared
