r"""Emergence: how many skills few mistakes can spoil, by the theorem and for the worst mistakes of one cluster.

$S$ skills, $T$ text-pieces that need $k$ random skills each, mistakes on a share $\theta$ of the pieces. Natural
logarithms; $H$ is the entropy of a coin and $D$ the relative entropy of two.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import betainc, gammaln
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from corollary._types import Scalar
from corollary._validate import labels, positive, real, whole, within
from corollary.catalog import implements
from corollary.foundations import bernoulli_entropy, kl_bernoulli
from corollary.language.skills import SkillCluster

HALVINGS = 60
TOGETHER = 64  # sets of skills that are looked at at once


@implements("T15.33")
def emergence_condition(
    alpha: Float[ArrayLike, "..."], beta: Float[ArrayLike, "..."], theta: Float[ArrayLike, "..."], k: Scalar
) -> Float[Array, "..."]:
    r"""$H(\theta)-k\theta D(\alpha\beta\|\alpha)$, (15.16): the theorem speaks where it is negative.

    Then, whichever $\theta|T|$ pieces of a large cluster are wrong, fewer than $\alpha|S|$ skills have
    $\beta\theta k|T|/|S|$ or more edges to them, which is $\beta$ times what is expected.

    >>> float(emergence_condition(0.2, 3.1, 0.1, 8)) < 0 < float(emergence_condition(0.2, 3.0, 0.1, 8))
    True
    """
    alpha, theta, k = _share("alpha", alpha), _share("theta", theta), positive("k", real("k", k, ""))
    x = within("alpha * beta", alpha * within("beta", real("beta", beta), 1.0), 0.0, 1.0)
    return bernoulli_entropy(theta) - k * theta * kl_bernoulli(x, alpha)


@implements("T15.33", "T15.35")
def beta_min(
    alpha: Float[ArrayLike, "..."], theta: Float[ArrayLike, "..."], k: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""The $\beta$ above which the theorem of emergence holds: $D(\alpha\beta\|\alpha)=\frac{H(\theta)}{k\theta}$.

    Infinite where there is none with $\alpha\beta<1$: from $\alpha=e^{-H(\theta)/(k\theta)}$ on.

    >>> print(beta_min([0.1, 0.2, 0.25], 0.1, 8).round(3))
    [4.502 3.067 2.717]
    """
    alpha, theta = _share("alpha", alpha), _share("theta", theta)
    k = positive("k", real("k", k))
    try:
        alpha, level = jnp.broadcast_arrays(alpha, bernoulli_entropy(theta) / (k * theta))
    except ValueError:
        got = f"{alpha.shape}, {theta.shape} and {k.shape}"
        raise ValueError(f"The shapes of alpha, theta and k must broadcast, got {got}.") from None

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        below = kl_bernoulli(middle, alpha) < level
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.stop_gradient(jax.lax.fori_loop(0, HALVINGS, halve, (alpha, jnp.ones_like(alpha))))
    exists = level < -jnp.log(alpha)
    x = jnp.where(exists, (low + high) / 2, (1 + alpha) / 2)
    # one step of Newton's method: the last digits, and the derivatives by alpha, theta and k
    slope = jnp.log(x) - jnp.log1p(-x) - jnp.log(alpha) + jnp.log1p(-alpha)
    x = x - (kl_bernoulli(x, alpha) - level) / jax.lax.stop_gradient(slope)
    return jnp.where(exists, x / alpha, jnp.inf)


@implements("T15.35", "T15.40")
def performance_curve(k: Scalar, theta: Scalar, alpha: Float[ArrayLike, "n"], *, size: int = 1) -> Float[Array, "n"]:
    r"""$\beta\theta$ at each $\alpha$: $1-\alpha$ of the skills have at most that share of their pieces wrong.

    For tuples of `size` $=k'$ skills the pieces are joined in groups of $k'$, whose losses add (`recombine`): the share
    $\theta$ becomes $k'\theta$, which must stay below 1, and the curve is that of single skills there. Above 1 it says
    nothing.

    >>> print(performance_curve(8, 0.1, [0.1, 0.2, 0.3, 0.5]).round(3))
    [0.45  0.307 0.246 0.183]
    """
    theta, size = _share("theta", real("theta", theta, "")), whole("size", size)
    joined = within("theta * size", size * theta, 0.0, 1.0, open="both")
    return beta_min(_share("alpha", real("alpha", alpha, "n")), joined, real("k", k, "")) * joined


@implements("T15.33")
def beta_limit(alpha: Float[ArrayLike, "..."], theta: Scalar, k: int) -> Float[Array, "..."]:
    r"""What the worst mistakes reach in a large cluster, for a fixed set of $\alpha|S|$ skills.

    These are the pieces with most edges to the set. A piece has $X\sim\mathrm{Bin}(k,\alpha)$ of them, so that the mean
    of the uppermost share $\theta$, over $k\alpha$, is $\frac1{k\alpha\theta}\sum_{j=1}^k\min(\theta,\Pr[X\ge j])$.

    >>> print(beta_limit(jnp.array([0.1, 0.2, 0.25]), 0.1, 8).round(3))
    [3.045 2.3   2.16 ]
    """
    alpha, theta = _share("alpha", alpha), _share("theta", real("theta", theta, ""))
    k = whole("k", k)
    j = jnp.arange(1.0, k + 1)
    tails = betainc(j, k - j + 1, alpha[..., None])
    return jnp.sum(jnp.minimum(theta, tails), -1) / (k * alpha * theta)


@implements("T15.34")
def log_bad_pairs(
    pieces: Float[ArrayLike, "..."], skills: Scalar, alpha: Scalar, beta: Scalar, theta: Scalar, k: Scalar
) -> Float[Array, "..."]:
    r"""The logarithm of (15.17), a bound on the expected number of bad pairs of an error set and a set of skills.

    $|S||T|\binom{|S|}{\alpha|S|}\binom{|T|}{\theta|T|}\binom nm\alpha^m(1-\alpha)^{n-m}$ with $n=k\theta|T|$ and
    $m=\alpha\beta n$; a pair $(Y,Z)$ is bad if $Z$ has $m$ edges or more to $Y$.
    """
    pieces = positive("pieces", real("pieces", pieces))
    skills, k = positive("skills", real("skills", skills, "")), positive("k", real("k", k, ""))
    alpha, theta = _share("alpha", real("alpha", alpha, "")), _share("theta", real("theta", theta, ""))
    x = within("alpha * beta", alpha * within("beta", real("beta", beta, ""), 1.0), 0.0, 1.0)
    n = k * theta * pieces
    sets = jnp.log(skills) + jnp.log(pieces) + _log_binomial(skills, alpha) + _log_binomial(pieces, theta)
    return sets + _log_binomial(n, x) + n * (x * jnp.log(alpha) + (1 - x) * jnp.log1p(-alpha))


@implements("T15.33", "T15.39")
def most_edges(cluster: SkillCluster, chosen: Int[ArrayLike, "n m"], count: int) -> Int[Array, "n"]:
    r"""The most edges that each set of skills, a row of `chosen`, has to any `count` text-pieces.

    The worst pieces are those with most edges to the set. With $N_j$ pieces of $j$ edges or more, the first `count` of
    them have $\sum_j\min(N_j,\mathrm{count})$: nothing needs to be sorted, and all sets of a size can be gone through.

    >>> most_edges(SkillCluster([[0, 0], [0, 1], [1, 2]], 3), [[0], [1], [2]], 2).tolist()
    [3, 2, 1]
    """
    chosen, count = _chosen(cluster, chosen, "n m", count)
    k = cluster.edges.shape[1]
    # up to k edges: small whole numbers, of which a CPU compares many at once
    kind = jnp.int8 if k < 128 else jnp.int32
    needed = cluster.incidence().T.astype(kind)

    def most(skills):
        edges = jnp.sum(needed[skills], 0, dtype=kind)
        return sum(jnp.minimum(jnp.sum(edges >= j, dtype=jnp.int32), count) for j in range(1, k + 1))

    return jax.lax.map(most, chosen, batch_size=min(TOGETHER, chosen.shape[0]))


@implements("T15.33", "T15.39")
def worst_errors(cluster: SkillCluster, chosen: Int[ArrayLike, "m"], count: int) -> Bool[Array, "_"]:
    """The `count` text-pieces with most edges to a set of skills: no others spoil it as a whole more."""
    chosen, count = _chosen(cluster, chosen, "m", count)
    edges = jnp.sum(cluster.incidence()[:, chosen], 1)
    first = jnp.argsort(-edges)[:count]
    return jnp.zeros(edges.shape[0], bool).at[first].set(True)


def _chosen(cluster, chosen, shape, count):
    if not isinstance(cluster, SkillCluster):
        raise TypeError(f"cluster must be a SkillCluster, got {type(cluster).__name__}.")
    return labels("chosen", chosen, cluster.skills, shape), whole("count", count, 1, cluster.edges.shape[0])


def _share(name, value):
    return within(name, real(name, value), 0.0, 1.0, open="both")


def _log_binomial(n, share):
    return gammaln(n + 1) - gammaln(share * n + 1) - gammaln((1 - share) * n + 1)
