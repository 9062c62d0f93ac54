"""Linearised networks against the explicit Jacobian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.linalg import expm

from corollary.kernels import (
    Activation,
    Architecture,
    Dense,
    fit_linearised,
    linearise,
    linearised_predictions,
    train_linearised,
)

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 3))


def network(outputs):
    net = Architecture([Dense(7, bias_std=0.1), Activation("erf"), Dense(outputs, bias_std=0.1)])
    return net.apply, net.init(jax.random.key(0), (3,), jnp.float64)


def jacobian(apply, params, x):
    flat, back = ravel_pytree(params)
    j = jax.jacrev(lambda p: apply(back(p), x).ravel())(flat)
    return np.asarray(j), np.asarray(flat), back


@pytest.mark.parametrize("outputs", [1, 2])
def test_everything_against_the_jacobian(outputs):
    apply, params = network(outputs)
    phi, flat, back = jacobian(apply, params, X)
    away = jacobian(apply, params, NEW)[0]
    f, f_new = (np.asarray(apply(params, x)).ravel() for x in (X, NEW))
    y = RNG.normal(size=(5, outputs))

    move = RNG.normal(size=flat.shape)
    linear = linearise(apply, params)
    np.testing.assert_allclose(linear(back(flat + move), X).ravel(), f + phi @ move, atol=1e-12)

    beta = np.linalg.pinv(phi) @ (y.ravel() - f)
    fitted = fit_linearised(apply, params, X, y)
    np.testing.assert_allclose(ravel_pytree(fitted)[0], flat + beta, atol=1e-9)
    np.testing.assert_allclose(linear(fitted, X), y, atol=1e-10)

    k, t = phi @ phi.T, 0.4
    dual = np.linalg.solve(k, (np.eye(len(k)) - expm(-k * t)) @ (y.ravel() - f))
    trained = train_linearised(apply, params, X, y, t)
    np.testing.assert_allclose(ravel_pytree(trained)[0], flat + phi.T @ dual, atol=1e-10)
    out = linearised_predictions(apply, params, X, y, [0.0, t], NEW)
    np.testing.assert_allclose(out.train[1].ravel(), f + k @ dual, atol=1e-10)
    np.testing.assert_allclose(out.test[1].ravel(), f_new + away @ phi.T @ dual, atol=1e-10)
    np.testing.assert_allclose(out.test[0].ravel(), f_new, atol=1e-12)
    assert out.test.shape == (2, 4, outputs)
    np.testing.assert_allclose(linear(trained, NEW), out.test[1], atol=1e-10)
    slow = linearised_predictions(apply, params, X, y, [5 * t], loss="mean")
    np.testing.assert_allclose(slow.train[0], out.train[1], atol=1e-12)
    assert slow.test is None
    mean = train_linearised(apply, params, X, y, 5 * t, loss="mean")
    np.testing.assert_allclose(ravel_pytree(mean)[0], ravel_pytree(trained)[0], atol=1e-12)


def test_outputs_without_an_axis():
    def apply(params, x):
        return jnp.tanh(x @ params["w"]) @ params["v"]

    params = {"w": RNG.normal(size=(3, 4)), "v": RNG.normal(size=4)}
    y = RNG.normal(size=5)
    fitted = fit_linearised(apply, params, X, y)
    np.testing.assert_allclose(linearise(apply, params)(fitted, X), y, atol=1e-9)
    assert linearised_predictions(apply, params, X, y, [1.0], NEW).test.shape == (1, 4)


def test_bad_input():
    apply, params = network(1)
    with pytest.raises(TypeError, match="apply must be a function"):
        linearise(3, params)
    with pytest.raises(TypeError, match="floating-point arrays"):
        linearise(apply, {"w": np.arange(3)})
    with pytest.raises(ValueError, match="structure of the parameters"):
        linearise(apply, params)([1.0], X)
    with pytest.raises(ValueError, match="shapes of the parameters"):
        linearise(apply, params)(jax.tree.map(lambda a: a[..., None], params), X)
    with pytest.raises(ValueError, match="y must have the shape"):
        fit_linearised(apply, params, X, np.ones(5))
    with pytest.raises(ValueError, match="time must be zero or more"):
        train_linearised(apply, params, X, np.ones((5, 1)), -1.0)
    with pytest.raises(ValueError, match="loss must be one of"):
        train_linearised(apply, params, X, np.ones((5, 1)), 1.0, loss="median")
    with pytest.raises(ValueError, match="times must be zero or more"):
        linearised_predictions(apply, params, X, np.ones((5, 1)), [-1.0])
