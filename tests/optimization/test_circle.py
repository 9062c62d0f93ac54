import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm

from corollary.optimization import circle_grid, diffuse, expectation, generator, interpolation, transition

RNG = np.random.default_rng(2)


def test_interpolation_is_exact_for_trigonometric_polynomials():
    grid = circle_grid(16)
    points = RNG.uniform(0, 7, size=9)
    f = lambda t: 1 + np.sin(3 * t) - 2 * np.cos(7 * t)  # noqa: E731
    np.testing.assert_allclose(interpolation(points, 16) @ f(np.asarray(grid)), f(points), atol=1e-12)


def test_transition_and_generator_against_what_they_mean():
    grid = np.asarray(circle_grid(32))
    matrix = transition(jnp.sin, lambda t: 0.3 + 0 * t, 0.2, 32)
    here = [grid - 0.2 * (np.sin(grid) + s) for s in (0.3, -0.3)]
    np.testing.assert_allclose(matrix @ np.cos(grid), np.mean(np.cos(here), axis=0), atol=1e-12)
    np.testing.assert_allclose(
        expectation(matrix, np.cos(grid), 3), matrix @ matrix @ matrix @ np.cos(grid), atol=1e-12
    )
    operator = generator(jnp.sin, lambda t: 2 + jnp.cos(t), 32)
    expected = np.sin(grid) * 2 * np.cos(2 * grid) + 0.5 * (2 + np.cos(grid)) * -4 * np.sin(2 * grid)
    np.testing.assert_allclose(operator @ np.sin(2 * grid), expected, atol=1e-11)
    np.testing.assert_allclose(
        diffuse(operator, np.sin(grid), 0.3), expm(0.3 * np.asarray(operator)) @ np.sin(grid), atol=1e-10
    )
