import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy.stats import gaussian_kde, multivariate_normal

from corollary.generative import KernelDensity, held_out, log_normaliser

KEY = jax.random.key(0)
SAMPLES = np.random.default_rng(0).normal(size=(400, 2))


def log_prob(x):
    return norm.logpdf(x).sum()


def test_the_kernel_density():
    x = SAMPLES[:30]
    density = KernelDensity(x)
    width = 30 ** (-1 / 6)
    covariance = np.cov(x.T)
    covariance = (covariance + 1e-6 * np.mean((x - x.mean(0)) ** 2) * np.eye(2)) / (1 + 1e-6)
    want = np.mean(
        [multivariate_normal.pdf(SAMPLES[30:35], c, width**2 * covariance) for c in np.asarray(density.centres)], 0
    )
    np.testing.assert_allclose(np.exp(density.log_prob(SAMPLES[30:35])), want, rtol=1e-9)
    drawn = density.sample(20_000, key=KEY)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(x.T), atol=0.05)
    # without the pull to the mean it would be SciPy's
    assert gaussian_kde(np.asarray(x).T).factor == pytest.approx(width)


@pytest.mark.parametrize("shift", [0.0, 0.7, -3.0])
def test_the_integral_of_a_likelihood(shift):
    found = log_normaliser(lambda x: shift + log_prob(x), SAMPLES, key=KEY)
    low, high = (float(end) for end in found.interval)
    assert bool(found.known)
    assert high - low < 0.2
    assert low - 0.1 < shift < high + 0.1


def test_intervals_cover_as_often_as_they_say():
    def one(key):
        a, b = jax.random.split(key)
        low, high = log_normaliser(log_prob, jax.random.normal(a, (60, 2)), key=b).interval
        return (low <= 0) & (high >= 0)

    covered = jax.jit(jax.vmap(one))(jax.random.split(KEY, 300))
    # 285 are expected; 260 are more than six standard deviations fewer
    assert int(covered.sum()) > 260


def test_densities_that_do_not_meet_are_not_compared():
    found = log_normaliser(lambda x: log_prob(x - 50.0), SAMPLES, key=KEY)
    assert not bool(found.known)


def test_impossible_examples_count_as_nothing():
    half = lambda x: jnp.where(x[0] > 0, log_prob(x) + jnp.log(2.0), -jnp.inf)  # noqa: E731
    found = log_normaliser(half, SAMPLES[SAMPLES[:, 0] > 0], key=KEY)
    assert abs(float(found.value)) < 0.3


def test_held_out():
    train, test = SAMPLES[:100], SAMPLES[100:]
    found = held_out(log_prob, train, test)
    a, b = (np.array([float(log_prob(x)) for x in rows]) for rows in (train, test))
    assert float(found.gap) == pytest.approx(a.mean() - b.mean())
    error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    np.testing.assert_allclose(found.interval, [found.gap - 1.96 * error, found.gap + 1.96 * error], rtol=1e-9)
    assert float(found.spread) == pytest.approx(b.std())


def test_bad_arguments():
    with pytest.raises(TypeError, match="log_prob must be a function of one example, got int"):
        log_normaliser(3, SAMPLES, key=KEY)
    with pytest.raises(ValueError, match="samples must hold eight examples at least"):
        log_normaliser(log_prob, SAMPLES[:5], key=KEY)
    with pytest.raises(ValueError, match=r"log_prob\(x\) must return one number for one example, got shape \(2,\)"):
        log_normaliser(norm.logpdf, SAMPLES, key=KEY)
    with pytest.raises(ValueError, match="log_prob must be finite or minus infinity, got nan"):
        log_normaliser(lambda x: jnp.nan * x[0], SAMPLES, key=KEY)
    with pytest.raises(ValueError, match="x must hold two examples at least"):
        KernelDensity(SAMPLES[:1])
