r"""Are two samples of one law? A classifier, and the maximum mean discrepancy: both tests keep their level exactly."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import whole
from corollary.generative._distances import tables
from corollary.generative._exact import more_in_first

#: of the mean of the kernel's diagonal: enough for noisy labels, little for what can be told apart
PENALTY = 0.1


class TwoSample(NamedTuple):
    r"""What tells two samples apart.

    `accuracy` is that of the classifier on examples it has not seen, equally many of either sample, and `p_classifier`
    how likely at least that many right answers are if both are of one law. `mmd` is the squared maximum mean
    discrepancy, without bias (it may be negative), and `p_mmd` the share of relabelled samples in which it is as large.
    """

    accuracy: jax.Array
    p_classifier: jax.Array
    mmd: jax.Array
    p_mmd: jax.Array

    __repr__ = shown

    @property
    def p_value(self) -> jax.Array:
        """For both together: twice the smaller one, at most 1."""
        return jnp.minimum(1.0, 2 * jnp.minimum(self.p_classifier, self.p_mmd))


def two_sample(
    x: Float[ArrayLike, "n ..."], y: Float[ArrayLike, "m ..."], *, relabellings: int = 499, key: PRNGKeyArray
) -> TwoSample:
    r"""Compare two samples of equally shaped examples; of the larger one as many are taken as the smaller one has.

    The kernel is the mean of two Gaussian ones, of distances as they are and of distances in standard deviations of
    each coordinate, as wide as the median distance. The classifier is kernel regression on half of each sample. If
    both are of one law the labels of the other halves are a random choice of half of them, so that its right answers
    are hypergeometric given its answers. The discrepancy is compared with those of `relabellings` random relabellings:
    its rank among them is uniform. Whatever the law is, each test errs at most as often as its p says.

    >>> a, b = jax.random.normal(key, (2, 40, 3))
    >>> bool(two_sample(a, b + 3, key=key).p_value < 0.01)
    True
    """
    x, y = tables(x=x, y=y)
    n = min(len(x), len(y))
    if n < 4:
        raise ValueError(f"x and y must hold four examples each at least, got {len(x)} and {len(y)}.")
    return _compared(x, y, n, whole("relabellings", relabellings), key)


@partial(jax.jit, static_argnums=(2, 3))
def _compared(x, y, n, relabellings, key):
    x_key, y_key, r_key = jax.random.split(key, 3)
    # in random order, so that halves are random ones
    x, y = jax.random.permutation(x_key, x)[:n], jax.random.permutation(y_key, y)[:n]
    pool = jnp.concatenate([x, y])
    gram = _gram(pool)
    signs = jnp.repeat(jnp.array([1.0, -1.0], pool.dtype), n, total_repeat_length=2 * n)
    accuracy, chance = _classified(gram, signs, n)
    mmd, rank = _discrepancy(gram, signs, n, relabellings, r_key)
    return TwoSample(accuracy, chance, mmd, rank)


def _gram(pool):
    spread = pool.std(0)
    scaled = pool / jnp.where(spread > 0, spread, 1)

    def one(rows):
        # of rows that are centred, so that rounding is that of their distances
        rows = rows - rows.mean(0)
        square = jnp.sum(rows**2, 1)
        apart = jnp.maximum(square[:, None] + square - 2 * rows @ rows.T, 0)
        # the median over all of one in eight rows, equal ones left out
        some = jnp.where(apart[::8] > 0, apart[::8], jnp.nan)
        width = jnp.nanmedian(some)
        return jnp.exp(-apart / jnp.where(width > 0, 2 * width, 1))

    return (one(pool) + one(scaled)) / 2


def _classified(gram, signs, n):
    """The accuracy on the second halves, and the hypergeometric tail of so many right answers."""
    half = n // 2
    learn = jnp.concatenate([jnp.arange(half), n + jnp.arange(half)])
    rest = jnp.concatenate([jnp.arange(half, n), n + jnp.arange(half, n)])
    inner = gram[learn][:, learn] + PENALTY * jnp.eye(2 * half, dtype=gram.dtype)
    weights = jnp.linalg.solve(inner, signs[learn])
    said = gram[rest][:, learn] @ weights > 0
    held = n - half
    right = jnp.sum(said[:held])  # of x called x
    called = jnp.sum(said)
    accuracy = (right + held - (called - right)) / (2 * held)
    return accuracy, more_in_first(right, called - right, held, held)


def _discrepancy(gram, signs, n, relabellings, key):
    """The squared discrepancy without bias, and the rank of it among those of random labels."""
    off = gram - jnp.diag(jnp.diag(gram))

    def one(s):
        # within: pairs of equal signs, over n (n - 1) of each kind; between: all pairs, over n²
        quadratic, total = s @ off @ s, jnp.sum(off)
        within, between = (total + quadratic) / 2, (total - quadratic) / 2
        return within / (n * (n - 1)) - between / n**2

    found = one(signs)
    keys = jax.random.split(key, relabellings)
    others = lax.map(lambda k: one(jax.random.permutation(k, signs)), keys, batch_size=min(64, relabellings))
    return found, (1 + jnp.sum(others >= found)) / (1 + relabellings)
