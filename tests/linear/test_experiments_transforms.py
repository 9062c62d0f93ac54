"""jit, vmap and grad go through everything that takes arrays."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import foundations, linear, optimization

PLACES = {
    linear: (
        "_newton", "logistic", "logistic_regression", "metrics", "regression", "scoring", "separable", "softmax",
        "softmax_regression",
    ),
    foundations: ("entropy", "intervals", "kl_bernoulli"),
    optimization: ("gradient_descent",),
}  # fmt: skip
VALUES = {name: getattr(room, name) for room in PLACES for name in room.__all__}
FILES = {f"{room.__name__}.{file}" for room, files in PLACES.items() for file in files}
NAMES = {n for n, value in VALUES.items() if getattr(inspect.unwrap(value), "__module__", None) in FILES}

X1 = np.random.default_rng(0).normal(size=12)
X2 = np.random.default_rng(1).normal(size=(12, 2))
Y = np.array([0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0])
T2, T3 = np.array([0.3, -0.2]), np.array([0.3, -0.2, 0.1])
M = np.array([[0.3, -0.2, 0.1], [0.0, 0.4, 0.2]])
P = np.array([0.2, 0.7])

CALLS = {
    "gradient_descent": (lambda s: optimization.gradient_descent(lambda t: 2 * t, s, 0.1, 3), T2),
    "quadratic_descent": (lambda s: optimization.quadratic_descent(np.eye(2), s, 0.1, 3), T2),
    "quadratic_flow": (lambda s: optimization.quadratic_flow(np.eye(2), s, np.ones(2)), T2),
    "moments": (lambda x: jnp.stack(linear.moments(x, X1)), X1),
    "moment_matrix": (linear.moment_matrix, X2),
    "moment_eigenvalues": (linear.moment_eigenvalues, X1),
    "squared_error": (lambda y: linear.squared_error(y, T2), T2 + 1),
    "squared_loss": (lambda t: linear.squared_loss(t, X2, X1), T3),
    "squared_loss_by_moments": (lambda t: linear.squared_loss_by_moments(t, linear.moments(X1, X1)), T2),
    "squared_gradient": (lambda t: linear.squared_gradient(t, X2, X1), T3),
    "squared_point_gradients": (lambda t: linear.squared_point_gradients(t, X2, X1), T3),
    "ols_1d": (lambda x: linear.ols_1d(x, X1**2), X1),
    "fit_least_squares": (lambda x: linear.fit_least_squares(x, X1).weight, X2),
    "critical_step": (linear.critical_step, X2),
    "safe_step": (linear.safe_step, X2),
    "contraction_factor": (lambda x: linear.contraction_factor(x, 0.1), X1),
    "descent_path": (lambda s: linear.descent_path(X1, X1**2, s, 0.1, 3), T2),
    "logistic_function": (linear.logistic_function, X1),
    "logistic_prime": (linear.logistic_prime, X1),
    "logit": (linear.logit, P),
    "odds": (linear.odds, P),
    "location_scale": (lambda t: jnp.stack(linear.location_scale(t[0], t[1])), T2),
    "slope_intercept": (lambda t: jnp.stack(linear.slope_intercept(t[0], t[1])), P),
    "transition_interval": (lambda t: jnp.stack(linear.transition_interval(t[0], t[1])), T2),
    "logistic_loss": (lambda t: linear.logistic_loss(t, X2, Y, 0.1), T3),
    "logistic_point_losses": (lambda t: linear.logistic_point_losses(t, X2, Y), T3),
    "logistic_gradient": (lambda t: linear.logistic_gradient(t, X2, Y, 0.1), T3),
    "logistic_point_gradients": (lambda t: linear.logistic_point_gradients(t, X2, Y), T3),
    "logistic_chain_gradients": (lambda t: linear.logistic_chain_gradients(t, X2, Y), T3),
    "logistic_hessian": (lambda t: linear.logistic_hessian(t, X2), T3),
    "logistic_smoothness": (linear.logistic_smoothness, X2),
    "bernoulli_entropy": (foundations.bernoulli_entropy, P),
    "binary_cross_entropy": (lambda p: foundations.binary_cross_entropy(P[::-1], p), P),
    "binary_cross_entropy_prime": (lambda p: foundations.binary_cross_entropy_prime(P[::-1], p), P),
    "kl_bernoulli": (lambda p: foundations.kl_bernoulli(P[::-1], p), P),
    "kl_inverse": (lambda q: foundations.kl_inverse(q, 0.1), P),
    "kl": (lambda p: foundations.kl(np.array([0.5, 0.5]), p / p.sum()), P),
    "cross_entropy": (lambda p: foundations.cross_entropy(np.array([0.5, 0.5]), p / p.sum()), P),
    "cumulant": (lambda t: foundations.cumulant(t, 0.3), T2),
    "tilted_mean": (lambda t: foundations.tilted_mean(t, 0.3), T2),
    "tilt": (lambda q: foundations.tilt(q, 0.3), P),
    "min_abs_survival": (lambda l: linear.min_abs_survival(l, 10), P),
    "min_abs_limit_survival": (linear.min_abs_limit_survival, P),
    "min_abs_limit_mean": (linear.min_abs_limit_mean, P + 5),
    "limit_mean_gap": (linear.limit_mean_gap, P + 5),
    "class_gap": (lambda x: linear.class_gap(x, Y).midpoint, np.where(Y == 1, 1, -1) * (1 + np.abs(X1))),
    "softmax": (linear.softmax, X1),
    "log_softmax": (linear.log_softmax, X1),
    "softmax_jacobian": (linear.softmax_jacobian, X1),
    "meeting_point": (lambda b: linear.meeting_point(np.array([[2.0, 1], [1, 0], [1, -3]]), b), T3),
    "decision_region": (lambda b: linear.decision_region(X2[:3], b, 1).offsets, T3),
    "softmax_loss": (lambda t: linear.softmax_loss(t, X2, Y, 0.1), M),
    "softmax_gradient": (lambda t: linear.softmax_gradient(t, X2, Y), M),
    "softmax_hessian": (lambda t: linear.softmax_hessian(t, X2), M),
    "softmax_smoothness": (linear.softmax_smoothness, X2),
    "Standardiser": (lambda x: linear.Standardiser.fit(x).transform(x), X2),
    "theta_in_scores": (lambda t: linear.theta_in_scores(t, 1.0, 2.0), T3),
    "theta_from_scores": (lambda t: linear.theta_from_scores(t, 1.0, 2.0), T3),
    "mean_relative_error": (lambda p: linear.mean_relative_error(np.array([1.0, 2.0]), p), P),
    "wilson_interval": (lambda s: jnp.stack(foundations.wilson_interval(s, np.array([3.0, 5.0]))), P),
    "binned_frequency": (lambda y: linear.binned_frequency(np.array([0.2, 0.8]), y, 1).frequency, P),
}
# Whole numbers and verdicts come out of these; they have no derivative.
FLAT = {
    "vote": (linear.vote, P),
    "plurality": (linear.plurality, P),
    "one_hot": (lambda y: linear.one_hot(y, 2), Y),
    "error_rate": (lambda y: linear.error_rate(y, Y[::-1]), Y),
    "confusion_matrix": (lambda y: linear.confusion_matrix(y, Y[::-1], 2), Y),
    "balanced_error": (lambda y: linear.balanced_error(y, Y[::-1], 2), Y),
    "weighted_error": (lambda y: linear.weighted_error(y, Y[::-1], np.array([1.0, 2.0])), Y),
    "is_separable": (lambda x: linear.is_separable(x, Y), X1),
    "logistic_loss_problem": (lambda x: linear.logistic_loss_problem(x, Y).minimum, X2),
    "fit_newton": (lambda x: linear.fit_newton(x, Y, penalty=0.1).theta, X2),
    "fit_gradient_descent": (lambda x: linear.fit_gradient_descent(x, Y, steps=5).theta, X2),
    "fit_softmax": (lambda x: linear.fit_softmax(x, Y, 2, penalty=0.1).theta, X2),
}


def test_every_function_of_arrays_is_here():
    left = NAMES - set(CALLS) - set(FLAT)
    types = {n for n in left if isinstance(VALUES[n], type)}
    assert left - types == {"min_abs_mean"}  # a function of a size alone


@pytest.mark.parametrize("name", [*CALLS, *FLAT])
def test_jit_and_vmap(name):
    function, at = {**CALLS, **FLAT}[name]
    plain = np.asarray(function(jnp.asarray(at)))
    np.testing.assert_allclose(jax.jit(function)(at), plain, rtol=1e-9, atol=1e-12)
    several = np.asarray(jax.jit(jax.vmap(function))(np.stack([at, at])))  # without jit each operation is a program
    np.testing.assert_allclose(several[1], plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_grad_against_a_difference(name):
    function, at = CALLS[name]
    out = jax.eval_shape(function, at)
    weight = np.cos(np.arange(out.size)).reshape(out.shape)
    direction = np.sin(1 + np.arange(at.size)).reshape(at.shape)

    @jax.jit
    def scalar(t):
        return jnp.sum(weight * function(at + t * direction))

    h = 1e-5  # error h^2 f''' / 6 + eps |f| / h
    difference = (float(scalar(h)) - float(scalar(-h))) / (2 * h)
    np.testing.assert_allclose(jax.jit(jax.grad(scalar))(0.0), difference, rtol=1e-5, atol=1e-7)


def test_checks_of_known_values_survive_inside_jit():
    """JAX arrays closed over by a traced function are still known, and looking at them must not trace anything."""
    x, square, table, y, back = (jnp.asarray(a) for a in (X1, X1**2, X2, Y, Y[::-1]))
    theta, matrix, two, half = jnp.asarray(T3), jnp.asarray(M[:, 1:]), jnp.asarray(2.0), jnp.array([0.5, 0.5])
    hot, edges, one, three = jnp.asarray(np.eye(2)[Y]), jnp.array([-9.0, 0.0, 9.0]), jnp.asarray(1.0), jnp.asarray(3.0)
    calls = [
        lambda t: linear.ols_1d(x, square) * t,
        lambda t: linear.Standardiser.fit(table).scale * t,
        lambda t: linear.theta_in_scores(theta, one, two) * t,
        lambda t: linear.location_scale(two, one).scale * t,
        lambda t: linear.slope_intercept(two, two, one)[0] * t,
        lambda t: foundations.kl(half, half) * t,
        lambda t: linear.fit_softmax(x, y, 2, reference=0, steps=1).loss * t,
        lambda t: linear.softmax_loss(matrix, x, hot) * t,
        lambda t: linear.weighted_error(y, back, half) * t,
        lambda t: linear.binned_frequency(x, y, edges).frequency * t,
        lambda t: foundations.wilson_interval(one, three)[0] * t,
        lambda t: linear.meeting_point(matrix.T[:, :1], half) * t,
    ]
    for call in calls:
        np.testing.assert_allclose(jax.jit(call)(2.0), call(2.0), rtol=1e-12)
    ones = jnp.ones(3)
    with pytest.raises(ValueError, match="x must not be constant"):
        jax.jit(lambda t: linear.ols_1d(ones, ones) * t)(2.0)
