"""Matrix Bernstein against its scalar case and against spectral norms computed by NumPy."""

import jax
import numpy as np
import pytest

from corollary.foundations import (
    bernstein,
    matrix_bernstein,
    matrix_bernstein_deviation,
    matrix_bernstein_mean,
    matrix_variance,
)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_variance_is_the_larger_of_the_two_norms():
    a = np.random.default_rng(0).normal(size=(6, 3, 5))
    weights = np.arange(1.0, 7.0)
    rows = sum(w * m @ m.T for w, m in zip(weights, a, strict=True))
    columns = sum(w * m.T @ m for w, m in zip(weights, a, strict=True))
    expected = max(np.linalg.norm(rows, 2), np.linalg.norm(columns, 2))
    assert matrix_variance(a, weights) == pytest.approx(expected, rel=1e-12)
    assert matrix_variance(a) == pytest.approx(float(matrix_variance(a, np.ones(6))), rel=1e-14)


def test_atoms_with_probabilities_give_the_variance_of_their_law():
    # one summand, A or -2A with probabilities 2/3 and 1/3: the second moment is 2 A A'
    a = np.random.default_rng(1).normal(size=(4, 2))
    found = matrix_variance(np.stack([a, -2 * a]), [2 / 3, 1 / 3])
    assert found == pytest.approx(2 * np.linalg.norm(a, 2) ** 2, rel=1e-12)


def test_one_by_one_matrices_give_both_scalar_tails():
    t = np.linspace(0.1, 9, 20)
    np.testing.assert_allclose(matrix_bernstein(t, 3.0, 2.0, (1, 1)), 2 * bernstein(t, 3.0, 2.0), rtol=1e-14)


def test_printed_constants_and_inverse():
    log = np.log(50)
    assert matrix_bernstein_mean(7.0, 2.0, (20, 30)) == pytest.approx(np.sqrt(14 * log) + 2 * log / 3)
    t = matrix_bernstein_deviation(0.01, 7.0, 2.0, (20, 30))
    assert matrix_bernstein(t, 7.0, 2.0, (20, 30)) == pytest.approx(0.01, rel=1e-10)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: matrix_variance(np.ones((3, 3))), ValueError, r"matrices must have shape \(j, a, b\)"),
        (lambda: matrix_variance(np.ones((3, 3, 2)), -np.ones(3)), ValueError, "weights must be zero or more"),
        (lambda: matrix_variance(np.ones((3, 3, 2)), np.ones(2)), ValueError, r"weights must have shape \(j,\) with j"),
        (lambda: matrix_bernstein_mean(1.0, 1.0, 5), TypeError, r"shape must be the pair \(n1, n2\), got 5"),
        (lambda: matrix_bernstein_mean(1.0, 1.0, (5, 0)), ValueError, "n2 must be at least 1"),
        (lambda: matrix_bernstein(1.0, 1.0, 0.0, (5, 5)), ValueError, "bound must be positive"),
        (lambda: matrix_bernstein_deviation(2.0, 1.0, 1.0, (5, 5)), ValueError, r"delta must be in \(0, 1\)"),
    ],
)
def test_bad_input_gets_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
