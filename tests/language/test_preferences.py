"""Rewards from comparisons, against logistic regression, closed forms and finite differences."""

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

from corollary.language import bradley_terry, dpo_loss, fit_reward, implicit_reward, reward_loss

PAIRS = np.array([[0, 1], [1, 2], [2, 0], [0, 3], [3, 1], [3, 0], [0, 1]])
WEIGHTS = np.array([3.0, 2.0, 1.0, 1.0, 2.0, 0.5, 0.5])


def test_probabilities_of_both_sides():
    r = np.random.default_rng(0).normal(size=(4,))
    np.testing.assert_allclose(bradley_terry(r, 0.3), np.exp(r) / (np.exp(r) + np.exp(0.3)), rtol=1e-12)
    with pytest.raises(ValueError, match="shapes of first and second must broadcast"):
        bradley_terry(np.ones(3), np.ones(4))


def test_fit_is_the_minimum_that_scipy_finds():
    def loss(r):
        return WEIGHTS @ np.log1p(np.exp(r[PAIRS[:, 1]] - r[PAIRS[:, 0]])) / WEIGHTS.sum()

    found = fit_reward(PAIRS, 4, weights=WEIGHTS)
    peer = minimize(loss, np.zeros(4), tol=1e-12)
    np.testing.assert_allclose(found.rewards, peer.x - peer.x.mean(), atol=1e-6)
    np.testing.assert_allclose(found.loss, loss(np.asarray(found.rewards)), rtol=1e-12)
    np.testing.assert_allclose(found.loss, reward_loss(found.rewards[PAIRS], WEIGHTS), rtol=1e-12)
    assert found.gradient < 1e-14
    assert float(reward_loss(found.rewards[PAIRS])) > 0


def test_a_far_fit_is_found_too():
    pairs, odds = [[0, 1], [1, 0], [1, 2], [2, 1]], [1e6, 1.0, 1.0, 1e5]
    found = fit_reward(pairs, 3, weights=odds).rewards
    np.testing.assert_allclose([found[0] - found[1], found[2] - found[1]], np.log([1e6, 1e5]), rtol=1e-9)


def test_dpo_is_the_loss_of_the_implicit_reward():
    rng = np.random.default_rng(1)
    policy, reference = -rng.uniform(0.1, 3, size=(2, 5, 2))
    ratio = policy - reference
    expected = np.mean(np.log1p(np.exp(-0.4 * (ratio[:, 0] - ratio[:, 1]))))
    np.testing.assert_allclose(dpo_loss(policy, reference, 0.4), expected, rtol=1e-12)
    np.testing.assert_allclose(implicit_reward(policy, reference, 0.4), 0.4 * ratio, rtol=1e-12)
    slope = jax.grad(dpo_loss)(policy, reference, 0.4)
    np.testing.assert_allclose(slope.sum(), 0.0, atol=1e-15)
    assert (slope[:, 0] < 0).all()


def test_sentences():
    with pytest.raises(ValueError, match="pairs must hold labels from 0 to 3, got 4 at index"):
        fit_reward([[0, 4]], 4)
    with pytest.raises(ValueError, match="pairs must connect all answers, but no comparisons lead from answer 0 to 2"):
        fit_reward([[0, 1], [1, 0], [2, 3], [3, 2]], 4)
    with pytest.raises(ValueError, match="no wins lead from answer 1 to 0: a certain preference"):
        fit_reward([[0, 1]], 2)
    with pytest.raises(ValueError, match="weights must not all be zero"):
        fit_reward([[0, 1]], 2, weights=[0.0])
    with pytest.raises(ValueError, match="beta must be positive"):
        dpo_loss(np.zeros((1, 2)), np.zeros((1, 2)), 0.0)
    with pytest.raises(ValueError, match="reference must have shape"):
        dpo_loss(np.zeros((1, 2)), np.zeros((2, 2)), 1.0)
