import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import HighwayLayer, HighwayStack, RecurrentHighway, unroll

KEY = jax.random.key(7)


def inputs(steps=5, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


def test_a_closed_highway_is_the_identity():
    x = jnp.array([0.3, -2.0, 1.0])
    layer = HighwayLayer(3, key=KEY, gate_bias=-40.0)
    np.testing.assert_allclose(layer(x), x, rtol=1e-12)
    layer = HighwayLayer(3, key=KEY, gate_bias=40.0)
    np.testing.assert_allclose(layer(x), jnp.tanh(layer.transform.weight @ x), rtol=1e-12)
    stack = HighwayStack(3, 2, key=KEY)
    first, second = (jax.tree.map(lambda a, i=i: a[i] if eqx.is_array(a) else a, stack.layers) for i in (0, 1))
    np.testing.assert_allclose(stack(x), second(first(x)), rtol=1e-12)


def test_recurrent_highway_by_its_formula():
    cell = RecurrentHighway(2, 3, 2, key=KEY, gate_bias=-1.0)
    x, s = jnp.array([0.5, -1.0]), jnp.array([0.1, -0.4, 0.8])
    expected = s
    for layer in range(2):
        z = cell.recurrent[layer] @ expected + (cell.inputs @ x if layer == 0 else 0)
        opened = jax.nn.sigmoid(z[3:] - 1)
        expected = opened * jnp.tanh(z[:3]) + (1 - opened) * expected
    np.testing.assert_allclose(cell(x, s), expected, rtol=1e-12)
    assert unroll(cell, inputs(4, 2)).shape == (4, 3)
    with pytest.raises(TypeError, match="activation must be a function of a number, got 3."):
        RecurrentHighway(2, 3, 2, 3, key=KEY)
