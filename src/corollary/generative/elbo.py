r"""The evidence lower bound, what it leaves out, and the tighter bound of several samples.

A posterior is a law of $z$ with `log_prob(z)` and `sample(count, key=key)`: a `DiagonalGaussian`, a `Gaussian`, a
`GaussianMixture`; of a `GaussianMixture` as a model, whose latent variable is a component, it is a vector of
probabilities.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import entr, logsumexp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import one_of, real, whole
from corollary.catalog import implements
from corollary.foundations import Gaussian, kl
from corollary.generative.latent import LatentModel, LinearGaussian
from corollary.generative.laws import DiagonalGaussian, gaussian_rule
from corollary.generative.mixture import GaussianMixture


@implements("M15.07", "M15.08", "T14.09", "T14.15")
def elbo(
    model: LatentModel | GaussianMixture,
    posterior: Any,
    x: Float[ArrayLike, "..."],
    *,
    how: Literal["closed", "quadrature", "sample"],
    nodes: int = 80,
    samples: int | None = None,
    key: PRNGKeyArray | None = None,
) -> Float[Array, ""]:
    r"""$\mathbb E_q[\ln p(x,z)-\ln q(z)]\le\ln p(x)$ for one example `x`, with $q$ the `posterior`.

    `"closed"` is $\mathbb E_q\ln p(x|z)-\mathrm{KL}(q|p(z))$ of a `LinearGaussian` and a normal posterior, and the sum
    over the components of a `GaussianMixture`. `"quadrature"` is for one or two latent variables, on `nodes` points
    for each and each normal part of the posterior. `"sample"` is the mean over `samples` draws.

    >>> model = LinearGaussian([[1.0]], [0.0], 1.0)
    >>> q = DiagonalGaussian([1.0], [0.5**0.5])  # the posterior itself at x = 2
    >>> bool(abs(elbo(model, q, [2.0], how="closed") - model.log_evidence([2.0])) < 1e-6)
    True
    """
    one_of("how", how, ("closed", "quadrature", "sample"))
    if how == "closed":
        return _closed(model, posterior, x)
    if not isinstance(model, LatentModel):
        raise TypeError(f"how={how!r} needs a LatentModel, got {type(model).__name__}.")
    weight = lambda z: model.log_joint(x, z) - posterior.log_prob(z)  # noqa: E731
    if how == "quadrature":
        z, weights = posterior_rule(posterior, nodes)
        return weights @ jax.vmap(weight)(z)
    if samples is None or key is None:
        raise TypeError('how="sample" needs the number of samples and a key.')
    return jnp.mean(jax.vmap(weight)(posterior.sample(whole("samples", samples), key=key)))


def importance_bound(
    model: LatentModel, posterior: Any, x: Float[ArrayLike, "..."], samples: int, *, key: PRNGKeyArray
) -> Float[Array, ""]:
    r"""$\ln\frac1K\sum_k\frac{p(x,z_k)}{q(z_k)}$ with $z_k\sim q$, below $\ln p(x)$ in the mean.

    With one sample the mean is the ELBO; it never falls as samples are added, and tends to the evidence.
    """
    if not isinstance(model, LatentModel):
        raise TypeError(f"model must be a LatentModel, got {type(model).__name__}.")
    z = posterior.sample(whole("samples", samples), key=key)
    weights = jax.vmap(lambda z: model.log_joint(x, z) - posterior.log_prob(z))(z)
    return logsumexp(weights) - jnp.log(len(z))


@implements("M15.06", "M15.07", "T14.09")
def variational_gap(
    model: LatentModel | GaussianMixture, posterior: Any, x: Float[ArrayLike, "..."], *, nodes: int = 400
) -> Float[Array, ""]:
    r"""$\mathrm{KL}(q(z)|p(z|x))$ for one example: what the ELBO of $q$ leaves of the evidence.

    Of a `LinearGaussian` and normal laws, and of a mixture, the relative entropy of two laws in closed form; else by
    quadrature over one or two latent variables.
    """
    if isinstance(model, GaussianMixture):
        return kl(posterior, model.responsibilities(x))
    if isinstance(model, LinearGaussian) and isinstance(posterior, DiagonalGaussian | Gaussian):
        return _gaussian(posterior).kl(model.posterior(x))
    z, weights = posterior_rule(posterior, nodes)
    exact = jax.vmap(lambda z: model.log_joint(x, z))(z) - model.log_evidence(x, nodes=nodes)
    return weights @ (jax.vmap(posterior.log_prob)(z) - exact)


def _gaussian(law):
    return Gaussian(law.mean, jnp.diag(law.deviation**2)) if isinstance(law, DiagonalGaussian) else law


def _closed(model, posterior, x):
    if isinstance(model, GaussianMixture):
        q = real("posterior", posterior, "k", {"k": model.weights.size})
        joint = model.log_joint(x)
        return jnp.sum(jnp.where(q > 0, q * jnp.where(q > 0, joint, 0), 0) + entr(q))
    if not (isinstance(model, LinearGaussian) and isinstance(posterior, DiagonalGaussian | Gaussian)):
        raise TypeError(
            'how="closed" takes a LinearGaussian with a normal posterior, or a GaussianMixture with probabilities of '
            f"its components, got {type(model).__name__} and {type(posterior).__name__}."
        )
    d, q = model.decoder, _gaussian(posterior)
    apart = real("x", x, str(d.bias.size)) - d.bias - d.weights @ q.mean
    spread = jnp.sum((d.weights @ q.covariance) * d.weights)
    fit = -0.5 * ((apart @ apart + spread) / d.variance + apart.size * jnp.log(2 * jnp.pi * d.variance))
    if isinstance(posterior, DiagonalGaussian):
        return fit - posterior.kl_to_standard()
    return fit - q.kl(Gaussian(jnp.zeros(model.latents), jnp.eye(model.latents)))


def posterior_rule(posterior, nodes):
    """Points and weights whose sums are means over a normal posterior or a mixture of such."""
    if isinstance(posterior, GaussianMixture):
        z, weights = lax.map(lambda law: gaussian_rule(Gaussian(*law), nodes), (posterior.means, posterior.covariances))
        return z.reshape(-1, z.shape[-1]), (posterior.weights[:, None] * weights).ravel()
    if not isinstance(posterior, DiagonalGaussian | Gaussian):
        raise TypeError(
            f"quadrature takes a DiagonalGaussian, Gaussian or GaussianMixture, got {type(posterior).__name__}."
        )
    return gaussian_rule(posterior, nodes)
