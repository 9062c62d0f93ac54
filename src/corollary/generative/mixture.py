r"""Mixtures of Gaussians: a latent component, then a normal variable; and one with given quantiles."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.foundations import Discrete


@implements("T14.02", "T14.03")
class GaussianMixture(eqx.Module):
    r"""$p(x)=\sum_h\rho_hN(x;\mu_h,\Sigma_h)$: `weights` (k,), `means` (k, d) and `covariances` (k, d, d).

    >>> crabs = GaussianMixture([0.4, 0.6], [[0.0], [3.0]], [[[1.0]], [[1.0]]])
    >>> [round(float(p), 2) for p in crabs.responsibilities([1.0])]
    [0.75, 0.25]
    """

    weights: jax.Array
    means: jax.Array
    covariances: jax.Array

    def __init__(
        self,
        weights: Float[ArrayLike, "k"],
        means: Float[ArrayLike, "k d"],
        covariances: Float[ArrayLike, "k d d"],
    ):
        dims = {}
        self.weights, self.means = real("weights", weights, "k", dims), real("means", means, "k d", dims)
        self.covariances = real("covariances", covariances, "k d d", dims)
        Discrete(jnp.zeros_like(self.weights), self.weights)  # weights that are no law: a sentence

    __repr__ = shown

    def log_joint(self, x: Float[ArrayLike, "_"]) -> Float[Array, "_"]:
        r"""$\ln\rho_hN(x;\mu_h,\Sigma_h)$ for each component, at one point."""
        x = real("x", x, str(self.means.shape[1]))
        whitening = _whitening(self.covariances)
        white = jnp.einsum("kij,kj->ki", whitening, x - self.means)
        logdet = jnp.sum(jnp.log(jnp.diagonal(whitening, axis1=1, axis2=2)), -1)
        return jnp.log(self.weights) - 0.5 * (jnp.sum(white**2, -1) + x.size * jnp.log(2 * jnp.pi)) + logdet

    def log_prob(self, x: Float[ArrayLike, "_"]) -> Float[Array, ""]:
        r"""$\ln p(x)$ at one point."""
        return logsumexp(self.log_joint(x))

    def responsibilities(self, x: Float[ArrayLike, "_"]) -> Float[Array, "_"]:
        r"""$p(h|x)$, the posterior of the component."""
        return jax.nn.softmax(self.log_joint(x))

    def sample(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "_ _"]:
        """Independent samples, of shape (count, d)."""
        h_key, x_key = jax.random.split(key)
        h = jax.random.categorical(h_key, jnp.log(self.weights), shape=(whole("count", count),))
        noise = jax.random.normal(x_key, (len(h), self.means.shape[1]), self.means.dtype)
        return self.means[h] + jnp.einsum("nij,nj->ni", lax.map(jnp.linalg.cholesky, self.covariances)[h], noise)

    def encode(self, x: Float[ArrayLike, "_"], *, key: PRNGKeyArray) -> Array:
        r"""A component $h\sim p(h|x)$; decoded it is one sweep of Gibbs' sampler, of the law of $x$ again."""
        return jax.random.categorical(key, self.log_joint(x))

    def decode(self, h: ArrayLike, *, key: PRNGKeyArray) -> Float[Array, "_"]:
        r"""One $x$ of component $h$."""
        noise = jax.random.normal(key, self.means.shape[1:], self.means.dtype)
        return self.means[h] + jnp.linalg.cholesky(self.covariances[h]) @ noise


def _whitening(covariances):
    """The inverses of the Cholesky factors, one by one: batches of them can block each other in one program."""
    identity = jnp.eye(covariances.shape[-1], dtype=covariances.dtype)
    return lax.map(lambda c: solve_triangular(jnp.linalg.cholesky(c), identity, lower=True), covariances)


@implements("T14.12")
def mixture_from_quantiles(quantile: Callable, count: int, deviation: Scalar) -> GaussianMixture:
    r"""`count` equal Gaussians of this deviation at the quantiles $\frac{i-1/2}k$ of a law on the line.

    As the deviation goes to 0 its distribution function is a staircase within $\frac1{2k}$ of that of the law.
    """
    count, deviation = whole("count", count), positive("deviation", real("deviation", deviation, ""))
    if not callable(quantile):
        raise TypeError(f"quantile must be the inverse of a distribution function, got {type(quantile).__name__}.")
    means = jax.vmap(quantile)((jnp.arange(count) + 0.5) / count)[:, None]
    return GaussianMixture(jnp.full(count, 1 / count), means, jnp.full((count, 1, 1), deviation**2))
