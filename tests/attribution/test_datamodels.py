"""Datamodels against scikit-learn's fits, SciPy's ranks, and sums over all subsets."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import Lasso, LinearRegression

from corollary.attribution import (
    Datamodel,
    SubsetOutputs,
    biased_fourier,
    datamodel,
    fit_datamodel,
    linear_datamodelling_score,
    subset_outputs,
)

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)


def _outputs(m=60, n=7, t=2, noise=0.3):
    x = np.where(RNG.random((m, n)) < 0.6, 1.0, -1.0)
    return SubsetOutputs(jnp.asarray(x), jnp.asarray(x @ RNG.normal(size=(n, t)) + 2 + noise * RNG.normal(size=(m, t))))


@pytest.fixture(scope="module")
def outputs():
    with jax.enable_x64(True):
        return _outputs()


def test_least_squares_against_scikit_learn(outputs):
    found = fit_datamodel(outputs, share=0.6)
    x, f = map(np.asarray, outputs)
    reference = LinearRegression().fit(x, f)
    np.testing.assert_allclose(found.weights, reference.coef_.T, atol=1e-10)
    np.testing.assert_allclose(found.intercept, reference.intercept_, atol=1e-10)
    np.testing.assert_allclose(found.predict(x), reference.predict(x), atol=1e-10)
    fold = np.arange(len(x)) % 5
    left = np.stack([(f - LinearRegression().fit(x[fold != k], f[fold != k]).predict(x)) for k in range(5)])
    left = left[fold, np.arange(len(x))]
    np.testing.assert_allclose(found.r2, 1 - (left**2).sum(0) / ((f - f.mean(0)) ** 2).sum(0), atol=1e-10)


@pytest.mark.parametrize("penalty", [0.05, 0.5, 100.0])
def test_lasso_against_scikit_learn(outputs, penalty):
    found = fit_datamodel(outputs, share=0.6, penalty=penalty)
    x, f = map(np.asarray, outputs)
    for j in range(2):
        reference = Lasso(alpha=penalty, tol=1e-14, max_iter=100_000).fit(x, f[:, j])
        np.testing.assert_allclose(found.weights[:, j], reference.coef_, atol=1e-7)
        np.testing.assert_allclose(found.intercept[j], reference.intercept_, atol=1e-7)


def test_lasso_with_fewer_models_than_points():
    few = _outputs(m=20, n=30, t=1)
    found = fit_datamodel(SubsetOutputs(few.subsets, few.outputs[:, 0]), share=0.6, penalty=0.2)
    x, f = np.asarray(few.subsets), np.asarray(few.outputs[:, 0])
    reference = Lasso(alpha=0.2, tol=1e-14, max_iter=100_000).fit(x, f)
    objective = lambda w, b: 0.5 * np.mean((f - b - x @ w) ** 2) + 0.2 * np.abs(w).sum()  # noqa: E731
    best = objective(reference.coef_, reference.intercept_)
    np.testing.assert_allclose(objective(found.weights, found.intercept), best, rtol=1e-8)
    assert (found.weights.shape, found.interval.shape, found.r2.shape) == ((30,), (2, 30), ())


def test_intervals_cover_the_best_linear_function():
    """A function with products of points: its best linear part is known, and 95 % of the intervals hold it."""
    n, m, p = 5, 200, 0.3
    cube = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
    value = lambda x: x[..., 0] * x[..., 1] + x[..., 2] + 0.5 * x[..., 3] * x[..., 4] * x[..., 0]  # noqa: E731
    law = np.prod(np.where(cube > 0, p, 1 - p), 1)
    mean = 2 * p - 1
    theta = (law * value(cube)) @ (cube - mean) / (4 * p * (1 - p))

    @jax.jit
    @jax.vmap
    def covered(key):
        x = jnp.where(jax.random.bernoulli(key, p, (m, n)), 1.0, -1.0)
        found = fit_datamodel(SubsetOutputs(x, value(x)), share=p)
        return (found.interval[0] <= theta) & (theta <= found.interval[1])

    share = np.asarray(covered(jax.random.split(KEY, 400))).mean()
    assert 0.93 < share < 0.97  # 2,000 intervals: three standard errors are 0.015


def _mean_fit(train, weights):
    return jnp.sum(weights * train[1]) / jnp.maximum(jnp.sum(weights), 1)


def test_training_on_subsets():
    y = jnp.asarray(RNG.normal(size=6))
    train = (jnp.zeros((6, 1)), y)
    found = subset_outputs(_mean_fit, lambda m: jnp.stack([m, m**2]), train, share=0.5, models=40, key=KEY)
    x = np.asarray(found.subsets)
    assert set(np.unique(x)) == {-1.0, 1.0}
    assert found.outputs.shape == (40, 2)
    means = [np.mean(np.asarray(y)[row > 0]) if (row > 0).any() else 0.0 for row in x]
    np.testing.assert_allclose(found.outputs[:, 0], means, atol=1e-12)
    again = subset_outputs(
        _mean_fit, lambda m: jnp.stack([m, m**2]), train, share=0.5, models=40, key=KEY, batch_size=7
    )
    np.testing.assert_allclose(again.outputs, found.outputs, atol=1e-13)
    model = datamodel(_mean_fit, lambda m: m, train, share=0.5, models=40, key=KEY)
    assert isinstance(model, Datamodel)
    assert model.weights.shape == (6,)
    # what raises the mean most is the largest target
    assert np.argmax(model.weights) == np.argmax(y)


def test_score_against_scipy(outputs):
    scores = RNG.normal(size=(7, 2))
    found = linear_datamodelling_score(scores, outputs)
    predicted = (np.asarray(outputs.subsets) > 0) @ scores
    expected = [spearmanr(predicted[:, j], outputs.outputs[:, j]).statistic for j in range(2)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    ones = linear_datamodelling_score(np.ones(7), SubsetOutputs(outputs.subsets, outputs.outputs[:, 0]))
    expected = spearmanr((np.asarray(outputs.subsets) > 0).sum(1), outputs.outputs[:, 0]).statistic
    np.testing.assert_allclose(ones, expected, atol=1e-12)


@pytest.mark.parametrize("p", [0.5, 0.2])
def test_coefficients_by_brute_force(p):
    n = 3
    f = RNG.normal(size=(2,) * n)
    found = biased_fourier(f, p)
    mean, deviation = 2 * p - 1, 2 * np.sqrt(p * (1 - p))
    cube = list(itertools.product([0, 1], repeat=n))
    law = {s: np.prod([p if b else 1 - p for b in s]) for s in cube}
    for chosen in cube:
        basis = {
            s: np.prod([((2 * b - 1) - mean) / deviation for b, c in zip(s, chosen, strict=True) if c]) for s in cube
        }
        np.testing.assert_allclose(found.coefficients[chosen], sum(law[s] * f[s] * basis[s] for s in cube), atol=1e-13)
    by_degree = [sum(float(found.coefficients[s]) ** 2 for s in cube if sum(s) == d) for d in range(n + 1)]
    np.testing.assert_allclose(found.by_degree, by_degree, atol=1e-13)
    fit = LinearRegression().fit(2.0 * np.array(cube) - 1, [f[s] for s in cube], [law[s] for s in cube])
    np.testing.assert_allclose(found.weights, fit.coef_, atol=1e-12)
    np.testing.assert_allclose(found.intercept, fit.intercept_, atol=1e-12)


def test_sentences(outputs):
    for share in (0.0, 1.0, 1.5, -0.1):
        with pytest.raises(ValueError, match=r"share must be in \(0, 1\)"):
            subset_outputs(_mean_fit, lambda m: m, (np.ones(3), np.ones(3)), share=share, models=3, key=KEY)
        with pytest.raises(ValueError, match=r"share must be in \(0, 1\)"):
            fit_datamodel(outputs, share=share)
    with pytest.raises(TypeError, match="measure must be a function"):
        datamodel(_mean_fit, 3, (np.ones(3), np.ones(3)), share=0.5, models=30, key=KEY)
    with pytest.raises(ValueError, match="measure must return a number or a vector"):
        subset_outputs(_mean_fit, lambda m: jnp.ones((2, 2)), (np.ones(3), np.ones(3)), share=0.5, models=3, key=KEY)
    few = SubsetOutputs(outputs.subsets[:10], outputs.outputs[:10])
    with pytest.raises(ValueError, match="least squares for 7 points needs at least 12 models, got 10"):
        fit_datamodel(few, share=0.6)
    with pytest.raises(ValueError, match="at least 10 models, got 9"):
        fit_datamodel(SubsetOutputs(outputs.subsets[:9], outputs.outputs[:9]), share=0.6, penalty=1.0)
    with pytest.raises(ValueError, match="one row per subset"):
        fit_datamodel(SubsetOutputs(outputs.subsets, outputs.outputs[:9]), share=0.6)
    with pytest.raises(TypeError, match="outputs must be SubsetOutputs"):
        fit_datamodel((outputs.subsets, outputs.outputs), share=0.6)
    with pytest.raises(ValueError, match=r"scores must have shape \(7, 2\)"):
        linear_datamodelling_score(np.ones(7), outputs)
    with pytest.raises(ValueError, match="axis of length 2 for each point"):
        biased_fourier(np.ones((2, 3)), 0.5)
    with pytest.raises(ValueError, match=r"p must be in \(0, 1\)"):
        biased_fourier(np.ones((2, 2)), 1.0)
