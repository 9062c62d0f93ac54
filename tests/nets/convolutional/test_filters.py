"""Filters with a known purpose."""

import numpy as np

from corollary.nets import convolutional as cv

RNG = np.random.default_rng(0)
F, H = RNG.integers(-9, 10, 11).astype(float), RNG.integers(-9, 10, 4).astype(float)


def test_filters():
    np.testing.assert_array_equal(16 * cv.binomial_kernel(), [1, 4, 6, 4, 1])
    np.testing.assert_allclose(cv.moving_average(F, 3), np.convolve(F, np.ones(3) / 3, "valid"), rtol=1e-13)
    u = np.array([0.0, 0.2])
    wave = np.exp(-2j * np.pi * np.outer(u, np.arange(4) - 1))
    np.testing.assert_allclose(cv.frequency_response(H, u, start=-1), wave @ H, rtol=1e-13)
    assert cv.signal_lipschitz(np.array([4.0, 5, 6])) == 6
    assert cv.stride_gap(np.ones(1), np.array([0.0, 5.0, 2.0]), 2) == 3
    assert cv.stride_gap(np.ones(1), np.array([-1.0, -2.0]), 2) == 0
