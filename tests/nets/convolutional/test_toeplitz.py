"""Convolutions as matrices: constant along diagonals, mostly zero, and with few different entries."""

import numpy as np
from scipy import linalg, signal

from corollary.nets import convolutional as cv

RNG = np.random.default_rng(0)
F, H = RNG.integers(-9, 10, 11).astype(float), RNG.integers(-9, 10, 4).astype(float)
IMAGE, KERNEL = RNG.integers(-9, 10, (6, 7)).astype(float), RNG.integers(-9, 10, (3, 2)).astype(float)


def test_matrices_are_the_convolutions():
    for mode in ("full", "same", "valid", "circular"):
        matrix = cv.toeplitz_matrix(H, 11, mode)
        np.testing.assert_array_equal(matrix @ F, cv.convolve(F, H, mode))
        assert cv.is_toeplitz(matrix)
    plane = cv.toeplitz_matrix(KERNEL, (6, 7)) @ IMAGE.ravel()
    np.testing.assert_array_equal(plane, signal.convolve2d(IMAGE, KERNEL).ravel())
    assert not cv.is_toeplitz(np.diag([1.0, 2.0]))
    full = linalg.toeplitz(np.r_[H, np.zeros(10)], np.r_[H[0], np.zeros(10)])
    np.testing.assert_array_equal(cv.toeplitz_matrix(H, 11), full)
