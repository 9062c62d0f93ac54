"""Adam: steps along a moving average of the gradients, divided by the root of one of their squares."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.optimization import adagrad_norm, adam, amsgrad, minimize, quadratic

RNG = np.random.default_rng(1)
A = RNG.normal(size=(4, 4))
H = A @ A.T + 0.1 * np.eye(4)
VALUES, AXES = np.linalg.eigh(H)
START = RNG.normal(size=4)
STEPS = 12


def path_of(method):
    return np.asarray(minimize(quadratic(VALUES, START, rotation=AXES), method, steps=STEPS).theta)


def loop(rule):
    """The iterates of `rule(k, past gradients) -> step` on the same quadratic."""
    theta, gradients, path = START.copy(), [], [START.copy()]
    for k in range(STEPS):
        gradients.append(H @ theta)
        theta = theta - rule(k, np.array(gradients))
        path.append(theta)
    return np.array(path)


def weights(k, delta):
    return (1 - delta) * delta ** np.arange(k, -1, -1)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("corrected", [True, False])
def test_adam(inside, corrected):
    def rule(k, g):
        m, u = weights(k, 0.7) @ g, weights(k, 0.9) @ g**2
        if corrected:
            m, u = m / (1 - 0.7 ** (k + 1)), u / (1 - 0.9 ** (k + 1))
        return 0.1 * m / (np.sqrt(u + 1e-3) if inside else np.sqrt(u) + 1e-3)

    method = adam(0.1, delta1=0.7, delta2=0.9, eps=1e-3, eps_inside=inside, bias_correction=corrected)
    np.testing.assert_allclose(path_of(method), loop(rule), rtol=1e-11)


def test_amsgrad_never_grows_its_step():
    method = amsgrad(1.0, delta1=0.0, delta2=0.5, eps=0.0)
    state = method.init(jnp.zeros(1))
    sizes = []
    for g in (4.0, 1.0, 1.0, 1.0):
        step, state = method.update(jnp.array([g]), state)
        sizes.append(float(-step[0] / g))
    assert sizes[0] >= sizes[1] - 1e-15
    assert sizes[1] == pytest.approx(sizes[3])


def test_step_may_be_a_schedule_or_traced():
    schedule = optax.exponential_decay(0.3, 1, 0.5)
    expected = loop(lambda k, g: 0.3 * 0.5**k * g[-1] / np.sqrt((g**2).sum()))
    # Optax computes this schedule in single precision
    np.testing.assert_allclose(path_of(adagrad_norm(schedule)), expected, atol=1e-6)
    traced = jax.jit(lambda eta: minimize(quadratic(VALUES, START, rotation=AXES), adam(eta), steps=STEPS).theta)
    np.testing.assert_allclose(traced(0.1), path_of(adam(0.1)), rtol=1e-12)
