"""Perturbed gradient descent: its noise, its constants, its rule of when to perturb."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from corollary.landscape import (
    cubic_saddle,
    escape_parameters,
    find_second_order_point,
    gaussian_perturbed_descent,
    perturbed_descent,
    uniform_ball,
)
from corollary.optimization import cosine_wells, minimize


def test_uniform_ball():
    keys = jax.random.split(jax.random.key(0), 20_000)
    for dim in (1, 3, 10):
        points = np.asarray(jax.vmap(lambda k, d=dim: uniform_ball(d, 2.0, key=k))(keys))
        radius = np.linalg.norm(points, axis=1)
        assert stats.kstest((radius / 2) ** dim, "uniform").pvalue > 1e-6
        # isotropic: E u_i u_j is radius^2 / (d + 2) on the diagonal
        np.testing.assert_allclose(points.T @ points / len(points), np.eye(dim) * 4 / (dim + 2), atol=0.08)
    assert uniform_ball(2, key=keys[0], dtype=jnp.float32).dtype == jnp.float32


def test_gaussian_form():
    flat = cosine_wells(np.zeros(4))  # no gradient at the origin: the first step is the noise alone
    moves = jax.vmap(lambda k: minimize(flat, gaussian_perturbed_descent(0.5, 0.2, key=k), steps=1).theta[1])(
        jax.random.split(jax.random.key(1), 20_000)
    )
    noise = np.asarray(moves) / 0.5
    square = (noise**2).sum(1)
    assert abs(square.mean() - 0.04) < 6 * square.std() / np.sqrt(len(square))
    assert stats.kstest(noise.ravel() / 0.1, "norm").pvalue > 1e-6
    # without noise, gradient descent
    start = np.array([1.0, 2.0, 3.0, -0.5])
    path = minimize(flat, gaussian_perturbed_descent(0.5, 0.0, key=jax.random.key(0)), steps=3, start=start).theta
    x = start
    for got in np.asarray(path[1:]):
        x = x - 0.5 * np.sin(x)
        np.testing.assert_allclose(got, x, rtol=1e-12)


def test_parameters_solve_their_equation():
    ell, rho, eps, delta, dim, gap = 2.0, 3.0, 0.01, 0.05, 7, 4.0
    p = escape_parameters(ell, rho, eps, delta, dim, gap)
    iota = float(p.iota)
    rounds = 1 + 2 * gap / float(p.drop)
    failure = ell * np.sqrt(dim) / np.sqrt(rho * eps) * iota**2 * 2 ** (8 - iota)
    assert rounds * failure == pytest.approx(delta, rel=1e-9)
    assert float(p.radius) == pytest.approx(eps / 400 / iota**3)
    assert float(p.interval) == np.ceil(ell / np.sqrt(rho * eps) * iota)
    assert float(p.reach) == pytest.approx(np.sqrt(eps / rho) / 4 / iota)
    # the slab of width omega in a ball of radius r is hit less often than the failure allows
    assert float(p.width) / float(p.radius) * np.sqrt(dim / np.pi) <= failure
    # reaching S means a decrease of S^2 / (2 eta T), and a perturbation costs less than half of what is promised
    away = float(p.reach - p.step * p.radius) ** 2 / (2 * float(p.step) * float(p.interval))
    assert away >= float(p.drop)
    cost = eps * float(p.step * p.radius) + ell / 2 * float(p.step * p.radius) ** 2
    assert cost <= float(p.drop) / 2
    # logarithmic in the dimension: each factor of 4 adds about log2(2) = 1
    more = escape_parameters(ell, rho, eps, delta, 4 * dim, gap)
    assert 1 < float(more.iota - p.iota) < 1.2


def test_the_variant_perturbs_only_where_it_should():
    problem = cubic_saddle(2, 0.5)
    parameters = escape_parameters(1.0, 1.0, 0.25, 0.1, 2, 1.0)._replace(
        interval=jnp.asarray(10.0), radius=jnp.asarray(1e-3)
    )
    path = minimize(problem, perturbed_descent(parameters, key=jax.random.key(0)), steps=60)
    x = np.asarray(path.theta)
    step = x[1:] - (x[:-1] - np.asarray(jax.jit(jax.vmap(problem.gradient))(path.theta[:-1])))
    perturbed = np.flatnonzero(np.abs(step).max(1) > 1e-12)
    assert perturbed[0] == 0
    assert (np.diff(perturbed) >= 10).all()
    small = np.asarray(path.gradient_norm)[:-1] <= 0.25
    assert small[perturbed].all()
    # wherever the rule asks for a perturbation there is one
    since, expected = 11, []
    for t in range(60):
        if small[t] and since > 10:
            expected.append(t)
            since = 0
        since += 1
    np.testing.assert_array_equal(perturbed, expected)
    # a large gradient is left alone: plain gradient descent
    far = minimize(problem, perturbed_descent(parameters, key=jax.random.key(1)), steps=1, start=np.array([0.0, 1.0]))
    np.testing.assert_allclose(far.theta[1], [0.0, 0.0], atol=1e-15)


def test_search_finds_the_first_second_order_point():
    start = np.array([np.pi, 0.0, np.pi])
    found = find_second_order_point(cosine_wells(start), 1.0, 0.1, 0.1, steps=120, key=jax.random.key(3))
    first = int(found.first)
    assert 10 < first <= 120
    x = np.asarray(found.theta)
    good = (np.linalg.norm(np.sin(x), axis=1) <= 0.1) & (np.cos(x).min(1) >= -np.sqrt(0.1))
    assert first == np.flatnonzero(good)[0]
    assert not good[:first].any()
    # too few steps: none
    short = find_second_order_point(cosine_wells(start), 1.0, 0.1, 0.1, steps=5, key=jax.random.key(3))
    assert int(short.first) == 6
    assert short.parameters.budget > 1e6


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: escape_parameters(0.0, 1.0, 0.1, 0.1, 2, 1.0), "ell must be positive"),
        (lambda: escape_parameters(1.0, 0.0, 0.1, 0.1, 2, 1.0), "rho must be positive"),
        (lambda: escape_parameters(1.0, 1.0, 2.0, 0.1, 2, 1.0), r"epsilon must be in \(0, 1\]"),
        (lambda: escape_parameters(1.0, 1.0, 0.1, 1.0, 2, 1.0), r"delta must be in \(0, 1\)"),
        (lambda: escape_parameters(1.0, 1.0, 0.1, 0.1, 0, 1.0), "dim must be at least 1"),
        (lambda: escape_parameters(1.0, 1.0, 0.1, 0.1, 2, 0.0), "gap must be positive"),
        (lambda: uniform_ball(2, -1.0, key=jax.random.key(0)), "radius must be zero or more"),
        (lambda: gaussian_perturbed_descent(0.0, 1.0, key=jax.random.key(0)), "step must be positive"),
        (lambda: gaussian_perturbed_descent(1.0, -1.0, key=jax.random.key(0)), "radius must be zero or more"),
        (lambda: perturbed_descent((1.0, 2.0), key=jax.random.key(0)), "parameters must come from escape_parameters"),
        (
            lambda: find_second_order_point(np.sum, 1.0, 0.1, 0.1, steps=1, key=jax.random.key(0)),
            "problem must be a Problem",
        ),
        (
            lambda: find_second_order_point(
                cubic_saddle(2, 0.5).__class__(jnp.sum, (), jnp.zeros(2)), 1.0, 0.1, 0.1, steps=1, key=None
            ),
            "problem must know its smoothness constant L",
        ),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
