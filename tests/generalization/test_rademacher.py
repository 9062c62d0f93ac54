"""Rademacher complexities by brute force over signs and members, and the chain of symmetrisation by hand."""

from functools import partial
from itertools import product

import jax
import numpy as np
import pytest

from corollary.generalization.classes import Intervals, Thresholds, dichotomies
from corollary.generalization.rademacher import (
    ball_supremum,
    interval_supremum,
    kernel_ball_supremum,
    list_supremum,
    rademacher,
    rademacher_bound,
    symmetrisation,
    threshold_supremum,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3))
SIGNS = np.array(list(product([-1.0, 1.0], repeat=7)))


def test_balls_by_their_dual_norms():
    sums = SIGNS @ X
    for norm, dual in (("l2", 2), ("l1", np.inf), ("linf", 1)):
        exact = rademacher(partial(ball_supremum, norm=norm, radius=2.0), X)
        np.testing.assert_allclose(exact.value, 2 * np.linalg.norm(sums, dual, axis=1).mean() / 7, rtol=1e-13)
        assert exact.exact
        assert exact.interval == (exact.value, exact.value)
    in_space = rademacher(kernel_ball_supremum, X @ X.T).value
    np.testing.assert_allclose(in_space, rademacher(ball_supremum, X).value, rtol=1e-13)


@pytest.mark.parametrize("x", [RNG.normal(size=7), np.array([0.0, 1, 1, 2, 2, 2, 0])])
@pytest.mark.parametrize(("cls", "supremum"), [(Thresholds(), threshold_supremum), (Intervals(), interval_supremum)])
def test_lines_against_all_members(x, cls, supremum):
    members = dichotomies(cls, x).astype(float)
    np.testing.assert_allclose(supremum(SIGNS, x), (SIGNS @ members.T).max(1), atol=1e-13)
    np.testing.assert_allclose(supremum(SIGNS, x), list_supremum(SIGNS, members.T), atol=1e-13)


def test_many_blocks_and_draws():
    x = RNG.normal(size=(14, 2))
    signs = 1.0 - 2 * (np.arange(2**14)[:, None] >> np.arange(14) & 1)
    exact = rademacher(ball_supremum, x).value
    np.testing.assert_allclose(exact, np.linalg.norm(signs @ x, axis=1).mean() / 14, rtol=1e-12)
    drawn = rademacher(ball_supremum, x, key=jax.random.key(0), draws=2000)
    assert drawn.interval[0] < exact < drawn.interval[1]
    assert not drawn.exact


def test_bounds():
    root = np.sqrt(np.log(20) / 200)
    np.testing.assert_allclose(rademacher_bound(100, 0.1, 0.05).check().value, 0.2 + root)
    np.testing.assert_allclose(rademacher_bound(100, 0.1, 0.05, form="printed").value, 0.2 + np.sqrt(2) * root)
    both = rademacher_bound(100, 0.1, 0.05, sides=2, empirical=True, risk=0.3).check()
    np.testing.assert_allclose(both.value, 0.5 + 3 * np.sqrt(np.log(80) / 200))
    loose = rademacher_bound(100, 0.1, 0.05, empirical=True, form="printed")
    np.testing.assert_allclose(loose.terms["confidence"], 3 * np.sqrt(np.log(40) / 100))


def test_symmetrisation_by_hand():
    # one coin and the function that is its value: the gap is E max over one function, which is 0
    chain = symmetrisation(np.array([[0.0, 1.0]]), np.array([0.3, 0.7]), 2)
    np.testing.assert_allclose(chain, [0, 0, 0, 0], atol=1e-15)
    # with the constant 0 beside it: sup is the positive part, and one point decides
    values, p = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([0.3, 0.7])
    chain = symmetrisation(values, p, 1)
    np.testing.assert_allclose(chain, [0.3 * 0.7, 0.3 * 0.7, 0.3 * 0.7, 0.7], rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: rademacher(3, X), TypeError, "supremum must be a function of signs and points, got int"),
        (lambda: rademacher(ball_supremum, 1.0), ValueError, "points must hold at least one point"),
        (lambda: rademacher(ball_supremum, X, draws=200), ValueError, "key and draws belong together"),
        (
            lambda: rademacher(ball_supremum, np.ones((21, 1))),
            ValueError,
            r"points must be at most 20 for all 2\^m signs, got 21: give a key and draws",
        ),
        (lambda: ball_supremum(SIGNS, X, norm="l3"), ValueError, "norm must be one of 'l2', 'l1', 'linf'"),
        (lambda: rademacher_bound(10, -0.1, 0.05), ValueError, "complexity must be zero or more"),
        (lambda: symmetrisation(np.ones((2, 9)), np.ones(9) / 9, 5), ValueError, r"m must leave at most 2\^22"),
    ],
)
def test_sentences(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
