"""Bias and variance against plain NumPy over the same data sets, and against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generalization import Planted, bias_variance, polynomial_fit

KEY = jax.random.key(3)
LAW = Planted(lambda x: jnp.sin(3 * x), jax.random.uniform, 0.3)
X = np.linspace(0.1, 0.9, 7)


def draw(key):
    return LAW.sample(12, key=key)


def fit(data, key):
    return polynomial_fit(*data, 2)


def test_against_numpy_over_the_same_data_sets():
    found = bias_variance(fit, draw, X, truth=LAW.truth, runs=30, key=KEY)
    predictions = []
    for k in jax.random.split(KEY, 30):
        x, y = draw(jax.random.split(k)[0])
        predictions.append(np.polynomial.Polynomial.fit(np.asarray(x), np.asarray(y), 2)(np.asarray(X)))
    p, f = np.array(predictions), np.sin(3 * np.asarray(X))
    np.testing.assert_allclose(found.mean, p.mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.bias, (p.mean(0) - f) ** 2, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.variance, p.var(0), rtol=1e-9)
    np.testing.assert_allclose(found.excess, ((p - f) ** 2).mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.error, ((p - f) ** 2).mean(1).std(ddof=1) / 30**0.5, rtol=1e-9)


def test_the_right_model_has_the_variance_of_least_squares():
    nodes, sigma = np.linspace(-1, 1, 9), 0.5

    def noisy(key):
        return nodes, 1 + 2 * nodes + sigma * jax.random.normal(key, (9,))

    found = bias_variance(
        lambda data, key: polynomial_fit(*data, 1), noisy, nodes, truth=lambda x: 1 + 2 * x, runs=4000, key=KEY
    )
    features = np.vander(np.asarray(nodes), 2)
    leverage = np.diag(features @ np.linalg.inv(features.T @ features) @ features.T)
    np.testing.assert_allclose(found.variance, sigma**2 * leverage, rtol=0.12)  # 5 standard errors of a variance
    assert float(found.bias.max()) < 25 * sigma**2 / 4000


def test_vectors_are_summed_over_their_coordinates():
    def classify(data, key):
        first = polynomial_fit(data[0], data[1], 1)
        return lambda x: jnp.stack([first(x), 1 - first(x)])

    truth = lambda x: jnp.stack([x, 1 - x])  # noqa: E731
    found = bias_variance(classify, draw, X, truth=truth, runs=10, loss="brier", key=KEY)
    assert found.mean.shape == (7, 2)
    np.testing.assert_allclose(found.bias + found.variance, found.excess, rtol=1e-12)
    first = bias_variance(lambda d, key: polynomial_fit(*d, 1), draw, X, truth=lambda x: x, runs=10, key=KEY)
    np.testing.assert_allclose(found.excess, 2 * first.excess, rtol=1e-9)


def test_sentences():
    call = lambda **kw: bias_variance(**({"fit": fit, "draw": draw, "x": X, "truth": jnp.sin, "runs": 5} | kw), key=KEY)  # noqa: E731
    with pytest.raises(ValueError, match="There is no sum of bias and variance for the 0-1 loss"):
        call(loss="zero_one")
    with pytest.raises(ValueError, match="loss must be one of 'squared', 'brier'"):
        call(loss="hinge")
    with pytest.raises(ValueError, match="truth must return the probabilities of the classes"):
        call(loss="brier")
    with pytest.raises(ValueError, match=r"fit must predict what truth returns, shape \(2,\), got \(\)"):
        call(truth=lambda x: jnp.stack([x, x]))
    with pytest.raises(TypeError, match="fit must be a function"):
        call(fit=3)
    with pytest.raises(ValueError, match="runs must be at least 2"):
        call(runs=1)
