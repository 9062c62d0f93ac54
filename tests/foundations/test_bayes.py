"""Conditional means and Bayes errors against sums written out and brute force over all rules."""

import itertools

import jax
import numpy as np
import pytest

from corollary.foundations import (
    bayes_classifier,
    bayes_error,
    conditional_mean,
    error_probability,
    mean_squared_error,
)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def law(seed=0, k=4, j=3):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(k * j)).reshape(k, j), rng.normal(size=j)


def test_conditional_mean_and_variance():
    joint, values = law()
    for a in range(4):
        p = joint[a] / joint[a].sum()
        assert conditional_mean(joint, values)[a] == pytest.approx(p @ values)
    variances = [joint[a] @ (values - joint[a] @ values / joint[a].sum()) ** 2 for a in range(4)]
    assert bayes_error(joint, values) == pytest.approx(sum(variances))
    assert mean_squared_error(joint, values, conditional_mean(joint, values)) == pytest.approx(sum(variances))


def test_mean_squared_error_of_any_predictor():
    joint, values = law(1)
    g = np.array([0.0, 1.0, -1.0, 2.0])
    expected = sum(joint[a, b] * (values[b] - g[a]) ** 2 for a in range(4) for b in range(3))
    assert mean_squared_error(joint, values, g) == pytest.approx(expected)


def test_no_rule_errs_less_than_the_vote():
    joint, _ = law(2)
    errors = [float(error_probability(joint, np.array(r))) for r in itertools.product(range(3), repeat=4)]
    assert error_probability(joint, bayes_classifier(joint)) == pytest.approx(min(errors))
    assert max(errors) > min(errors) + 0.1


def test_ties_go_to_the_first_label():
    assert bayes_classifier([[0.25, 0.25], [0.2, 0.3]]).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: conditional_mean([[0.5, 0.6]], [0, 1]), "joint must sum to 1"),
        (
            lambda: conditional_mean([[0.5, 0.5], [0, 0]], [0, 1]),
            "joint must give every feature a positive probability, .* row 1",
        ),
        (lambda: conditional_mean([[0.5, 0.5]], [0, 1, 2]), r"values must have shape \(j,\) with j = 2"),
        (lambda: mean_squared_error([[0.5, 0.5]], [0, 1], [1, 2]), r"predictor must have shape \(1,\), got \(2,\)"),
        (lambda: error_probability([[0.5, 0.5]], [2]), "rule must hold labels from 0 to 1, got 2"),
        (lambda: bayes_classifier([0.5, 0.5]), r"joint must have shape \(k, j\)"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
