"""Pooling entry by entry: the same numbers as the operations it replaces, equal entries and borders included."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Literal

from corollary._engine.cpu_ready import cpu_ready

RNG = np.random.default_rng(0)


def _names(function, *args):
    return {e.primitive.name for e in jax.make_jaxpr(function)(*args).eqns}


@pytest.mark.parametrize("pool", [eqx.nn.MaxPool2d(2, 2), eqx.nn.MaxPool2d(3, 3), eqx.nn.MaxPool2d((1, 2), (1, 2))])
def test_pooling_and_its_derivatives(pool):
    x = jnp.asarray(RNG.integers(0, 3, size=(4, 3, 7, 8)), jnp.float32)  # many entries are equal
    weight = jnp.asarray(RNG.normal(size=jax.eval_shape(pool, x[0]).shape), jnp.float32)
    slope = jax.vmap(jax.value_and_grad(lambda x: jnp.vdot(weight, pool(x) ** 2)))
    assert {"reduce_window_max", "select_and_scatter_add"} <= _names(slope, x)
    assert not {"reduce_window_max", "select_and_scatter_add"} & _names(cpu_ready(slope), x)
    for found, wanted in zip(cpu_ready(slope)(x), slope(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    twice = lambda f: jax.jvp(f, (x,), (x,))[1][1]  # noqa: E731
    np.testing.assert_allclose(twice(cpu_ready(slope)), twice(slope), rtol=1e-5)


@pytest.mark.parametrize("pool", [eqx.nn.MaxPool2d(3, 2), eqx.nn.MaxPool2d(2, 2, padding=1), eqx.nn.MaxPool2d(4, 4)])
def test_windows_that_overlap_or_are_padded_or_large_stay(pool):
    x = jnp.asarray(RNG.normal(size=(2, 3, 8, 8)), jnp.float32)
    slope = jax.vmap(jax.grad(lambda x: jnp.sum(pool(x) ** 2)))
    assert "select_and_scatter_add" in _names(cpu_ready(slope), x)
    np.testing.assert_allclose(cpu_ready(slope)(x), slope(x), rtol=1e-5)


@pytest.mark.parametrize("reduction", [jnp.max, jnp.sum])
def test_short_reductions(reduction):
    x = jnp.asarray(RNG.normal(size=(5, 3, 6, 2)), jnp.float32).at[0, 0, 0, 0].set(jnp.nan)
    short = cpu_ready(lambda x: reduction(x, (1, 3)))
    assert not {"reduce_max", "reduce_sum"} & _names(short, x)
    np.testing.assert_allclose(short(x), reduction(x, (1, 3)), rtol=1e-6)
    assert {"reduce_max", "reduce_sum"} & _names(cpu_ready(lambda x: reduction(x, (0, 1))), x)


def test_images_in_blocks():
    x = jnp.asarray(RNG.normal(size=(2, 3, 6, 8)), jnp.float32)

    def pooled(x):
        return jnp.sum(jnp.tanh(x).reshape(2, 3, 3, 2, 4, 2).max((3, 5)) ** 2)

    assert "transpose" in _names(cpu_ready(pooled), x)
    for function in (pooled, jax.grad(pooled)):
        np.testing.assert_allclose(cpu_ready(function)(x), function(x), rtol=1e-5)


def test_a_plain_number_in_another_shape():
    given = jax.make_jaxpr(lambda x: x + jax.lax.reshape(True, (1,)))(jnp.ones(2))
    assert any(not hasattr(v.val, "ndim") for e in given.eqns for v in e.invars if isinstance(v, Literal))
    found = cpu_ready(lambda x: x + jax.lax.reshape(True, (1,)))(jnp.ones(2))
    np.testing.assert_array_equal(found, [2.0, 2.0])
