"""Linearised networks against the explicit Jacobian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.linalg import expm

from corollary import Network
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
    return net.init((3,), key=jax.random.key(0), dtype=jnp.float64)


def jacobian(network, x):
    flat, back = ravel_pytree(network.params)
    j = jax.jit(jax.jacrev(lambda p: network.with_params(back(p)).on_batch(x).ravel()))(flat)
    return np.asarray(j), np.asarray(flat), back


def on(network, x):
    return jax.vmap(network)(x)


@pytest.mark.parametrize("outputs", [1, 2])
def test_everything_against_the_jacobian(outputs):
    net = network(outputs)
    phi, flat, back = jacobian(net, X)
    away = jacobian(net, NEW)[0]
    f, f_new = (np.asarray(net.on_batch(x)).ravel() for x in (X, NEW))
    y = RNG.normal(size=(5, outputs))

    move = RNG.normal(size=flat.shape)
    moved = linearise(net, net.with_params(back(flat + move)))
    np.testing.assert_allclose(on(moved, X).ravel(), f + phi @ move, atol=1e-12)
    np.testing.assert_allclose(on(linearise(net), X).ravel(), f, atol=1e-14)

    beta = np.linalg.pinv(phi) @ (y.ravel() - f)
    fitted = fit_linearised(net, (X, y))
    np.testing.assert_allclose(ravel_pytree(fitted)[0], flat + beta, atol=1e-9)
    np.testing.assert_allclose(on(linearise(net, fitted), X), y, atol=1e-10)

    k, t = phi @ phi.T, 0.4
    dual = np.linalg.solve(k, (np.eye(len(k)) - expm(-k * t)) @ (y.ravel() - f))
    trained = train_linearised(net, (X, y), t)
    np.testing.assert_allclose(ravel_pytree(trained)[0], flat + phi.T @ dual, atol=1e-10)
    out = linearised_predictions(net, (X, y), [0.0, t], NEW)
    np.testing.assert_allclose(out.train[1].ravel(), f + k @ dual, atol=1e-10)
    np.testing.assert_allclose(out.test[1].ravel(), f_new + away @ phi.T @ dual, atol=1e-10)
    np.testing.assert_allclose(out.test[0].ravel(), f_new, atol=1e-12)
    assert out.test.shape == (2, 4, outputs)
    np.testing.assert_allclose(on(linearise(net, trained), NEW), out.test[1], atol=1e-10)
    slow = linearised_predictions(net, (X, y), [5 * t], reduction="mean")
    np.testing.assert_allclose(slow.train[0], out.train[1], atol=1e-12)
    assert slow.test is None
    mean = train_linearised(net, (X, y), 5 * t, reduction="mean")
    np.testing.assert_allclose(ravel_pytree(mean)[0], ravel_pytree(trained)[0], atol=1e-12)


def test_outputs_without_an_axis():
    def apply(params, x):
        return jnp.tanh(x @ params["w"]) @ params["v"]

    net = Network(apply, {"w": RNG.normal(size=(3, 4)), "v": RNG.normal(size=4)})
    y = RNG.normal(size=5)
    fitted = fit_linearised(net, (X, y))
    np.testing.assert_allclose(on(linearise(net, fitted), X), y, atol=1e-9)
    assert linearised_predictions(net, (X, y), [1.0], NEW).test.shape == (1, 4)


def test_bad_input():
    net = network(1)
    with pytest.raises(TypeError, match="network must be callable"):
        linearise(3)
    with pytest.raises(ValueError, match="at least one floating-point array"):
        linearise(Network(lambda p, x: x, {"w": np.arange(3)}))
    with pytest.raises(ValueError, match="at must have the structure of the network"):
        linearise(net, Network(net.apply, [1.0]))
    with pytest.raises(ValueError, match="must have shape"):
        linearise(net, jax.tree.map(lambda a: a[..., None], net))
    with pytest.raises(ValueError, match="y must have the shape"):
        fit_linearised(net, (X, np.ones(5)))
    with pytest.raises(ValueError, match="time must be zero or more"):
        train_linearised(net, (X, np.ones((5, 1))), -1.0)
    with pytest.raises(ValueError, match="reduction must be one of"):
        train_linearised(net, (X, np.ones((5, 1))), 1.0, reduction="median")
    with pytest.raises(ValueError, match="times must be zero or more"):
        linearised_predictions(net, (X, np.ones((5, 1))), [-1.0])
