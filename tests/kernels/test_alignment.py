"""Alignment, drift, centring and effective rank against explicit features and the formulas written out in NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.kernels import (
    centred_kernel,
    chance_alignment,
    effective_rank,
    kernel_alignment,
    kernel_drift,
    label_alignment,
)

RNG = np.random.default_rng(0)
PHI, PSI = RNG.normal(size=(9, 4)) + 1, RNG.normal(size=(9, 6))
K, L = PHI @ PHI.T, PSI @ PSI.T


def test_centring_is_that_of_the_features():
    phi = PHI - PHI.mean(0)
    np.testing.assert_allclose(centred_kernel(K), phi @ phi.T, rtol=1e-12, atol=1e-12)
    assert not np.asarray(centred_kernel(np.full((5, 5), 0.3))).any()


def test_alignment_is_the_cosine_of_the_flattened_matrices():
    want = K.ravel() @ L.ravel() / (np.linalg.norm(K) * np.linalg.norm(L))
    assert float(kernel_alignment(K, L)) == pytest.approx(want, rel=1e-12)
    assert float(jax.jit(kernel_alignment)(1e-200 * K, 3 * K)) == pytest.approx(1, rel=1e-12)


def test_drift_is_relative_to_the_first():
    assert float(kernel_drift(K, L)) == pytest.approx(np.linalg.norm(L - K) / np.linalg.norm(K), rel=1e-12)
    assert float(kernel_drift(K, 3 * K)) == pytest.approx(2, rel=1e-12)


def test_the_gradient_of_the_drift_is_zero_where_nothing_moved_and_that_of_the_norm_elsewhere():
    for slope in jax.grad(kernel_drift, argnums=(0, 1))(jnp.asarray(K), jnp.asarray(K)):
        assert not np.asarray(slope).any()
    moved = (L - K) / (np.linalg.norm(L - K) * np.linalg.norm(K))
    np.testing.assert_allclose(jax.grad(kernel_drift, argnums=1)(jnp.asarray(K), jnp.asarray(L)), moved, rtol=1e-10)


def test_label_alignment_is_the_normalised_dependence_of_features_and_labels():
    labels = np.eye(3)[np.arange(9) % 3]
    for y in (labels, labels[:, 0]):
        phi, t = PHI - PHI.mean(0), (y - y.mean(0)).reshape(9, -1)
        # the same number from covariances of features instead of kernels of points
        want = np.linalg.norm(phi.T @ t) ** 2 / (np.linalg.norm(phi.T @ phi) * np.linalg.norm(t.T @ t))
        assert float(label_alignment(K, y)) == pytest.approx(want, rel=1e-10)
    assert float(label_alignment(labels @ labels.T + 5, labels)) == pytest.approx(1, rel=1e-12)


def test_chance_is_the_mean_over_all_orders_of_the_labels():
    labels, k = np.eye(3)[np.arange(6) % 3], K[:6, :6]
    orders = np.array(list(itertools.permutations(range(6))))
    every = jax.vmap(lambda order: label_alignment(k, jnp.asarray(labels)[order]))(jnp.asarray(orders))
    assert float(chance_alignment(k, labels)) == pytest.approx(float(every.mean()), rel=1e-10)


def test_effective_rank_counts():
    assert float(effective_rank(jnp.ones(7))) == pytest.approx(7)
    assert float(effective_rank(jnp.array([2.0, 0, -1e-17]))) == pytest.approx(1)
    values = np.linalg.eigvalsh(K)
    assert float(effective_rank(values)) == pytest.approx(np.trace(K) ** 2 / np.linalg.norm(K) ** 2, rel=1e-10)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: centred_kernel(np.ones((2, 3))), "k must have shape"),
        (lambda: kernel_alignment(K, np.ones((3, 3))), "k2 must have shape"),
        (lambda: kernel_alignment(K, np.zeros((9, 9))), "k2 must not be zero everywhere."),
        (lambda: kernel_drift(np.zeros((9, 9)), K), "k1 must not be zero everywhere."),
        (lambda: kernel_drift(K, np.full((9, 9), np.nan)), "k2 must be finite"),
        (lambda: label_alignment(K, np.ones((9, 2, 2))), "y must have shape"),
        (lambda: label_alignment(K, np.ones(8)), "y must have shape"),
        (lambda: label_alignment(K, np.ones(9)), "k2 must not be zero everywhere."),
        (lambda: chance_alignment(K, np.ones(9)), "y, centred, must not be zero everywhere."),
        (lambda: chance_alignment(np.ones((9, 9)), np.arange(9)), "k, centred, must not be zero everywhere."),
        (lambda: effective_rank(np.zeros(3)), "values must not be zero everywhere."),
        (lambda: effective_rank(np.ones((3, 3))), "values must have shape"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
