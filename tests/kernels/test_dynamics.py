"""Closed forms of training against SciPy's matrix functions, its integrator, and plain loops."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from corollary.kernels import (
    descent_predictions,
    flow_predictions,
    kernel_descent,
    limit_predictions,
    trained_law,
)

RNG = np.random.default_rng(0)
PHI, NEW, Y = RNG.normal(size=(6, 9)), RNG.normal(size=(4, 9)), RNG.normal(size=6)
K, CROSS = PHI @ PHI.T / 9, NEW @ PHI.T / 9
THETA = RNG.normal(size=9)
START, START_CROSS = PHI @ THETA / 3, NEW @ THETA / 3
TIMES = np.array([0.0, 0.3, 2.0, 50.0])
FROM = {"cross": CROSS, "start": START, "start_cross": START_CROSS}


def test_flow_against_matrix_exponentials():
    out = flow_predictions(K, Y, TIMES, **FROM)
    for t, train, test in zip(TIMES, *out, strict=True):
        left = expm(-K * t)
        np.testing.assert_allclose(train, Y + left @ (START - Y), atol=1e-11)
        move = CROSS @ np.linalg.solve(K, (np.eye(6) - left) @ (Y - START))
        np.testing.assert_allclose(test, START_CROSS + move, atol=1e-10)


@pytest.mark.parametrize("features", [3, 6, 9])
def test_flow_against_an_integrator_of_the_parameters_at_any_rank(features):
    phi, new = PHI[:, :features], NEW[:, :features]
    ode = solve_ivp(lambda t, w: phi.T @ (Y - phi @ w), (0, 50), THETA[:features], t_eval=TIMES, rtol=1e-11, atol=1e-12)
    out = flow_predictions(
        phi @ phi.T,
        Y,
        TIMES,
        cross=new @ phi.T,
        start=phi @ THETA[:features],
        start_cross=new @ THETA[:features],
    )
    np.testing.assert_allclose(out.train, (phi @ ode.y).T, atol=1e-8)
    np.testing.assert_allclose(out.test, (new @ ode.y).T, atol=1e-8)


def test_mean_loss_is_slower_by_the_number_of_points():
    np.testing.assert_allclose(
        flow_predictions(K, Y, 6 * TIMES, reduction="mean").train, flow_predictions(K, Y, TIMES).train
    )
    assert flow_predictions(K, Y, TIMES).test is None


@pytest.mark.parametrize("step", [0.01, 0.4, 0.6])
def test_descent_is_the_loop(step):
    theta, train, test = THETA / 3, [], []
    phi, new = PHI / 3, NEW / 3
    theta = THETA.copy()
    for _ in range(12):
        train.append(phi @ theta)
        test.append(new @ theta)
        theta = theta - step * phi.T @ (phi @ theta - Y)
    out = descent_predictions(K, Y, step, np.arange(12), **FROM)
    np.testing.assert_allclose(out.train, train, atol=1e-11)
    np.testing.assert_allclose(out.test, test, atol=1e-11)
    slow = descent_predictions(K, Y, 6 * step, np.arange(12), reduction="mean", **FROM)
    np.testing.assert_allclose(slow.test, out.test, atol=1e-12)


def test_several_outputs_are_several_problems():
    y, start, away = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 2)), RNG.normal(size=(4, 2))
    out = flow_predictions(K, y, TIMES, cross=CROSS, start=start, start_cross=away)
    assert out.train.shape == (4, 6, 2)
    for j in range(2):
        one = flow_predictions(K, y[:, j], TIMES, cross=CROSS, start=start[:, j], start_cross=away[:, j])
        np.testing.assert_allclose(out.train[..., j], one.train, atol=1e-12)
        np.testing.assert_allclose(out.test[..., j], one.test, atol=1e-12)


def test_limits():
    end = limit_predictions(K, Y, **FROM)
    np.testing.assert_allclose(end.train, Y, atol=1e-11)
    np.testing.assert_allclose(end.test, START_CROSS + CROSS @ np.linalg.solve(K, Y - START), atol=1e-10)
    np.testing.assert_allclose(end.test, flow_predictions(K, Y, [1e9], **FROM).test[0], atol=1e-9)
    low = PHI[:, :3]
    fit = low @ np.linalg.lstsq(low, Y)[0]
    np.testing.assert_allclose(limit_predictions(low @ low.T, Y).train, fit, atol=1e-11)


def test_tiny_eigenvalues_keep_their_digits():
    # relative accuracy of the movement along an eigenvalue of 1e-12: 1 - (1 - x) would have lost it
    k = np.diag([1.0, 1e-12])
    out = descent_predictions(k, np.ones(2), 0.5, [1])
    np.testing.assert_allclose(out.train[0, 1], 0.5e-12, rtol=1e-12)
    np.testing.assert_allclose(flow_predictions(k, np.ones(2), [1.0]).train[0, 1], 1e-12, rtol=1e-11)


def test_law_of_trained_linear_models():
    every = np.concatenate([PHI, NEW]) / 3
    joint = every @ every.T
    nngp = joint + 0.3 * np.eye(10)
    for time in (0.7, None):
        law = trained_law(joint, nngp, Y, time)
        decay = expm(-K * time) if time else np.zeros((6, 6))
        a = joint[:, :6] @ np.linalg.solve(K, np.eye(6) - decay)
        np.testing.assert_allclose(law.mean, a @ Y, atol=1e-10)
        cov = nngp - a @ nngp[:6] - nngp[:, :6] @ a.T + a @ nngp[:6, :6] @ a.T
        np.testing.assert_allclose(law.covariance, cov, atol=1e-10)
    law = trained_law(joint, joint, Y)
    posterior = NEW @ NEW.T / 9 - CROSS @ np.linalg.solve(K, CROSS.T)
    np.testing.assert_allclose(law.covariance[6:, 6:], posterior, atol=1e-10)
    np.testing.assert_allclose(law.covariance[:6], 0, atol=1e-10)
    slow, fast = trained_law(joint, joint, Y, 3.0, reduction="mean"), trained_law(joint, joint, Y, 0.5)
    np.testing.assert_allclose(slow.covariance, fast.covariance, atol=1e-12)


def test_kernel_descent_is_feature_descent():
    path = kernel_descent(K, Y, 0.3, 20)
    w = np.zeros(9)
    for alpha in np.asarray(path):
        np.testing.assert_allclose(PHI.T @ alpha / 3, w, atol=1e-12)
        w = w - 0.3 * PHI.T / 3 @ (PHI @ w / 3 - Y)


def test_precision_and_derivatives():
    single = [np.float32(a) for a in (K, Y, TIMES)]
    assert flow_predictions(*single).train.dtype == np.float32
    slope = jax.grad(lambda t: flow_predictions(K, Y, t[None], cross=CROSS).test[0, 0])(np.array(0.7))
    gap = [flow_predictions(K, Y, [t], cross=CROSS).test[0, 0] for t in (0.7 - 1e-5, 0.7 + 1e-5)]
    assert slope == pytest.approx(float(gap[1] - gap[0]) / 2e-5, rel=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flow_predictions(K[:3], Y, TIMES), "k must have shape"),
        (lambda: flow_predictions(K, Y[:3], TIMES), "y must have shape"),
        (lambda: flow_predictions(K, np.ones((6, 1, 1)), TIMES), "y must have shape"),
        (lambda: flow_predictions(K, Y, [-1.0]), "times must be zero or more"),
        (lambda: flow_predictions(K, Y, TIMES, cross=K[:, :3]), "cross must have shape"),
        (lambda: flow_predictions(K, Y, TIMES, start=Y[:2]), "start must have shape"),
        (lambda: flow_predictions(K, Y, TIMES, cross=CROSS, start_cross=Y), "start_cross must have shape"),
        (lambda: flow_predictions(K, Y, TIMES, start_cross=Y), "start_cross needs cross"),
        (lambda: flow_predictions(K, Y, TIMES, reduction="median"), "reduction must be one of"),
        (lambda: descent_predictions(K, Y, -0.1, [1]), "step must be positive"),
        (lambda: descent_predictions(K, Y, 0.1, [-1]), "0 or more"),
        (lambda: trained_law(K, K, np.ones(7)), "at most one label"),
        (lambda: trained_law(K, K[:2, :2], Y), "nngp must have shape"),
        (lambda: trained_law(K, K, Y, -1.0), "time must be zero or more"),
        (lambda: kernel_descent(K, Y[:2], 0.1, 3), "y must have shape"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
