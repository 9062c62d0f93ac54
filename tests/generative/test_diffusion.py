"""Schedules, noise and bounds against closed forms of normal laws, and one training through `nets.fit`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from corollary import nets
from corollary.generative import (
    DiffusionModel,
    GaussianMixture,
    MixtureDenoiser,
    Schedule,
    diffusion_loss,
    noise_path,
    noised,
)

KEY = jax.random.key(0)


def model(steps=60, last=None):
    """The best denoiser of N(1, 1/4) on the line."""
    mixture = GaussianMixture([1.0], [[1.0]], [[[0.25]]])
    return DiffusionModel(MixtureDenoiser(mixture), Schedule.linear(steps, last=last), 1)


def test_schedules():
    np.testing.assert_allclose(1 - Schedule.linear(1000).alphas[jnp.array([0, -1])], [1e-4, 0.02], rtol=1e-12)
    levels = Schedule.cosine(50).levels()
    angle = (np.arange(50) / 50 + 0.008) / 1.008 * np.pi / 2
    np.testing.assert_allclose(levels[:-1], np.cos(angle) ** 2 / np.cos(angle[0]) ** 2, rtol=1e-10)
    np.testing.assert_allclose(Schedule.linear(100).strided(5).levels(), Schedule.linear(100).levels()[::20])


def test_noise_step_by_step_and_at_once():
    schedule, rng = Schedule([0.9, 0.5, 0.7]), np.random.default_rng(0)
    x, eps = rng.normal(size=(2, 2)), rng.normal(size=(3, 2, 2))
    expected = [x]
    for alpha, z in zip([0.9, 0.5, 0.7], eps, strict=True):
        expected.append(alpha**0.5 * expected[-1] + (1 - alpha) ** 0.5 * z)
    np.testing.assert_allclose(noise_path(x, eps, schedule), expected, rtol=1e-12)
    drawn = jax.jit(jax.vmap(lambda key: noised(x[0], 2, schedule, key=key)))(jax.random.split(KEY, 2000))
    np.testing.assert_allclose(drawn.mean(0), 0.45**0.5 * x[0], atol=6 * (0.55 / 2000) ** 0.5)
    np.testing.assert_allclose(drawn.var(0), 0.55, atol=6 * 0.55 * (2 / 2000) ** 0.5)
    np.testing.assert_array_equal(noised(x, 0, schedule, key=KEY), x)


def test_the_best_denoiser_of_a_normal_law_is_linear():
    denoiser = MixtureDenoiser(GaussianMixture([1.0], [[1.0]], [[[0.25]]]))
    level, x = 0.3, 0.4
    slope = (1 - level) ** 0.5 / (level * 0.25 + 1 - level)
    assert float(denoiser((jnp.array([x]), level))[0]) == pytest.approx(slope * (x - level**0.5))


def test_samples_have_the_law_of_the_reverse_steps():
    """All steps are affine: mean and variance go down by hand."""
    exact, steps = model(), 12
    levels = np.asarray(exact.schedule.strided(steps).levels())
    mean, variance = 0.0, 1.0
    for t in range(steps, 0, -1):
        alpha, beta = levels[t] / levels[t - 1], 1 - levels[t] / levels[t - 1]
        slope = 1 / (levels[t] * 0.25 + 1 - levels[t])
        a = (1 - beta * slope) / alpha**0.5
        mean, variance = a * mean + beta * slope * levels[t] ** 0.5 / alpha**0.5, a**2 * variance
        variance += (1 - levels[t - 1]) / (1 - levels[t]) * beta
    x = jax.jit(lambda key: exact.sample(4000, steps=steps, key=key))(KEY)[:, 0]
    assert stats.kstest(x, stats.norm(mean, variance**0.5).cdf).pvalue > 1e-6


def test_the_bound_of_one_step():
    exact = DiffusionModel(model().network, Schedule([0.36]), 1)
    x, eps = np.array([0.7]), np.array([[0.2], [-1.1]])
    bound = exact.bound(x, eps)
    assert bound.steps.shape == (0,)
    q_mean, q_var = 0.6 * 0.7, 0.64
    assert float(bound.prior) == pytest.approx(0.5 * (q_var + q_mean**2 - 1 - np.log(q_var)))
    noisy = 0.6 * x + 0.8 * eps[:, 0]
    guess = np.array([float(exact.network((jnp.array([v]), 0.36))[0]) for v in noisy])
    centre = (noisy - 0.64 / 0.8 * guess) / 0.6
    assert float(bound.first) == pytest.approx(-stats.norm.logpdf(0.7, centre, 0.8).mean())
    assert float(bound.total) == pytest.approx(float(bound.prior + bound.first))


def test_the_density_of_the_flow():
    exact = model(60, last=0.9)
    x = np.array([[0.2], [1.0], [2.5]])
    found = jax.jit(jax.vmap(lambda x: exact.log_prob(x, steps=500)))(x)
    np.testing.assert_allclose(found, stats.norm(1, 0.5).logpdf(x[:, 0]), atol=1e-6)


class Small(eqx.Module):
    mlp: eqx.nn.MLP

    def __call__(self, pair):
        return self.mlp(jnp.concatenate([pair[0], jnp.sqrt(pair[1])[None]]))


def test_training():
    x = 2.0 + 0.1 * jax.random.normal(KEY, (256, 1))
    start = DiffusionModel(Small(eqx.nn.MLP(2, 1, 16, 1, key=KEY, dtype=float)), Schedule.linear(40), 1)
    run = nets.fit(start, diffusion_loss(), x, optax.adam(0.02), steps=150, batch_size=128, key=KEY, progress=False)
    assert run.losses[-20:].mean() < 0.5 * run.losses[0]
    np.testing.assert_array_equal(run.network.schedule.alphas, start.schedule.alphas)


def test_sentences():
    with pytest.raises(ValueError, match=r"alphas must be in \(0, 1\), got 1.2 at index 1"):
        Schedule([0.5, 1.2])
    with pytest.raises(ValueError, match=r"last must be in \(0, 1\), got 2.0"):
        Schedule.linear(10)
    with pytest.raises(TypeError, match="schedule must be a Schedule, got float"):
        noised([1.0], 0, 0.5, key=KEY)
    with pytest.raises(ValueError, match="t must be from 0 to 2, got 3"):
        noised([1.0], 3, Schedule([0.5, 0.5]), key=KEY)
    with pytest.raises(ValueError, match=r"eps must have shape \(2, 1\)"):
        noise_path([1.0], [[1.0]], Schedule([0.5, 0.5]))
    with pytest.raises(TypeError, match="network must be a network of one example"):
        DiffusionModel(3.0, Schedule([0.5]), 1)
    with pytest.raises(ValueError, match=r"the network must return noise of shape \(1,\)"):
        DiffusionModel(lambda pair: jnp.zeros(2), Schedule([0.5]), 1).log_prob([1.0])
    with pytest.raises(ValueError, match=r"x must be one example of shape \(1,\)"):
        model().log_prob([1.0, 2.0])
    with pytest.raises(ValueError, match=r"eps must have shape \(k, 1\)"):
        model().bound([1.0], [1.0, 2.0])
    with pytest.raises(TypeError, match="mixture must be a GaussianMixture"):
        MixtureDenoiser(0.5)
