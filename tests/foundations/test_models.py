"""Models linear in their parameters: what they compute, and what least squares recovers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.foundations import LinearModel, QuadraticForm, fit_quadratic_form, parabola_through, quadratic_features


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_models_compute_their_formulas():
    rng = np.random.default_rng(0)
    theta, matrix, x = rng.normal(size=3), rng.normal(size=(3, 3)), rng.normal(size=3)
    assert LinearModel.of(theta)(x) == pytest.approx(theta @ x)
    assert QuadraticForm.of(matrix)(x) == pytest.approx(x @ matrix @ x)
    assert LinearModel(3, key=jax.random.key(0))(x).shape == ()
    assert jax.vmap(QuadraticForm(3, key=jax.random.key(0)))(jnp.ones((5, 3))).shape == (5,)


def test_only_the_symmetric_part_counts():
    rng = np.random.default_rng(1)
    matrix, x = rng.normal(size=(4, 4)), rng.normal(size=4)
    model = QuadraticForm.of(matrix)
    assert model(x) == pytest.approx(float(QuadraticForm.of((matrix + matrix.T) / 2)(x)))
    assert model.degrees_of_freedom == 10


def test_features_make_the_form_linear_and_keep_the_norm():
    rng = np.random.default_rng(2)
    half, x = rng.normal(size=(4, 4)), rng.normal(size=(7, 4))
    theta = half + half.T
    i, j = np.triu_indices(4)
    coefficients = np.where(i == j, 1, np.sqrt(2)) * theta[i, j]
    np.testing.assert_allclose(quadratic_features(x) @ coefficients, [v @ theta @ v for v in x], rtol=1e-12)
    assert np.linalg.norm(coefficients) == pytest.approx(np.linalg.norm(theta))


def test_fit_recovers_the_symmetric_part_and_else_has_least_norm():
    rng = np.random.default_rng(3)
    theta, x = rng.normal(size=(4, 4)), rng.normal(size=(12, 4))
    y = np.einsum("na,ab,nb->n", x, theta, x)
    np.testing.assert_allclose(fit_quadratic_form(x, y).theta, (theta + theta.T) / 2, atol=1e-10)
    few = fit_quadratic_form(x[:6], y[:6]).theta
    # among all matrices too, the one of least norm: the pseudo-inverse on the features x x'
    outer = np.einsum("na,nb->nab", x[:6], x[:6]).reshape(6, 16)
    np.testing.assert_allclose(few, (np.linalg.pinv(outer) @ y[:6]).reshape(4, 4), atol=1e-10)


def test_parabolas_pass_through_the_point():
    a, b, c = parabola_through(2.0, 5.0, np.array([-3.0, 0.0, 7.0])).T
    np.testing.assert_allclose(a * 4 + b * 2 + c, 5.0)
    np.testing.assert_allclose(a, [-3, 0, 7])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: LinearModel(0, key=jax.random.key(0)), ValueError, "features must be at least 1"),
        (lambda: LinearModel.of(np.ones((2, 2))), ValueError, r"theta must have shape \(d,\)"),
        (lambda: LinearModel.of(np.ones(2))(np.ones(3)), ValueError, r"x must have shape \(2,\)"),
        (lambda: QuadraticForm.of(np.ones((2, 3))), ValueError, r"theta must have shape \(d, d\) with d = 2"),
        (lambda: QuadraticForm(2.0, key=jax.random.key(0)), TypeError, "features must be an integer, got 2.0"),
        (lambda: QuadraticForm.of(np.ones((2, 2)))(np.ones(3)), ValueError, r"x must have shape \(2,\)"),
        (lambda: quadratic_features(np.ones(3)), ValueError, r"x must have shape \(n, d\)"),
        (lambda: fit_quadratic_form(np.ones((3, 2)), np.ones(2)), ValueError, r"y must have shape \(n,\) with n = 3"),
        (lambda: parabola_through(np.ones(2), 1.0, 1.0), ValueError, r"x0 must have shape \(\)"),
    ],
)
def test_bad_input_gets_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
