import jax
import jax.numpy as jnp
import numpy as np

from corollary.optimization import (
    diffusion_sgd,
    finite_sum,
    gaussian_sgd,
    least_squares_moments,
    least_squares_sum,
    minimize,
    modified_drift,
)

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(4, 2)), RNG.normal(size=4)
KEY = jax.random.key(5)


def test_modified_drift_by_finite_differences():
    problem = finite_sum(lambda t, a: jnp.sum(jnp.cos(a * t)) + 0.1 * jnp.sum(t**4), (X,), np.zeros(2))
    theta = np.array([0.4, -0.7])
    square = lambda t: float(np.sum(np.asarray(problem.gradient(t)) ** 2))  # noqa: E731
    slope = np.array([(square(theta + h) - square(theta - h)) / 2e-5 for h in 1e-5 * np.eye(2)])
    np.testing.assert_allclose(
        modified_drift(problem, theta, 0.3), -np.asarray(problem.gradient(theta)) - 0.3 / 4 * slope, rtol=1e-7
    )


def test_diffusion_has_the_moments_of_its_equation_on_a_line():
    # lambda = (theta - xi)^2 / 2, xi = +-1: mean exp(-(1 + eta/2) t), stationary variance eta / (2 + eta)
    problem = finite_sum(lambda t, xi: 0.5 * jnp.sum((t - xi) ** 2), (np.array([[1.0], [-1.0]]),), 3 * np.ones(1))
    eta, steps, runs = 0.2, 40, 4000
    method = diffusion_sgd(eta, substeps=40)
    ends = jax.jit(jax.vmap(lambda k: minimize(problem, method, steps=steps, key=k).theta[:, 0]))(
        jax.random.split(KEY, runs)
    )
    late = np.asarray(ends[:, -1])
    # Euler's method with time steps of eta / 40 is off by about (1 + eta / 2) eta / 80 relative
    np.testing.assert_allclose(late.var(), eta / (2 + eta), rtol=5 * (2 / runs) ** 0.5 + 0.005)
    early = np.asarray(ends[:, 5])
    np.testing.assert_allclose(early.mean(), 3 * np.exp(-1.1), atol=5 * early.std() / runs**0.5 + 0.01)
    plain = diffusion_sgd(eta, substeps=40, corrected=False)
    late = np.asarray(
        jax.jit(jax.vmap(lambda k: minimize(problem, plain, steps=steps, key=k).theta[-1, 0]))(
            jax.random.split(KEY, runs)
        )
    )
    np.testing.assert_allclose(late.var(), eta / 2, rtol=5 * (2 / runs) ** 0.5 + 0.005)


def test_precision_of_the_input_is_kept():
    problem = least_squares_sum(X.astype(np.float32), Y.astype(np.float32))
    assert minimize(problem, gaussian_sgd(0.1), steps=2).theta.dtype == jnp.float32
    assert minimize(problem, diffusion_sgd(0.1), steps=2).theta.dtype == jnp.float32
    moments = least_squares_moments(X.astype(np.float32), Y.astype(np.float32), np.zeros(2, np.float32), 0.1, 3)
    assert moments.variance.dtype == jnp.float32
