"""Penalised regression in a feature space, in primal and in dual form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge as Reference

from corollary.kernels import (
    GaussianKernel,
    KernelRidge,
    PolynomialKernel,
    dual_objective,
    feature_ridge,
    gram,
    kernel_ridge_dual,
    monomial_features,
    primal_objective,
)

RNG = np.random.default_rng(0)
X, T = RNG.normal(size=(20, 2)), RNG.normal(size=20)


def test_ridge_against_scikit_learn():
    penalty, bias = 0.05, 0.3
    g = np.asarray(gram(PolynomialKernel(3, 1.0), X))
    reference = Reference(alpha=2 * penalty * 20, kernel="precomputed").fit(g, T - bias)
    np.testing.assert_allclose(kernel_ridge_dual(g, T, penalty, bias), reference.dual_coef_, rtol=1e-8)
    fit = KernelRidge.fit(PolynomialKernel(3, 1.0), X, T, penalty, bias)
    np.testing.assert_allclose(jax.vmap(fit)(X), reference.predict(g) + bias, rtol=1e-8)


def test_ridge_minimises_its_objectives():
    psi = np.asarray(jax.vmap(lambda p: monomial_features(p, 2))(X))
    w = feature_ridge(psi, T, 0.1, 0.2)
    np.testing.assert_allclose(jax.grad(lambda w: primal_objective(w, psi, T, 0.1, 0.2))(w), 0, atol=1e-12)
    slow = 0.5 * np.mean([(w @ p + 0.2 - t) ** 2 for p, t in zip(psi, T, strict=True)]) + 0.1 * float(w @ w)
    assert primal_objective(w, psi, T, 0.1, 0.2) == pytest.approx(slow)
    alpha = kernel_ridge_dual(psi @ psi.T, T, 0.1, 0.2)
    np.testing.assert_allclose(psi.T @ alpha, w, atol=1e-12)
    assert dual_objective(alpha, psi @ psi.T, T, 0.1, 0.2) == pytest.approx(slow)


def test_ridge_takes_points_on_the_line():
    fit = KernelRidge.fit(GaussianKernel(), jnp.arange(4.0), jnp.array([0.0, 1.0, 0.0, 1.0]), 1e-10)
    np.testing.assert_allclose(jax.vmap(fit)(jnp.arange(4.0)), [0, 1, 0, 1], atol=1e-6)
