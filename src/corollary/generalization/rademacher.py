r"""Rademacher complexities: how well a class fits random signs, by all of the signs or by draws.

$\hat R_S(\mathcal F)=E_\sigma\sup_f\frac1m\sum_i\sigma_if(z_i)$, without an absolute value. A supremum is a function
`supremum(signs, points)` that returns $\sup_f\sum_i\sigma_if(z_i)$ for each row of the signs (k, m); those of this file
are exact. Options of one are given by `functools.partial(ball_supremum, radius=2.0)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements
from corollary.generalization.bound import INDEPENDENT, RANGE, Bound, confidence, risk_of

# signs of as many points are all tried, in blocks of 2^12 rows
EXACT, BLOCK = 20, 12


class Complexity(NamedTuple):
    """A Rademacher complexity: the value, an interval that holds it, and whether it is the sum over all signs.

    The interval of a sum is the value itself. That of draws is the normal one with confidence 0.999.
    """

    value: jax.Array
    interval: tuple[jax.Array, jax.Array]
    exact: bool

    __repr__ = shown


@implements("B08.17", "T05.14")
def rademacher(
    supremum: Callable, points: Float[ArrayLike, "m *d"], *, key: PRNGKeyArray | None = None, draws: int | None = None
) -> Complexity:
    r"""$\frac1mE_\sigma$ `supremum`$(\sigma,z)$ at `points` $z$, one of $m$ per row: over all $2^m$ signs, or `draws`.

    All signs are tried for $m\le20$; with a `key` and `draws` they are drawn, and the interval says how well.

    >>> round(float(rademacher(ball_supremum, [[1.0, 0.0], [0.0, 1.0]]).value), 4)
    0.7071
    """
    if not callable(supremum):
        raise TypeError(f"supremum must be a function of signs and points, got {type(supremum).__name__}.")
    points = jnp.asarray(points)
    if points.ndim == 0 or points.shape[0] == 0:
        raise ValueError(f"points must hold at least one point, one per row, got shape {points.shape}.")
    m = points.shape[0]
    if (key is None) != (draws is None):
        raise ValueError("key and draws belong together: signs are drawn with both, and all are tried without.")
    if key is None:
        if m > EXACT:
            raise ValueError(f"points must be at most {EXACT} for all 2^m signs, got {m}: give a key and draws.")
        value = _all_signs(supremum, points)
        return Complexity(value, (value, value), True)
    value, error = _drawn_signs(supremum, points, key, whole("draws", draws, 100))
    half = 3.2905 * error  # both tails of the normal law beyond it have 0.001
    return Complexity(value, (value - half, value + half), False)


@partial(jax.jit, static_argnums=0)
def _all_signs(supremum, points):
    # the first signs vary from block to block, the last ones within a block
    m = points.shape[0]
    inner = min(m, BLOCK)
    ends = jnp.asarray(1.0 - 2 * (np.arange(2**inner)[:, None] >> np.arange(inner) & 1))

    def block(number):
        starts = 1.0 - 2 * (number >> jnp.arange(m - inner) & 1)
        signs = jnp.concatenate([jnp.broadcast_to(starts, (2**inner, m - inner)), ends], 1)
        return jnp.mean(supremum(signs, points))

    if m == inner:
        return jnp.mean(supremum(ends, points)) / m
    return jnp.mean(jax.lax.map(block, jnp.arange(2 ** (m - inner)))) / m


@partial(jax.jit, static_argnums=(0, 3))
def _drawn_signs(supremum, points, key, draws):
    m = points.shape[0]
    values = supremum(jax.random.rademacher(key, (draws, m), jnp.result_type(float)), points) / m
    return jnp.mean(values), jnp.std(values, ddof=1) / jnp.sqrt(1.0 * draws)


@implements("B08.20", "T05.16")
def ball_supremum(
    signs: Float[ArrayLike, "... m"], x: Float[ArrayLike, "m d"], *, radius: Scalar = 1.0, norm: str = "l2"
) -> Float[Array, "..."]:
    r"""Over $f(x)=w\cdot x$ with $\|w\|\le B$ = `radius`: $B\|\sum_i\sigma_ix_i\|_*$, the dual norm.

    `norm` is that of $w$: `"l2"`, `"l1"` (whose dual is the largest coordinate) or `"linf"` (whose dual is the sum).
    """
    dims = {}
    x, signs = real("x", x, "m d", dims), real("signs", signs, "... m", dims)
    radius = within("radius", real("radius", radius, ""), 0.0)
    dual = {"l2": 2, "l1": jnp.inf, "linf": 1}[one_of("norm", norm, ("l2", "l1", "linf"))]
    return radius * jnp.linalg.norm(signs @ x, dual, axis=-1)


@implements("T05.17", "T05.43")
def kernel_ball_supremum(
    signs: Float[ArrayLike, "... m"], gram: Float[ArrayLike, "m m"], *, radius: Scalar = 1.0
) -> Float[Array, "..."]:
    r"""Over the functions of norm at most $B$ = `radius` in the space of a kernel: $B\sqrt{\sigma^\top K\sigma}$.

    The points are the matrix $K$ of the kernel.
    """
    dims = {}
    gram, signs = real("gram", gram, "m m", dims), real("signs", signs, "... m", dims)
    radius = within("radius", real("radius", radius, ""), 0.0)
    return radius * jnp.sqrt(jnp.maximum(jnp.sum((signs @ gram) * signs, -1), 0))


def threshold_supremum(signs: Float[ArrayLike, "... m"], x: Float[ArrayLike, "m"]) -> Float[Array, "..."]:
    r"""Over $\mathbf 1\{x\ge c\}$: the largest sum of the last signs in the order of $x$, or 0."""
    sums = _sums(signs, x)
    return jnp.max(sums[..., -1:] - sums, -1)


def interval_supremum(signs: Float[ArrayLike, "... m"], x: Float[ArrayLike, "m"]) -> Float[Array, "..."]:
    r"""Over $\mathbf 1\{a\le x\le b\}$: the largest sum of successive signs in the order of $x$, or 0."""
    sums = _sums(signs, x)
    return jnp.max(sums - jax.lax.cummin(sums, axis=sums.ndim - 1), -1)


def list_supremum(signs: Float[ArrayLike, "... m"], values: Float[ArrayLike, "m functions"]) -> Float[Array, "..."]:
    """Over a list of functions: the points are their `values`, one column per function."""
    dims = {}
    values, signs = real("values", values, "m functions", dims), real("signs", signs, "... m", dims)
    return jnp.max(signs @ values, -1)


def _sums(signs, x):
    """The sums of the signs of the points up to each place, from none on; equal points come in together."""
    dims = {}
    x, signs = real("x", x, "m", dims), real("signs", signs, "... m", dims)
    order = jnp.argsort(x)
    x = x[order]
    # a sum that ends between two equal points belongs to no set {x < c}: the one before them stands in its place
    complete = jnp.append(x[1:] > x[:-1], True)
    at = jnp.append(0, jax.lax.cummax(jnp.where(complete, jnp.arange(1, x.shape[0] + 1), 0)))
    sums = jnp.cumsum(signs[..., order], -1)
    return jnp.concatenate([jnp.zeros_like(sums[..., :1]), sums], -1)[..., at]


@implements("B08.18", "B08.26", "T05.15")
def rademacher_bound(
    n: Float[ArrayLike, "..."],
    complexity: Float[ArrayLike, "..."],
    delta: Float[ArrayLike, "..."],
    *,
    risk: Float[ArrayLike, "..."] = 0.0,
    empirical: bool = False,
    sides: int = 1,
    form: str = "sharp",
) -> Bound:
    r"""For all functions of a class with values in [0, 1], $Ef\le\hat E_Sf+2R_n+\sqrt{\ln(s/\delta)/(2n)}$.

    $R_n$ is the `complexity` of the class of losses, expected over samples, and $s$ the number of `sides`. With
    `empirical` it is that of the sample at hand, and the root becomes $3\sqrt{\ln(2s/\delta)/(2n)}$.
    `form="printed"` has $\sqrt{\ln(1/\delta)/n}$ for the one, and $3\sqrt{\ln(2/\delta)/n}$ for the other, both sides.
    """
    n, risk, delta = within("n", real("n", n), 1.0), risk_of(risk), confidence(delta)
    complexity = within("complexity", real("complexity", complexity), 0.0)
    sides = whole("sides", sides, 1, 2)
    one_of("form", form, ("sharp", "printed"))
    inside = (2 if empirical else 1) * (sides if form == "sharp" else 1)
    root = jnp.sqrt(jnp.log(inside / delta) / ((2 if form == "sharp" else 1) * n))
    root = 3 * root if empirical else root
    terms = {"training error": risk, "complexity of the class": 2 * complexity, "confidence": root}
    premises = (INDEPENDENT, RANGE, "the class was chosen before the sample was seen")
    return Bound(risk + 2 * complexity + root, delta, terms, premises)


class Symmetrisation(NamedTuple):
    r"""What `symmetrisation` returns, in the order of the proof.

    `gap` is $E\sup_f(Ef-\hat E_Sf)$, `ghost` is $E\sup_f(\hat E_{S'}f-\hat E_Sf)$ with a second sample, `signed` is
    $E\sup_f\frac1m\sum\sigma_i(f(z_i')-f(z_i))$, and `bound` is twice the expected Rademacher complexity.
    """

    gap: jax.Array
    ghost: jax.Array
    signed: jax.Array
    bound: jax.Array

    __repr__ = shown


@implements("B08.19", "T05.13")
def symmetrisation(
    values: Float[ArrayLike, "functions k"], probability: Float[ArrayLike, "k"], m: int
) -> Symmetrisation:
    r"""The numbers of the proof of $E\sup_f(Ef-\hat E_Sf)\le2R_m$: `gap` ≤ `ghost` = `signed` ≤ `bound`.

    By summing over all samples of size `m`, second samples and signs, for a law on $k$ points and a list of functions
    with these `values`. Half of `ghost` is the two-sample form of the complexity, without an absolute value.
    """
    dims = {}
    values, probability = real("values", values, "functions k", dims), real("probability", probability, "k", dims)
    k, m = values.shape[1], whole("m", m)
    if k ** (2 * m) * 2**m > 2**22:
        raise ValueError(f"m must leave at most 2^22 pairs of samples and signs, got {k}^{2 * m} times 2^{m}.")
    rows = np.arange(k**m)[:, None] // k ** np.arange(m) % k
    signs = 1.0 - 2 * (np.arange(2**m)[:, None] >> np.arange(m) & 1)
    chance = jnp.prod(probability[rows], 1)
    means = values[:, rows].mean(-1)
    gap = chance @ jnp.max((values @ probability)[:, None] - means, 0)
    ghost = chance @ jnp.max(means[:, None, :] - means[:, :, None], 0) @ chance
    mixed = jnp.einsum("fsi,xi->fsx", values[:, rows], signs) / m
    signed = jnp.mean(jnp.einsum("s,t,stx->x", chance, chance, jnp.max(mixed[:, :, None] - mixed[:, None], 0)))
    return Symmetrisation(gap, ghost, signed, 2 * jnp.mean(chance @ jnp.max(mixed, 0)))
