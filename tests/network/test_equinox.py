"""Equinox modules that take more than one example: a state, several inputs, a key, several outputs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject, landscape

KEY = jax.random.key(0)
N = 6
A, B = (np.random.default_rng(i).normal(size=(N, 3)).astype(np.float32) for i in range(2))


class Both(eqx.Module):
    inner: eqx.nn.Linear
    drop: eqx.nn.Dropout

    def __call__(self, a, b, *, key):
        return self.drop(self.inner(a), key=key) + b


@pytest.fixture
def both():
    return Both(eqx.nn.Linear(3, 3, key=KEY), eqx.nn.Dropout())


def test_several_inputs_and_a_key_that_must_be_given(both):
    expected = jax.vmap(both.inner)(A) + B
    for x in ((A, B), {"b": B, "a": A}):
        np.testing.assert_allclose(jax.vmap(Network.from_equinox(both))(x), expected, rtol=1e-6)
    network = Network.from_equinox(both)
    assert landscape.hessian(network, "squared", ((A, B), B)).size == 12
    assert both.drop.inference is False  # the module that was given is left as it was


def test_one_of_several_outputs(both):
    class Two(eqx.Module):
        inner: eqx.nn.Linear

        def __call__(self, x):
            return self.inner(x), {"input": x}

    network = Network.from_equinox(Two(both.inner), output=0)
    np.testing.assert_allclose(jax.vmap(network)(A), jax.vmap(both.inner)(A))
    np.testing.assert_allclose(jax.vmap(Network.from_equinox(Two(both.inner), output="1.input"))(A), A)
    with pytest.raises(ValueError, match="several outputs, 0, 1.input: choose one of them with output="):
        Network.from_equinox(Two(both.inner))(A[0])


class Normalised(eqx.Module):
    inner: eqx.nn.Linear
    norm: eqx.nn.BatchNorm

    def __call__(self, a, b, memory):
        x, memory = self.norm(self.inner(a), memory)
        return x * b, memory


def test_a_state_under_any_name_and_several_inputs():
    norm = lambda: eqx.nn.BatchNorm(3, "batch", mode="ema", momentum=0.0)  # noqa: E731
    module, state = eqx.nn.make_with_state(lambda: Normalised(eqx.nn.Linear(3, 3, key=KEY), norm()))()
    over = dict(in_axes=(0, 0, None), out_axes=(0, None), axis_name="batch")
    expected, state = jax.vmap(module, **over)(A, B, state)
    for x in ((A, B), {"a": A, "b": B}):
        network = Network.from_equinox(module, state)
        # with a momentum of 0 the stored statistics are those of this batch
        np.testing.assert_allclose(jax.vmap(network)(x), expected, rtol=1e-4, atol=1e-5)
    gradient = jax.grad(lambda p: jnp.sum(jax.vmap(network.with_params(p))((A, B)) ** 2))(
        jax.tree.map(lambda a: a, network.params)
    )
    assert float(jnp.abs(gradient.inner.weight).max()) > 0


def test_a_module_with_flags_of_inference_is_a_network_already(both):
    class Flagged(eqx.Module):
        inner: eqx.nn.Linear
        inference: bool = False

        def __call__(self, x, *, key=None):
            return self.inner(x) * (1.0 if self.inference else jnp.nan)

    subject = Subject(Flagged(both.inner), "squared", (A, B))
    np.testing.assert_allclose(subject.outputs(), jax.vmap(both.inner)(A), rtol=1e-6)


def test_one_sentence(both):
    with pytest.raises(TypeError, match="must be an Equinox module that can be called, got tuple"):
        Network.from_equinox((1,))
    with pytest.raises(TypeError, match="state must be an equinox.nn.State, got dict"):
        Network.from_equinox(both, {})
