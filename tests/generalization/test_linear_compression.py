"""Sparsified and projected weights, against the sums that define them and the laws of their moments."""

import jax
import numpy as np
import pytest
from scipy import special, stats

from corollary.generalization import keep_probabilities, project, sparsify

RNG = np.random.default_rng(0)
W = RNG.normal(size=300)
W[:2] = 8.0, -6.0
W /= np.linalg.norm(W)
GAMMA = 0.4


def test_probabilities():
    expected = [min(1.0, 8 * c * c / GAMMA**2) for c in W]
    np.testing.assert_allclose(keep_probabilities(W, GAMMA), expected, rtol=1e-12)
    assert sum(e == 1 for e in expected) >= 2


def test_sparse_weights_are_unbiased_and_as_many_as_expected():
    keys = jax.random.split(jax.random.key(0), 4000)
    found = jax.jit(jax.vmap(lambda key: sparsify(W, GAMMA, key=key)))(keys)
    w, p = np.asarray(found.w), np.asarray(keep_probabilities(W, GAMMA))
    np.testing.assert_allclose(w, np.where(w != 0, W / p, 0), rtol=1e-12)
    counts = (w != 0).sum(1)
    np.testing.assert_array_equal(found.description.parameters, counts)
    assert abs(counts.mean() - p.sum()) < 5 * np.sqrt((p * (1 - p)).sum() / 4000)
    np.testing.assert_array_equal(w[:, p == 1], np.broadcast_to(W[p == 1], (4000, (p == 1).sum())))
    u = RNG.normal(size=300)
    variance = (u**2 * W**2 * (1 / p - 1)).sum()
    assert stats.kstest((w @ u - W @ u) / np.sqrt(variance), "norm").statistic < 0.1


def test_sparse_description():
    found = sparsify(W, GAMMA, key=jax.random.key(1))
    kept = int((np.asarray(found.w) != 0).sum())
    np.testing.assert_allclose(found.description.nats["mask"], np.log(special.comb(300, kept)), rtol=1e-10)
    np.testing.assert_allclose(found.description.nats["values"], kept * 64 * np.log(2))
    assert found.description.bound(10_000, 0.05, risk=0.1).check().value > 0.1


def test_projection_is_a_function_of_its_numbers_and_the_key():
    found = project(W, 50, key=jax.random.key(2))
    helper = np.asarray(jax.random.normal(jax.random.key(2), (50, 300))) / np.sqrt(50)
    np.testing.assert_allclose(found.numbers, helper @ W, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.w, helper.T @ np.asarray(found.numbers), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.description.nats["values"], 50 * 64 * np.log(2))
    rounded = project(W, 50, key=jax.random.key(2), levels=9)
    top = np.abs(helper @ W).max()
    steps = (np.asarray(rounded.numbers) / top + 1) * 4
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
    np.testing.assert_allclose(rounded.w, helper.T @ np.asarray(rounded.numbers), atol=1e-12)
    np.testing.assert_allclose(rounded.description.nats["values"], 50 * np.log(9))
    assert np.abs(np.asarray(rounded.numbers) - helper @ W).max() <= top / 8 + 1e-12


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: sparsify(W, 0.0, key=jax.random.key(0)), "margin must be positive"),
        (lambda: sparsify(np.ones((2, 2)), 1.0, key=jax.random.key(0)), r"w must have shape \(d,\)"),
        (lambda: project(W, 0, key=jax.random.key(0)), "size must be at least 1"),
        (lambda: project(W, 5, key=jax.random.key(0), levels=1), "levels must be from 2"),
        (lambda: keep_probabilities(W, -1.0), "margin must be positive"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
