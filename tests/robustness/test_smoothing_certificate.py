"""Certificates of smoothing against SciPy's tests and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from corollary.robustness import (
    certified_radius,
    reachable_radius,
    smoothed_gradient,
    smoothing_bound,
    vote_lower_bound,
)

KEY = jax.random.key(0)


def test_half_spaces_attain_the_bound_and_the_radius():
    x, t, scale = np.linspace(-2, 2, 9), np.linspace(0, 3, 9), 0.7
    p = stats.norm.cdf(x / scale)
    np.testing.assert_allclose(smoothing_bound(p, t, scale), stats.norm.cdf((x - t) / scale), atol=1e-14)
    np.testing.assert_allclose(certified_radius(p, 1 - p, scale), np.maximum(x, 0), atol=1e-14)
    assert certified_radius(0.6, 0.1, 2.0) == pytest.approx(stats.norm.ppf(0.6) - stats.norm.ppf(0.1))


@pytest.mark.parametrize(("samples", "alpha"), [(40, 0.05), (1000, 1e-3)])
def test_lower_ends_are_those_of_scipy(samples, alpha):
    votes = np.array([0, 1, samples // 2, samples - 1, samples])
    want = [
        stats.binomtest(int(v), samples, alternative="greater").proportion_ci(1 - alpha, method="exact").low
        for v in votes
    ]
    np.testing.assert_allclose(vote_lower_bound(votes, samples, alpha), want, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(
        reachable_radius(samples, alpha, 0.5), 0.5 * stats.norm.ppf(want[-1]), rtol=1e-9, atol=1e-12
    )


def test_ten_votes_certify_next_to_nothing_at_one_in_a_thousand():
    assert reachable_radius(10, 1e-3, 1.0) == pytest.approx(0.003, abs=1e-4)
    assert reachable_radius(9, 1e-3, 1.0) < 0


def test_single_precision_loses_little():
    with jax.enable_x64(False):
        found = reachable_radius(100_000, 1e-3, 1.0)
        assert found.dtype == jnp.float32
    assert float(found) == pytest.approx(stats.norm.isf(-np.expm1(np.log(1e-3) / 1e5)), rel=1e-6)


def test_gradients_without_derivatives():
    w = np.array([0.6, 0.8, 0.0])
    found = jax.jit(lambda k: smoothed_gradient(lambda z: jnp.sign(w @ z), jnp.zeros(3), 0.5, samples=200_000, key=k))(
        KEY
    )
    # 200,000 draws: standard errors of 1/√200,000 over the scale
    np.testing.assert_allclose(found, np.sqrt(2 / np.pi) / 0.5 * w, atol=5 * 200_000**-0.5 / 0.5)
    line = smoothed_gradient(lambda z: 3 * z[0] - 1, np.ones(2), 2.0, samples=100_000, key=KEY)
    np.testing.assert_allclose(line, [3, 0], atol=5 * 3 * 2 * 100_000**-0.5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: smoothing_bound(1.2, 1.0, 1.0), "p must be in"),
        (lambda: smoothing_bound(0.5, -1.0, 1.0), "distance must be zero or more"),
        (lambda: smoothing_bound(0.5, 1.0, 0.0), "scale must be positive"),
        (lambda: certified_radius(0.5, -0.1, 1.0), "other must be in"),
        (lambda: vote_lower_bound(5, 4, 0.1), "votes must hold labels from 0 to 4"),
        (lambda: vote_lower_bound(5, 0, 0.1), "samples must be at least 1"),
        (lambda: reachable_radius(10, 0.0, 1.0), "alpha must be in"),
        (lambda: reachable_radius(10, 1.0, 1.0), "alpha must be in"),
        (lambda: jax.jit(lambda a: reachable_radius(10, a, 1.0))(0.1), "alpha must be a Python number"),
        (lambda: smoothed_gradient(3, np.ones(2), 1.0, key=KEY), "g must be a function"),
        (lambda: smoothed_gradient(lambda z: z, np.ones(2), 1.0, key=KEY), "g must return a number"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
