"""One clear sentence for every wrong argument, before anything is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import foundations, linear, optimization

X, Y, T = np.array([1.0, 2.0, 4.0]), np.array([0, 1, 1]), np.array([0.5, 1.0])
NAN, KEY = np.array([1.0, np.nan, 2.0]), jax.random.key(0)
EYE = np.eye(2)

PLACES = {
    linear: (
        "_newton", "logistic", "logistic_regression", "metrics", "regression", "scoring", "separable", "softmax",
        "softmax_regression",
    ),
    foundations: ("entropy", "intervals"),
    optimization: ("gradient_descent",),
}  # fmt: skip
VALUES = {name: getattr(room, name) for room in PLACES for name in room.__all__}
FILES = {f"{room.__name__}.{file}" for room, files in PLACES.items() for file in files}
NAMES = {name for name, value in VALUES.items() if getattr(value, "__module__", None) in FILES}

CASES = {
    "gradient_descent": [
        (lambda: optimization.gradient_descent(3, T, 0.1, 2), "gradient must be a function"),
        (lambda: optimization.gradient_descent(lambda t: t, T, 0.0, 2), "step must be positive"),
        (lambda: optimization.gradient_descent(lambda t: t, T, 0.1, -1), "steps must be at least 0"),
        (lambda: optimization.gradient_descent(lambda t: t[0], T, 0.1, 2), "gradient must return shape"),
        (lambda: optimization.gradient_descent(lambda t: t, NAN, 0.1, 2), "start must be finite"),
    ],
    "quadratic_descent": [
        (lambda: optimization.quadratic_descent(EYE, X, 0.1, 2), "start must have shape .d,. with d = 2")
    ],
    "quadratic_flow": [(lambda: optimization.quadratic_flow(EYE, T, [-1.0]), "times must be zero or more")],
    "moments": [(lambda: linear.moments(X, T), "y must have shape .n,. with n = 3")],
    "moment_matrix": [(lambda: linear.moment_matrix(np.ones((2, 2, 2))), r"x must have shape \(n,\) or \(n, d\)")],
    "moment_eigenvalues": [(lambda: linear.moment_eigenvalues(EYE), "x must have shape")],
    "squared_error": [(lambda: linear.squared_error(X, T), "single labels of the same shape")],
    "squared_loss": [(lambda: linear.squared_loss(X, X, X), r"theta must have shape \(2,\), 1 weight")],
    "squared_loss_by_moments": [(lambda: linear.squared_loss_by_moments(T, (1, 2)), "m must be Moments")],
    "squared_point_gradients": [(lambda: linear.squared_point_gradients(T, X, T), "y must have shape")],
    "squared_gradient": [(lambda: linear.squared_gradient(T, NAN, X), "x must be finite")],
    "ols_1d": [(lambda: linear.ols_1d(np.ones(3), X), "x must not be constant")],
    "critical_step": [(lambda: linear.critical_step(NAN), "x must be finite")],
    "safe_step": [(lambda: linear.safe_step(1.0), "x must have shape")],
    "contraction_factor": [(lambda: linear.contraction_factor(X, -1.0), "step must be positive")],
    "descent_path": [(lambda: linear.descent_path(X, X, X, 0.1, 3), "start must have shape")],
    "LinearRegression": [
        (lambda: linear.LinearRegression(0, key=KEY), "features must be at least 1"),
        (lambda: linear.LinearRegression(2, 1.5, key=KEY), "labels must be an integer"),
        (lambda: linear.LinearRegression.of(EYE, X), "bias must have shape"),
        (lambda: linear.LinearRegression(2, key=KEY)(X), "x must have shape"),
    ],
    "fit_least_squares": [(lambda: linear.fit_least_squares(X, np.ones((3, 1, 1))), "y must have shape")],
    "logistic_function": [(lambda: linear.logistic_function(object()), "z must be an array of numbers")],
    "logistic_prime": [(lambda: linear.logistic_prime(1j), "z must be real")],
    "logit": [(lambda: linear.logit(1.0), r"p must be in \(0, 1\)")],
    "odds": [(lambda: linear.odds(1.0), r"p must be in \[0, 1\)")],
    "vote": [(lambda: linear.vote(1.5), r"p must be in \[0, 1\]")],
    "location_scale": [(lambda: linear.location_scale(0.0, 1.0), "w must not be 0")],
    "slope_intercept": [
        (lambda: linear.slope_intercept(1.0, 0.0), "scale must be positive"),
        (lambda: linear.slope_intercept(1.0, 1.0, 2.0), "sign must be 1 or -1"),
    ],
    "transition_interval": [(lambda: linear.transition_interval(1.0, 1.0, 0.5), r"q must be in \(0, 0.5\)")],
    "logistic_point_losses": [(lambda: linear.logistic_point_losses(T, X, X), r"y must be in \[0, 1\]")],
    "logistic_loss": [
        (lambda: linear.logistic_loss(T, X, Y, -1.0), "penalty must be zero or more"),
        (lambda: linear.logistic_loss(T, X, Y, X), "penalty must be a number or have shape"),
    ],
    "logistic_point_gradients": [(lambda: linear.logistic_point_gradients(X, X, Y), "theta must have shape")],
    "logistic_chain_gradients": [(lambda: linear.logistic_chain_gradients(X, X, Y), "theta must have shape")],
    "logistic_gradient": [(lambda: linear.logistic_gradient(T, X, T), "y must have shape")],
    "logistic_hessian": [(lambda: linear.logistic_hessian(X, X), "theta must have shape")],
    "logistic_smoothness": [(lambda: linear.logistic_smoothness(NAN), "x must be finite")],
    "fit_newton": [
        (lambda: linear.fit_newton(X, 2 * Y), r"y must be in \[0, 1\]"),
        (lambda: linear.fit_newton(X, Y, start=X), "start must have shape"),
        (lambda: linear.fit_newton(X, Y, steps=0), "steps must be at least 1"),
        (lambda: linear.fit_newton(X, Y, tolerance=0.0), r"tolerance must be in \(0, 1\)"),
    ],
    "fit_gradient_descent": [(lambda: linear.fit_gradient_descent(X, Y, steps=3, step=-1.0), "step must be positive")],
    "LogisticRegression": [
        (lambda: linear.LogisticRegression(0, key=KEY), "features must be at least 1"),
        (lambda: linear.LogisticRegression.of(np.ones(1)), "theta must hold at least one weight"),
        (lambda: linear.LogisticRegression.of(T)(X), "x must have shape"),
    ],
    "bernoulli_entropy": [(lambda: foundations.bernoulli_entropy(-0.1), r"p must be in \[0, 1\]")],
    "binary_cross_entropy": [(lambda: foundations.binary_cross_entropy(1.0, 1.1), r"prediction must be in \[0, 1\]")],
    "binary_cross_entropy_prime": [
        (lambda: foundations.binary_cross_entropy_prime(2.0, 0.5), r"y must be in \[0, 1\]")
    ],
    "kl_bernoulli": [(lambda: foundations.kl_bernoulli(np.nan, 0.5), "q must be finite")],
    "kl": [(lambda: foundations.kl([0.5, 0.6], [0.5, 0.5]), "y must sum to 1")],
    "cross_entropy": [(lambda: foundations.cross_entropy([0.5, 0.5], [0.5, 0.25, 0.25]), "p must have shape")],
    "cumulant": [(lambda: foundations.cumulant(1.0, 0.0), r"p must be in \(0, 1\)")],
    "tilted_mean": [(lambda: foundations.tilted_mean(np.inf, 0.5), "theta must be finite")],
    "tilt": [(lambda: foundations.tilt(1.0, 0.5), r"q must be in \(0, 1\)")],
    "is_separable": [(lambda: linear.is_separable(X, 2 * Y), "y must hold labels from 0 to 1")],
    "class_gap": [
        (lambda: linear.class_gap(X, [0, 1, 0]), "x must be separated by y"),
        (lambda: linear.class_gap(X, [1, 1, 1]), "x must be separated by y"),
    ],
    "min_abs_survival": [(lambda: linear.min_abs_survival(-1.0, 3), "level must be zero or more")],
    "min_abs_limit_survival": [(lambda: linear.min_abs_limit_survival(-1.0), "level must be zero or more")],
    "min_abs_mean": [(lambda: linear.min_abs_mean(0), "n must be at least 1")],
    "min_abs_limit_mean": [(lambda: linear.min_abs_limit_mean(0), "n must be at least 1")],
    "limit_mean_gap": [(lambda: linear.limit_mean_gap(0), "n must be at least 1")],
    "softmax": [(lambda: linear.softmax(1.0), r"z must have shape \(..., J\)")],
    "log_softmax": [(lambda: linear.log_softmax(NAN), "z must be finite")],
    "softmax_jacobian": [(lambda: linear.softmax_jacobian(NAN), "z must be finite")],
    "plurality": [(lambda: linear.plurality(0.5), "p must have shape")],
    "one_hot": [(lambda: linear.one_hot(Y, 1), "y must hold labels from 0 to 0")],
    "HalfSpaces": [(lambda: linear.HalfSpaces(EYE, T).contains(X), "x must have shape")],
    "decision_region": [
        (lambda: linear.decision_region(EYE, T, 2), "index must be from 0 to 1"),
        (lambda: linear.decision_region(EYE[:1], T[:1], 0), "at least 2 classes"),
    ],
    "meeting_point": [
        (lambda: linear.meeting_point(EYE, T), "one row more than columns"),
        (lambda: linear.meeting_point(np.ones((3, 2)), X), "affinely independent"),
    ],
    "softmax_loss": [(lambda: linear.softmax_loss(EYE, X, 2 * Y), "y must hold labels from 0 to 1")],
    "softmax_gradient": [(lambda: linear.softmax_gradient(EYE, X, EYE), "y must have shape")],
    "softmax_hessian": [(lambda: linear.softmax_hessian(np.ones((2, 3)), X), r"theta must have shape \(J, 2\)")],
    "softmax_smoothness": [(lambda: linear.softmax_smoothness(X, -1.0), "penalty must be zero or more")],
    "fit_softmax": [
        (lambda: linear.fit_softmax(X, Y, 1), "classes must be at least 2"),
        (lambda: linear.fit_softmax(X, Y, 2, penalty=0.1, reference=0), "reference must be None with a penalty"),
        (lambda: linear.fit_softmax(X, Y, 2, reference=2), "reference must be from 0 to 1"),
        (lambda: linear.fit_softmax(X, Y, 2, tolerance=2.0), "tolerance must be in"),
    ],
    "SoftmaxRegression": [
        (lambda: linear.SoftmaxRegression(2, 1, key=KEY), "classes must be at least 2"),
        (lambda: linear.SoftmaxRegression.of(np.ones((2, 1))), "theta must hold at least one weight"),
        (lambda: linear.SoftmaxRegression.of(EYE)(X), "x must have shape"),
    ],
    "Standardiser": [
        (lambda: linear.Standardiser.fit(np.ones(3)), "x must vary in every feature"),
        (lambda: linear.Standardiser.fit(X, ddof=2), "ddof must be from 0 to 1"),
        (lambda: linear.Standardiser.fit(X[:1]), "x must have more than 1 row"),
        (lambda: linear.Standardiser.fit(EYE).transform(X), "x must end in shape"),
        (lambda: linear.Standardiser.fit(EYE).inverse(X), "u must end in shape"),
    ],
    "theta_in_scores": [
        (lambda: linear.theta_in_scores(T, 0.0, 0.0), "scale must be invertible"),
        (lambda: linear.theta_in_scores(T, X, 1.0), "mean must be a number"),
    ],
    "theta_from_scores": [(lambda: linear.theta_from_scores(T, 0.0, X), "scale must be a number")],
    "mean_relative_error": [(lambda: linear.mean_relative_error([1.0, 0.0], T), "y must be positive")],
    "error_rate": [(lambda: linear.error_rate([0.5, 1.0], [0, 1]), "y must hold whole numbers as class labels")],
    "confusion_matrix": [(lambda: linear.confusion_matrix(Y, 3 * Y, 2), "predicted must hold labels from 0 to 1")],
    "balanced_error": [(lambda: linear.balanced_error(Y, Y, 1), "classes must be at least 2")],
    "weighted_error": [
        (lambda: linear.weighted_error(Y, Y, [1.0, -1.0]), "weights must be zero or more"),
        (lambda: linear.weighted_error([0, 0], [0, 0], [0.0, 1.0]), "weights on the classes present must be positive"),
    ],
    "binned_frequency": [
        (lambda: linear.binned_frequency(X, Y, 0), "bins must be at least 1"),
        (lambda: linear.binned_frequency(X, Y, [1.0, 1.0]), "edges in bins must be positive"),
        (lambda: linear.binned_frequency(X, X, 3), r"y must be in \[0, 1\]"),
        (lambda: linear.binned_frequency(X, Y, [1.0]), "bins must hold at least two edges"),
    ],
    "logistic_loss_problem": [(lambda: linear.logistic_loss_problem(X, Y), "x and y must not be separable")],
    "wilson_interval": [
        (lambda: foundations.wilson_interval(3, 2), "successes must not exceed trials"),
        (lambda: foundations.wilson_interval(1, 2, 1.0), r"level must be in \(0, 1\)"),
    ],
}


@pytest.mark.parametrize(
    ("call", "message"), [pytest.param(*case, id=f"{name}-{i}") for name in CASES for i, case in enumerate(CASES[name])]
)
def test_bad_input(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_every_public_name_has_a_case():
    plain_results = {"Bins", "Curve", "Fit", "Gap", "Moments"}
    assert NAMES - set(CASES) == plain_results


def test_a_constant_feature_inside_jit_cannot_be_seen():
    assert not jnp.isfinite(jax.jit(linear.ols_1d)(jnp.ones(3), jnp.arange(3.0))[0])
