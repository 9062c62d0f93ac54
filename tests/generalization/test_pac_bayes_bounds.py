"""PAC-Bayes bounds on finite classes: exact sums, brute force over laws, and the forms against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from corollary.foundations import kl, kl_bernoulli, kl_inverse
from corollary.generalization.bound import samples_to_reach
from corollary.generalization.pac_bayes_bounds import (
    catoni,
    donsker_varadhan,
    general_pac_bayes,
    gibbs_posterior,
    log_moment,
    maurer_seeger,
    mcallester,
)

RNG = np.random.default_rng(0)
PRIOR, POSTERIOR = RNG.dirichlet(np.ones(6), size=2)
PHI = 3 * RNG.normal(size=6)


def test_change_of_measure_by_definition_and_by_trying_laws():
    made = donsker_varadhan(POSTERIOR, PRIOR, PHI)
    np.testing.assert_allclose(made.value, POSTERIOR @ PHI - np.sum(POSTERIOR * np.log(POSTERIOR / PRIOR)), rtol=1e-13)
    np.testing.assert_allclose(made.supremum, np.log(PRIOR @ np.exp(PHI)), rtol=1e-13)
    np.testing.assert_allclose(made.gap, kl(POSTERIOR, made.maximiser), rtol=1e-10)
    others = donsker_varadhan(RNG.dirichlet(np.ones(6), size=1000), np.tile(PRIOR, (1000, 1)), np.tile(PHI, (1000, 1)))
    assert (np.asarray(others.value) < made.supremum).all()
    np.testing.assert_allclose(donsker_varadhan(made.maximiser, PRIOR, PHI).gap, 0, atol=1e-14)


def test_posterior_outside_of_the_prior_has_no_value():
    prior, posterior = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    made = donsker_varadhan(posterior, prior, np.array([0.0, 9.0]))
    assert made.value == -np.inf
    assert made.supremum == 0
    np.testing.assert_array_equal(made.maximiser, [1, 0])


def test_gibbs_posterior_is_the_minimiser_of_its_free_energy():
    losses = RNG.uniform(size=6)
    q = np.asarray(gibbs_posterior(PRIOR, losses, 5.0))
    weights = PRIOR * np.exp(-5 * losses)
    np.testing.assert_allclose(q, weights / weights.sum(), rtol=1e-13)
    many = RNG.dirichlet(np.ones(6), size=1000)
    energy = 5 * many @ losses + np.asarray(kl(many, np.tile(PRIOR, (1000, 1))))
    assert (energy > 5 * q @ losses + float(kl(q, PRIOR))).all()
    np.testing.assert_allclose(gibbs_posterior(PRIOR, losses, 0.0), PRIOR, rtol=1e-13)
    cold = gibbs_posterior(PRIOR, losses, 1e6)
    assert cold[losses.argmin()] == 1
    assert np.isfinite(cold).all()
    assert gibbs_posterior(PRIOR, losses, jnp.array([1.0, 2.0])).shape == (2, 6)


def _moment(distance, n, m):
    k = np.arange(n + 1)
    return np.log(np.sum(stats.binom.pmf(k, n, m) * np.exp(n * np.asarray(distance(m, k / n)))))


@pytest.mark.parametrize("n", [1, 7, 40])
def test_moments_against_sums_on_a_fine_grid(n):
    square = max(_moment(lambda a, b: 2 * (a - b) ** 2, n, m) for m in np.linspace(0, 1, 2001))
    assert -1e-12 < float(log_moment("square", n)) - square < 1e-5
    xi = [_moment(lambda a, b: kl_bernoulli(b, a), n, m) for m in (0.1, 0.37, 0.5)]
    np.testing.assert_allclose(xi, log_moment("kl", n), rtol=1e-11)


def test_moments_that_are_known():
    values = np.exp([log_moment("kl", n) for n in (10, 100, 1000)])
    np.testing.assert_allclose(values, [4.660, 13.210, 40.303], rtol=2e-4)
    assert abs(log_moment("kl", 1) - np.log(2)) < 1e-14
    # where the sum is no longer formed it goes on as it was: as the root of πn/2
    both = np.array([log_moment("kl", n) for n in (2**20, 2**20 + 1)])
    assert abs(np.diff(both)[0] - 0.5 * np.log1p(2.0**-20)) < 1e-7
    assert abs(log_moment("kl", 2**52) - 0.5 * np.log(np.pi * 2**51)) < 1e-7
    # the moment generating function of a coin, whose mean is away from one half where it is largest
    m = np.linspace(0, 1, 100_001)
    coin = (0.9 * m + np.log1p(m * np.expm1(-0.9))).max()
    np.testing.assert_allclose(log_moment(lambda a, b: 0.9 * (a - b), 30), 30 * coin, rtol=1e-8)
    with jax.enable_x64(False):
        assert abs(float(log_moment("kl", 1000)) - np.log(values[-1])) < 1e-6
    assert jax.jit(lambda x: x + log_moment("kl", 10))(0.0) > 1.5


def test_general_bound_with_the_named_distances():
    n, divergence, delta, risk = 200, 4.0, 0.05, np.array([0.0, 0.1, 0.6])
    sharp = maurer_seeger(n, divergence, delta, risk=risk).check()
    level = (divergence + float(log_moment("kl", n)) - np.log(delta)) / n
    np.testing.assert_allclose(sharp.value, kl_inverse(risk, level), rtol=1e-14)
    np.testing.assert_allclose(general_pac_bayes("kl", n, divergence, delta, risk=risk).check().value, sharp.value)
    square = general_pac_bayes("square", n, divergence, delta, risk=risk).check().value
    level = (divergence + float(log_moment("square", n)) - np.log(delta)) / n
    np.testing.assert_allclose(square, risk + np.sqrt(level / 2), rtol=1e-13)
    assert (square <= mcallester(n, divergence, delta, risk=risk).value).all()
    assert general_pac_bayes("square", 5, 100.0, 0.05).value == 1


@pytest.mark.parametrize("n", [8, 100, 55_000])
@pytest.mark.parametrize("divergence", [0.0, 3.0, 5000.0])
def test_forms_in_their_order(n, divergence):
    sharp = mcallester(n, divergence, 0.05, risk=0.1)
    assert maurer_seeger(n, divergence, 0.05, risk=0.1).value <= sharp.value
    np.testing.assert_allclose(
        mcallester(n, divergence, 0.05, form="printed").value, 2 * (sharp.value - 0.1), rtol=1e-12
    )
    root = np.sqrt((divergence + np.log(2 * n / 0.05)) / (2 * (n - 1)))
    np.testing.assert_allclose(mcallester(n, divergence, 0.05, form="classical").check().value, root, rtol=1e-13)
    assert root > sharp.value - 0.1
    root = np.sqrt(2 * (divergence + np.log(2 / 0.05)) / n)
    np.testing.assert_allclose(mcallester(n, divergence, 0.05, form="simple").check().value, root, rtol=1e-13)


def test_best_temperature_gives_the_inverse():
    n, divergence, delta, risk = 500, 6.0, 0.05, 0.07
    rates = jnp.geomspace(0.01, 20.0, 4000)
    values = catoni(n, divergence, delta, inverse_temperature=rates, risk=risk).value
    best = kl_inverse(risk, (divergence - np.log(delta)) / n)
    assert (values >= best - 1e-14).all()
    np.testing.assert_allclose(values.min(), best, rtol=1e-6)
    bound = catoni(n, divergence, delta, inverse_temperature=1.0, risk=risk).check()
    np.testing.assert_allclose(bound.terms["training error"], risk)


def test_infinite_divergence_and_samples_needed():
    assert maurer_seeger(100, np.inf, 0.05, risk=0.1).check().value == 1
    assert np.isinf(mcallester(100, np.inf, 0.05).check().value)
    n = samples_to_reach(lambda n: mcallester(n, 100.0, 0.05, risk=0.03), 0.1)
    assert mcallester(n, 100.0, 0.05, risk=0.03).value <= 0.1 < mcallester(n - 1, 100.0, 0.05, risk=0.03).value
    fewer = samples_to_reach(lambda n: maurer_seeger(max(n, 2), 100.0, 0.05, risk=0.03), 0.1)
    assert maurer_seeger(fewer, 100.0, 0.05, risk=0.03).value <= 0.1
    assert fewer < n


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: mcallester(100, -1.0, 0.05), "kl must be zero or more"),
        (lambda: mcallester(1, 1.0, 0.05, form="classical"), "n must be at least 2"),
        (lambda: maurer_seeger(1, 1.0, 0.05), "n must be at least 2"),
        (lambda: log_moment("kl2", 10), "distance must be one of 'kl', 'square'"),
        (lambda: catoni(10, 1.0, 0.05, inverse_temperature=0.0), "inverse_temperature must be positive"),
        (lambda: gibbs_posterior(PRIOR, PHI, -1.0), "inverse_temperature must be zero or more"),
        (lambda: donsker_varadhan(POSTERIOR, 2 * PRIOR, PHI), "prior must sum to 1 over its last axis"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
