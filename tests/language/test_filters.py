import numpy as np
import pytest

from corollary.language import tempered, top_k_filter, top_p_filter


def test_filters():
    p = np.array([0.1, 0.4, 0.1, 0.3, 0.1])
    np.testing.assert_allclose(top_k_filter(p, 3), np.array([0.1, 0.4, 0, 0.3, 0]) / 0.8)
    np.testing.assert_allclose(top_k_filter(p, 1), [0, 1, 0, 0, 0])
    np.testing.assert_allclose(top_k_filter(p, 5), p)
    np.testing.assert_allclose(top_p_filter(p, 0.5), np.array([0, 0.4, 0, 0.3, 0]) / 0.7)
    np.testing.assert_allclose(top_p_filter(p, 0.75), np.array([0.1, 0.4, 0, 0.3, 0]) / 0.8)
    np.testing.assert_allclose(top_p_filter([0.5, 0.25, 0.25], 0.75), [2 / 3, 1 / 3, 0])  # reached, not exceeded
    np.testing.assert_allclose(top_p_filter(p, 0.0), [0, 1, 0, 0, 0])
    np.testing.assert_allclose(top_p_filter(p, 1.0), p)
    np.testing.assert_allclose(top_k_filter(np.stack([p, p[::-1]]), 1), np.eye(5)[[1, 3]])


def test_truncation_costs_the_mass_that_it_drops():
    p = np.random.default_rng(0).dirichlet(np.ones(6))
    for cut in (top_k_filter(p, 3), top_p_filter(p, 0.8)):
        cut = np.asarray(cut)
        on = cut > 0
        np.testing.assert_allclose(np.sum(cut[on] * np.log(cut[on] / p[on])), -np.log(p[on].sum()), rtol=1e-12)


def test_temperature():
    p = np.array([0.5, 0.3, 0.2, 0.0])
    np.testing.assert_allclose(tempered(p, 0.5), p**2 / np.sum(p**2), rtol=1e-12)
    np.testing.assert_allclose(tempered(p, 1.0), p, rtol=1e-12)
    np.testing.assert_allclose(tempered(p, 0.01), [1, 0, 0, 0], atol=1e-12)
    with pytest.raises(ValueError, match="temperature must be positive, got 0.0"):
        tempered(p, 0.0)
    with pytest.raises(ValueError, match="p must sum to 1 along its last axis, got a sum of 0.9"):
        tempered([0.5, 0.4], 1.0)
