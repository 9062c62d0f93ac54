"""Suprema over ReLU units and networks against fine grids and random networks."""

from itertools import product

import numpy as np

from corollary.generalization.neurons import norm_bounded_complexity, relu_unit_supremum, two_layer_supremum

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 2))
SIGNS = np.array(list(product([-1.0, 1.0], repeat=6)))


def test_one_unit_against_a_fine_grid():
    angle = np.linspace(0, 2 * np.pi, 20_001)
    values = np.maximum(np.stack([np.cos(angle), np.sin(angle)], 1) @ X.T, 0)
    grid = np.maximum((SIGNS @ values.T).max(1), 0)
    exact = np.asarray(relu_unit_supremum(SIGNS, X))
    assert (exact >= grid - 1e-12).all()
    # a sum changes by its points' lengths times the step at most, and does so where its largest value is at a kink
    assert (exact - grid <= 2 * np.pi / 20_000 * np.linalg.norm(X, axis=1).sum()).all()
    np.testing.assert_allclose(relu_unit_supremum(SIGNS, X, radius=3.0), 3 * exact, rtol=1e-13)


def test_networks_do_no_better_than_one_unit():
    best = np.asarray(two_layer_supremum(SIGNS, X, radius=1.5))
    first, second = RNG.normal(size=(500, 4, 2)), RNG.normal(size=(500, 4))
    first *= 1.5 / np.linalg.norm(first, axis=(1, 2), keepdims=True)
    second *= 1.5 / np.linalg.norm(second, axis=1, keepdims=True)
    outputs = np.einsum("rk,rkm->rm", second, np.maximum(first @ X.T, 0))
    assert ((SIGNS @ outputs.T).max(1) <= best + 1e-12).all()


def test_bound():
    np.testing.assert_allclose(norm_bounded_complexity(100, 1.5, 3), 27 / 10)
