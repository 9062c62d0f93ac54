"""RMSProp: AdaGrad that forgets."""

import numpy as np
import pytest

from corollary.optimization import minimize, quadratic, rmsprop, rmsprop_amplitude

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
def test_rmsprop(inside):
    def rule(k, g):
        u = 0.8 ** (k + 1) * 0.7 + weights(k, 0.8) @ g**2
        return 0.1 * g[-1] / (np.sqrt(u + 1e-3) if inside else np.sqrt(u) + 1e-3)

    method = rmsprop(0.1, delta=0.8, eps=1e-3, initial=0.7, eps_inside=inside)
    np.testing.assert_allclose(path_of(method), loop(rule), rtol=1e-12)


def test_amplitude():
    theta = float(rmsprop_amplitude(0.1, 4e-4, 2.0))
    assert theta * (1 - 0.1 * 2 / np.sqrt(4e-4 + 4 * theta**2)) == pytest.approx(-theta, abs=1e-15)
    assert float(rmsprop_amplitude(0.1, 1.0)) == 0.0
