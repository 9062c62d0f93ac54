import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.foundations import (
    chain_jacobian,
    difference_quotient,
    directional_derivative,
    finite_difference_gradient,
    integral_gradient_increment,
    integral_increment,
    integral_second_remainder,
    mean_value_point,
    taylor_coefficients,
    taylor_polynomial,
    taylor_remainder,
)

RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def quartic(x):
    return jnp.sum(x**4) + x[0] * x[1]


def test_difference_quotients():
    assert difference_quotient(lambda x: x**2, 3.0, 1.0, 0.5) == pytest.approx(6.5)
    assert difference_quotient(lambda x: x**2, 3.0, 1.0, 0.5, "central") == pytest.approx(6.0)
    x, v = RNG.normal(size=(2, 3))
    np.testing.assert_allclose(finite_difference_gradient(quartic, x, 1e-5), jax.grad(quartic)(x), rtol=1e-7)
    assert directional_derivative(quartic, x, v) == pytest.approx(float(jax.grad(quartic)(x) @ v))


def test_chain_jacobian():
    w = RNG.normal(size=(4, 3))

    def inner(x):
        return jnp.tanh(w @ x)

    x = RNG.normal(size=3)
    np.testing.assert_allclose(
        chain_jacobian(jnp.cumprod, inner, x), jax.jacobian(lambda x: jnp.cumprod(inner(x)))(x), rtol=1e-10
    )


def test_taylor():
    np.testing.assert_allclose(taylor_coefficients(jnp.exp, 0.0, 5), [1, 1, 1 / 2, 1 / 6, 1 / 24, 1 / 120], rtol=1e-14)
    assert taylor_polynomial(jnp.array([1.0, 2.0, 3.0]), 1.0, 3.0) == pytest.approx(17.0)
    x = jnp.linspace(-1, 1, 5)
    np.testing.assert_allclose(taylor_remainder(jnp.sin, 0.0, 2, x), np.sin(x) - x, atol=1e-15)


def test_mean_value_point():
    found = mean_value_point(lambda x: x**2, 1.0, 2.0)
    assert found.c == pytest.approx(0.5)
    x, y = RNG.normal(size=(2, 3))
    found = jax.jit(lambda x, y: mean_value_point(quartic, x, y))(x, y)
    assert 0 < found.c < 1
    assert abs(found.residual) < 1e-10
    mixed = mean_value_point(quartic, x, y.astype(np.float32))
    assert abs(mixed.residual) < 1e-10
    assert abs(mean_value_point(jnp.abs, -1.0, 2.0).residual) == pytest.approx(2)


def test_integral_forms():
    x, y = RNG.normal(size=(2, 3))
    slope = jax.grad(quartic)
    assert integral_increment(quartic, x, y) == pytest.approx(float(quartic(x + y) - quartic(x)))
    np.testing.assert_allclose(integral_gradient_increment(quartic, x, y), slope(x + y) - slope(x), rtol=1e-11)
    exact = quartic(x + y) - quartic(x) - slope(x) @ y
    assert integral_second_remainder(quartic, x, y) == pytest.approx(float(exact))
    assert integral_second_remainder(lambda x: x**3, 0.0, 1.0, weight=lambda t: 0.5) == pytest.approx(1.5)
    assert integral_increment(quartic, x.astype(np.float32), y.astype(np.float32)).dtype == jnp.float32


def test_bad_input():
    with pytest.raises(TypeError, match="f must be a function, got float"):
        difference_quotient(1.0, 0.0, 1.0, 0.1)
    with pytest.raises(ValueError, match="scheme must be one of"):
        difference_quotient(jnp.sin, 0.0, 1.0, 0.1, "backward")
    with pytest.raises(ValueError, match="step must be positive"):
        difference_quotient(jnp.sin, 0.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="x and v must have the same shape"):
        directional_derivative(quartic, np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="x and v must have the same shape"):
        difference_quotient(quartic, np.ones(3), np.ones(2), 0.1)
    with pytest.raises(ValueError, match="x and y must have the same shape"):
        mean_value_point(quartic, np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="x and y must have the same shape"):
        integral_increment(quartic, np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="g must return a vector"):
        chain_jacobian(jnp.sin, jnp.sum, np.ones(3))
    with pytest.raises(ValueError, match="order must be from 0 to 20"):
        taylor_coefficients(jnp.sin, 0.0, -1)
