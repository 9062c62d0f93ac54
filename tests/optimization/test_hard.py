"""3-SAT as a polynomial and the haystack, against brute force and closed forms."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization import (
    haystack,
    random_clauses,
    satisfiability,
    satisfies,
)


def test_polynomial_counts_violated_clauses_on_the_cube():
    clauses = np.asarray(random_clauses(5, 12, key=jax.random.key(0)))
    problem = satisfiability(clauses, np.zeros(5))
    for bits in itertools.product([0, 1], repeat=5):
        true = sum(any((bits[abs(v) - 1] == 1) == (v > 0) for v in clause) for clause in clauses)
        assert satisfies(clauses, np.array(bits, float)) == true
        assert problem(np.array(bits, float)) == 12 - true


def test_random_clauses_have_three_variables():
    clauses = np.asarray(random_clauses(4, 200, key=jax.random.key(1)))
    assert all(len(set(row)) == 3 for row in np.abs(clauses))
    assert set(np.abs(clauses).ravel()) == {1, 2, 3, 4}
    assert (clauses > 0).mean() == pytest.approx(0.5, abs=0.1)


def test_haystack_is_a_slope_outside_its_cell_and_has_a_stationary_point_inside():
    problem = haystack(np.array([1.0, 0.0]), slope=2.0, depth=3.0)
    for x in ([0.2, 0.3], [0.7, 0.6], [0.4, 0.9]):
        x = np.array(x)
        assert problem(x) == pytest.approx(2 * x[0])
        np.testing.assert_allclose(problem.gradient(x), [2, 0])
    line = np.linspace(0.5, 1.0, 10001)
    slopes = np.asarray(jax.vmap(lambda t: problem.gradient(jnp.array([t, 0.25]))[0])(line))
    assert (np.sign(slopes[:-1]) != np.sign(slopes[1:])).sum() == 2
    np.testing.assert_allclose(problem(np.array([0.75, 0.25])), 1.5 - 3)


def test_sentences():
    with pytest.raises(ValueError, match=r"clauses must be whole numbers of shape \(m, 3\)"):
        satisfies(np.ones((2, 2), int), np.ones(3))
    with pytest.raises(ValueError, match="negative where negated, got 0"):
        satisfiability(np.array([[1, 2, 0]]), np.ones(3))
    with pytest.raises(ValueError, match="variables from 1 to 3, got 4"):
        satisfiability(np.array([[1, 2, 4]]), np.ones(3))
    with pytest.raises(ValueError, match="depth over slope must be at least"):
        haystack(np.zeros(2), slope=10.0, depth=1.0)
    with pytest.raises(ValueError, match=r"cell must be in \[0, 1\]"):
        haystack(np.array([2.0, 0.0]))
    with pytest.raises(ValueError, match="variables must be at least 3"):
        random_clauses(2, 1, key=jax.random.key(0))
