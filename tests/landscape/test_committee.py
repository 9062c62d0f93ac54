"""A ReLU committee that learns from another: the population loss in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.landscape import all_orders, committee_descent, committee_loss, committee_polish, relu_overlaps

RNG = np.random.default_rng(0)


def test_overlaps_are_expectations():
    u, v = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 3))
    v[0] = 2 * u[0]  # parallel
    v[1] = -u[1]  # opposite: never active together
    got = relu_overlaps(u, v)
    x = RNG.normal(size=(400_000, 3))
    samples = np.maximum(x @ u.T, 0)[:, :, None] * np.maximum(x @ v.T, 0)[:, None]
    error = samples.std(0) / np.sqrt(len(x))
    assert (np.abs(got - samples.mean(0)) <= 6 * error + 1e-12).all()
    assert got[0, 0] == pytest.approx(u[0] @ u[0], rel=1e-12)
    assert got[1, 1] == pytest.approx(0.0, abs=1e-9)


def test_committee_derivatives():
    w, v = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 4))
    h = 1e-5
    gradient = jax.jit(jax.grad(committee_loss))
    slope = gradient(w, v)
    direction = RNG.normal(size=w.shape)
    quotient = (committee_loss(w + h * direction, v) - committee_loss(w - h * direction, v)) / (2 * h)
    assert np.sum(slope * direction) == pytest.approx(float(quotient), rel=1e-8)
    turned = jax.jit(lambda w, along: jax.jvp(lambda w: gradient(w, v), (w,), (along,))[1])(w, direction)
    quotient = (np.asarray(gradient(w + h * direction, v)) - np.asarray(gradient(w - h * direction, v))) / (2 * h)
    np.testing.assert_allclose(turned, quotient, rtol=1e-6, atol=1e-8)
    # at the teacher itself student and teacher are parallel: value, gradient and Hessian are finite and right
    assert committee_loss(v, v) == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_allclose(gradient(v, v), 0, atol=1e-12)
    assert np.linalg.eigvalsh(jax.jit(jax.hessian(committee_loss))(v, v).reshape(8, 8)).min() > 0


def test_descent_and_polish_find_the_teacher():
    teacher = jnp.eye(3)
    weights = committee_descent(3, teacher, key=jax.random.key(0), trials=4, steps=400)
    assert weights.shape == (4, 3, 3)
    ends = committee_polish(weights, teacher, steps=8)
    np.testing.assert_allclose(ends.loss, 0, atol=1e-12)
    assert (ends.gradient_norm < 1e-9).all()
    assert (ends.least_curvature > 0).all()
    for w in ends.weights:  # up to the order of the units
        assert min(np.abs(w - p).max() for p in all_orders(teacher)) < 1e-8
