"""The condition of emergence by SciPy's root finder, and the worst mistakes by brute force over all of them."""

import itertools

import jax
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import binom, rel_entr
from scipy.stats import binom as binomial

from corollary.language import (
    SkillCluster,
    beta_limit,
    beta_min,
    emergence_condition,
    log_bad_pairs,
    most_edges,
    performance_curve,
    worst_errors,
)


def left(alpha, beta, theta, k):
    x, entropy = alpha * beta, -theta * np.log(theta) - (1 - theta) * np.log(1 - theta)
    return entropy - k * theta * (rel_entr(x, alpha) + rel_entr(1 - x, 1 - alpha))


@pytest.mark.parametrize("alpha", [0.1, 0.37])
@pytest.mark.parametrize("theta", [0.03, 0.2])
def test_smallest_beta_is_a_root_of_the_condition(alpha, theta):
    assert float(emergence_condition(alpha, 1.5, theta, 8)) == pytest.approx(left(alpha, 1.5, theta, 8))
    root = brentq(lambda b: left(alpha, b, theta, 8), 1, 1 / alpha, xtol=1e-14)
    assert float(beta_min(alpha, theta, 8)) == pytest.approx(root, rel=1e-12)
    assert float(performance_curve(8, theta, [alpha])[0]) == pytest.approx(root * theta, rel=1e-12)
    pairs = brentq(lambda b: left(alpha, b, 2 * theta, 8), 1, 1 / alpha, xtol=1e-14) * 2 * theta
    assert float(performance_curve(8, theta, [alpha], size=2)[0]) == pytest.approx(pairs, rel=1e-12)


def test_smallest_beta_has_derivatives_and_may_not_exist():
    slope = jax.jit(jax.grad(beta_min, argnums=(0, 1, 2)))(0.2, 0.1, 8.0)
    for i, h in itertools.product(range(3), [1e-5]):
        up, down = ([v + s * h * (j == i) for j, v in enumerate((0.2, 0.1, 8.0))] for s in (1, -1))
        assert float(slope[i]) == pytest.approx(float(beta_min(*up) - beta_min(*down)) / (2 * h), rel=1e-6)
    end = np.exp(-(left(0.5, 1, 0.1, 8)) / 0.2)
    found = beta_min([end - 1e-3, end + 1e-3], 0.1, 2)
    assert np.isfinite(found[0])
    assert np.isinf(found[1])
    assert np.isfinite(jax.grad(lambda a: beta_min(a, 0.1, 2))(0.1))


def test_limit_is_the_mean_of_the_largest():
    for alpha, theta in ((0.1, 0.1), (0.25, 0.3)):
        law, room, total = binomial(8, alpha), theta, 0.0
        for j in range(8, 0, -1):  # from the largest numbers of edges down, until the share is used up
            used = min(room, law.pmf(j))
            room, total = room - used, total + j * used
        assert float(beta_limit(alpha, theta, 8)) == pytest.approx(total / (theta * 8 * alpha), rel=1e-12)


def test_bound_on_bad_pairs():
    value = 4 * 8 * binom(4, 1) * binom(8, 2) * binom(8, 4) * 0.25**4 * 0.75**4
    assert float(log_bad_pairs(8, 4, 0.25, 2.0, 0.25, 4)) == pytest.approx(np.log(value), rel=1e-12)


def test_worst_mistakes_over_all_sets_of_pieces():
    cluster = SkillCluster(np.random.default_rng(2).integers(0, 5, (9, 3)), 5)
    needed = np.asarray(cluster.incidence())
    pieces = list(itertools.combinations(range(9), 3))
    for size in (1, 2):
        sets = list(itertools.combinations(range(5), size))
        brute = [max(needed[np.ix_(y, z)].sum() for y in pieces) for z in sets]
        assert most_edges(cluster, sets, 3).tolist() == brute
        for z, most in zip(sets, brute, strict=True):
            wrong = np.asarray(worst_errors(cluster, z, 3))
            assert wrong.sum() == 3
            assert needed[wrong][:, z].sum() == most


def test_sentences():
    with pytest.raises(ValueError, match=r"alpha must be in \(0, 1\)"):
        beta_min(0.0, 0.1, 8)
    with pytest.raises(ValueError, match="shapes of alpha, theta and k must broadcast"):
        beta_min([0.1, 0.2], [0.1, 0.2, 0.3], 8)
    with pytest.raises(ValueError, match=r"alpha \* beta must be in \[0, 1\]"):
        emergence_condition(0.5, 3.0, 0.1, 8)
    with pytest.raises(ValueError, match="beta must be at least 1"):
        emergence_condition(0.5, 0.5, 0.1, 8)
    with pytest.raises(ValueError, match=r"theta \* size must be in \(0, 1\)"):
        performance_curve(8, 0.5, [0.1], size=2)
    with pytest.raises(ValueError, match="count must be from 1 to 2"):
        most_edges(SkillCluster([[0], [1]], 2), [[0]], 3)
    with pytest.raises(TypeError, match="cluster must be a SkillCluster, got int"):
        worst_errors(3, [0], 1)
