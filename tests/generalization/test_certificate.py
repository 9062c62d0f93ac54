"""The bound of a certificate from counts, the grid of priors, and the parts of the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from corollary.generalization.certificate import GRID, bound, nearest, part
from corollary.generalization.pac_bayes_bounds import log_moment

KEY = jax.random.key(0)


def _inverse(q, c):
    """The largest p with kl(q‖p) at most c, by SciPy."""
    gap = lambda p: stats.entropy([q, 1 - q], [p, 1 - p]) - c  # noqa: E731
    return optimize.brentq(gap, q, 1 - 1e-12, xtol=1e-14)


@pytest.mark.parametrize(("errors", "n", "kl", "priors"), [(7, 50, 3.0, 0.0), (900, 3000, 200.0, 31.0)])
def test_bound_is_two_inversions(errors, n, kl, priors):
    made = bound(errors, n, 10, kl, priors, jnp.asarray(0.025), jnp.asarray(0.01)).check()
    above = _inverse(errors / (10 * n), np.log(100) / (10 * n))
    level = (kl + priors + float(log_moment("kl", n)) + np.log(40)) / n
    np.testing.assert_allclose(made.value, _inverse(above, level), rtol=1e-10)
    np.testing.assert_allclose(made.delta, 0.035)
    np.testing.assert_allclose(made.terms["training error"] + made.terms["finitely many draws"], above, rtol=1e-10)
    # nothing of it is free
    assert (made.terms["choice among priors"] > 0) == (priors > 0)
    assert all(term > 0 for name, term in made.terms.items() if name != "choice among priors")


def test_limit_of_the_draws_covers_trials_of_different_probabilities():
    rng = np.random.default_rng(0)
    chances = rng.beta(0.2, 2.0, size=200)
    counts = rng.binomial(1, chances, size=(20_000, 200)).sum(1)
    limits = np.array([_inverse(k / 200, np.log(20) / 200) for k in range(1, 100)])
    missed = limits[counts - 1] < chances.mean()
    assert stats.binomtest(int(missed.sum()), 20_000, 0.05, alternative="greater").pvalue > 1e-6
    assert counts.min() > 0


def test_scales_come_from_the_grid_whatever_is_asked_for():
    asked = np.geomspace(1e-12, 1e3, 300)
    found = np.asarray(jax.vmap(nearest)(jnp.asarray(asked))) ** 2
    assert np.isclose(found[:, None], GRID, rtol=1e-12).any(1).all()
    inside = (asked > GRID[-1]) & (asked < GRID[0])
    np.testing.assert_allclose(np.log(found[inside] / asked[inside]), 0, atol=0.005 + 1e-12)
    np.testing.assert_allclose(found[[0, -1]], GRID[[-1, 0]])


def test_parts_are_all_of_the_data_once():
    data = jnp.arange(20.0), jnp.arange(20)
    assert part(data, 0.0, KEY) == (None, data)
    first, rest = part(data, 0.3, KEY)
    assert (len(first[1]), len(rest[1])) == (6, 14)
    np.testing.assert_array_equal(np.sort(np.concatenate([first[1], rest[1]])), np.arange(20))
    np.testing.assert_array_equal(first[0], first[1])
