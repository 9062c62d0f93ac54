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


def test_the_error_of_the_flow_is_kept_below_a_tolerance():
    exact, x = model(steps=60, last=0.9), jnp.linspace(-0.5, 2.5, 5)[:, None]
    of = lambda **given: jax.jit(jax.vmap(lambda x: exact.log_prob(x, **given)))(x)  # noqa: E731
    density = stats.norm(1, 0.5).logpdf(np.asarray(x)[:, 0])
    assert np.abs(of(steps=4) - density).max() > 1e-3
    for tolerance in (1e-3, 1e-6):
        assert np.abs(of(steps=4, tolerance=tolerance) - density).max() < tolerance
    assert np.isnan(of(steps=1, tolerance=1e-15)).any()  # 256 steps do not reach it


def test_sentences():
    with pytest.raises(ValueError, match=r"alphas must be in \(0, 1\), got 1.2 at index 1"):
        Schedule([0.5, 1.2])
    with pytest.raises(ValueError, match="steps must be more than 20, or last must be given, got 10"):
        Schedule.linear(10)
    with pytest.raises(ValueError, match=r"last must be in \(0, 1\), got 2.0"):
        Schedule.linear(10, last=2.0)
    with pytest.raises(ValueError, match=r"first must be in \(0, 1\), got -0.1"):
        Schedule.linear(30, first=-0.1)
    with pytest.raises(ValueError, match=r"largest must be in \(0, 1\), got 1.0"):
        Schedule.cosine(10, largest=1.0)
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


class Classes(eqx.Module):
    """The exact denoisers of N(-1, 1/4) and N(3, 1/4), and without a class of their mixture."""

    def __call__(self, given):
        x, level, *label = given
        one = lambda m: MixtureDenoiser(GaussianMixture([1.0], [[m]], [[[0.25]]]))((x, level))  # noqa: E731
        both = MixtureDenoiser(GaussianMixture([0.5, 0.5], [[-1.0], [3.0]], [[[0.25]], [[0.25]]]))((x, level))
        label = label[0] if label else -1
        return jnp.where(label < 0, both, jnp.where(label == 0, one(-1.0), one(3.0)))


def test_classes():
    exact = DiffusionModel(Classes(), Schedule.linear(60, last=0.9), 1)
    labels = np.array([0, 1] * 500)
    x = jax.jit(lambda key: exact.sample(1000, labels=labels, key=key))(KEY)[:, 0]
    for label, mean in ((0, -1.0), (1, 3.0)):
        of_class = x[labels == label]
        np.testing.assert_allclose(of_class.mean(), mean, atol=0.15)
        np.testing.assert_allclose(of_class.std(), 0.5, atol=0.1)
    found = jax.jit(jax.vmap(lambda label: exact.log_prob([2.5], steps=300, label=label)))(np.array([1, -1]))
    expected = stats.norm(3, 0.5).logpdf(2.5)
    np.testing.assert_allclose(found, [expected, expected - np.log(2)], atol=1e-5)  # the other half is far away
    alone = DiffusionModel(MixtureDenoiser(GaussianMixture([1.0], [[3.0]], [[[0.25]]])), exact.schedule, 1)
    eps = np.array([[0.3], [-1.0]])
    np.testing.assert_allclose(exact.bound([2.5], eps, label=1).total, alone.bound([2.5], eps).total, rtol=1e-10)


def test_labels_are_dropped():
    says_its_label = DiffusionModel(lambda given: 1.0 * given[2] + 0 * given[0], Schedule([0.5]), 1)
    batch = jnp.zeros((4000, 1)), jnp.zeros(4000, int)
    none, all_, some = (float(diffusion_loss(dropped=d)(says_its_label, batch, key=KEY)) for d in (0.0, 1.0, 0.25))
    # the loss is (noise - label)^2, 1 in the mean for the class 0, and 2 for -1
    assert none == pytest.approx(1.0, abs=0.1)
    assert all_ == pytest.approx(2.0, abs=0.15)
    assert some == pytest.approx(1.25, abs=0.12)


def test_the_bound_of_a_cell():
    exact = DiffusionModel(model().network, Schedule([0.36, 0.8]), 1)
    x, eps = np.array([0.7]), np.array([[0.2], [-1.1]])
    bound, density = exact.bound(x, eps, cell=0.3), exact.bound(x, eps)
    noisy = 0.6 * x + 0.8 * eps[:, 0]
    guess = np.array([float(exact.network((jnp.array([v]), 0.36))[0]) for v in noisy])
    law = stats.norm((noisy - 0.64 / 0.8 * guess) / 0.6, 0.8)
    assert float(bound.first) == pytest.approx(-np.log(law.cdf(0.85) - law.cdf(0.55)).mean())
    np.testing.assert_allclose(bound.steps, density.steps)
    far = exact.bound(np.array([60.0]), eps, cell=1e-3)  # far in a tail, and finite
    assert np.isfinite(float(far.first))


def test_the_density_of_noised_examples_and_by_probes():
    exact, t = model(60, last=0.9), 7
    level = float(exact.schedule.levels()[t])
    law = stats.norm(level**0.5, (0.25 * level + 1 - level) ** 0.5)
    found = jax.jit(lambda x: exact.log_prob(x, t=t, steps=300))(np.array([0.2]))
    assert float(found) == pytest.approx(law.logpdf(0.2), abs=1e-6)
    # in one dimension a random sign finds the divergence without error
    probed = jax.jit(lambda x: exact.log_prob(x, t=t, steps=300, probes=[[1.0], [-1.0]]))(np.array([0.2]))
    assert float(probed) == pytest.approx(float(found), abs=1e-9)
    mixture = GaussianMixture([1.0], [[0.0, 1.0]], [[[0.5, 0.3], [0.3, 0.4]]])
    wide = DiffusionModel(MixtureDenoiser(mixture), exact.schedule, 2)
    signs = np.array([[1.0, 1.0], [1.0, -1.0]])  # over both the off-diagonal entries cancel
    x = np.array([0.3, 0.8])
    density = stats.multivariate_normal([0.0, 1.0], [[0.5, 0.3], [0.3, 0.4]]).logpdf(x)
    assert float(wide.log_prob(x, probes=signs, steps=500)) == pytest.approx(density, abs=1e-5)


def test_sentences_on_classes():
    with pytest.raises(ValueError, match="labels must be 2 whole numbers, one for each sample"):
        model().sample(2, labels=[1, 2, 3], key=KEY)
    with pytest.raises(ValueError, match=r"probes must have shape \(k, 1\)"):
        model().log_prob([1.0], probes=[[1.0, 2.0]])
    with pytest.raises(ValueError, match="t must be from 0 to 59, got 60"):
        model().log_prob([1.0], t=60)
    with pytest.raises(ValueError, match="tolerance must be positive"):
        model().log_prob([1.0], tolerance=0.0)
    with pytest.raises(ValueError, match="log_prob does not settle within tolerance=1e-30 in 256 steps: -"):
        model().log_prob([1.0], steps=1, tolerance=1e-30)
    with pytest.raises(ValueError, match="cell must be"):
        model().bound([1.0], [[1.0]], cell=0.0)
    with pytest.raises(ValueError, match=r"dropped must be in \[0, 1\], got 2"):
        diffusion_loss(dropped=2.0)
