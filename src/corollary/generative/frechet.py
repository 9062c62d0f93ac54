r"""The Fréchet distance of two samples: how far apart their means and covariances are, in one number."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Float

from corollary.generative._distances import tables


def frechet_distance(x: Float[ArrayLike, "n ..."], y: Float[ArrayLike, "m ..."]) -> Float[Array, ""]:
    r"""$\|\mu-\nu\|^2+\operatorname{tr}\big(\Sigma+T-2(\Sigma^{1/2}T\Sigma^{1/2})^{1/2}\big)$, means and covariances.

    The squared Wasserstein distance of order 2 between the normal laws that have the mean $\mu$ and the covariance
    $\Sigma$ of `x`, and $\nu$ and $T$ of `y`. Of the features of a network of images it is what is reported of
    generators of images. It grows as examples get fewer, also between two samples of one law: compare it with that of
    two halves of the real examples, equally many in each.

    The trace of the root is the sum of the singular values of a product of two factors of the covariances, so that no
    root is taken of what is only rounding.

    >>> round(float(frechet_distance([[0.0], [2.0]], [[1.0], [5.0]])), 4)  # means 1 and 3, deviations √2 and 2√2
    6.0
    """
    x, y = tables(x=x, y=y)
    if min(len(x), len(y)) < 2:
        raise ValueError(f"x and y must hold two examples each at least, got {len(x)} and {len(y)}.")
    return _distance(x, y)


@jax.jit
def _distance(x, y):
    # numbers of size 1, so that no square overflows; a power of two, so that nothing is rounded
    largest = lax.stop_gradient(jnp.maximum(jnp.abs(x).max(), jnp.abs(y).max()))
    scale = jnp.ldexp(jnp.ones_like(largest), jnp.frexp(largest)[1] - 1)
    (mu, left), (nu, right) = (_moments(a / scale) for a in (x, y))
    shared = jnp.linalg.svd(left @ right.T, compute_uv=False).sum()
    found = jnp.sum((mu - nu) ** 2) + jnp.sum(left**2) + jnp.sum(right**2) - 2 * shared
    return jnp.maximum(found, 0) * scale * scale


def _moments(x):
    """The mean, and a factor R of the covariance RᵀR."""
    mean = x.mean(0)
    centred = (x - mean) / jnp.sqrt(jnp.asarray(len(x) - 1, x.dtype))
    # the basis may stay where it is when derivatives are taken: the sum of singular values depends on no basis
    basis = lax.stop_gradient(jnp.linalg.qr(lax.stop_gradient(centred))[0])
    return mean, basis.T @ centred
