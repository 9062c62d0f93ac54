"""Problems with known constants."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize

from corollary.linear import logistic_loss_problem
from corollary.optimization import (
    finite_sum,
    huber,
    least_squares,
    minimize,
    noisy,
    quadratic,
    random_quadratic,
    rates,
    ridge_logistic,
    wavy,
)

KEY = jax.random.key(0)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def classification(n=60, d=3):
    x = jax.random.normal(KEY, (n, d))
    y = jax.random.bernoulli(jax.random.key(1), jax.nn.sigmoid(x[:, 0])).astype(float)
    return x, y


@cache
def problems():
    x, y = classification()
    return {
        "quadratic": random_quadratic(5, 30.0, key=KEY),
        "least squares": least_squares(x, x @ jnp.ones(3) + y),
        "rank-deficient": least_squares(jnp.concatenate([x, x[:, :1]], 1), y),
        "ridge logistic": ridge_logistic(x, y, 0.1),
        "logistic": logistic_loss_problem(x, y),
        "huber": huber(0.3, 2.0, L=3.0),
        "wavy": wavy(),
    }


@pytest.mark.parametrize(
    "name", ["quadratic", "least squares", "rank-deficient", "ridge logistic", "logistic", "huber", "wavy"]
)
def test_the_constants_of_a_problem(name):
    p = problems()[name]
    assert np.allclose(p.gradient(p.minimiser), 0, atol=1e-7)
    assert np.isclose(p(p.minimiser), p.minimum, atol=1e-12)
    found = optimize.minimize(
        lambda t: float(p(jnp.asarray(t).reshape(p.start.shape))), np.ravel(p.start) * 0.05, method="BFGS", tol=1e-10
    )
    assert p.minimum <= found.fun + 1e-9
    points = p.minimiser + 2 * jax.random.normal(KEY, (200, *p.start.shape))
    curvature = jax.jit(jax.vmap(p.hessian))(points).reshape(200, p.start.size, p.start.size)
    spectra = np.linalg.eigvalsh(curvature)
    assert spectra.max() <= p.L * (1 + 1e-9)
    if p.mu is not None:
        assert spectra.min() >= p.mu - 1e-9
    if p.pl is not None:
        slopes = jax.jit(jax.vmap(p.gradient))(points).reshape(200, -1)
        gap = jax.jit(jax.vmap(p))(points) - p.minimum
        assert (np.sum(slopes**2, 1) / 2 >= p.pl * gap * (1 - 1e-9) - 1e-12).all()


def test_a_trajectory_is_the_recursion():
    p = random_quadratic(4, 10.0, key=KEY)
    hessian, centre = map(np.asarray, p.data)
    theta = np.asarray(p.start)
    path = minimize(p, optax.sgd(0.3), steps=20)
    for k in range(21):
        assert np.allclose(path.theta[k], theta)
        assert np.isclose(path.value[k], 0.5 * (theta - centre) @ hessian @ (theta - centre))
        assert np.isclose(path.gradient_norm[k], np.linalg.norm(hessian @ (theta - centre)))
        theta = theta - 0.3 * hessian @ (theta - centre)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: quadratic([[1.0]]), ValueError, "spectrum must have shape"),
        (lambda: quadratic([1.0, 2.0], [1.0]), ValueError, "start must have shape"),
        (lambda: random_quadratic(1, 2.0, key=KEY), ValueError, "dim must be at least 2"),
        (lambda: random_quadratic(3, 0.5, key=KEY), ValueError, "condition must be at least 1"),
        (lambda: least_squares(np.zeros((3, 2)), np.zeros(2)), ValueError, "y must have shape"),
        (lambda: ridge_logistic(np.zeros((3, 2)), np.zeros(3), 0.0), ValueError, "penalty must be positive"),
        (lambda: logistic_loss_problem(np.array([1.0, 2.0]), np.array([0, 1])), ValueError, "separable"),
        (lambda: huber(-1.0), ValueError, "threshold must be positive"),
        (lambda: noisy(3, 1.0), TypeError, "problem must be a Problem"),
        (lambda: noisy(wavy(), 0.0), ValueError, "sigma must be positive"),
        (lambda: finite_sum(lambda t: t, (), 1.0), ValueError, "data must be arrays"),
        (lambda: minimize(3, optax.sgd(1.0), steps=1), TypeError, "problem must be a Problem"),
        (lambda: minimize(wavy(), 3, steps=1), TypeError, "method must be a Method"),
        (lambda: minimize(wavy(), optax.sgd(1.0), steps=0), ValueError, "steps must be at least 1"),
        (lambda: minimize(wavy(), optax.sgd(1.0), steps=1, start=jnp.ones(2)), ValueError, "start must have shape"),
        (lambda: rates.gradient_descent.convex(1.0, 1.0, 0), ValueError, "k must be at least 1"),
        (lambda: rates.gradient_descent.convex(1.0, 1.0, 1, step=1.5), ValueError, "step times L"),
        (
            lambda: rates.gradient_descent.strongly_convex_squared_distance(-1.0, 0.1, 1.0, 1),
            ValueError,
            "L must be positive",
        ),
        (lambda: rates.gradient_descent.convex_tight(1.0, 1.0, 1, step=1.5), ValueError, "step times L"),
        (lambda: rates.gradient_descent.strongly_convex_tight(1.0, 0.1, 1.0, 1, step=2.5), ValueError, "step times L"),
        (lambda: rates.gradient_descent.strongly_convex_tight(1.0, 0.1, -1.0, 1), ValueError, "first must be zero"),
    ],
)
def test_bad_input_is_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
