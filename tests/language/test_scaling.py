"""Scaling laws: values by hand, the best split by a grid, fits of what a law wrote."""

import numpy as np
import pytest

from corollary.language import CHINCHILLA, ScalingLaw, chinchilla_loss, compute_optimal, fit_scaling_law


def test_values():
    n, d = np.array([1e8, 7e10]), np.array([1e10, 1.4e12])
    np.testing.assert_allclose(chinchilla_loss(n, d), 1.61 + 406.4 / n**0.34 + 410.7 / d**0.28, rtol=1e-12)


def test_best_split_by_a_grid():
    best = compute_optimal(1e21)
    np.testing.assert_allclose(6 * best.size * best.tokens, 1e21, rtol=1e-12)
    n = best.size * np.exp(np.linspace(-1, 1, 2001))
    grid = chinchilla_loss(n, 1e21 / 6 / n)
    assert int(np.argmin(grid)) == 1000
    np.testing.assert_allclose(best.loss, grid.min(), rtol=1e-12)


def test_fit_finds_the_law_that_wrote_the_losses():
    n, d = (a.ravel() for a in np.meshgrid(10.0 ** np.arange(6, 11), 10.0 ** np.arange(8, 13)))
    law = ScalingLaw(1.2, 300.0, 0.4, 900.0, 0.31)
    np.testing.assert_allclose(fit_scaling_law(n, d, chinchilla_loss(n, d, law)), law, rtol=1e-6)


def test_sentences():
    with pytest.raises(ValueError, match="losses must have at least five runs"):
        fit_scaling_law([1.0, 2.0], [1.0, 2.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="tokens must be positive"):
        chinchilla_loss(1.0, 0.0)
    with pytest.raises(TypeError, match="law must be a ScalingLaw, got tuple"):
        chinchilla_loss(1.0, 1.0, tuple(CHINCHILLA))
    with pytest.raises(ValueError, match="size and tokens must broadcast"):
        chinchilla_loss(np.ones(2), np.ones(3))
