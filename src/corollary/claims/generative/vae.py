"""Variational auto-encoders where the answer is known: linear networks, which are probabilistic PCA."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_most, claim, control, equal
from corollary.generative import (
    VAE,
    GaussianDecoder,
    GaussianEncoder,
    LinearGaussian,
    elbo,
    vae_loss,
    variational_gap,
)
from corollary.nets import train


def _linear_model(vae):
    """The latent model of a decoder that is one linear layer."""
    layer = vae.decoder.network
    return LinearGaussian(layer.weight, layer.bias, jnp.exp(vae.decoder.log_variance))


def _bound(vae, x):
    """The mean of the evidence lower bound over the data, without sampling."""
    model = _linear_model(vae)
    return jnp.mean(jax.vmap(lambda x: elbo(model, vae.encoder(x), x, how="closed"))(x))


def _angle(a, b):
    """The largest principal angle between two column spaces, in degrees."""
    cosines = jnp.linalg.svd(jnp.linalg.qr(a)[0].T @ jnp.linalg.qr(b)[0], compute_uv=False)
    return jnp.degrees(jnp.arccos(jnp.clip(cosines.min(), 0, 1)))


@claim(rows=("M15.15", "T14.11", "T14.16", "M15.09", "M15.13"), full={"steps": 6000})
def linear_networks_are_probabilistic_pca(key, *, n: Size = 200, steps: Count = 2000):
    r"""A trained variational auto-encoder with linear networks reaches the maximum likelihood of probabilistic PCA.

    Data of $x=Wz+b+s\epsilon$ in $\mathbb R^5$ with two latent variables. Encoder, decoder and the decoder's variance
    are trained on samples of the bound by Adam. The posterior of a linear model is normal with a linear mean and one
    covariance, which the encoder can represent where the columns of the decoder are orthogonal; so the maximum of the
    bound is the maximum of the likelihood. It is known: $-\frac52\ln2\pi-\frac12(\sum_{i\le2}\ln\lambda_i+3\ln s^2+5)$
    for a point, with $\lambda_i$ the eigenvalues of the sample covariance and $s^2$ the mean of the last three. The
    trained bound lies below it by at most 0.01 and never above, the decoder's column space is the principal plane
    within two degrees, and the encoder's variances are those of the exact posterior. With one latent variable even the
    best decoder lies below it.
    """
    loadings = jnp.array([[2.0, 0.0], [1.0, 1.0], [0.0, 1.2], [-1.0, 0.5], [0.5, 0.0]])

    @jax.jit
    def measure(key):
        z_key, x_key, e_key, d_key, t_key = jax.random.split(key, 5)
        x = jax.random.normal(z_key, (n, 2)) @ loadings.T + 1.0 + 0.5 * jax.random.normal(x_key, (n, 5))

        vae = VAE(
            GaussianEncoder(eqx.nn.Linear(5, 4, key=e_key), 2), GaussianDecoder(eqx.nn.Linear(2, 5, key=d_key), 0.0)
        )
        run = train(
            vae,
            vae_loss(2),
            x,
            optax.adam(optax.cosine_decay_schedule(0.03, steps)),
            steps=steps,
            key=t_key,
            measure=lambda vae: _bound(vae, x),
            every=steps // 50,
        )
        vae, record = run.network, run.record
        fewer = LinearGaussian.fit(x, 1)
        short = jnp.mean(jax.vmap(fewer.log_evidence)(x))
        values = jnp.linalg.eigvalsh(jnp.cov(x.T, bias=True))[::-1]
        noise = values[2:].mean()
        best = -0.5 * (5 * jnp.log(2 * jnp.pi) + jnp.log(values[:2]).sum() + 3 * jnp.log(noise) + 5)
        model = _linear_model(vae)
        exact = jnp.diagonal(model.posterior(x[0]).covariance)
        law = vae.encoder(x[0])
        gaps = jax.vmap(lambda x: variational_gap(model, vae.encoder(x), x))(x)
        plane = LinearGaussian.fit(x, 2).decoder.weights
        return (
            best,
            record,
            record[-1],
            short,
            _angle(model.decoder.weights, plane),
            noise,
            model.decoder.variance,
            law.deviation**2,
            exact,
            gaps.mean(),
        )

    best, record, reached, short, angle, noise, variance, spread, exact, gap = measure(key)
    # what is left of the noise of the gradient at the end of a cosine of 2,000 steps: a hundredth of a nat is allowed
    yield equal("bound at the end against the maximum of the likelihood", reached, best, rtol=0, atol=0.01)
    yield at_most("bound during training against the maximum of the likelihood", record, best, rtol=1e-12)
    yield at_most("mean gap between posterior and encoder", gap, 0.01)
    yield at_most("angle to the principal plane in degrees", angle, 2.0)
    yield equal("variance of the decoder", variance, noise, rtol=0.03)
    yield equal("variances of the encoder against the posterior", spread, exact, rtol=0.05)
    yield control(
        "as many latent variables as the data have: here one",
        equal("likelihood of the best decoder", short, best, rtol=0, atol=0.01),
    )
