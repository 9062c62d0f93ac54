"""The deep linear classifier, against automatic differentiation and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

from corollary.landscape import classifier_loss, classifier_passes

RNG = np.random.default_rng(0)
WEIGHTS = tuple(RNG.normal(size=s) for s in ((5, 4), (2, 5), (3, 2)))
X = RNG.normal(size=4)


@pytest.mark.parametrize("y", [0, 2])
def test_passes(y):
    got = classifier_passes(WEIGHTS, X, y)
    logits = WEIGHTS[2] @ WEIGHTS[1] @ WEIGHTS[0] @ X
    np.testing.assert_allclose(got.probabilities, special.softmax(logits), rtol=1e-12)
    assert got.loss == pytest.approx(-special.log_softmax(logits)[y], rel=1e-12)
    assert [a.shape[0] for a in got.activations] == [4, 5, 2, 3]
    np.testing.assert_allclose(got.errors[0], WEIGHTS[1].T @ WEIGHTS[2].T @ (got.probabilities - np.eye(3)[y]))
    for ours, automatic in zip(got.gradients, jax.grad(classifier_loss)(WEIGHTS, X, y), strict=True):
        np.testing.assert_allclose(ours, automatic, rtol=1e-10, atol=1e-12)
    # differences too, which know nothing of the chain rule
    flat = WEIGHTS[1].ravel()
    slope = optimize.approx_fprime(
        flat, lambda w: float(classifier_loss((WEIGHTS[0], w.reshape(2, 5), WEIGHTS[2]), X, y))
    )
    np.testing.assert_allclose(got.gradients[1].ravel(), slope, atol=1e-5)


def test_large_logits_stay_finite():
    got = classifier_passes((1e4 * np.eye(3),), np.array([1.0, 0.0, -1.0]), 2)
    assert got.loss == pytest.approx(2e4)
    np.testing.assert_allclose(got.errors[0], [1, 0, -1])


def test_compiles_and_keeps_precision():
    weights = tuple(jnp.asarray(w, jnp.float32) for w in WEIGHTS)
    got = jax.jit(jax.vmap(lambda y: classifier_passes(weights, X, y).loss))(jnp.arange(3))
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got[1], classifier_loss(WEIGHTS, X, 1), rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: classifier_passes(2.0, X, 0), TypeError, "weights must be a sequence of matrices"),
        (lambda: classifier_passes(WEIGHTS[:0], X, 0), ValueError, "weights must hold at least 1"),
        (lambda: classifier_passes(WEIGHTS, X[:2], 0), ValueError, "x must have shape"),
        (lambda: classifier_passes(WEIGHTS, X, 3), ValueError, "y must hold labels from 0 to 2"),
        (lambda: classifier_passes(WEIGHTS[::-1], X, 0), ValueError, "columns"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
