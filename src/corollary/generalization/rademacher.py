r"""Rademacher complexities: how well a class fits random signs, by all of the signs or by draws.

$\hat R_S(\mathcal F)=E_\sigma\sup_f\frac1m\sum_i\sigma_if(z_i)$, without an absolute value. A supremum is a function of
the signs (..., m) that returns $\sup_f\sum_i\sigma_if(z_i)$ for each row; those of this file are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaincinv
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

    The interval of a sum is the value itself. That of draws is Student's with confidence 0.999.
    """

    value: jax.Array
    interval: tuple[jax.Array, jax.Array]
    exact: bool

    __repr__ = shown


@implements("B08.17", "T05.14")
def rademacher(
    supremum: Callable, points: int, *, key: PRNGKeyArray | None = None, draws: int | None = None
) -> Complexity:
    r"""$\frac1mE_\sigma$ `supremum`$(\sigma)$ for `points` $=m$ signs: all $2^m$ of them for $m\le20$, else `draws`.

    `supremum` takes signs (k, m) and returns (k,), such as `ball(x)` or `thresholds(x)`. With a `key` and `draws` the
    signs are drawn, also for few points.

    >>> round(float(rademacher(ball([[1.0, 0.0], [0.0, 1.0]]), 2).value), 4)
    0.7071
    """
    if not callable(supremum):
        raise TypeError(f"supremum must be a function of signs, got {type(supremum).__name__}.")
    m = whole("points", points)
    if (key is None) != (draws is None):
        raise ValueError("key and draws belong together: signs are drawn with both, and all are tried without.")
    if key is None:
        if m > EXACT:
            raise ValueError(f"points must be at most {EXACT} for all 2^m signs, got {m}: give a key and draws.")
        value = _all_signs(supremum, m) / m
        return Complexity(value, (value, value), True)
    draws = whole("draws", draws, 30)
    values = supremum(jax.random.rademacher(key, (draws, m), jnp.result_type(float))) / m
    mean = jnp.mean(values)
    half = _student(draws - 1) * jnp.std(values, ddof=1) / jnp.sqrt(1.0 * draws)
    return Complexity(mean, (mean - half, mean + half), False)


def _all_signs(supremum, m):
    # the first signs vary from block to block, the last ones within a block
    inner = min(m, BLOCK)
    ends = jnp.asarray(1.0 - 2 * (np.arange(2**inner)[:, None] >> np.arange(inner) & 1))

    def block(number):
        starts = 1.0 - 2 * (number >> jnp.arange(m - inner) & 1)
        signs = jnp.concatenate([jnp.broadcast_to(starts, (2**inner, m - inner)), ends], 1)
        return jnp.mean(supremum(signs))

    if m == inner:
        return block(0)
    return jnp.mean(jax.lax.map(block, jnp.arange(2 ** (m - inner))))


def _student(freedom):
    """The 0.9995 quantile of Student's law."""
    x = betaincinv(freedom / 2.0, 0.5, 0.001)
    return jnp.sqrt(freedom * (1 - x) / x)


@implements("B08.20", "T05.16")
def ball(x: Float[ArrayLike, "m d"], radius: Scalar = 1.0, *, norm: str = "l2") -> Callable:
    r"""The supremum over $f(x)=w\cdot x$ with $\|w\|\le B$ = `radius`: $B\|\sum_i\sigma_ix_i\|_*$, the dual norm.

    `norm` is that of $w$: `"l2"`, `"l1"` (whose dual is the largest coordinate) or `"linf"` (whose dual is the sum).
    """
    x, radius = real("x", x, "m d"), within("radius", real("radius", radius, ""), 0.0)
    dual = {"l2": 2, "l1": jnp.inf, "linf": 1}[one_of("norm", norm, ("l2", "l1", "linf"))]
    return lambda signs: radius * jnp.linalg.norm(signs @ x, dual, axis=-1)


@implements("T05.17", "T05.43")
def kernel_ball(gram: Float[ArrayLike, "m m"], radius: Scalar = 1.0) -> Callable:
    r"""The supremum over functions of norm at most $B$ = `radius` in the space of a kernel: $B\sqrt{\sigma^\top K\sigma}$."""
    gram, radius = real("gram", gram, "m m"), within("radius", real("radius", radius, ""), 0.0)
    return lambda signs: radius * jnp.sqrt(jnp.maximum(jnp.einsum("...i,ij,...j->...", signs, gram, signs), 0))


def thresholds(x: Float[ArrayLike, "m"]) -> Callable:
    r"""The supremum over $\mathbf 1\{x\ge c\}$: the largest sum of the last signs in the order of $x$, or 0."""
    before = _sums(x)
    return lambda signs: jnp.max(total := before(signs), -1) * 0 + jnp.max(total[..., -1:] - total, -1)


def intervals(x: Float[ArrayLike, "m"]) -> Callable:
    r"""The supremum over $\mathbf 1\{a\le x\le b\}$: the largest sum of successive signs in the order of $x$, or 0."""
    before = _sums(x)

    def supremum(signs):
        total = before(signs)
        return jnp.max(total - jax.lax.cummin(total, axis=total.ndim - 1), -1)

    return supremum


def finite(values: Float[ArrayLike, "functions m"]) -> Callable:
    """The supremum over a list of functions, given by their `values` at the points: one per row."""
    values = real("values", values, "functions m")
    return lambda signs: jnp.max(signs @ values.T, -1)


def _sums(x):
    """The sums of the signs of the points up to each place, from none on; equal points come in together."""
    x = real("x", x, "m")
    order = jnp.argsort(x)
    x = x[order]
    # a sum that ends between two equal points is no sum of a set {x < c}: the one before it stands in its place
    whole_set = jnp.append(x[1:] > x[:-1], True)
    last = jax.lax.cummax(jnp.where(whole_set, jnp.arange(1, x.shape[0] + 1), 0))
    at = jnp.append(0, last)

    def before(signs):
        sums = jnp.cumsum(signs[..., order], -1)
        return jnp.concatenate([jnp.zeros_like(sums[..., :1]), sums], -1)[..., at]

    return before


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
    if form == "printed":
        root = 3 * jnp.sqrt(jnp.log(2 / delta) / n) if empirical else jnp.sqrt(-jnp.log(delta) / n)
    else:
        root = 3 * jnp.sqrt(jnp.log(2 * sides / delta) / (2 * n)) if empirical else jnp.sqrt(jnp.log(sides / delta) / (2 * n))
    terms = {"training error": risk, "complexity of the class": 2 * complexity, "confidence": root}
    premises = (INDEPENDENT, RANGE, "the class was chosen before the sample was seen")
    return Bound(risk + 2 * complexity + root, delta, terms, premises)


@implements("T05.17", "T05.43")
def kernel_complexity_bound(gram: Float[ArrayLike, "n n"], y: Float[ArrayLike, "n"]) -> Float[Array, ""]:
    raise NotImplementedError
