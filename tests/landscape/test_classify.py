"""Kinds of points on functions whose kinds are known, and descent with an eye on the sharpness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.landscape import classify, gauss_newton, hessian, hessian_of

WELLS = {
    "minimum": (lambda w: jnp.sum(jnp.array([1.0, 2.0, 3.0]) * w**2), jnp.zeros(3)),
    "saddle": (lambda w: w[0] ** 2 - w[1] ** 2 + w[2] ** 2, jnp.zeros(3)),
    "second-order stationary": (lambda w: w[0] ** 2 + w[1] ** 4 + w[2] ** 3, jnp.zeros(3)),
    "none": (lambda w: jnp.sum((w - 1) ** 2), jnp.zeros(3)),
}


@pytest.mark.parametrize("kind", WELLS)
def test_known_kinds(kind):
    with jax.enable_x64(True):
        loss, w = WELLS[kind]
        point = classify(hessian_of(loss, w.astype(float)))
        assert point.kind == kind
        if kind == "saddle":
            assert abs(abs(point.direction[1]) - 1) < 1e-9
            assert loss(w + 0.1 * point.direction) < loss(w)


def test_the_direction_points_downhill():
    with jax.enable_x64(True):
        loss = lambda w: 1e-4 * w[0] - w[0] ** 2 + w[1] ** 2  # noqa: E731
        point = classify(hessian_of(loss, jnp.zeros(2)))
        assert point.kind == "saddle"
        assert point.direction[0] < 0
        np.testing.assert_allclose([point.least, point.largest], [-2, 2], atol=1e-9)


def test_the_thresholds_decide():
    with jax.enable_x64(True):
        loss = lambda w: w[0] ** 2 - 0.005 * w[1] ** 2  # noqa: E731
        assert classify(hessian_of(loss, jnp.zeros(2))).kind == "second-order stationary"
        assert classify(hessian_of(loss, jnp.zeros(2)), gamma=1e-3).kind == "saddle"
        assert classify(hessian_of(loss, jnp.zeros(2)), epsilon=1e-6).kind == "saddle"


def test_an_operator_in_place_of_the_loss():
    with jax.enable_x64(True):
        x = jax.random.normal(jax.random.key(0), (30, 2))
        network = Network(lambda w, x: x @ w, jnp.zeros(2))
        operator = hessian(network, "squared", (x, jnp.zeros(30)), batch_size=7)
        assert classify(operator).kind == classify(network, "squared", (x, jnp.zeros(30))).kind == "minimum"
        other = gauss_newton(network, "squared", (x, x[:, 0]))
        with pytest.raises(ValueError, match="classify needs the Hessian"):
            classify(other)
        with pytest.raises(ValueError, match="epsilon must be positive"):
            classify(operator, epsilon=0.0)
