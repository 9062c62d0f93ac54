r"""A classifier whose features are learned: $\operatorname{sign}(\sum_nc^n\sigma(w^n\cdot x))$, a network."""

import jax
import numpy as np
import pytest

from corollary.kernels import (
    LearnedFeatureClassifier,
    feature_ridge,
    kernel_perceptron,
    kernel_ridge_dual,
    learned_feature_loss,
    train_classifier,
)

RNG = np.random.default_rng(0)
X, T = RNG.normal(size=(20, 2)), RNG.normal(size=20)
SIGNS = np.where(RNG.random(20) < 0.5, 1.0, -1.0)


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
    np.testing.assert_array_equal(frozen.network.w, model.w)
    np.testing.assert_array_equal(frozen.network.b, model.b)
    assert not np.allclose(free.network.w, model.w)


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
