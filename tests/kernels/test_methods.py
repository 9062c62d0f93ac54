"""The methods on kernels against scikit-learn, plain loops and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge as Reference

from corollary.kernels import (
    GaussianKernel,
    KernelPerceptron,
    KernelRidge,
    LearnedFeatureClassifier,
    PolynomialKernel,
    dual_objective,
    feature_ridge,
    gram,
    kernel_perceptron,
    kernel_ridge_dual,
    learned_feature_loss,
    monomial_features,
    primal_from_dual,
    primal_objective,
    train_classifier,
)

RNG = np.random.default_rng(0)
X, T = RNG.normal(size=(20, 2)), RNG.normal(size=20)
SIGNS = np.where(RNG.random(20) < 0.5, 1.0, -1.0)


def slow_perceptron(g, y, order):
    alpha = np.zeros(len(y))
    for m in order:
        score = sum(alpha[k] * y[k] * g[k, m] for k in range(len(y)))
        if (1 if score >= 0 else -1) != y[m]:
            alpha[m] += 1
    return alpha


def test_kernel_perceptron_is_the_loop():
    g = np.asarray(gram(GaussianKernel(), X))
    order = RNG.integers(0, 20, 300)
    run = kernel_perceptron(g, SIGNS, order)
    np.testing.assert_array_equal(run.alpha, slow_perceptron(g, SIGNS, order))
    assert run.alpha.sum() == run.mistakes.sum()


def test_a_zero_score_counts_as_plus_one():
    assert not kernel_perceptron([[1.0]], [1.0], [0]).mistakes[0]
    assert kernel_perceptron([[1.0]], [-1.0], [0]).mistakes[0]


def test_kernel_perceptron_module():
    order = RNG.integers(0, 20, 4000)
    fit = KernelPerceptron.fit(GaussianKernel(0.5), X, SIGNS, order)
    np.testing.assert_array_equal(jax.vmap(fit)(X), SIGNS)  # a narrow kernel learns any labels by heart
    g = gram(GaussianKernel(0.5), X)
    assert fit.score(X[3]) == pytest.approx(float((fit.alpha * SIGNS) @ g[:, 3]))


def test_primal_from_dual():
    alpha = RNG.integers(0, 5, 20).astype(float)
    np.testing.assert_allclose(
        primal_from_dual(alpha, SIGNS, X), sum(a * y * x for a, y, x in zip(alpha, SIGNS, X, strict=True))
    )


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


@pytest.mark.parametrize("bias", [True, False])
def test_classifier_is_its_formula(bias):
    model = LearnedFeatureClassifier(2, 5, sigma="tanh", bias=bias, key=jax.random.key(0))
    shift = model.b if bias else 0.0
    score = model.c @ np.tanh(np.asarray(model.w) @ X[0] + shift)
    assert model.score(X[0]) == pytest.approx(float(score))
    assert model(X[0]) == (1 if score >= 0 else -1)
    slow = np.mean([np.log1p(np.exp(-y * float(model.score(x)))) for x, y in zip(X, SIGNS, strict=True)])
    assert learned_feature_loss(model, X, SIGNS) == pytest.approx(slow)


def test_training_lowers_the_loss_and_frozen_features_stay():
    model = LearnedFeatureClassifier(2, 6, key=jax.random.key(1))
    free = train_classifier(model, X, SIGNS, steps=200)
    frozen = train_classifier(model, X, SIGNS, steps=200, freeze_features=True)
    assert free.losses.shape == (200,)
    assert free.losses[0] == pytest.approx(float(learned_feature_loss(model, X, SIGNS)))
    assert free.losses[-1] < frozen.losses[-1] < free.losses[0]
    np.testing.assert_array_equal(frozen.model.w, model.w)
    np.testing.assert_array_equal(frozen.model.b, model.b)
    assert not np.allclose(free.model.w, model.w)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: kernel_perceptron(np.eye(2), [1.0, 0.5], [0]), ValueError, r"y must hold \+1 and -1 only"),
        (lambda: kernel_perceptron(np.eye(3), [1.0, -1.0], [0]), ValueError, r"y must have shape \(n,\) with n = 3"),
        (
            lambda: kernel_perceptron(np.eye(2), [1.0, -1.0], [2]),
            ValueError,
            "order must hold labels from 0 to 1, got 2",
        ),
        (lambda: kernel_ridge_dual(np.eye(20), T, 0.0), ValueError, "penalty must be positive, got 0.0"),
        (lambda: feature_ridge(X, T[:5], 1.0), ValueError, r"y must have shape \(m,\) with m = 20, got \(5,\)"),
        (lambda: LearnedFeatureClassifier(2, 0, key=None), ValueError, "features must be at least 1, got 0"),
        (
            lambda: LearnedFeatureClassifier(2, 3, sigma="sin", key=None),
            ValueError,
            "sigma must be one of 'relu', 'tanh', 'logistic', got 'sin'",
        ),
        (
            lambda: train_classifier(LearnedFeatureClassifier(2, 3, key=jax.random.key(0)), X, T),
            ValueError,
            r"y must hold \+1 and -1 only",
        ),
    ],
)
def test_bad_input_gets_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
