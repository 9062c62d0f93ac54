"""AdaMax: Adam with the largest of the decayed gradients in place of the root of their mean square."""

import numpy as np
import optax
import pytest

from corollary.optimization import adamax, minimize, quadratic

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


@pytest.mark.parametrize("mode", ["componentwise", "global"])
def test_adamax(mode):
    def rule(k, g):
        size = np.abs(g) if mode == "componentwise" else np.abs(g).max(1, keepdims=True)
        u = (0.9 ** np.arange(k, -1, -1)[:, None] * size).max(0)
        return 0.1 * weights(k, 0.7) @ g / (1 - 0.7 ** (k + 1)) / u

    np.testing.assert_allclose(path_of(adamax(0.1, delta1=0.7, delta2=0.9, mode=mode)), loop(rule), rtol=1e-11)
    if mode == "componentwise":
        np.testing.assert_allclose(
            path_of(adamax(0.1, delta1=0.7, delta2=0.9, eps=1e-3)),
            path_of(optax.adamax(0.1, b1=0.7, b2=0.9, eps=1e-3)),
            rtol=1e-12,
        )
