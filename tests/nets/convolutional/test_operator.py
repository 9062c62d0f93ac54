"""Convolution and cross-correlation of finite signals in one to three dimensions."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal

from corollary.nets import convolutional as cv

RNG = np.random.default_rng(0)
F, H = RNG.integers(-9, 10, 11).astype(float), RNG.integers(-9, 10, 4).astype(float)
IMAGE, KERNEL = RNG.integers(-9, 10, (6, 7)).astype(float), RNG.integers(-9, 10, (3, 2)).astype(float)


def circular(f, h):
    out = np.zeros_like(f)
    for t in np.ndindex(h.shape):
        out += h[t] * np.roll(f, t, axis=tuple(range(f.ndim)))
    return out


def test_convolution_is_exact_on_integers():
    for mode in ("full", "same", "valid"):
        np.testing.assert_array_equal(cv.convolve(F, H, mode), signal.convolve(F, H, mode, "direct"))
        np.testing.assert_array_equal(cv.convolve(IMAGE, KERNEL, mode), signal.convolve2d(IMAGE, KERNEL, mode))
    np.testing.assert_array_equal(cv.convolve(F, H, "circular"), circular(F, H))
    np.testing.assert_array_equal(cv.convolve(IMAGE, KERNEL, "circular"), circular(IMAGE, KERNEL))
    np.testing.assert_array_equal(cv.convolve(IMAGE, KERNEL, stride=(2, 3)), signal.convolve2d(IMAGE, KERNEL)[::2, ::3])
    assert cv.convolve(jnp.float32(F), jnp.float32(H)).dtype == jnp.float32


def test_correlation_starts_where_it_says():
    def at(u):  # the definition, with zeros outside
        return sum(H[t] * F[u + t] for t in range(4) if 0 <= u + t < 11)

    np.testing.assert_array_equal(cv.cross_correlate(H, F), [at(u) for u in range(8)])
    np.testing.assert_array_equal(cv.cross_correlate(H, F, "full"), [at(u) for u in range(-3, 11)])
    np.testing.assert_array_equal(cv.cross_correlate(H, F, "same"), [at(u) for u in range(-2, 9)])
    np.testing.assert_array_equal(cv.cross_correlate(H, F, stride=3), [at(u) for u in range(0, 8, 3)])
    around = [sum(H[t] * F[(u + t) % 11] for t in range(4)) for u in range(11)]
    np.testing.assert_array_equal(cv.cross_correlate(H, F, "circular"), around)
    np.testing.assert_array_equal(cv.flip(KERNEL), KERNEL[::-1, ::-1])


def test_shift_average_and_impulse_response():
    a = RNG.normal(size=(5, 5))
    averaged = sum(np.roll(a, (k, k), (0, 1)) for k in range(5)) / 5
    np.testing.assert_allclose(cv.shift_average(a), averaged, atol=1e-14)
    np.testing.assert_allclose(cv.impulse_response(lambda f: averaged @ f, 5), averaged[:, 0], atol=1e-14)
    response = cv.impulse_response(lambda f: cv.convolve(f, KERNEL, "circular"), (6, 7))
    np.testing.assert_array_equal(response[:3, :2], KERNEL)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cv.convolve(F, KERNEL), "h must have 1 axes like f"),
        (lambda: cv.convolve(np.ones((1, 1, 1, 1)), H), "f must be a signal with one to three axes"),
        (lambda: cv.convolve(H, F, "valid"), "h must be no larger than f in mode 'valid'"),
        (lambda: cv.convolve(F, H, "wrap"), "mode must be one of"),
        (lambda: cv.convolve(F, H, stride=(1, 2)), "stride must be one number or one for each of 1 axes"),
        (lambda: cv.cross_correlate(H, F, stride=0), "stride must be at least 1"),
        (lambda: cv.cross_correlate(H, F * np.nan), "f must be finite"),
        (lambda: cv.impulse_response(1, 5), "transform must be a function"),
        (lambda: cv.shift_average(np.ones((2, 3))), "matrix must have shape"),
        (lambda: cv.toeplitz_matrix(1.0, 3), "h must be a kernel with one to three axes"),
        (lambda: cv.toeplitz_matrix(F, 5, "valid"), "size must be no smaller than the kernel"),
        (lambda: cv.is_toeplitz(F), "matrix must have shape"),
        (lambda: cv.radix2_fft(np.ones(6)), "x must be a vector whose length is a power of two"),
        (lambda: cv.fft_convolution_cost(6), "n must be a power of two"),
        (lambda: cv.dft_matrix(0), "n must be at least 1"),
        (lambda: cv.integral_operator(1, jnp.sin, F, 0.0, 1.0), "kernel must be a function"),
        (lambda: cv.convolve_functions(jnp.sin, 1, F, 0.0, 1.0), "h must be a function"),
        (lambda: cv.fourier_transform(jnp.sin, F, 1.0, 0.0), "low must be less than high"),
        (lambda: cv.fourier_transform(jnp.sin, F, 1.0, H), "low and high must be two numbers or two vectors"),
        (lambda: cv.fourier_transform(lambda t: jnp.ones(2), F, 0.0, 1.0), "f must give one number at each point"),
        (lambda: cv.moving_average(H, 5), "taps must be at most the length of x"),
        (lambda: cv.binomial_kernel(-1), "order must be from 0 to 1000"),
        (lambda: cv.frequency_response(KERNEL, 0.1), "h must have shape"),
        (lambda: cv.stride_gap(H, F, 0), "stride must be at least 1"),
        (lambda: cv.signal_lipschitz(KERNEL), "r must have shape"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
