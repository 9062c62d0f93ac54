"""The perceptron in dual form: it counts its mistakes on each point, and never sees a feature."""

import jax
import numpy as np
import pytest

from corollary.kernels import GaussianKernel, KernelPerceptron, gram, kernel_perceptron, primal_from_dual

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
