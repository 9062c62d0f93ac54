r"""Laws of latent variables that can be drawn, evaluated and differentiated: what an encoder returns."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.foundations import Gaussian, gaussian_kl, normal_rule


@implements("M15.11", "T14.13")
class DiagonalGaussian(eqx.Module):
    r"""$N(\mu,\mathrm{diag}\,\sigma^2)$, drawn as $\mu+\sigma\epsilon$, so that samples move with $\mu$ and $\sigma$.

    >>> float(DiagonalGaussian([1.0], [2.0]).reparametrise([0.5])[0])
    2.0
    """

    mean: jax.Array
    deviation: jax.Array

    def __init__(self, mean: Float[ArrayLike, "d"], deviation: Float[ArrayLike, "d"]):
        dims = {}
        self.mean = real("mean", mean, "d", dims)
        self.deviation = positive("deviation", real("deviation", deviation, "d", dims))

    __repr__ = shown

    def reparametrise(self, eps: Float[ArrayLike, "... _"]) -> Float[Array, "... _"]:
        r"""$\mu+\sigma\epsilon$, of this law if $\epsilon\sim N(0,I)$."""
        return self.mean + self.deviation * real("eps", eps, f"... {self.mean.size}")

    def sample(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "_ _"]:
        """Independent samples, of shape (count, d)."""
        return self.reparametrise(jax.random.normal(key, (whole("count", count), self.mean.size), self.mean.dtype))

    def log_prob(self, z: Float[ArrayLike, "... _"]) -> Float[Array, "..."]:
        """The logarithm of the density."""
        white = (real("z", z, f"... {self.mean.size}") - self.mean) / self.deviation
        return -jnp.sum(white**2 / 2 + jnp.log(self.deviation) + jnp.log(2 * jnp.pi) / 2, axis=-1)

    @implements("M15.16", "M15.38")
    def kl_to_standard(self) -> Float[Array, ""]:
        r"""$\mathrm{KL}(N(\mu,\sigma^2)|N(0,I))=\frac12\sum_k(\sigma_k^2+\mu_k^2-1-\ln\sigma_k^2)$."""
        return gaussian_kl(self.mean, self.deviation**2, jnp.zeros_like(self.mean), jnp.ones_like(self.mean))


def gaussian_rule(law: DiagonalGaussian | Gaussian, nodes: int) -> tuple[Float[Array, "_ _"], Float[Array, "_"]]:
    r"""Points (nodes^d, d) and weights whose sums are means over a normal law in one or two dimensions.

    Spectrally accurate where the function is smooth over the distance of the points, 16 standard deviations over
    `nodes`.

    >>> z, w = gaussian_rule(DiagonalGaussian([1.0], [2.0]), 41)
    >>> round(float(w @ z[:, 0] ** 2), 6)
    5.0
    """
    d = law.mean.size
    if d > 2:
        raise ValueError(f"quadrature takes latent variables of dimension 1 or 2, got {d}: use samples.")
    points, weights = (jnp.asarray(a, law.mean.dtype) for a in normal_rule(nodes, law.mean.dtype))
    grid = jnp.stack(jnp.meshgrid(*[points] * d, indexing="ij"), -1).reshape(-1, d)
    weights = weights if d == 1 else jnp.outer(weights, weights).ravel()
    if isinstance(law, DiagonalGaussian):
        return law.reparametrise(grid), weights
    return law.mean + grid @ jnp.linalg.cholesky(law.covariance).T, weights
