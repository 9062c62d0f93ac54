"""Strict saddles and second-order stationary points, against closed forms and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.landscape import (
    cosines_hessian_lipschitz,
    cubic_saddle,
    hessian_lipschitz_lower_bound,
    is_second_order_stationary,
    is_strict_saddle,
    rank_one_constants,
)


def _saddle(x):
    return x[0] ** 2 - x[1] ** 2


def _monkey(x):
    return x[0] ** 3 - 3 * x[0] * x[1] ** 2


def test_strict_saddles():
    zero = np.zeros(2)
    assert is_strict_saddle(_saddle, zero)
    assert not is_strict_saddle(_monkey, zero)  # a saddle whose Hessian is zero
    assert not is_strict_saddle(lambda x: x @ x, zero)
    assert is_strict_saddle(lambda x: -(x @ x), zero)  # a strict maximum counts
    assert not is_strict_saddle(_saddle, np.array([0.1, 0.0]))  # not stationary
    assert not is_strict_saddle(_saddle, zero, tolerance=3.0)


def test_second_order_points_at_the_edges():
    def f(x):
        return 0.3 * x[0] - 0.5 * x[1] ** 2  # gradient 0.3, least curvature -1

    zero = np.zeros(2)
    assert is_second_order_stationary(f, zero, 0.301, 1 / 0.3)
    assert not is_second_order_stationary(f, zero, 0.299, 2 / 0.299)
    assert not is_second_order_stationary(f, zero, 0.301, 0.99 / 0.301)
    assert is_second_order_stationary(_monkey, zero, 1e-6, 1.0)  # accepted, though no minimum


def test_hessian_lipschitz_of_cosines():
    rng = np.random.default_rng(0)
    c, a, b = rng.normal(size=4), rng.normal(size=(4, 3)), rng.normal(size=4)

    def f(w):
        return c @ jnp.cos(a @ w + b)

    x, y = rng.normal(size=(2, 500, 3))
    y[:100] = x[:100] + 1e-3 * y[:100]
    found = hessian_lipschitz_lower_bound(f, x, y)
    bound = cosines_hessian_lipschitz(c, a)
    assert 0.1 * bound < found <= bound

    # by hand, on one pair
    def h(w):
        return -(a.T * (c * np.cos(a @ w + b))) @ a

    expected = np.linalg.norm(h(x[0]) - h(y[0]), 2) / np.linalg.norm(x[0] - y[0])
    np.testing.assert_allclose(hessian_lipschitz_lower_bound(f, x[:1], y[:1]), expected, rtol=1e-7)
    assert hessian_lipschitz_lower_bound(f, x[:1], x[:1]) == 0
    # one cosine attains its constant
    one = hessian_lipschitz_lower_bound(lambda w: jnp.cos(2 * w[0]), np.array([[np.pi / 4]]), np.array([[0.7854]]))
    np.testing.assert_allclose(one, cosines_hessian_lipschitz([1.0], [[2.0]]), rtol=1e-6)


def test_rank_one_constants_hold_on_the_ball():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 3))
    m, radius = root @ root.T, 1.5

    def f(x):
        return jnp.sum((m - jnp.outer(x, x)) ** 2) / 4

    ell, rho = rank_one_constants(m, radius)
    x, y = rng.normal(size=(2, 300, 3))
    x, y = (radius * v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y))
    y[:100] = x[:100] * 0.999
    assert 0.5 * rho < hessian_lipschitz_lower_bound(f, x, y) <= rho
    norms = jax.lax.map(lambda v: jnp.abs(jnp.linalg.eigvalsh(jax.hessian(f)(v))).max(), jnp.asarray(x))
    assert norms.max() <= ell


def test_cubic_saddle():
    problem = cubic_saddle(3, 0.2, 2.0, 5.0)
    assert is_strict_saddle(problem, problem.start)
    assert problem(problem.minimiser) == pytest.approx(float(problem.minimum), rel=1e-13)
    assert np.abs(problem.gradient(problem.minimiser)).max() < 1e-14
    np.testing.assert_allclose(problem.hessian(problem.start), np.diag([-0.2, 5.0, 5.0]), atol=1e-14)
    x, y = np.array([[0.3, 0.0, 0.0]]), np.array([[0.1, 0.0, 0.0]])
    np.testing.assert_allclose(hessian_lipschitz_lower_bound(problem, x, y), 2.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: is_strict_saddle(3, [0.0]), "f must be a function of a point"),
        (lambda: is_strict_saddle(_saddle, 0.0), "x must have shape"),
        (lambda: is_strict_saddle(_saddle, [0.0, 0.0], -1.0), "tolerance must be positive"),
        (lambda: is_second_order_stationary(_saddle, [0.0, 0.0], 0.0, 1.0), "epsilon must be positive"),
        (lambda: is_second_order_stationary(_saddle, [0.0, 0.0], 1.0, -1.0), "rho must be positive"),
        (lambda: hessian_lipschitz_lower_bound(_saddle, [[0.0, 0.0]], [[0.0]]), "y must have shape"),
        (lambda: cosines_hessian_lipschitz([1.0], [[1.0], [2.0]]), "directions must have shape"),
        (lambda: rank_one_constants(np.eye(2), 0.0), "radius must be positive"),
        (lambda: cubic_saddle(0, 1.0), "dim must be at least 1"),
        (lambda: cubic_saddle(2, -1.0), "gamma must be positive"),
        (lambda: cubic_saddle(2, 1.0, 0.0), "rho must be positive"),
        (lambda: cubic_saddle(2, 1.0, 1.0, 0.0), "stiffness must be positive"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
