"""The estimators against scikit-learn's own checks and its kernel ridge regression."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from corollary import kernels
from corollary.kernels import (
    Activation,
    Architecture,
    Dense,
    GaussianKernel,
    KernelClassifier,
    KernelRegressor,
    LaplaceKernel,
    gram,
    kernel_coefficients,
    ntk,
    rkhs_norm,
)

RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(25, 3)), RNG.normal(size=25), RNG.normal(size=(300, 3))


@pytest.mark.parametrize("estimator", [KernelRegressor(ridge=0.01), KernelClassifier(ridge=0.01), KernelRegressor()])
def test_scikit_learn_accepts_the_estimator(estimator):
    check_estimator(estimator)


@pytest.mark.parametrize(
    ("kernel", "params", "reference"),
    [
        ("gaussian", {"width": 0.7}, {"kernel": "rbf", "gamma": 1 / (2 * 0.49)}),
        ("laplace", {"width": 2.0}, {"kernel": "laplacian", "gamma": 0.5}),
        ("polynomial", {"degree": 3, "offset": 1.0}, {"kernel": "poly", "degree": 3, "gamma": 1, "coef0": 1}),
        ("linear", None, {"kernel": "linear"}),
    ],
)
def test_ridge_regression_against_scikit_learn(kernel, params, reference):
    ours = KernelRegressor(kernel, ridge=0.3, kernel_params=params).fit(X, Y)
    theirs = KernelRidge(alpha=0.3, **reference).fit(X, Y)
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), atol=1e-11)
    several = np.stack([Y, Y**2], 1)
    np.testing.assert_allclose(
        KernelRegressor(kernel, ridge=0.3, kernel_params=params).fit(X, several).predict(NEW),
        KernelRidge(alpha=0.3, **reference).fit(X, several).predict(NEW),
        atol=1e-11,
    )


def test_a_network_kernel_interpolates():
    fit = KernelRegressor("ntk", kernel_params={"depth": 2, "bias_std": 0.1}).fit(X, Y)
    np.testing.assert_allclose(fit.predict(X), Y, atol=1e-10)
    g, cross = (ntk(a, X, depth=2, bias_std=0.1) for a in (X, NEW))
    np.testing.assert_allclose(fit.predict(NEW), cross @ np.linalg.solve(g, Y), atol=1e-10)


def test_without_a_ridge_a_singular_gram_matrix_gives_the_shortest():
    fit = KernelRegressor("linear").fit(X, Y)
    np.testing.assert_allclose(fit.predict(NEW), NEW @ np.linalg.lstsq(X, Y)[0], atol=1e-11)


def test_functions_as_kernels():
    named = KernelRegressor("gaussian", ridge=0.1).fit(X, Y).predict(NEW)
    for kernel in (
        GaussianKernel(),
        lambda a, b: jnp.exp(-jnp.sum((a - b) ** 2) / 2),
        lambda a, b: jnp.exp(-jnp.sum((a[:, None] - b[None]) ** 2, -1) / 2),
    ):
        np.testing.assert_allclose(KernelRegressor(kernel, ridge=0.1).fit(X, Y).predict(NEW), named, atol=1e-12)
    network = Architecture([Dense(8), Activation("relu"), Dense(1)])
    np.testing.assert_allclose(
        KernelRegressor(network.ntk, ridge=0.1).fit(X, Y).predict(NEW),
        KernelRegressor("ntk", ridge=0.1).fit(X, Y).predict(NEW),
        atol=1e-11,
    )


def test_products_keep_the_digits_of_data_far_from_the_origin():
    far = X + 1e5
    ours = KernelRegressor("gaussian", ridge=0.1).fit(far, Y).predict(NEW + 1e5)
    # the data themselves are known to 1e-11 there
    np.testing.assert_allclose(ours, KernelRegressor("gaussian", ridge=0.1).fit(X, Y).predict(NEW), atol=1e-8)


def test_classification():
    centres = np.array([[2.0, 0, 0], [0, 2.0, 0], [0, 0, 2.0]])
    labels = RNG.integers(0, 3, 90)
    x = centres[labels] + 0.3 * RNG.normal(size=(90, 3))
    names = np.array(["red", "green", "blue"])[labels]
    fit = KernelClassifier("nngp", ridge=1e-3).fit(x, names)
    assert fit.score(x, names) == 1.0
    assert fit.decision_function(x).shape == (90, 3)
    two = KernelClassifier(ridge=1e-3).fit(x, labels == 0)
    assert two.decision_function(x).shape == (90,)
    assert two.score(x, labels == 0) == 1.0
    assert cross_val_score(make_pipeline(StandardScaler(), KernelClassifier(ridge=0.1)), x, names).mean() > 0.95


def test_the_precision_is_that_of_the_data():
    with jax.enable_x64(False):
        double = KernelRegressor(ridge=0.1).fit(X, Y)
        assert double.dual_coef_.dtype == double.predict(NEW).dtype == np.float64
        single = KernelRegressor(ridge=0.1).fit(X.astype(np.float32), Y)
        assert single.dual_coef_.dtype == np.float32
        np.testing.assert_allclose(single.predict(NEW), double.predict(NEW), atol=1e-4)
        theirs = KernelRidge(alpha=0.1, kernel=RBF(1.0)).fit(X, Y)
        np.testing.assert_allclose(double.predict(NEW), theirs.predict(NEW), atol=1e-11)


def test_the_same_named_kernel_is_compiled_once():
    kernels.KernelRegressor("gaussian", ridge=0.1).fit(X, Y).predict(NEW)
    size = kernels.regression._combined._cache_size()
    clone(KernelRegressor("gaussian", ridge=0.2)).fit(X + 1, Y).predict(NEW)
    assert kernels.regression._combined._cache_size() == size


def test_coefficients_and_norm():
    g = gram(LaplaceKernel(order=2), X)
    np.testing.assert_allclose(kernel_coefficients(g, Y), np.linalg.solve(g, Y), atol=1e-10)
    np.testing.assert_allclose(kernel_coefficients(g, Y, 0.5), np.linalg.solve(g + 0.5 * np.eye(25), Y), atol=1e-12)
    for ridge in (0.0, 0.5):
        traced = jax.jit(kernel_coefficients)(g, Y, ridge)
        np.testing.assert_allclose(traced, kernel_coefficients(g, Y, ridge), atol=1e-10)
    assert rkhs_norm(kernel_coefficients(g, Y), g) == pytest.approx((Y @ np.linalg.solve(g, Y)) ** 0.5)


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (KernelRegressor("cosy"), ValueError, "kernel must be one of"),
        (KernelRegressor(3), TypeError, "kernel must be a name or a function"),
        (KernelRegressor(kernel_params=[1]), TypeError, "kernel_params must be a dictionary"),
        (KernelRegressor(GaussianKernel(), kernel_params={"width": 1.0}), ValueError, "must be empty"),
        (KernelRegressor(ridge=-1.0), ValueError, "ridge must be zero or more"),
        (KernelRegressor(ridge="much"), ValueError, "ridge must be a finite number"),
        (KernelRegressor(ridge=np.nan), ValueError, "ridge must be a finite number"),
        (KernelRegressor(kernel_params={"width": -1.0}), ValueError, "width must be positive"),
        (KernelRegressor("ntk", kernel_params={"depth": -1}), ValueError, "depth must be at least 0"),
        (KernelRegressor(lambda a, b: a), ValueError, "kernel must return one number"),
    ],
)
def test_bad_arguments(estimator, error, message):
    with pytest.raises(error, match=message):
        estimator.fit(X, Y)


def test_bad_matrices():
    g = np.eye(3)
    with pytest.raises(ValueError, match="y must have shape"):
        kernel_coefficients(g, np.ones((3, 1, 1)))
    with pytest.raises(ValueError, match="y must have shape"):
        kernel_coefficients(g, np.ones(4))
    with pytest.raises(ValueError, match="ridge must be zero or more"):
        kernel_coefficients(g, np.ones(3), -1.0)
    with pytest.raises(ValueError, match="ridge must have shape"):
        kernel_coefficients(g, np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="g must have shape"):
        rkhs_norm(np.ones(3), np.ones((3, 4)))
    with pytest.raises(ValueError, match="only one class"):
        KernelClassifier().fit(X, np.ones(25))
