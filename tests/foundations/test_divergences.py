"""Divergences against SciPy, quadrature and each other; laws that do not charge the same outcomes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.spatial.distance import jensenshannon

from corollary.foundations import (
    Gaussian,
    f_divergence,
    gaussian_kl,
    hellinger,
    integral_metric,
    jensen_shannon,
    kl,
    mixed_moments,
    renyi,
    total_variation,
)

RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


P, Q = RNG.dirichlet(np.ones(6), (2, 30))
GENERATORS = {
    "kl": (lambda t: t * jnp.log(t), kl),
    "reversed": (lambda t: -jnp.log(t), lambda p, q: kl(q, p)),
    "variation": (lambda t: jnp.abs(t - 1) / 2, total_variation),
    "hellinger": (lambda t: (jnp.sqrt(t) - 1) ** 2 / 2, lambda p, q: hellinger(p, q) ** 2),
    "jensen": (lambda t: (t * jnp.log(t) - (t + 1) * jnp.log((t + 1) / 2)) / 2, jensen_shannon),
    "chi": (lambda t: (t - 1) ** 2, lambda p, q: jnp.expm1(renyi(p, q, 2.0))),
}


def test_against_scipy_and_definitions():
    np.testing.assert_allclose(kl(P, Q), stats.entropy(P, Q, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(jensen_shannon(P, Q), jensenshannon(P, Q, axis=-1) ** 2, rtol=1e-12)
    np.testing.assert_allclose(total_variation(P, Q), np.maximum(P - Q, 0).sum(-1), rtol=1e-12)
    for order in (0.2, 0.7, 1.3, 2.0, 9.0):
        exact = np.log((P**order * Q ** (1 - order)).sum(-1)) / (order - 1)
        np.testing.assert_allclose(renyi(P, Q, order), exact, rtol=1e-10)
    np.testing.assert_allclose(renyi(P, Q, np.inf), np.log((P / Q).max(-1)), rtol=1e-12)
    np.testing.assert_allclose(renyi(P, Q, 1 + 1e-9), kl(P, Q), rtol=1e-6)
    assert (renyi(P, Q, 1.0) == kl(P, Q)).all()
    np.testing.assert_allclose(renyi(P, Q, 1e4), renyi(P, Q, np.inf), rtol=1e-2)  # large powers do not overflow


@pytest.mark.parametrize("name", GENERATORS)
def test_generators(name):
    f, divergence = GENERATORS[name]
    p, q = P.copy(), Q.copy()
    p[0], q[0] = [0.5, 0.5, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0, 0]
    p[1], q[1] = [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]
    p[2] = q[2]
    p[3] = [1, 0, 0, 0, 0, 0]
    # the slope of Jensen and Shannon's function at infinity is a difference of numbers of the size of ln(1e200)
    np.testing.assert_allclose(f_divergence(p, q, f), divergence(p, q), rtol=1e-11, atol=1e-15)


def test_outcomes_that_only_the_first_law_has():
    p, q = [0.5, 0.5], [1.0, 0.0]
    infinite = [kl(p, q), *(renyi(p, q, order) for order in (1.0, 2.0, np.inf)), f_divergence(p, q, lambda u: u**2)]
    assert [float(value) for value in infinite] == [np.inf] * 5
    finite = kl(q, p), total_variation(p, q), hellinger(p, q), jensen_shannon(p, q), renyi(p, q, 0.5)
    assert np.isfinite(finite).all()
    for law in ([0.5, 0.6], [0.5, 0.4]):
        for divergence in (total_variation, hellinger, jensen_shannon, kl, lambda a, b: renyi(a, b, 2.0)):
            with pytest.raises(ValueError, match="must sum to 1"):
                divergence(law, p)
            with pytest.raises(ValueError, match="must sum to 1"):
                divergence(p, law)


def test_laws_that_share_no_outcome():
    p, q = [1.0, 0.0], [0.0, 1.0]
    assert [float(renyi(p, q, order)) for order in (0.3, 1.0, 1.2, 2.0, np.inf)] == [np.inf] * 5
    assert float(total_variation(p, q)) == float(hellinger(p, q)) == 1
    assert float(jensen_shannon(p, q)) == pytest.approx(np.log(2))
    assert float(renyi([0.5, 0.5, 0], [0, 0.5, 0.5], 0.8)) == pytest.approx(np.log(0.5) / -0.2)


@pytest.mark.parametrize(("m", "s", "m0", "s0"), [(0.3, 0.5, 0.0, 1.0), (-1.0, 2.0, 0.5, 0.7)])
def test_normal_laws_by_quadrature(m, s, m0, s0):
    q, p = stats.norm(m, np.sqrt(s)), stats.norm(m0, np.sqrt(s0))
    exact, _ = integrate.quad(lambda x: q.pdf(x) * (q.logpdf(x) - p.logpdf(x)), m - 12, m + 12)
    np.testing.assert_allclose(gaussian_kl([m], [s], [m0], [s0]), exact, rtol=1e-9)


def test_normal_laws_sums_and_ends():
    one = [gaussian_kl([a], [b], [0.0], [1.0]) for a, b in ((1.0, 0.2), (2.0, 3.0))]
    np.testing.assert_allclose(gaussian_kl([1.0, 2.0], [0.2, 3.0], [0.0, 0.0], [1.0, 1.0]), sum(one), rtol=1e-13)
    assert np.isinf(gaussian_kl([0.0], [0.0], [0.0], [1.0]))
    near = 1e-9
    np.testing.assert_allclose(gaussian_kl([0.0], [1 + near], [0.0], [1.0]), near**2 / 4, rtol=1e-6)
    # at a fixed mean the prior's own variance is the best
    assert abs(jax.grad(lambda s: gaussian_kl([1.0], [s], [0.0], [2.0]))(2.0)) < 1e-15


def test_correlated_normal_laws():
    a, b = (m @ m.T + np.eye(3) for m in RNG.normal(size=(2, 3, 3)))
    m, n = RNG.normal(size=(2, 3))
    inverse = np.linalg.inv(b)
    exact = (np.trace(inverse @ a) + (m - n) @ inverse @ (m - n) - 3 - np.log(np.linalg.det(a) / np.linalg.det(b))) / 2
    assert float(Gaussian(m, a).kl(Gaussian(n, b))) == pytest.approx(exact)
    assert float(Gaussian(m, a).log_prob(n)) == pytest.approx(stats.multivariate_normal(m, a).logpdf(n))
    assert float(Gaussian([0.0], [[0.0]]).kl(Gaussian([0.0], [[1.0]]))) == np.inf
    with pytest.raises(TypeError, match="other must be a Gaussian of dimension 3"):
        Gaussian(m, a).kl(Gaussian([0.0], [[1.0]]))


def test_moments_and_features():
    x, y = RNG.normal(size=(8, 2)), RNG.normal(size=(5, 2))
    third = mixed_moments(x, 3)
    assert third.shape == (4,)
    assert float(third[1]) == pytest.approx((x[:, 0] ** 2 * x[:, 1]).mean())
    apart = integral_metric(x, y, lambda x: x)
    assert float(apart) == pytest.approx(np.linalg.norm(x.mean(0) - y.mean(0)))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: total_variation([0.5, 0.4], [0.5, 0.5]), ValueError, "p must sum to 1 over its last axis"),
        (lambda: hellinger([0.5, 0.5], [1.0]), ValueError, "q must have shape"),
        (lambda: renyi([1.0], [1.0], 0.0), ValueError, "order must be positive"),
        (lambda: f_divergence([1.0], [1.0], 2.0), TypeError, "f must be a function"),
        (lambda: gaussian_kl([0.0], [1.0], [0.0], [0.0]), ValueError, "prior_variance must be positive"),
        (lambda: integral_metric([1.0], [1.0], None), TypeError, "features must be a function"),
    ],
)
def test_sentences(call, error, match):
    with pytest.raises(error, match=match):
        call()
