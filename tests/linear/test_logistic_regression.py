import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from sklearn.linear_model import LogisticRegression as Reference

from corollary.data import book_logistic_surrogate, book_perfect_data, logistic_data
from corollary.foundations import binary_cross_entropy
from corollary.linear import (
    LogisticRegression,
    class_gap,
    fit_gradient_descent,
    fit_newton,
    logistic_chain_gradients,
    logistic_function,
    logistic_gradient,
    logistic_hessian,
    logistic_loss,
    logistic_point_gradients,
    logistic_point_losses,
    logistic_smoothness,
    moment_eigenvalues,
)
from corollary.optimization import gradient_descent

THETA = np.array([0.8, -1.2, 0.3, 0.5])


@pytest.fixture
def data():
    return logistic_data(jnp.asarray(THETA), 200, key=jax.random.key(0))


def test_losses_are_the_composition(data):
    theta = jnp.asarray(THETA)
    composed = binary_cross_entropy(data.y, logistic_function(data.x @ theta[:-1] + theta[-1]))
    np.testing.assert_allclose(logistic_point_losses(theta, data.x, data.y), composed, rtol=1e-12)
    np.testing.assert_allclose(logistic_loss(theta, data.x, data.y), composed.mean(), rtol=1e-13)


def test_exercise_3_2():
    loss = logistic_loss(jnp.array([0.5, 1.0]), jnp.array([-2.0, 1.0]), jnp.array([0, 1]))
    np.testing.assert_allclose(loss, 0.44728022927134886, rtol=1e-14)


def test_huge_logits_cost_what_they_should():
    losses = logistic_point_losses(jnp.array([1e4, 0.0]), jnp.array([-1.0, 1.0, -1.0]), jnp.array([0, 1, 1]))
    np.testing.assert_array_equal(losses, [0, 0, 1e4])


def test_gradient_in_all_its_forms(data):
    theta = jnp.asarray(THETA)
    gradient = logistic_gradient(theta, data.x, data.y)
    np.testing.assert_allclose(gradient, jax.grad(logistic_loss)(theta, data.x, data.y), rtol=1e-12)
    np.testing.assert_allclose(gradient, logistic_point_gradients(theta, data.x, data.y).mean(0), rtol=1e-12)
    np.testing.assert_allclose(gradient, logistic_chain_gradients(theta, data.x, data.y).mean(0), rtol=1e-12)
    h = 1e-6
    differences = [
        (logistic_loss(theta + h * e, data.x, data.y) - logistic_loss(theta - h * e, data.x, data.y)) / (2 * h)
        for e in jnp.eye(4)
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6)


def test_the_chain_form_is_lost_where_the_simplified_form_is_not():
    x, y = jnp.array([1.0]), jnp.array([0])  # a wrong label at a saturated logit: the slope is 1
    assert jnp.all(logistic_point_gradients(jnp.array([50.0, 0.0]), x, y) == 1)
    assert not jnp.allclose(logistic_chain_gradients(jnp.array([50.0, 0.0]), x, y), 1)


@pytest.mark.parametrize("ridge", [0.0, 0.3, (0.1, 0.2, 0.3, 0.0)])
def test_derivatives_with_a_ridge(data, ridge):
    theta, ridge = jnp.asarray(THETA), jnp.asarray(ridge)
    np.testing.assert_allclose(
        logistic_gradient(theta, data.x, data.y, ridge),
        jax.jit(jax.grad(logistic_loss))(theta, data.x, data.y, ridge), rtol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(
        logistic_hessian(theta, data.x, ridge),
        jax.jit(jax.hessian(logistic_loss))(theta, data.x, data.y, ridge), rtol=1e-11, atol=1e-14,
    )  # fmt: skip


def test_smoothness_bounds_the_curvature_and_is_reached(data):
    bound = logistic_smoothness(data.x)
    tops = jax.vmap(lambda t: jnp.linalg.eigvalsh(logistic_hessian(t, data.x))[-1])(
        jax.random.normal(jax.random.key(1), (200, 4))
    )
    assert np.all(tops <= bound)
    np.testing.assert_allclose(jnp.linalg.eigvalsh(logistic_hessian(jnp.zeros(4), data.x))[-1], bound, rtol=1e-12)
    x = data.x[:, 0]
    np.testing.assert_allclose(logistic_smoothness(x), moment_eigenvalues(x)[1] / 4, rtol=1e-12)


def test_newton_against_sklearn_without_penalty(data):
    fit = fit_newton(data.x, data.y)
    reference = Reference(C=np.inf, solver="newton-cholesky", tol=1e-12).fit(data.x, data.y)
    assert fit.converged
    np.testing.assert_allclose(fit.theta, np.append(reference.coef_, reference.intercept_), rtol=1e-7)
    assert fit.gradient_norm < 1e-14


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
def test_newton_against_sklearn_with_penalty(data, ridge):
    # sklearn minimises c * sum(loss) + |w|^2 / 2 with the intercept free.
    reference = Reference(C=1 / (2 * ridge * 200), solver="newton-cholesky", tol=1e-12).fit(data.x, data.y)
    fit = fit_newton(data.x, data.y, penalty=jnp.array([ridge] * 3 + [0.0]))
    np.testing.assert_allclose(fit.theta, np.append(reference.coef_, reference.intercept_), rtol=1e-6, atol=1e-9)
    everything = fit_newton(data.x, data.y, penalty=ridge)
    ours = minimize(
        lambda t: float(logistic_loss(t, data.x, data.y, ridge)), np.zeros(4), method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 5000},
    )  # fmt: skip
    np.testing.assert_allclose(everything.theta, ours.x, atol=1e-6)


def test_newton_from_any_start(data):
    scale = 10.0 ** jax.random.uniform(jax.random.key(1), (100, 1), minval=-2, maxval=4)
    starts = scale * jax.random.normal(jax.random.key(2), (100, 4))
    fits = jax.jit(jax.vmap(lambda s: fit_newton(data.x, data.y, start=s)))(starts)
    assert jnp.all(fits.converged)
    np.testing.assert_allclose(fits.theta, jnp.tile(fit_newton(data.x, data.y).theta, (100, 1)), rtol=1e-10)


def test_surrogate_of_table_3_1_gives_the_catalogued_fit():
    x, y = book_logistic_surrogate()
    fit = fit_newton(x, y)
    np.testing.assert_allclose(fit.theta, [2.02, -14.16], atol=5e-3)
    low, high = jnp.linalg.eigvalsh(logistic_hessian(fit.theta, x))
    np.testing.assert_allclose([low, high], [0.0011, 3.74], atol=5e-3)
    np.testing.assert_allclose(high / low, 3323, atol=1)


def test_a_short_descent_says_that_it_has_not_converged():
    x, y = book_logistic_surrogate()
    assert not fit_gradient_descent(x, y, steps=1000, step=0.01).converged
    long = fit_gradient_descent(x, y, steps=300_000)
    assert long.converged
    np.testing.assert_allclose(long.theta, fit_newton(x, y).theta, atol=1e-6)


def test_gradient_descent_fit_is_the_end_of_the_path(data):
    step = 1 / logistic_smoothness(data.x)
    path = gradient_descent(lambda t: logistic_gradient(t, data.x, data.y), jnp.zeros(4), step, 100)
    np.testing.assert_allclose(fit_gradient_descent(data.x, data.y, steps=100).theta, path[-1], rtol=1e-12)
    # Later the loss is flat to rounding.
    assert jnp.all(jnp.diff(jax.vmap(lambda t: logistic_loss(t, data.x, data.y))(path[:20])) < 0)


def test_separable_data_are_not_fitted_silently():
    x, y = book_perfect_data()
    for fit in (fit_newton(x, y), fit_newton(x, y, steps=30), fit_newton(x, y, steps=2000)):
        assert not fit.converged
    assert fit_newton(x, y, steps=30).gradient_norm < 1e-10  # small, and yet no minimum
    assert fit_newton(x, y.at[0].set(0)).converged
    assert not fit_newton(x, jnp.ones(100)).converged


def test_the_ridge_path_ends_in_the_middle_of_the_gap():
    x, y = book_perfect_data()
    ridges = 10.0 ** jnp.array([-2, -8, -14, -20])
    fits = jax.jit(jax.vmap(lambda c: fit_newton(x, y, penalty=c)))(ridges)
    assert jnp.all(fits.converged)
    assert jnp.all(jnp.linalg.norm(fits.theta, axis=1) <= jnp.sqrt(jnp.log(2) / ridges))
    assert fits.theta[-1, 0] > 1000
    np.testing.assert_allclose(-fits.theta[-1, 1] / fits.theta[-1, 0], class_gap(x, y).midpoint, atol=1e-6)


def test_verdict_against_linear_programming():
    """Separated, touching, collinear and overlapping data, twelve points each: 300 verdicts, none wrong."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 12, 2))
    x[::3] = np.round(x[::3])
    x[1::3, :, 1] = 2 * x[1::3, :, 0] - 1
    y = rng.integers(0, 2, size=(300, 12))
    y[:150] = x[:150] @ [1, 0.7] + 0.3 * rng.normal(size=(150, 12)) > 0.3
    fits = jax.jit(jax.vmap(fit_newton))(jnp.asarray(x), jnp.asarray(y))
    rows = np.concatenate([x, np.ones((300, 12, 1))], 2) * (2 * y - 1)[:, :, None]
    # A direction that no point objects to and some point gains from: then there is no minimiser.
    gain = [-linprog(-a.sum(0), A_ub=-a, b_ub=np.zeros(12), bounds=[(-1, 1)] * 3).fun for a in rows]
    exists = np.array(gain) < 1e-9
    assert 50 < exists.sum() < 250
    np.testing.assert_array_equal(fits.converged, exists)


def test_collinear_features_keep_their_probabilities():
    x, y = logistic_data(jnp.array([1.0, 0.5]), 100, key=jax.random.key(7))
    twice = jnp.stack([x, 3 * x - 2], 1)
    fit, plain = fit_newton(twice, y), fit_newton(x, y)
    assert fit.converged
    np.testing.assert_allclose(twice @ fit.theta[:-1] + fit.theta[-1], x * plain.theta[0] + plain.theta[1], rtol=1e-9)


def test_features_of_wildly_different_scale():
    x, y = logistic_data(jnp.array([1.0, -1.0, 0.5]), 300, key=jax.random.key(8))
    scale = jnp.array([1e7, 1e-7])
    plain, scaled = fit_newton(x, y), fit_newton(x * scale + 5 * scale, y)
    assert scaled.converged
    np.testing.assert_allclose(scaled.theta[:-1] * scale, plain.theta[:-1], rtol=1e-8)


def test_single_precision():
    with jax.enable_x64(False):
        fit = fit_newton(*book_logistic_surrogate())
        assert fit.theta.dtype == jnp.float32
        assert fit.converged
        np.testing.assert_allclose(fit.theta, [2.0194235, -14.161778], rtol=1e-4)
        assert not fit_newton(*book_perfect_data()).converged


def test_module():
    model = LogisticRegression.of(jnp.asarray(THETA))
    x = jax.random.normal(jax.random.key(0), (5, 3))
    np.testing.assert_allclose(jax.vmap(model)(x), logistic_function(x @ THETA[:-1] + THETA[-1]), rtol=1e-14)
    np.testing.assert_array_equal(model.theta, THETA)
    assert LogisticRegression(3, key=jax.random.key(0)).theta.shape == (4,)
