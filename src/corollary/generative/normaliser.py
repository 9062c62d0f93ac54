r"""Is a likelihood honest? The integral of what a `log_prob` says, from samples of it and of a known density."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import concrete, real, whole
from corollary.generative._distances import table, tables

#: where fewer of the samples than this are likely under both densities, the ratio is not known
OVERLAP = 25.0


class KernelDensity(eqx.Module):
    r"""The mean of normal densities around samples, with the mean and the covariance $\Sigma$ of the samples.

    With Scott's width $h=n^{-1/(d+4)}$ they are centred at $\bar x+\sqrt{1-h^2}(x_i-\bar x)$ and have the covariance
    $h^2\Sigma$: in many dimensions nearly the normal law with that covariance.
    """

    centres: jax.Array
    factor: jax.Array

    def __init__(self, x: Float[ArrayLike, "n ..."]):
        rows = table("x", x)
        n, d = rows.shape
        if n < 2:
            raise ValueError("x must hold two examples at least: one has no covariance.")
        centred = rows - rows.mean(0)
        # where a coordinate hardly moves, or there are fewer samples than coordinates, a little of the mean variance
        variance = jnp.mean(centred**2)
        small = 1e-6 + max(0.0, (d - n / 4) / n)
        covariance = (centred.T @ centred / (n - 1) + small * variance * jnp.eye(d)) / (1 + small)
        width = n ** (-1 / (d + 4))
        self.centres = rows.mean(0) + np.sqrt(1 - width**2) * centred
        self.factor = width * jnp.linalg.cholesky(covariance)

    __repr__ = shown

    def log_prob(self, x: Float[ArrayLike, "m ..."]) -> Float[Array, "_"]:
        """The logarithm of the density at each example."""
        rows, d = table("x", x), self.centres.shape[1]
        white = lambda a: jax.scipy.linalg.solve_triangular(self.factor, a.T, lower=True).T  # noqa: E731
        ours, theirs = white(self.centres), white(rows)
        constant = d / 2 * np.log(2 * np.pi) + jnp.sum(jnp.log(jnp.diag(self.factor))) + np.log(len(ours))
        each = lax.map(lambda a: logsumexp(-0.5 * jnp.sum((a - ours) ** 2, 1)), theirs, batch_size=min(16, len(rows)))
        return each - constant

    def sample(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "_ _"]:
        """Independent samples, in rows."""
        at_key, z_key = jax.random.split(key)
        at = jax.random.randint(at_key, (whole("count", count),), 0, len(self.centres))
        noise = jax.random.normal(z_key, (count, self.centres.shape[1]), self.centres.dtype)
        return self.centres[at] + noise @ self.factor.T


class Normaliser(NamedTuple):
    r"""$\ln\int e^{\log p}$, 0 for an honest likelihood, with its 95 % interval, and how far the samples overlap.

    `overlap` is how many of the samples are likely under both densities; with fewer than some 25 the interval is not to
    be believed, and `known` is false.
    """

    value: jax.Array
    interval: tuple
    overlap: jax.Array

    __repr__ = shown

    @property
    def known(self) -> jax.Array:
        """Whether there is overlap enough."""
        return self.overlap >= OVERLAP


def log_normaliser(
    log_prob: Callable[[Any], Any], samples: Float[ArrayLike, "n ..."], *, key: PRNGKeyArray
) -> Normaliser:
    r"""$\ln Z=\ln\int e^{\log p(x)}dx$ for `log_prob(x)` of one example and `samples` of the law that it describes.

    A kernel density $q$ is made of half of the samples. With as many samples of it as are left,
    $\mathbb E_q\frac{p}{p+Zq}=\mathbb E_{p/Z}\frac{Zq}{p+Zq}$ has one solution $Z$ (Bennett): the terms are between 0
    and 1, so that no few of them decide, as they do in importance sampling. Samples of another law than $p/Z$ give some
    other number than the integral, which is 1 for them only by accident.

    >>> samples = jax.random.normal(key, (400, 2))
    >>> twice = lambda x: jnp.log(2.0) + jax.scipy.stats.norm.logpdf(x).sum()
    >>> bool(jnp.abs(log_normaliser(twice, samples, key=key).value - jnp.log(2.0)) < 0.2)
    True
    """
    if not callable(log_prob):
        raise TypeError(f"log_prob must be a function of one example, got {type(log_prob).__name__}.")
    x = real("samples", samples)
    if x.ndim == 0 or len(x) < 8:
        raise ValueError(f"samples must hold eight examples at least, got shape {x.shape}.")
    half = len(x) // 2
    density = KernelDensity(x[:half])
    q_samples = density.sample(len(x) - half, key=key)
    ratios = []
    for rows in (q_samples, x[half:].reshape(len(x) - half, -1)):
        ours = log_density(log_prob, rows.reshape(-1, *x.shape[1:]))
        ratios.append(ours - density.log_prob(rows).astype(ours.dtype))
    return _bennett(*ratios)


def log_density(log_prob: Callable, x):
    """`log_prob` of every example, one sentence unless they are real numbers that are not plus infinity or NaN."""
    found = jax.vmap(log_prob)(x)
    if jnp.shape(found) != (len(x),):
        raise ValueError(f"log_prob(x) must return one number for one example, got shape {jnp.shape(found)[1:]}.")
    found = real("what log_prob returns", found, finite=False)
    if concrete(found) and (bad := ~(np.asarray(found) < np.inf)).any():
        raise ValueError(f"log_prob must be finite or minus infinity, got {np.asarray(found)[bad][0]}.")
    return found


@jax.jit
def _bennett(under_q, under_p):
    """The solution c of the mean of σ(l - c) over q and of σ(c - l) over p; l is the log ratio p over q."""
    ends = jnp.concatenate([under_q, under_p])
    finite = jnp.isfinite(ends)
    low = jnp.min(jnp.where(finite, ends, jnp.inf)) - 30
    high = jnp.max(jnp.where(finite, ends, -jnp.inf)) + 30

    def halve(_, ends):
        low, high = ends
        c = (low + high) / 2
        above = jnp.mean(jax.nn.sigmoid(under_q - c)) < jnp.mean(jax.nn.sigmoid(c - under_p))
        return jnp.where(above, low, c), jnp.where(above, c, high)

    c = lax.fori_loop(0, 60, halve, (low, high))[0]
    parts = jax.nn.sigmoid(under_q - c), jax.nn.sigmoid(c - under_p)
    # relative variances of both means, which are independent
    error = 1.96 * jnp.sqrt(sum(jnp.var(f) / jnp.mean(f) ** 2 / (len(f) - 1) for f in parts))
    # f (1 - f) is at most a quarter, where both densities are alike
    overlap = sum(4 * jnp.sum(f * (1 - f)) for f in parts) / 2
    return Normaliser(c, (c - error, c + error), overlap)


class HeldOut(NamedTuple):
    """Mean log-likelihoods of training and test examples, and their difference with its 95 % interval (Welch).

    `spread` is the standard deviation among test examples.
    """

    train: jax.Array
    test: jax.Array
    gap: jax.Array
    interval: tuple
    spread: jax.Array

    __repr__ = shown


def held_out(
    log_prob: Callable[[Any], Any], train: Float[ArrayLike, "n ..."], test: Float[ArrayLike, "m ..."]
) -> HeldOut:
    """What `log_prob(x)` of one example says on data that were fitted and on data that were not."""
    tables(train=train, test=test)
    first, second = (log_density(log_prob, real(name, x)) for name, x in (("train", train), ("test", test)))
    gap = first.mean() - second.mean()
    error = 1.96 * jnp.sqrt(sum(jnp.var(a) / max(len(a) - 1, 1) for a in (first, second)))
    return HeldOut(first.mean(), second.mean(), gap, (gap - error, gap + error), second.std())
