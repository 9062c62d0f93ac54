"""Recall without weights against the dynamics with them, and the laws of cross-talk against SciPy and enumeration."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

from corollary.memory import (
    critical_load,
    crosstalk,
    crosstalk_variance,
    fit_transition,
    flip_probability,
    flip_probability_limit,
    hebbian,
    pattern_capacity,
    random_signs,
    recall,
    replica_overlap,
    retrieval_overlaps,
    settle,
    stability,
)


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("block", [1, 7, 64, 500])
def test_recall_is_the_sequential_dynamics(zero, block):
    n, s = 101, 40
    patterns, starts = random_signs(jax.random.key(0), (s, n)), random_signs(jax.random.key(1), (6, n))
    weights = patterns.T @ patterns - zero * s * jnp.eye(n)  # whole numbers: ties are ties
    run = recall(patterns.astype(jnp.float32), starts.astype(jnp.float32), block=block, zero_diagonal=zero)
    assert run.at_rest
    slow = jax.vmap(lambda x: settle(weights, 0.0, x))(starts)
    np.testing.assert_array_equal(run.states, slow.state)
    assert run.sweeps == slow.sweeps.max()


def test_recall_in_another_order():
    n = 60
    patterns, starts = random_signs(jax.random.key(2), (25, n)), random_signs(jax.random.key(3), (4, n))
    order = jax.random.permutation(jax.random.key(4), n)
    weights = patterns.T @ patterns - 25 * jnp.eye(n)
    shuffled = weights[order][:, order]
    slow = jax.vmap(lambda x: settle(shuffled, 0.0, x[order]).state)(starts)
    np.testing.assert_array_equal(recall(patterns, starts, order=order).states[:, order], slow)


def test_rows_of_zeros_store_nothing():
    patterns = random_signs(jax.random.key(5), (12, 50))
    padded = jnp.concatenate([patterns, jnp.zeros((7, 50))])
    starts = random_signs(jax.random.key(6), (3, 50))
    np.testing.assert_array_equal(recall(patterns, starts).states, recall(padded, starts).states)


def test_retrieval_overlaps_have_the_shape_and_range():
    m = retrieval_overlaps(jax.random.key(0), 64, [4, 30], sets=5, starts=4)
    assert m.shape == (2, 5, 4)
    assert (jnp.abs(m) <= 1).all()
    assert m[0].mean() > 0.95 > 0.8 > m[1].mean()
    batched = retrieval_overlaps(jax.random.key(0), 64, [4, 30], sets=5, starts=4, at_once=3)
    np.testing.assert_allclose(m, batched)


def test_random_signs_are_fair_and_of_any_shape():
    x = random_signs(jax.random.key(0), (50, 37, 101))
    assert set(np.unique(x)) == {-1.0, 1.0}
    assert abs(float(x.mean())) < 5 / x.size**0.5
    assert random_signs(jax.random.key(0), 5).shape == (5,)


@pytest.mark.parametrize("zero", [True, False])
def test_crosstalk_is_what_the_other_patterns_add(zero):
    x = np.asarray(random_signs(jax.random.key(0), (6, 20)))
    weights = np.asarray(hebbian(x, zero_diagonal=zero))
    own = (19 / 20 if zero else 1.0) * x
    np.testing.assert_allclose(crosstalk(x, zero_diagonal=zero), x @ weights - own, atol=1e-14)
    np.testing.assert_allclose(stability(x, zero_diagonal=zero), 20 * x * (x @ weights), atol=1e-12)


@pytest.mark.parametrize(("n", "s", "zero"), [(3, 2, True), (4, 3, True), (3, 3, False), (4, 2, False)])
def test_flip_probability_by_enumeration(n, s, zero):
    """Every pattern set there is, and every unit of its first pattern."""
    flips = []
    for bits in product([-1.0, 1.0], repeat=n * s):
        x = np.array(bits).reshape(s, n)
        field = x.T @ (x @ x[0]) - (s * x[0] if zero else 0)
        flips.append((np.where(field >= 0, 1, -1) != x[0]).mean())
    assert flip_probability(n, s, zero_diagonal=zero) == pytest.approx(np.mean(flips), abs=1e-12)


@pytest.mark.parametrize(("n", "s", "zero"), [(1000, 100, True), (1000, 200, False), (51, 8, True), (10, 1, True)])
def test_flip_probability_against_scipy(n, s, zero):
    trials, margin = (s - 1) * (n - 1), (n - 1 if zero else n + s - 1)
    ups = (trials - margin) / 2
    slow = stats.binom.cdf(np.ceil(ups) - 1, trials, 0.5) + 0.5 * (ups == int(ups)) * stats.binom.pmf(ups, trials, 0.5)
    assert flip_probability(n, s, zero_diagonal=zero) == pytest.approx(slow, rel=1e-8)


def test_limits():
    assert flip_probability_limit(0.138) == pytest.approx(0.5 * special.erfc(1 / np.sqrt(2 * 0.138)))
    assert flip_probability(1e6, 138_000.0) == pytest.approx(float(flip_probability_limit(0.138)), rel=1e-4)
    assert crosstalk_variance(1000, 200) == pytest.approx(0.198801)
    assert pattern_capacity(1024) == pytest.approx(51.2)
    assert pattern_capacity(1024, base=np.e) == pytest.approx(1024 / (2 * np.log(1024)))


def test_replica_theory_against_scipy():
    def load(y):
        return 0.5 * (special.erf(y) / y - 2 / np.sqrt(np.pi) * np.exp(-(y**2))) ** 2

    best = optimize.minimize_scalar(lambda y: -load(y), bounds=(0.5, 3), method="bounded", options={"xatol": 1e-10})
    alpha, overlap = critical_load()
    assert alpha == pytest.approx(-best.fun, rel=1e-8)
    assert alpha == pytest.approx(0.137906, abs=1e-6)
    assert overlap == pytest.approx(special.erf(best.x), abs=1e-4)
    for a in (0.02, 0.1, 0.137):
        y = optimize.brentq(lambda y, a=a: load(y) - a, best.x, 1 / np.sqrt(2 * a) + 2)
        assert replica_overlap(a) == pytest.approx(special.erf(y), abs=1e-12)
    assert np.isnan(replica_overlap(0.139))


def test_fit_transition_finds_what_was_put_in():
    n = np.repeat([500.0, 2000.0, 8000.0], 4)
    loads = 0.137 + np.tile([0.2, 0.6, 1.0, 1.4], 3) / np.sqrt(n)
    kept = 1000 * special.ndtr(1.3 + 1.7 * np.sqrt(n) * (0.137 - loads))
    fit = fit_transition(n, loads, kept, np.full(12, 1000.0))
    np.testing.assert_allclose([fit.load, fit.slope, fit.offset], [0.137, 1.7, 1.3], rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: recall(np.ones((2, 3)), np.ones((1, 4))), r"states must have shape \(k, n\) with n = 3, got \(1, 4\)"),
        (lambda: recall(np.ones((2, 3)), np.zeros((1, 3))), r"states must hold \+1 and -1 only"),
        (lambda: recall(np.ones((2, 3)), np.ones((1, 3)), order=[0, 1]), r"order must have shape \(n,\) with n = 3"),
        (lambda: retrieval_overlaps(jax.random.key(0), 8, [2], sets=1, starts=3), "sizes must be at least 3, got 2"),
        (lambda: flip_probability(1, 2), "n must be at least 2, got 1"),
        (lambda: flip_probability_limit(0.0), "load must be positive, got 0"),
        (lambda: pattern_capacity(10, base=1.0), "base must be greater than 1, got 1"),
        (lambda: fit_transition([1.0], [0.1], [1.0], [1.0, 2.0]), r"trials must have shape \(m,\) with m = 1"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
