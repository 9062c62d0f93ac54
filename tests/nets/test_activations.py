import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from corollary import nets
from corollary.nets import ACTIVATIONS, clipped_relu, gaussian_second_moment, leaky_relu, logistic_derivative, softplus

Z = np.concatenate([np.linspace(-30, 30, 101) + 0.013, [0.5, -0.5]])
ALL = {**ACTIVATIONS, "softplus": softplus(3.0), "leaky": leaky_relu(0.2), "clipped": clipped_relu(0.7)}


@pytest.mark.parametrize("name", ALL)
def test_derivatives_are_those_of_the_function(name):
    phi = ALL[name]
    np.testing.assert_allclose(phi.prime(Z), jax.vmap(jax.grad(lambda z: phi(z)))(jnp.asarray(Z)), atol=1e-14)
    second = jax.vmap(jax.grad(lambda z: phi.prime(z)))(jnp.asarray(Z))
    np.testing.assert_allclose(phi.second(Z), second, atol=1e-14)


def test_values():
    np.testing.assert_allclose(nets.logistic(Z), special.expit(Z), rtol=1e-14)
    np.testing.assert_allclose(nets.tanh(Z), np.tanh(Z), rtol=1e-14)
    np.testing.assert_allclose(nets.arctan(Z), np.arctan(Z), rtol=1e-14)
    np.testing.assert_array_equal(nets.relu(Z), np.maximum(Z, 0))
    np.testing.assert_array_equal(nets.heaviside(Z), np.heaviside(Z, 1))
    np.testing.assert_array_equal(nets.sign(Z), np.sign(Z))
    np.testing.assert_allclose(softplus(3.0)(Z), np.logaddexp(0, 3 * Z) / 3, rtol=1e-13)
    np.testing.assert_array_equal(leaky_relu(0.2)(Z), np.where(Z > 0, Z, 0.2 * Z))
    np.testing.assert_array_equal(clipped_relu(0.7)(Z), np.clip(Z, 0, 0.7))
    np.testing.assert_array_equal([nets.heaviside(0.0), nets.sign(0.0), nets.relu.prime(0.0)], [1, 1, 0])


@pytest.mark.parametrize("name", [n for n, phi in ALL.items() if phi.inverse])
def test_inverses(name):
    z = np.linspace(-4, 4, 41)
    np.testing.assert_allclose(ALL[name].inverse(ALL[name](z)), z, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_lipschitz_constants_and_limits(name):
    phi, z = ALL[name], np.linspace(-50, 50, 10_001)
    if np.isfinite(phi.lipschitz):
        quotients = np.abs(np.diff(phi(z)) / np.diff(z))
        assert quotients.max() <= phi.lipschitz * (1 + 1e-9)
        assert quotients.max() >= 0.999 * phi.lipschitz
    far = np.asarray(phi(np.array([-1e12, 1e12])))
    for value, limit in zip(far, phi.limits, strict=True):
        assert abs(value - limit) < 1e-9 if np.isfinite(limit) else np.sign(value) == np.sign(limit)


def test_tails_survive():
    assert nets.tanh.prime(100.0) > 0
    assert nets.softplus(2.0)(-300.0) > 0
    assert np.isfinite(nets.logistic(np.array([-1e4, 1e4]))).all()


@pytest.mark.parametrize("order", range(6))
def test_logistic_derivatives(order):
    f = jax.nn.sigmoid
    for _ in range(order):
        f = jax.grad(f)
    z = jnp.linspace(-5, 5, 21)
    np.testing.assert_allclose(logistic_derivative(z, order), jax.vmap(f)(z), atol=1e-12)


@pytest.mark.parametrize("name", ["logistic", "tanh", "arctan", "relu", "identity", "sign"])
@pytest.mark.parametrize("variance", [0.5, 1.0, 2.0])
def test_gaussian_second_moment(name, variance):
    phi = {"logistic": special.expit, "tanh": np.tanh, "arctan": np.arctan, "relu": lambda z: max(z, 0)}.get(
        name, np.sign if name == "sign" else lambda z: z
    )
    law = stats.norm(scale=variance**0.5)
    pieces = [integrate.quad(lambda z: phi(z) ** 2 * law.pdf(z), *ends)[0] for ends in ((-12, 0), (0, 12))]
    np.testing.assert_allclose(gaussian_second_moment(ACTIVATIONS[name], variance), sum(pieces) / variance, rtol=1e-6)


def test_precision_is_the_callers():
    z = jnp.asarray(Z, jnp.float32)
    for phi in ALL.values():
        assert phi(z).dtype == phi.prime(z).dtype == phi.second(z).dtype == jnp.float32
    assert logistic_derivative(z, 3).dtype == jnp.float32


def test_objects_are_shared():
    assert softplus(2.0) is softplus(2.0)
    assert hash(softplus(2.0)) != hash(softplus(3.0))


def test_bad_input():
    with pytest.raises(TypeError, match="z must be an array"):
        nets.relu(None)
    with pytest.raises(ValueError, match="beta must be positive"):
        softplus(0.0)
    with pytest.raises(ValueError, match="slope must be in"):
        leaky_relu(1.0)
    with pytest.raises(ValueError, match="top must be positive"):
        clipped_relu(0.0)
    with pytest.raises(ValueError, match="order must be from 0 to 16"):
        logistic_derivative(0.0, 17)
    with pytest.raises(ValueError, match="variance must be positive"):
        gaussian_second_moment(nets.relu, 0.0)
    with pytest.raises(ValueError, match="p must be in"):
        nets.logistic.inverse(1.0)
    with pytest.raises(ValueError, match="t must be in"):
        nets.tanh.inverse(1.0)
    with pytest.raises(ValueError, match="t must be in"):
        nets.arctan.inverse(2.0)
    with pytest.raises(ValueError, match="t must be positive"):
        softplus(1.0).inverse(0.0)
