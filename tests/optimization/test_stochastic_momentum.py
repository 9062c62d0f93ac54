"""Momentum under stochastic gradients, exactly: how fast the second moments of the error shrink."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization import (
    best_contraction,
    contraction,
    coordinate_least_squares,
    second_moment_matrix,
    spectral_radius_by_squaring,
)


def test_spectral_radius():
    matrices = np.random.default_rng(0).normal(size=(20, 4, 4))
    expected = np.abs(np.linalg.eigvals(matrices)).max(-1)
    np.testing.assert_allclose(spectral_radius_by_squaring(matrices), expected, rtol=1e-9)
    large = np.random.default_rng(1).normal(size=(7, 7))
    np.testing.assert_allclose(spectral_radius_by_squaring(large), np.abs(np.linalg.eigvals(large)).max(), rtol=1e-9)
    np.testing.assert_allclose(spectral_radius_by_squaring(np.array([[0.5, 1.0], [0.0, 0.5]])), 0.5, rtol=1e-9)
    assert spectral_radius_by_squaring(np.array([[0.0, 1.0], [0.0, 0.0]])) == 0


@pytest.mark.parametrize("amplitude", ["normal", "sign"])
@pytest.mark.parametrize("name", ["heavy ball", "nesterov", "mass"])
def test_second_moments_by_enumeration(name, amplitude):
    """One step from a fixed state, its square averaged over the coordinates and by Gauss and Hermite over z."""
    z, w = np.polynomial.hermite_e.hermegauss(6) if amplitude == "normal" else (np.array([-1.0, 1.0]), np.ones(2))
    w = w / w.sum()
    eta, rho, back, h, state = 0.3, 0.6, 0.1, 0.8, np.array([1.2, -0.4])

    def step(c):
        point, other = state[0], state[0] - state[1]
        if name == "heavy ball":
            new = point - eta * c * point + rho * (point - other)
            return np.array([new, new - point])
        theta = point - eta * c * point
        u = (1 + rho) * theta - rho * other + (back if name == "mass" else 0) * c * point
        return np.array([u, u - theta])

    slopes = np.append(h * z**2, 0.0)
    chances = np.append(w / 2, 0.5)
    expected = sum(p * np.kron(step(c), step(c)) for p, c in zip(chances, slopes, strict=True))
    fourth = 3.0 if amplitude == "normal" else 1.0
    matrix = second_moment_matrix(name, eta, rho, h, share=0.5, fourth=fourth, compensation=back)
    np.testing.assert_allclose(matrix @ np.kron(state, state), expected, rtol=1e-12)


@pytest.mark.parametrize("amplitude", ["normal", "sign"])
def test_oracle_of_coordinate_least_squares(amplitude):
    problem = coordinate_least_squares(jnp.array([1.0, 0.2, 0.5]), amplitude=amplitude)
    theta = jnp.array([1.0, -2.0, 0.5])
    keys = jax.random.split(jax.random.key(0), 40_000)
    seen = np.asarray(jax.vmap(lambda k: problem.oracle(theta, key=k))(keys))
    assert (np.count_nonzero(seen, axis=1) <= 1).all()
    error = seen.std(0) / np.sqrt(len(seen))
    assert (np.abs(seen.mean(0) - problem.gradient(theta)) < 5 * error).all()


def test_best_contraction_against_scipy():
    h = jnp.array([1.0, 0.01])
    for amplitude, fourth in (("normal", 3.0), ("sign", 1.0)):
        # with momentum 0 the factor of coordinate h is 1 - eta h + fourth eta^2 h^2 / 2
        etas = np.linspace(1e-3, 2, 200_001)
        factor = np.max([1 - etas * c + fourth * (etas * c) ** 2 / 2 for c in (1.0, 0.01)], axis=0)
        found = best_contraction("sgd", h, amplitude=amplitude)
        np.testing.assert_allclose(1 - found.factor, 1 - factor.min(), rtol=1e-4)
    found = best_contraction("nesterov", h)
    np.testing.assert_allclose(contraction("nesterov", found.step, found.momentum, h), found.factor, rtol=1e-8)
    grid = jnp.meshgrid(jnp.geomspace(0.3, 3, 41) * found.step, 1 - (1 - found.momentum) * jnp.geomspace(0.3, 3, 41))
    assert contraction("nesterov", *grid, h).min() > found.factor - 1e-6
