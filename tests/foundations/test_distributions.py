import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from corollary.foundations import Continuous, Discrete, Gaussian, expectation_from_tail

RNG = np.random.default_rng(6)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def test_discrete():
    die = Discrete(np.arange(1.0, 7), np.full(6, 1 / 6))
    assert die.pmf(3.0) == pytest.approx(1 / 6)
    assert die.pmf(3.5) == 0
    assert die.cdf(3.5) == pytest.approx(0.5)
    assert die.probability(2.0, 4.0) == pytest.approx(0.5)
    assert die.expectation() == pytest.approx(3.5)
    assert die.expectation(lambda x: x**2) == pytest.approx(91 / 6)
    with pytest.raises(ValueError, match="masses must add up to 1, got 0.5"):
        Discrete([1.0], [0.5])
    with pytest.raises(ValueError, match="masses must be zero or more"):
        Discrete([1.0, 2.0], [1.5, -0.5])


def test_continuous():
    beta = Continuous(lambda x: 6 * x * (1 - x), 0.0, 1.0)
    law = stats.beta(2, 2)
    assert beta.cdf(0.3) == pytest.approx(law.cdf(0.3))
    assert beta.cdf(-1.0) == 0
    assert beta.cdf(5.0) == pytest.approx(1)
    assert beta.pdf(jnp.array([0.3, 2.0])).tolist() == pytest.approx([1.26, 0])
    assert beta.probability(0.4, 0.4) == 0
    assert beta.expectation(lambda x: x**2) == pytest.approx(law.moment(2))
    assert jax.grad(beta.cdf)(0.3) == pytest.approx(1.26)
    with pytest.raises(ValueError, match="density must have the integral 1"):
        Continuous(lambda x: 1.0, 0.0, 2.0)
    with pytest.raises(ValueError, match="low must be below high"):
        Continuous(lambda x: 1.0, 1.0, 0.0)
    with pytest.raises(TypeError, match="density must be a function"):
        Continuous(1.0, 0.0, 1.0)


def test_expectation_from_tail():
    assert expectation_from_tail(lambda t: jnp.exp(-t / 3)) == pytest.approx(3, rel=1e-12)
    pareto = expectation_from_tail(lambda t: jnp.where(t < 1, 1.0, jnp.maximum(t, 1.0) ** -3.0), [1.0])
    assert pareto == pytest.approx(1.5, rel=1e-12)
    assert expectation_from_tail(lambda t: jnp.where(t <= 2, 1.0, 0.0), [2.0]) == pytest.approx(2)
    single = expectation_from_tail(lambda t: jnp.exp(-t), np.zeros(1, np.float32))
    assert single.dtype == jnp.float32
    assert single == pytest.approx(1, rel=1e-5)
    with pytest.raises(ValueError, match="breaks must be zero or more and increasing"):
        expectation_from_tail(jnp.exp, [2.0, 1.0])
    with pytest.raises(TypeError, match="survival must be a function"):
        expectation_from_tail(1.0)


def test_gaussian():
    root = RNG.normal(size=(3, 3))
    x = Gaussian(RNG.normal(size=3), root @ root.T)
    at = RNG.normal(size=3)
    assert x.density(at) == pytest.approx(stats.multivariate_normal(x.mean, x.covariance).pdf(at))
    a, b = RNG.normal(size=(4, 3)), RNG.normal(size=4)
    y = jax.jit(lambda x: x.affine(a, b))(x)
    np.testing.assert_allclose(y.covariance, a @ x.covariance @ a.T, rtol=1e-10)
    t = RNG.normal(size=4)
    np.testing.assert_allclose(y.characteristic(t), np.exp(1j * t @ b) * x.characteristic(a.T @ t), rtol=1e-9)
    draws = y.sample(20000, key=jax.random.key(0))
    np.testing.assert_allclose(np.cov(draws.T), y.covariance, atol=0.05 * np.abs(y.covariance).max())
    with pytest.raises(ValueError, match="symmetric and positive semi-definite"):
        Gaussian(np.zeros(2), np.diag([1.0, -1.0]))
    with pytest.raises(ValueError, match="a must have shape"):
        x.affine(np.ones((2, 2)), np.ones(2))
    with pytest.raises(ValueError, match="has no density"):
        Gaussian(np.zeros(2), np.diag([1.0, 0.0])).density(np.zeros(2))
