"""The optimum of RLHF, against constrained optimisation and the edges of its domain."""

import jax
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from corollary.language import rlhf, rlhf_objective, rlhf_optimum

REWARD, REFERENCE, BETA = np.array([0.4, -1.0, 0.9]), np.array([0.5, 0.3, 0.2]), 0.7


def objective(p):
    return p @ REWARD - BETA * p @ np.log(p / REFERENCE)


def test_optimum_is_the_one_that_scipy_finds():
    found = rlhf_optimum(REWARD, REFERENCE, BETA)
    peer = minimize(lambda z: -objective(softmax(z)), np.zeros(3), tol=1e-12)
    np.testing.assert_allclose(found.policy, softmax(peer.x), atol=1e-6)
    np.testing.assert_allclose(found.value, -peer.fun, rtol=1e-10)
    np.testing.assert_allclose(rlhf_objective(found.policy, REWARD, REFERENCE, BETA), found.value, rtol=1e-13)
    slope = jax.grad(lambda r: rlhf_optimum(r, REFERENCE, BETA).value)(REWARD)
    np.testing.assert_allclose(slope, found.policy, rtol=1e-12)  # Danskin


def test_answers_that_the_reference_excludes():
    none = np.array([0.6, 0.4, 0.0])
    found = rlhf_optimum(REWARD, none, BETA)
    assert found.policy[2] == 0
    assert np.isfinite(found.value)
    assert rlhf_objective(REFERENCE, REWARD, none, BETA) == -np.inf
    many = rlhf_optimum(np.stack([REWARD, REWARD]), np.stack([none, REFERENCE]), BETA)
    np.testing.assert_allclose(many.policy[0], found.policy, rtol=1e-12)
    climbed = rlhf(REWARD, none, BETA, 2000)
    np.testing.assert_allclose(climbed.policy, found.policy, atol=1e-10)


def test_ascent_ends_at_the_optimum():
    best = rlhf_optimum(REWARD, REFERENCE, BETA)
    drawn = rlhf(REWARD, REFERENCE, BETA, 4000, step=0.5, batch_size=8, key=jax.random.key(0))
    np.testing.assert_allclose(drawn.policy, best.policy, atol=1e-8)
    assert drawn.value <= best.value + 1e-14


def test_sentences():
    with pytest.raises(ValueError, match="reference must sum to 1 along its last axis, got a sum of 0.9"):
        rlhf_optimum(REWARD, [0.5, 0.2, 0.2], BETA)
    with pytest.raises(ValueError, match="beta must be positive"):
        rlhf_optimum(REWARD, REFERENCE, 0.0)
    with pytest.raises(ValueError, match="batch_size and key must be given together"):
        rlhf(REWARD, REFERENCE, BETA, 5, batch_size=4)
