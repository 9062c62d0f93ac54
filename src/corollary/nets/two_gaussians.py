"""The two-class data of section 2.7 of text B: two Gaussians in the plane, and the best classifier for them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import multivariate_normal
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.data import Data

MEANS = np.array([[2.0, 2.0], [-1.0, -1.0]])
COVARIANCES = np.array([[[2.0, 1.0], [1.0, 2.0]], [[2.0, -1.0], [-1.0, 2.0]]])


@implements("B02.26")
def book_two_gaussians(n: int = 1000) -> Data:
    """The first `n` of the 1000 points of each class that the listing draws with seed 0: (2n, 2), labels 0 and 1."""
    n = whole("n", n, 1, 1000)
    rng = np.random.RandomState(0)  # the stream of np.random.seed(0)
    classes = [rng.multivariate_normal(m, c, 1000)[:n] for m, c in zip(MEANS, COVARIANCES, strict=True)]
    return Data(jnp.asarray(np.concatenate(classes)), jnp.repeat(jnp.arange(2), n))


@implements("B02.26")
def two_gaussians(n: int, *, key: PRNGKeyArray) -> Data:
    """`n` fresh points of each class from the same law: (2n, 2), labels 0 and 1."""
    n = whole("n", n)
    factors = jnp.asarray(np.linalg.cholesky(COVARIANCES))
    noise = jax.random.normal(key, (2, n, 2))
    points = jnp.asarray(MEANS)[:, None] + jnp.einsum("kij,knj->kni", factors, noise)
    return Data(points.reshape(2 * n, 2), jnp.repeat(jnp.arange(2), n))


@implements("B02.26")
def bayes_logit(x: Float[ArrayLike, "... 2"]) -> Array:
    r"""$\ln\frac{P(y=1\mid x)}{P(y=0\mid x)}$ for equally frequent classes: no classifier from the data does better."""
    x = real("x", x, "... 2")
    one, zero = (
        multivariate_normal.logpdf(x, jnp.asarray(m, x.dtype), jnp.asarray(c, x.dtype))
        for m, c in zip(MEANS[::-1], COVARIANCES[::-1], strict=True)
    )
    return one - zero
