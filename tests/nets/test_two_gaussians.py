import jax
import numpy as np
from scipy import stats

from corollary.nets import bayes_logit, book_two_gaussians, two_gaussians

KEY = jax.random.key(0)


def test_book_data():
    x, y = book_two_gaussians()
    rng = np.random.RandomState(0)
    first = rng.multivariate_normal([2, 2], [[2, 1], [1, 2]], 1000)
    second = rng.multivariate_normal([-1, -1], [[2, -1], [-1, 2]], 1000)
    np.testing.assert_array_equal(x, np.concatenate([first, second]))
    np.testing.assert_array_equal(y, [0] * 1000 + [1] * 1000)
    np.testing.assert_array_equal(book_two_gaussians(3).x, np.concatenate([first[:3], second[:3]]))


def test_fresh_data_and_posterior():
    x, y = two_gaussians(20_000, key=KEY)
    for k, (mean, cov) in enumerate([([2, 2], [[2, 1], [1, 2]]), ([-1, -1], [[2, -1], [-1, 2]])]):
        part = np.asarray(x)[np.asarray(y) == k]
        np.testing.assert_allclose(part.mean(0), mean, atol=5 * (2 / 20_000) ** 0.5)
        np.testing.assert_allclose(np.cov(part.T), cov, atol=5 * (8 / 20_000) ** 0.5)
    one = stats.multivariate_normal([-1, -1], [[2, -1], [-1, 2]]).logpdf(x[:50])
    zero = stats.multivariate_normal([2, 2], [[2, 1], [1, 2]]).logpdf(x[:50])
    np.testing.assert_allclose(bayes_logit(x[:50]), one - zero, rtol=1e-9)
