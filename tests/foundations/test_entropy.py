import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as special
from scipy.optimize import minimize_scalar

from corollary.foundations import (
    bernoulli_entropy,
    binary_cross_entropy,
    binary_cross_entropy_prime,
    cross_entropy,
    cumulant,
    kl,
    kl_bernoulli,
    tilt,
    tilted_mean,
)

P = np.linspace(0.01, 0.99, 45)
A, B = (a.ravel() for a in np.meshgrid(P, P))


def test_relative_entropy_against_scipy():
    expected = special.rel_entr(A, B) + special.rel_entr(1 - A, 1 - B)
    np.testing.assert_allclose(kl_bernoulli(A, B), expected, rtol=1e-12, atol=1e-15)


def test_gibbs_and_pinsker():
    h = np.asarray(kl_bernoulli(A, B))
    assert np.all(h >= 2 * (A - B) ** 2 - 1e-15)
    assert np.all(h[A != B] > 0)
    assert np.all(np.abs(h[A == B]) < 1e-15)


def test_ends_of_the_interval():
    assert kl_bernoulli(0.0, 0.0) == 0
    assert kl_bernoulli(1.0, 1.0) == 0
    assert kl_bernoulli(0.0, 1.0) == jnp.inf
    assert kl_bernoulli(1.0, 0.0) == jnp.inf
    assert binary_cross_entropy(1.0, 1.0) == 0
    assert bernoulli_entropy(0.0) == bernoulli_entropy(1.0) == 0


def test_cross_entropy_is_relative_entropy_plus_entropy():
    np.testing.assert_allclose(binary_cross_entropy(A, B) - kl_bernoulli(A, B), bernoulli_entropy(A), rtol=1e-12)
    np.testing.assert_allclose(bernoulli_entropy(P), special.entr(P) + special.entr(1 - P), rtol=1e-13)
    np.testing.assert_allclose(binary_cross_entropy(1.0, P), -np.log(P), rtol=1e-14)


def test_prime_is_the_derivative():
    by_autodiff = jax.vmap(jax.grad(binary_cross_entropy, argnums=1))(jnp.asarray(A), jnp.asarray(B))
    np.testing.assert_allclose(binary_cross_entropy_prime(A, B), by_autodiff, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(binary_cross_entropy_prime(1.0, P), -1 / P, rtol=1e-14)
    assert binary_cross_entropy_prime(0.0, 0.0) == 1


def test_second_derivatives_of_exercise_3_3():
    first = jax.vmap(jax.grad(jax.grad(kl_bernoulli)))(jnp.asarray(A), jnp.asarray(B))
    np.testing.assert_allclose(first, 1 / (A * (1 - A)), rtol=1e-11)
    second = jax.vmap(jax.grad(jax.grad(kl_bernoulli, 1), 1))(jnp.asarray(A), jnp.asarray(B))
    np.testing.assert_allclose(second, A / B**2 + (1 - A) / (1 - B) ** 2, rtol=1e-11)


def test_kl_of_vectors():
    p, q = np.random.default_rng(0).dirichlet(np.ones(5), (2, 20))
    np.testing.assert_allclose(kl(p, q), special.rel_entr(p, q).sum(1), rtol=1e-12)
    np.testing.assert_allclose(cross_entropy(p, q) - kl(p, q), special.entr(p).sum(1), rtol=1e-11)
    pairs = np.stack([1 - A, A], 1), np.stack([1 - B, B], 1)
    np.testing.assert_allclose(kl(*pairs), kl_bernoulli(A, B), rtol=1e-11, atol=1e-14)
    one_hot = np.eye(5)[[2] * 20]
    np.testing.assert_allclose(kl(one_hot, q), -np.log(q[:, 2]), rtol=1e-14)
    assert kl(jnp.array([0.5, 0.5]), jnp.array([1.0, 0.0])) == jnp.inf


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("theta", [-5.0, -0.3, 0.0, 2.0, 5.0])
def test_the_conjugate_pair(theta, p):
    best = minimize_scalar(
        lambda q: special.rel_entr(q, p) + special.rel_entr(1 - q, 1 - p) - theta * q,
        bounds=(1e-12, 1 - 1e-12), method="bounded", options={"xatol": 1e-12},
    )  # fmt: skip
    np.testing.assert_allclose(cumulant(theta, p), -best.fun, atol=1e-10)
    q = tilted_mean(theta, p)
    np.testing.assert_allclose(q, best.x, atol=1e-6)
    np.testing.assert_allclose(theta * q - kl_bernoulli(q, p), cumulant(theta, p), atol=1e-13)
    np.testing.assert_allclose(tilt(q, p), theta, atol=1e-12)
    np.testing.assert_allclose(tilt(q, p) * q - cumulant(tilt(q, p), p), kl_bernoulli(q, p), atol=1e-13)


def test_cumulant_does_not_overflow():
    np.testing.assert_allclose(cumulant(1e4, 0.5), 1e4 - np.log(2), rtol=1e-14)
    np.testing.assert_allclose(jax.grad(cumulant)(0.7, 0.2), tilted_mean(0.7, 0.2), rtol=1e-13)
