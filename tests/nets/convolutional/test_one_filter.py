import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.convolutional.one_filter import OneFilterCNN, maximum, maximum_gradient, one_filter_gradient

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=12)


def test_maximum_and_its_derivative():
    assert maximum([-1.0, 5.0, 7.0]) == 7
    gradient, differentiable = maximum_gradient([-1.0, 5.0, 7.0])
    np.testing.assert_array_equal(gradient, [0, 0, 1])
    assert bool(differentiable)
    gradient, differentiable = maximum_gradient([-1.0, 7.0, 7.0])
    np.testing.assert_array_equal(gradient, [0, 1, 0])
    assert not differentiable


def test_one_filter_gradient_against_jax():
    for relu in (False, True):
        model = OneFilterCNN(3, key=KEY, scale=1.0, relu=relu)
        for x in (X, jnp.asarray(-np.abs(X)) * jnp.sign(model.filter[0])):
            found = one_filter_gradient(model, x, 1)
            expected = jax.grad(lambda m, x=x: m.loss(x, 1))(model)
            np.testing.assert_allclose(found.filter, expected.filter, rtol=1e-9, atol=1e-14)
            np.testing.assert_allclose((found.weight, found.bias), (expected.weight, expected.bias), rtol=1e-9)


def test_exercise_14_2():
    x = jnp.array([1.2, 2.3, 0.0, -1.0])
    model = OneFilterCNN(2, key=KEY)
    feature = lambda r: jax.tree.map(lambda a: r if a.shape == (2,) else a, model).feature(x)  # noqa: E731
    value, slope = jax.value_and_grad(feature)(jnp.array([1.0, 2.0]))
    assert value == pytest.approx(5.8)
    np.testing.assert_allclose(slope, [1.2, 2.3])
