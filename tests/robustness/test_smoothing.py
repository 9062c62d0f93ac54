"""Smoothed networks against exact probabilities, votes in batches, and what they refuse."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from corollary.nets import train
from corollary.robustness import NoisyInput, Smoothed, certified_accuracy, vote_lower_bound

KEY = jax.random.key(0)
with jax.enable_x64(True):
    NETWORK = eqx.nn.MLP(3, 4, 8, 2, key=KEY)
X = np.random.default_rng(0).normal(size=(5, 3))


def test_votes_of_a_half_space_have_its_probability():
    x = np.array([[0.3, 1.0], [-0.2, 0.0], [0.0, 5.0]])
    found = Smoothed(lambda z: z[0], 0.5).probabilities(x, samples=20_000, key=KEY)
    p = stats.norm.cdf(x[:, 0] / 0.5)
    # five standard errors
    np.testing.assert_allclose(found[:, 1], p, atol=5 * 0.5 * 20_000**-0.5)
    np.testing.assert_allclose(found.sum(1), 1)


@pytest.mark.parametrize("batch_size", [1, 7, 60, 10_000])
def test_every_vote_is_counted_once_whatever_the_batch(batch_size):
    smoothed = Smoothed(NETWORK, 0.5)
    made = smoothed.certify(X, selection=3, samples=50, alpha=0.1, key=KEY, batch_size=batch_size)
    assert made.votes.shape == (5, 4)
    assert (made.votes.sum(1) == 50).all()


def test_more_examples_than_a_block_have_the_votes_of_their_own():
    # 70 examples are two blocks, of which the second is filled up; the noise is the same for all
    x = np.repeat(X, 14, axis=0)
    smoothed = Smoothed(NETWORK, 0.5)
    many = smoothed.probabilities(x, samples=100, key=KEY, batch_size=6400)
    np.testing.assert_array_equal(many, np.repeat(many[::14], 14, axis=0))


def test_the_radius_is_that_of_the_votes():
    made = Smoothed(NETWORK, 0.25).certify(X, samples=500, alpha=0.01, key=KEY)
    count = np.take_along_axis(np.asarray(made.votes), np.asarray(made.label)[:, None], 1)[:, 0]
    lower = np.asarray(vote_lower_bound(count, 500, 0.01))
    np.testing.assert_allclose(made.radius, np.maximum(0.25 * stats.norm.ppf(lower), 0), rtol=1e-12)
    np.testing.assert_array_equal(made.abstained, lower <= 0.5)


def test_predictions_abstain_as_the_binomial_test_does():
    smoothed = Smoothed(lambda z: z[0], 1.0)
    x = np.linspace(-1, 1, 21)[:, None]
    found = smoothed.predict(x, samples=60, alpha=0.02, key=KEY)
    first, second = np.sort(np.asarray(found.votes), 1)[:, ::-1].T
    p = [stats.binomtest(int(a), int(a + b)).pvalue for a, b in zip(first, second, strict=True)]
    np.testing.assert_array_equal(found.abstained, np.array(p) > 0.02)
    assert found.abstained.any()
    assert not found.abstained.all()


def test_abstentions_are_errors():
    x, y = np.array([[0.0], [3.0], [3.0], [-3.0]]), np.array([1, 1, -1, -1])
    found = certified_accuracy(Smoothed(lambda z: z[0], 1.0), (x, y), [0.0, 1.0, 9.0], samples=1000, key=KEY)
    assert found.certificates.abstained.tolist() == [True, False, False, False]
    np.testing.assert_allclose(found.accuracy, [0.5, 0.5, 0.0])


def test_images_and_a_network_with_residuals():
    conv = eqx.nn.Conv2d(1, 2, 3, key=KEY)
    image = lambda z: jnp.sum(jax.nn.relu(conv(z[None])), (1, 2))  # noqa: E731
    x = np.random.default_rng(1).normal(size=(3, 6, 6))
    assert (Smoothed(image, 0.1).certify(x, samples=20, alpha=0.1, key=KEY).votes.sum(1) == 20).all()
    skip = lambda z: z + jnp.tanh(z)  # noqa: E731
    assert (Smoothed(skip, 1e-6).predict(X, samples=20, alpha=0.1, key=KEY).label == X.argmax(1)).all()


def test_votes_compile_and_map_over_keys():
    radii = jax.jit(
        jax.vmap(lambda k: Smoothed(NETWORK, 0.5).certify(X, samples=50, alpha=0.1, key=k, batch_size=100).radius)
    )(jax.random.split(KEY, 3))
    assert radii.shape == (3, 5)


def test_noise_acts_with_a_key_only_and_is_trained_through():
    noisy = NoisyInput(NETWORK, 0.5)
    np.testing.assert_array_equal(noisy(X[0]), NETWORK(X[0]))
    drawn = jax.vmap(lambda k: NoisyInput(lambda z: z, 0.5)(jnp.zeros(2), key=k))(jax.random.split(KEY, 4000))
    assert float(jnp.std(drawn)) == pytest.approx(0.5, rel=0.03)
    y = np.arange(5) % 4
    made = train(noisy, "cross_entropy", (X, y), optax.sgd(0.1), steps=2, key=KEY).network
    assert isinstance(made.network, eqx.nn.MLP)
    assert made.scale == 0.5


def test_as_many_votes_as_the_sentence_asks_for_decide():
    said = Smoothed(lambda z: z[:2] * jnp.array([0.0, 1.0]), 1e-3).predict(X + 9, samples=11, key=KEY)
    assert not said.abstained.any()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Smoothed(NETWORK, 0.0), "scale must be positive"),
        (lambda: Smoothed(3, 1.0), "network must be callable"),
        (lambda: Smoothed(NETWORK, 1.0).certify(X, alpha=0.0, key=KEY), "alpha must be in"),
        (lambda: Smoothed(NETWORK, 1.0).certify(X, alpha=1.5, key=KEY), "alpha must be in"),
        (lambda: Smoothed(NETWORK, 1.0).certify(X, samples=0, key=KEY), "samples must be at least 1"),
        (lambda: Smoothed(NETWORK, 1.0).certify(X, selection=0, key=KEY), "selection must be at least 1"),
        (lambda: Smoothed(NETWORK, 1.0).certify(X, samples=9, key=KEY), "samples must be at least 10 to certify"),
        (lambda: Smoothed(NETWORK, 1.0).predict(X, samples=10, key=KEY), "samples must be at least 11 to tell two"),
        (lambda: Smoothed(NETWORK, 1.0).certify(X.astype(int), key=KEY), "to which noise can be added"),
        (lambda: Smoothed(NETWORK, 1.0).probabilities(X[:, :2], key=KEY), "network.x. failed for one example"),
        (lambda: Smoothed(lambda z: jnp.outer(z, z), 1.0).probabilities(X, key=KEY), "one number per class"),
        (lambda: NoisyInput(NETWORK, -1.0), "scale must be positive"),
        (lambda: certified_accuracy(NETWORK, (X, np.zeros(5, int)), [0.0], key=KEY), "smoothed must be a Smoothed"),
        (lambda: certified_accuracy(Smoothed(NETWORK, 1.0), (X, np.arange(5)), [0.0], key=KEY), "class from 0 to 3"),
        (lambda: certified_accuracy(Smoothed(NETWORK, 1.0), (X, np.arange(5) % 2), [-1.0], key=KEY), "radii must be"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
