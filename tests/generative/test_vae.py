"""Encoders and decoders against SciPy, laws that sum to one, and one training through `nets.fit`."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from corollary import nets
from corollary.generative import (
    VAE,
    BernoulliDecoder,
    GaussianDecoder,
    GaussianEncoder,
    elbo,
    importance_bound,
    importance_loss,
    vae_loss,
)

KEY = jax.random.key(0)
Z = jnp.array([0.4, -1.0])


def test_the_encoder_reads_means_and_log_variances():
    law = GaussianEncoder(lambda x: jnp.array([1.0, 2.0, 0.0, np.log(9.0)]), 2)(jnp.zeros(3))
    np.testing.assert_allclose([law.mean, law.deviation], [[1, 2], [1, 3]])
    law = GaussianEncoder(lambda x: jnp.array([1.0, 2.0, np.log(4.0)]), 2)(jnp.zeros(3))
    np.testing.assert_allclose(law.deviation, [2, 2])
    with pytest.raises(ValueError, match="must return 4 numbers"):
        GaussianEncoder(lambda x: jnp.zeros(5), 2)(jnp.zeros(3))


def test_binary_laws_sum_to_one_and_do_not_overflow():
    decoder = BernoulliDecoder(lambda z: jnp.array([z[0], z[1], 0.3]))
    every = np.array([*itertools.product([0.0, 1.0], repeat=3)])
    assert sum(np.exp(float(decoder.log_prob(x, Z))) for x in every) == pytest.approx(1)
    far = BernoulliDecoder(lambda z: jnp.array([500.0, -500.0]))
    assert float(far.log_prob([1.0, 0.0], Z)) == pytest.approx(0, abs=1e-200)
    assert float(far.log_prob([0.0, 1.0], Z)) == -1000
    with pytest.raises(ValueError, match=r"x must be binary for a Bernoulli decoder.* got 0.5"):
        far.log_prob([0.5, 1.0], Z)
    assert float(jax.jit(far.log_prob)(jnp.array([0.5, 1.0]), Z)) == -np.inf
    with pytest.raises(ValueError, match="must return an array like x"):
        far.log_prob([1.0], Z)


@pytest.mark.parametrize("log_variance", [np.log(0.3), lambda z: jnp.log(jnp.array([0.3]))])
def test_normal_laws(log_variance):
    decoder = GaussianDecoder(lambda z: 2 * z, log_variance)
    exact = stats.norm(2 * np.asarray(Z), np.sqrt(0.3)).logpdf([0.1, 0.2]).sum()
    assert float(decoder.log_prob([0.1, 0.2], Z)) == pytest.approx(exact)
    assert decoder.sample(Z, key=KEY).shape == (2,)


def test_the_loss_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    encoder, decoder = (eqx.nn.Linear(m, n, key=KEY, dtype=float) for m, n in ((6, 4), (2, 6)))
    x, eps = jax.random.bernoulli(KEY, 0.5, (3, 6)).astype(float), jax.random.normal(KEY, (3, 1, 2))
    vae = VAE(GaussianEncoder(encoder, 2), BernoulliDecoder(decoder))
    tensor = lambda a: torch.tensor(np.asarray(a))  # noqa: E731
    linear = lambda layer, x: torch.nn.functional.linear(x, tensor(layer.weight), tensor(layer.bias))  # noqa: E731
    mean, log_variance = linear(encoder, tensor(x)).split(2, 1)
    logits = linear(decoder, mean + (log_variance / 2).exp() * tensor(eps[:, 0]))
    missed = torch.nn.functional.binary_cross_entropy_with_logits(logits, tensor(x), reduction="none").sum(1)
    law = torch.distributions.Normal(mean, (log_variance / 2).exp())
    apart = torch.distributions.kl_divergence(law, torch.distributions.Normal(0.0, 1.0)).sum(1)
    np.testing.assert_allclose(-jax.vmap(vae.elbo)(x, eps), missed + apart, rtol=1e-12)


def test_training_raises_the_bound():
    x = jax.random.bernoulli(KEY, 0.5, (64, 1)).astype(float) * jnp.ones(6)  # all on or all off
    vae = VAE(
        GaussianEncoder(eqx.nn.Linear(6, 2, key=KEY, dtype=float), 1),
        BernoulliDecoder(eqx.nn.Linear(1, 6, key=KEY, dtype=float)),
    )
    run = nets.fit(vae, vae_loss(2), x, optax.adam(0.1), steps=120, batch_size=32, key=KEY, progress=False)
    assert run.losses[-10:].mean() < 0.4 * run.losses[0]  # 6 ln 2 of coins, ln 2 at best
    law = run.network.encoder(x[0])
    bound = elbo(run.network.model, law, x[0], how="quadrature")
    eps = jax.random.normal(KEY, (4000, 1))
    assert float(run.network.elbo(x[0], eps)) == pytest.approx(float(bound), abs=0.05)
    _, drawn = run.network.model.sample(5, key=KEY)
    assert drawn.shape == (5, 6)


def test_the_importance_loss_is_minus_the_mean_of_the_bounds():
    vae = VAE(
        GaussianEncoder(eqx.nn.Linear(3, 2, key=KEY, dtype=float), 1),
        GaussianDecoder(eqx.nn.Linear(1, 3, key=KEY, dtype=float)),
    )
    x = jnp.array([[0.3, 0.1, -1.0]])
    keys = jax.random.split(KEY, 2000)
    found = jax.jit(jax.vmap(lambda key: importance_loss(5)(vae, x, key=key)))(keys)
    bound = jax.jit(jax.vmap(lambda key: importance_bound(vae.model, vae.encoder(x[0]), x[0], 5, key=key)))(keys[::-1])
    spread = float(np.std(found) + np.std(bound))
    assert -float(np.mean(found)) == pytest.approx(float(np.mean(bound)), abs=6 * spread / 2000**0.5)
    assert -np.mean(found) < float(vae.model.log_evidence(x[0]))


@pytest.mark.parametrize("loss", [vae_loss(), importance_loss(3)])
def test_grey_images_are_seen_before_training(loss):
    network = eqx.nn.Linear(2, 2, key=KEY, dtype=float)
    vae, grey = (
        VAE(GaussianEncoder(network, 1), BernoulliDecoder(lambda z: network(jnp.tile(z, 2)))),
        jnp.full((4, 2), 0.5),
    )
    with pytest.raises(ValueError, match="x must be binary for a Bernoulli decoder, .* got 0.5"):
        loss(vae, grey, key=KEY)
    with pytest.raises(FloatingPointError, match="not finite at step 0; it is so before the first, with these data"):
        nets.fit(vae, loss, grey, optax.adam(0.1), steps=2, key=KEY, progress=False)


def test_sentences():
    with pytest.raises(TypeError, match="encoder must be a GaussianEncoder"):
        VAE(jnp.tanh, BernoulliDecoder(jnp.tanh))
    with pytest.raises(TypeError, match="network must be a network of one example"):
        BernoulliDecoder(3.0)
