"""Control variates for finite sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.optimization import finite_sum, gradient_alignment, minimize, quadratic, sag, svrg, svrg_variance

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(6, 2)), RNG.normal(size=6)


def term(theta, x, y):
    return 0.5 * (x @ theta - y) ** 2


def sums(key=0):
    return finite_sum(term, (X, Y), jnp.zeros(2), batch_size=2)


def test_sag_recursion():
    problem, key = sums(), jax.random.key(4)
    theta, table, path = np.zeros(2), np.zeros((6, 2)), [np.zeros(2)]
    for k in range(20):
        i = int(jax.random.randint(jax.random.fold_in(key, k), (), 0, 6))
        table[i] = (X[i] @ theta - Y[i]) * X[i]
        theta = theta - 0.05 * table.mean(0)
        path.append(theta)
    np.testing.assert_allclose(minimize(problem, sag(0.05), steps=20, key=key).theta, path, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("option", ["last", "random"])
def test_svrg_recursion(option):
    problem, key = sums(), jax.random.key(5)
    gradient = lambda t, i: (X[i] @ t - Y[i]) * X[i]  # noqa: E731
    theta = snapshot = np.zeros(2)
    path, epoch = [theta], []
    for k in range(20):
        which, when = jax.random.split(jax.random.fold_in(key, k))
        if k % 5 == 0:
            full, epoch = np.mean([gradient(snapshot, i) for i in range(6)], axis=0), []
            take = int(jax.random.randint(when, (), 0, 5))
        epoch.append(theta)
        i = int(jax.random.randint(which, (), 0, 6))
        theta = theta - 0.05 * (gradient(theta, i) - gradient(snapshot, i) + full)
        if k % 5 == 4:
            snapshot = theta = theta if option == "last" else epoch[take]
        path.append(theta if option == "last" else snapshot)
    found = minimize(problem, svrg(0.05, 5, option=option), steps=20, key=key).theta
    np.testing.assert_allclose(found, path, rtol=1e-10, atol=1e-14)


def test_variance_and_alignment():
    problem = sums()
    theta, snapshot = jnp.array([0.3, -1.0]), jnp.array([0.2, -0.9])
    g = (X @ theta - Y)[:, None] * X
    np.testing.assert_allclose(svrg_variance(problem, theta, None), ((g - g.mean(0)) ** 2).sum(1).mean())
    d = (X @ (theta - snapshot))[:, None] * X
    np.testing.assert_allclose(svrg_variance(problem, theta, snapshot), ((d - d.mean(0)) ** 2).sum(1).mean())
    key = jax.random.key(1)
    chosen = np.asarray(jax.random.randint(key, (2,), 0, 6))
    a, b = g[chosen].mean(0), g.mean(0)
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    np.testing.assert_allclose(gradient_alignment(problem, theta, key=key), expected, rtol=1e-12)
    assert gradient_alignment(finite_sum(term, (X, 0 * Y), jnp.zeros(2)), jnp.zeros(2), key=key) == 0


P = quadratic([1.0, 2.0])


def test_finite_sums_only():
    for call in (
        lambda: minimize(P, sag(0.1), steps=2),
        lambda: minimize(P, svrg(0.1, 2), steps=2),
        lambda: svrg_variance(P, P.start, None),
        lambda: gradient_alignment(P, P.start, key=jax.random.key(0)),
    ):
        with pytest.raises(TypeError, match="problem must be a FiniteSum, got Problem"):
            call()
