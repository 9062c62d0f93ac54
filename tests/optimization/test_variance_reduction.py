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
    problem, key, inner = sums(), jax.random.key(5), 5

    def gradient(theta, chosen):
        return X[chosen].T @ (X[chosen] @ theta - Y[chosen]) / len(chosen)

    def batch(k):  # as the oracle draws it
        return np.asarray(jax.random.randint(jax.random.fold_in(key, k), (2,), 0, 6))

    found = np.asarray(
        minimize(problem, svrg(0.05, inner, option=option, key=jax.random.key(8)), steps=20, key=key).theta
    )
    theta = snapshot = np.zeros(2)
    for k in range(20):
        if k % inner == 0:
            full, epoch = gradient(snapshot, np.arange(6)), []
        epoch.append(theta)
        theta = theta - 0.05 * (gradient(theta, batch(k)) - gradient(snapshot, batch(k)) + full)
        if k % inner == inner - 1 and option == "last":
            snapshot = theta
        elif k % inner == inner - 1:
            # which one is drawn is up to the method: one of the iterates before each step
            snapshot = theta = min(epoch, key=lambda t: np.linalg.norm(t - found[k + 1]))
        point = theta if option == "last" else snapshot
        np.testing.assert_allclose(found[k + 1], point, rtol=1e-10, atol=1e-14)


def test_snapshots_are_drawn_uniformly_and_anew():
    # with gradients of 1 the iterates before each step are 0, -1, -2: the snapshot tells which of them was taken
    slope = finite_sum(lambda theta, one: theta[0] * one, (np.ones(4),), np.zeros(1))

    def first_two(key):
        path = minimize(slope, svrg(1.0, 3, key=key), steps=6).theta[:, 0]
        return -path[3], path[3] - path[6]

    taken = np.asarray(jax.vmap(first_two)(jax.random.split(jax.random.key(0), 900))).T
    pairs = np.bincount(np.rint(taken @ [3, 1]).astype(int), minlength=9)
    assert pairs.min() > 50  # 100 expected, five standard deviations are 47
    np.testing.assert_allclose(taken, np.rint(taken), atol=1e-12)


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
        lambda: svrg_variance(P, P.start, None),
        lambda: gradient_alignment(P, P.start, key=jax.random.key(0)),
    ):
        with pytest.raises(TypeError, match="problem must be a FiniteSum, got Problem"):
            call()
