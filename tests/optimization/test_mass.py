"""MaSS, Nesterov's method with a compensation term, which accelerates stochastic gradients (Liu and Belkin)."""

import numpy as np

from corollary.optimization import mass, mass_parameters, minimize, quadratic

RNG = np.random.default_rng(2)
A = RNG.normal(size=(4, 4))
H = A @ A.T + 0.1 * np.eye(4)
VALUES, AXES = np.linalg.eigh(H)
START = RNG.normal(size=4)
STEPS = 15


def path_of(method, steps=STEPS):
    return np.asarray(minimize(quadratic(VALUES, START, rotation=AXES), method, steps=steps).theta)


def test_mass_recursion():
    theta, u, path = START, START, [START]
    for _ in range(STEPS):
        g = H @ u
        new = u - 0.1 * g
        theta, u = new, 1.5 * new - 0.5 * theta + 0.03 * g
        path.append(theta)
    np.testing.assert_allclose(path_of(mass(0.1, 0.03, 0.5)), path, rtol=1e-11)


def test_mass_parameters():
    found = mass_parameters(3.0, 1 / 200, 6.0)
    alpha = 1 / np.sqrt(600 * 6)
    expected = (1 / 3, (1 / 3 - alpha * (1 / 3) / (alpha * 6)) / (1 + alpha), (1 - alpha) / (1 + alpha))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
