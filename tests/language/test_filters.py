import numpy as np

from corollary.language import top_k_filter, top_p_filter


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
