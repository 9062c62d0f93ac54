"""The power method against a dense eigensolver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.autodiff import hessian_operator
from corollary.optimization import power_method


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_eigenvalue_of_largest_modulus_with_its_sign(sign):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    a = (basis * np.array([sign * 3.0, 1.0, -1.0, 0.5, 0.1, 0.0])) @ basis.T
    with jax.enable_x64(True):
        found = power_method(lambda u: jnp.asarray(a) @ u, rng.normal(size=6), 60)
        assert np.isclose(found.quotients[-1], sign * 3.0, rtol=1e-12)
        assert found.residual < 1e-10
        assert found.quotients.shape == (61,)


def test_the_sharpness_of_a_loss():
    with jax.enable_x64(True):
        theta = jnp.array([0.3, -0.7, 1.1])
        loss = lambda t: jnp.sum(jnp.cosh(t)) + t[0] * t[1] ** 2  # noqa: E731
        found = power_method(hessian_operator(loss, theta), jnp.ones(3), 200)
        spectrum = np.linalg.eigvalsh(jax.jit(jax.hessian(loss))(theta))
        assert np.isclose(found.quotients[-1], spectrum[np.abs(spectrum).argmax()], rtol=1e-8)


def test_bad_input_is_a_sentence():
    with pytest.raises(TypeError, match="product must be a function"):
        power_method(np.eye(2), np.ones(2), 3)
    with pytest.raises(ValueError, match="zero vector"):
        power_method(lambda u: u, np.zeros(2), 3)
    with pytest.raises(ValueError, match="start must have shape"):
        power_method(lambda u: u, np.ones((2, 2)), 3)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        power_method(lambda u: u, np.ones(2), 0)
