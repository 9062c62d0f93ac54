"""Convolution by Fourier transforms: a product of transforms, and what it costs."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg, signal

from corollary.nets import convolutional as cv

RNG = np.random.default_rng(0)
F, H = RNG.integers(-9, 10, 11).astype(float), RNG.integers(-9, 10, 4).astype(float)
IMAGE, KERNEL = RNG.integers(-9, 10, (6, 7)).astype(float), RNG.integers(-9, 10, (3, 2)).astype(float)


def circular(f, h):
    out = np.zeros_like(f)
    for t in np.ndindex(h.shape):
        out += h[t] * np.roll(f, t, axis=tuple(range(f.ndim)))
    return out


def test_transforms():
    for mode in ("full", "same", "valid"):
        np.testing.assert_allclose(cv.fft_convolve(F, H, mode), np.convolve(F, H, mode), atol=1e-11)
    np.testing.assert_allclose(cv.fft_convolve(F, H, "circular"), circular(F, H), atol=1e-11)
    np.testing.assert_allclose(cv.fft_convolve(IMAGE, KERNEL), signal.convolve2d(IMAGE, KERNEL), atol=1e-11)
    x = RNG.normal(size=16)
    counted = cv.radix2_fft(x)
    np.testing.assert_allclose(counted.values, np.fft.fft(x), atol=1e-13)
    assert counted.multiplications == 8 * 4
    np.testing.assert_allclose(cv.dft_matrix(7), linalg.dft(7), atol=1e-14)
    assert cv.fft_convolution_cost(8) == 3 * 8 * 4 + 16


def test_under_transformations():
    def loss(h):
        return jnp.sum(cv.fft_convolve(jnp.asarray(F), h, "valid") ** 2)

    def direct(h):
        return jnp.sum(cv.convolve(jnp.asarray(F), h, "valid") ** 2)

    slopes = jax.jit(jax.vmap(lambda h: (jax.grad(loss)(h), jax.grad(direct)(h))))(jnp.stack([H, -H]))
    np.testing.assert_allclose(*slopes, rtol=1e-12)
