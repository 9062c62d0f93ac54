r"""Variational auto-encoders: any two networks, one for $q(z|x)$ and one for $p(x|z)$, trained by `nets.fit`.

```python
vae = VAE(GaussianEncoder(encoder, latents=50), BernoulliDecoder(decoder))
trained = nets.fit(vae, vae_loss(), images, optax.adam(1e-3), steps=20_000, batch_size=100, key=key).network
```
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import concrete, real, whole
from corollary.catalog import implements
from corollary.generative.latent import LatentModel
from corollary.generative.laws import DiagonalGaussian
from corollary.network import BatchLoss


@implements("M15.13", "T14.11")
class GaussianEncoder(eqx.Module):
    r"""$q(z|x)=N(\mu(x),\sigma^2(x))$: the network returns $\mu$ and then $\ln\sigma^2$ in one array.

    Of $2d$ numbers each of the $d$ latent variables has its own variance, of $d+1$ all have one.
    """

    network: Any
    latents: int = eqx.field(static=True)

    def __init__(self, network: NetworkLike, latents: int):
        _network(network)
        self.network, self.latents = network, whole("latents", latents)

    __repr__ = shown

    def __call__(self, x: Float[ArrayLike, "..."]) -> DiagonalGaussian:
        r"""$q(\cdot|x)$ for one example."""
        out, d = jnp.ravel(self.network(x)), self.latents
        if out.size not in (d + 1, 2 * d):
            raise ValueError(
                f"the encoder's network must return {2 * d} numbers, means and log variances of {d} latent variables, "
                f"or {d + 1} with one variance for all of them, got {out.size}."
            )
        return DiagonalGaussian(out[:d], jnp.broadcast_to(jnp.exp(out[d:] / 2), (d,)))


@implements("M15.14")
class BernoulliDecoder(eqx.Module):
    r"""$p(x|z)=\prod_im_i^{x_i}(1-m_i)^{1-x_i}$, for binary $x$; the network returns the logits of $m$.

    Any other number than 0 and 1 is impossible under this law: an error where it is seen, $-\infty$ in a compiled
    program. Grey images are to be drawn as binary ones first, or to be given a `GaussianDecoder`.
    """

    network: Any

    def __init__(self, network: NetworkLike):
        _network(network)
        self.network = network

    __repr__ = shown

    def log_prob(self, x: Float[ArrayLike, "..."], z: Float[ArrayLike, "d"]) -> Float[Array, ""]:
        r"""$\ln p(x|z)=-\sum_i\ln(1+e^{\mp\text{logit}_i})$, finite for logits of any size."""
        x, logits = real("x", x), self.network(real("z", z, "d"))
        _fits(x, logits)
        self.require(x)
        binary = (x == 0) | (x == 1)
        return jnp.sum(jnp.where(binary, -jax.nn.softplus(jnp.where(x > 0, -logits, logits)), -jnp.inf))

    def require(self, x: Float[ArrayLike, "..."]) -> None:
        """One sentence for examples that this law makes impossible, where their numbers are seen."""
        if concrete(x) and (grey := (seen := np.asarray(x))[(seen != 0) & (seen != 1)]).size:
            raise ValueError(
                f"x must be binary for a Bernoulli decoder, 0 or 1 in every place, got {grey[0]}: draw binary images "
                "first, or use a GaussianDecoder."
            )

    def sample(self, z: Float[ArrayLike, "d"], *, key: PRNGKeyArray) -> Float[Array, "..."]:
        r"""One binary $x$ given $z$."""
        logits = self.network(real("z", z, "d"))
        return jax.random.bernoulli(key, jax.nn.sigmoid(logits)).astype(logits.dtype)


@implements("M15.14", "T14.11")
class GaussianDecoder(eqx.Module):
    r"""$p(x|z)=N(\mu(z),\sigma^2(z)I)$: `network` returns $\mu$; `log_variance` is $\ln\sigma^2$, number or network.

    A number is learned with the rest. A network of $z$ returns one number, or one for each place of $x$.
    """

    network: Any
    log_variance: Any

    def __init__(self, network: NetworkLike, log_variance: Scalar | Callable = 0.0):
        _network(network)
        self.network = network
        self.log_variance = log_variance if callable(log_variance) else real("log_variance", log_variance, "")

    __repr__ = shown

    def _law(self, z):
        mean = self.network(z)
        spread = self.log_variance(z) if callable(self.log_variance) else self.log_variance
        return mean, jnp.broadcast_to(spread, mean.shape)

    def log_prob(self, x: Float[ArrayLike, "..."], z: Float[ArrayLike, "d"]) -> Float[Array, ""]:
        r"""$\ln p(x|z)$."""
        x, (mean, spread) = real("x", x), self._law(real("z", z, "d"))
        _fits(x, mean)
        return -0.5 * jnp.sum((x - mean) ** 2 * jnp.exp(-spread) + spread + jnp.log(2 * jnp.pi))

    def sample(self, z: Float[ArrayLike, "d"], *, key: PRNGKeyArray) -> Float[Array, "..."]:
        r"""One $x$ given $z$."""
        mean, spread = self._law(real("z", z, "d"))
        return mean + jnp.exp(spread / 2) * jax.random.normal(key, mean.shape, mean.dtype)


@implements("M15.09", "M15.15", "T14.11", "M15.38")
class VAE(eqx.Module):
    r"""A latent model with the encoder that is trained together with it, as its approximate posterior.

    `vae.model` is the latent model, `vae.encoder(x)` the law of $z$ given $x$: what `elbo`, `importance_bound` and
    `variational_gap` take.
    """

    encoder: Any
    decoder: Any

    def __init__(self, encoder: GaussianEncoder, decoder: BernoulliDecoder | GaussianDecoder):
        if not callable(encoder) or not hasattr(encoder, "latents"):
            raise TypeError(f"encoder must be a GaussianEncoder, got {type(encoder).__name__}.")
        LatentModel(decoder, encoder.latents)
        self.encoder, self.decoder = encoder, decoder

    __repr__ = shown

    @property
    def model(self) -> LatentModel:
        """The model that the decoder makes of standard normal latent variables."""
        return LatentModel(self.decoder, self.encoder.latents)

    @implements("T14.15", "M15.08")
    def elbo(self, x: Float[ArrayLike, "..."], eps: Float[ArrayLike, "k d"]) -> Float[Array, ""]:
        r"""$\frac1k\sum_j\ln p(x|\mu+\sigma\epsilon_j)-\mathrm{KL}(N(\mu,\sigma^2)|N(0,I))$ for one example $x$."""
        law = self.encoder(x)
        z = law.reparametrise(real("eps", eps, "k d", {"d": self.encoder.latents}))
        return jnp.mean(jax.vmap(lambda z: self.decoder.log_prob(x, z))(z)) - law.kl_to_standard()


@implements("M15.15", "T14.16")
def vae_loss(samples: int = 1) -> BatchLoss:
    r"""Minus the evidence lower bound, the mean over a batch `x`, with `samples` draws of $z$ for each example.

    For `nets.fit(vae, vae_loss(), x, optimiser, key=key, …)` and `nets.train`; the draws move with the parameters of
    the encoder, so that the gradient is unbiased.
    """
    samples = whole("samples", samples)

    def on_batch(network, batch, *, key):
        _seen(network, batch)
        eps = jax.random.normal(key, (len(batch), samples, network.encoder.latents), batch.dtype)
        return -jnp.mean(jax.vmap(network.elbo)(batch, eps))

    return BatchLoss(on_batch)


def importance_loss(samples: int) -> BatchLoss:
    r"""Minus $\ln\frac1K\sum_k\frac{p(x,z_k)}{q(z_k|x)}$ with $K$ `samples` of $z$ per example, the mean over a batch.

    The objective of importance weighted auto-encoders: with one sample that of `vae_loss` in the mean, and nearer to
    the likelihood with more.
    """
    samples = whole("samples", samples)

    def on_batch(network, batch, *, key):
        _seen(network, batch)
        eps = jax.random.normal(key, (len(batch), samples, network.encoder.latents), batch.dtype)

        def one(x, eps):
            law, model = network.encoder(x), network.model
            weights = jax.vmap(lambda z: model.log_joint(x, z) - law.log_prob(z))(law.reparametrise(eps))
            return jax.nn.logsumexp(weights) - jnp.log(samples)

        return -jnp.mean(jax.vmap(one)(batch, eps))

    return BatchLoss(on_batch)


def _network(network):
    if not callable(network):
        raise TypeError(f"network must be a network of one example, got {type(network).__name__}.")


def _seen(network, batch):
    """Examples that the decoder makes impossible are seen before `vmap` hides their numbers."""
    if isinstance(network.decoder, BernoulliDecoder):
        network.decoder.require(batch)


def _fits(x, out):
    if x.shape != out.shape:
        raise ValueError(f"the decoder's network must return an array like x, got {out.shape} for x of {x.shape}.")
