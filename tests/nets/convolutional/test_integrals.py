"""Integral operators on functions of one or several variables: the Fourier transform and the convolution."""

import jax.numpy as jnp
import numpy as np
from scipy import integrate

from corollary.nets import convolutional as cv


def test_integrals():
    u = np.array([-0.3, 0.7])
    values = cv.integral_operator(lambda u, t: jnp.sin(u * t), jnp.exp, u, 0.0, 2.0, panels=2)
    wanted = [integrate.quad(lambda t, a=a: np.sin(a * t) * np.exp(t), 0, 2)[0] for a in u]
    np.testing.assert_allclose(values, wanted, rtol=1e-13)
    found = cv.fourier_transform(lambda t: jnp.exp(-jnp.abs(t)), u, -40.0, 40.0, panels=40)
    np.testing.assert_allclose(found, 2 / (1 + 4 * np.pi**2 * u**2), rtol=1e-12)
    # of two variables: variances 1 and 3 along the first axis, 2 and 2 along the second
    f = lambda t: jnp.exp(-(t[0] ** 2) / 2 - t[1] ** 2 / 4)  # noqa: E731
    h = lambda t: jnp.exp(-(t[0] ** 2) / 6 - t[1] ** 2 / 4)  # noqa: E731
    at = jnp.array([[0.5, -1.0]])
    value = cv.convolve_functions(f, h, at, -12 * jnp.ones(2), 12 * jnp.ones(2), panels=6)[0]
    closed = np.sqrt(2 * np.pi * 3 / 4) * np.exp(-0.25 / 8) * np.sqrt(2 * np.pi) * np.exp(-1 / 8)
    np.testing.assert_allclose(value, closed, rtol=1e-10)
