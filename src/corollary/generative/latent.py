r"""Models with latent variables: $z\sim N(0,I)$ first and $x$ given $z$ then; the linear one in closed form."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole
from corollary.catalog import implements
from corollary.foundations import Gaussian
from corollary.generative.laws import DiagonalGaussian, gaussian_rule


@implements("M15.05", "T14.03")
class LatentModel(eqx.Module):
    r"""$z\sim N(0,I)$ of dimension `latents`, then $x\sim p(x|z)$, the law that `decoder` has for it.

    A decoder has `log_prob(x, z)` and `sample(z, key=key)`, as `BernoulliDecoder` and `GaussianDecoder` do.
    """

    decoder: Any
    latents: int = eqx.field(static=True)

    def __init__(self, decoder: Any, latents: int):
        if not (hasattr(decoder, "log_prob") and hasattr(decoder, "sample")):
            raise TypeError(f"decoder must have log_prob(x, z) and sample(z, key=key), got {type(decoder).__name__}.")
        self.decoder, self.latents = decoder, whole("latents", latents)

    __repr__ = shown

    def prior(self) -> DiagonalGaussian:
        r"""The law of $z$ before $x$ is seen."""
        return DiagonalGaussian(jnp.zeros(self.latents), jnp.ones(self.latents))

    def log_joint(self, x: Float[ArrayLike, "..."], z: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        r"""$\ln p(x,z)=\ln p(x|z)+\ln p(z)$."""
        return self.decoder.log_prob(x, z) + self.prior().log_prob(z)

    def sample(self, count: int, *, key: PRNGKeyArray) -> tuple[Float[Array, "_ _"], Float[Array, "_ ..."]]:
        r"""Pairs $(z,x)$ of the joint law: `z` (count, latents) and `x` (count, ...)."""
        z_key, x_key = jax.random.split(key)
        z = self.prior().sample(count, key=z_key)
        return z, jax.vmap(lambda z, key: self.decoder.sample(z, key=key))(z, jax.random.split(x_key, len(z)))

    def log_evidence(self, x: Float[ArrayLike, "..."], *, nodes: int = 400) -> Float[Array, ""]:
        r"""$\ln p(x)=\ln\int p(x|z)p(z)\,dz$ by quadrature, of one or two latent variables.

        The points lie 16 / `nodes` apart: $p(x|z)$ must not be much narrower than that as a function of $z$.
        """
        z, weights = gaussian_rule(self.prior(), nodes)
        return logsumexp(jax.vmap(lambda z: self.decoder.log_prob(x, z))(z), b=weights)


class LinearDecoder(eqx.Module):
    r"""$x|z\sim N(Wz+b,s^2I)$."""

    weights: jax.Array
    bias: jax.Array
    variance: jax.Array

    def log_prob(self, x: Float[ArrayLike, "_"], z: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        r"""$\ln p(x|z)$."""
        apart = real("x", x, str(self.bias.size)) - self.bias - self.weights @ real("z", z, str(self.weights.shape[1]))
        return -0.5 * (apart @ apart / self.variance + apart.size * jnp.log(2 * jnp.pi * self.variance))

    def sample(self, z: Float[ArrayLike, "_"], *, key: PRNGKeyArray) -> Float[Array, "_"]:
        r"""One $x$ given $z$."""
        noise = jnp.sqrt(self.variance) * jax.random.normal(key, self.bias.shape, self.bias.dtype)
        return self.weights @ real("z", z, str(self.weights.shape[1])) + self.bias + noise


@implements("M15.05", "T14.03")
class LinearGaussian(LatentModel):
    r"""$z\sim N(0,I)$, $x|z\sim N(Wz+b,s^2I)$: evidence and posterior in closed form; probabilistic PCA.

    `weights` (n, d) is $W$, `bias` (n,) is $b$ and `variance` is $s^2$. Then $p(x)=N(b,WW^\top+s^2I)$ and
    $p(z|x)=N(SW^\top(x-b)/s^2,S)$ with $S=(I+W^\top W/s^2)^{-1}$.

    >>> model = LinearGaussian([[1.0]], [0.0], 1.0)
    >>> float(model.posterior([2.0]).mean[0]), float(model.marginal().covariance[0, 0])
    (1.0, 2.0)
    """

    def __init__(self, weights: Float[ArrayLike, "n d"], bias: Float[ArrayLike, "n"], variance: Scalar):
        dims = {}
        weights, bias = real("weights", weights, "n d", dims), real("bias", bias, "n", dims)
        variance = positive("variance", real("variance", variance, ""))
        self.decoder, self.latents = LinearDecoder(weights, bias, variance), weights.shape[1]

    @classmethod
    def fit(cls, x: Float[ArrayLike, "n d"], latents: int) -> "LinearGaussian":
        r"""The maximum of the likelihood in closed form: probabilistic PCA.

        $W=U(\Lambda-s^2I)^{1/2}$ of the leading eigenpairs of the covariance, $s^2$ the mean of the other eigenvalues.
        """
        x = real("x", x, "n d")
        latents = whole("latents", latents, 1, x.shape[1] - 1)
        bias = x.mean(0)
        values, axes = jnp.linalg.eigh((x - bias).T @ (x - bias) / x.shape[0])
        variance = jnp.mean(values[:-latents])
        if concrete(variance) and not np.asarray(variance) > 0:
            raise ValueError(f"x lies in a space of dimension {latents} or less: the likelihood has no maximum.")
        weights = axes[:, : -latents - 1 : -1] * jnp.sqrt(jnp.maximum(values[: -latents - 1 : -1] - variance, 0))
        return cls(weights, bias, variance)

    def marginal(self) -> Gaussian:
        r"""The law of $x$, $N(b,WW^\top+s^2I)$."""
        d = self.decoder
        return Gaussian(d.bias, d.weights @ d.weights.T + d.variance * jnp.eye(d.bias.size))

    def log_evidence(self, x: Float[ArrayLike, "_"], *, nodes: int | None = None) -> Float[Array, ""]:
        r"""$\ln p(x)$, exactly; there is nothing for `nodes` to do."""
        del nodes
        return self.marginal().log_prob(x)

    def posterior(self, x: Float[ArrayLike, "_"]) -> Gaussian:
        r"""$p(z|x)$."""
        d = self.decoder
        precision = jnp.eye(self.latents) + d.weights.T @ d.weights / d.variance
        covariance = jnp.linalg.inv(precision)
        mean = jnp.linalg.solve(precision, d.weights.T @ (real("x", x, str(d.bias.size)) - d.bias) / d.variance)
        return Gaussian(mean, (covariance + covariance.T) / 2)

    @implements("T14.03")
    def encode(self, x: Float[ArrayLike, "_"], *, key: PRNGKeyArray) -> Float[Array, "_"]:
        r"""One $z$ of the posterior; decoded it is one sweep of Gibbs' sampler, of the law of $x$ again."""
        return self.posterior(x).sample(1, key=key)[0]
