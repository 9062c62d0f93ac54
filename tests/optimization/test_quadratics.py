"""Gradient descent on a quadratic: the factor of every axis, the threshold, the best step."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from corollary.optimization import best_step, condition_number, quadratic_factor, steps_to_shrink


@pytest.fixture
def matrix():
    a = np.random.default_rng(0).normal(size=(5, 5))
    return a @ a.T + 0.5 * np.eye(5)


def test_condition_number(matrix):
    assert condition_number(matrix) == pytest.approx(np.linalg.cond(matrix), rel=1e-10)
    assert condition_number(np.diag([1.0, 0.0])) == np.inf


def test_best_step_is_found_by_search():
    spectrum = np.array([0.3, 1.0, 4.0])
    found = minimize_scalar(lambda s: float(quadratic_factor(spectrum, s)), bounds=(0, 1), options={"xatol": 1e-12})
    assert best_step(spectrum) == pytest.approx(found.x, abs=1e-6)
    assert quadratic_factor(spectrum, np.array([0.1, 0.5])).shape == (2,)


def test_steps_to_shrink_by_counting():
    assert steps_to_shrink(0.9, 1e-3) == next(k for k in range(1000) if 0.9**k <= 1e-3)
