import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import nets
from corollary.nets import (
    Composition,
    FullyConnected,
    ResidualLayer,
    Stack,
    matrix_of,
    parameter_count,
    superposition_defect,
)

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=4)


def test_composition():
    layers = [FullyConnected(4, 3, nets.tanh, key=KEY), jnp.sin, FullyConnected(3, 2, key=KEY)]
    net = Composition(layers)
    states = net.activations(X)
    assert [s.shape for s in states] == [(4,), (3,), (3,), (2,)]
    np.testing.assert_array_equal(net(X), states[-1])
    np.testing.assert_allclose(states[2], np.sin(np.asarray(layers[0](X))))
    nested = Composition([Composition(layers[:2]), layers[2]])
    np.testing.assert_array_equal(nested(X), net(X))


@pytest.mark.parametrize("make", [FullyConnected, ResidualLayer])
def test_stack_is_a_loop_over_its_layers(make):
    args = (4, 4) if make is FullyConnected else (4,)
    stack = Stack(lambda k: make(*args, nets.tanh, key=k), 7, key=KEY)
    expected = [jnp.asarray(X)]
    for k in jax.random.split(KEY, 7):
        expected.append(make(*args, nets.tanh, key=k)(expected[-1]))
    np.testing.assert_allclose(stack.activations(X), np.stack(expected), rtol=1e-12)
    np.testing.assert_allclose(stack(X), expected[-1], rtol=1e-12)
    assert parameter_count(stack) == 7 * 20
    jax.jit(jax.grad(lambda s: s(X).sum()))(stack)


def test_linear_maps():
    a = np.random.default_rng(1).normal(size=(3, 4))
    np.testing.assert_allclose(matrix_of(lambda v: a @ v, 4), a)
    assert superposition_defect(lambda v: a @ v, X, 2 * X, 0.3, -2.0) < 1e-14
    np.testing.assert_allclose(superposition_defect(lambda v: a @ v + 1, X, X, 3.0, -1.0), 3**0.5, rtol=1e-12)


def test_parameter_count_ignores_what_is_not_a_number():
    assert parameter_count({"w": jnp.ones((2, 3)), "n": jnp.arange(4), "f": jnp.sin}) == 6


def test_bad_input():
    with pytest.raises(TypeError, match="layers must be one or more functions"):
        Composition([])
    with pytest.raises(TypeError, match="make must be a function"):
        Stack(3, 2, key=KEY)
    with pytest.raises(ValueError, match="depth must be at least 1"):
        Stack(lambda k: ResidualLayer(4, key=k), 0, key=KEY)
    with pytest.raises(ValueError, match="must keep the shape"):
        Stack(lambda k: FullyConnected(4, 3, key=k), 2, key=KEY)(X)
    with pytest.raises(ValueError, match="y must have shape"):
        superposition_defect(jnp.sin, X, X[:2], 1.0, 1.0)
    with pytest.raises(TypeError, match="inputs must be an integer"):
        matrix_of(jnp.sin, 2.5)
