r"""Covers of a set of parameters by balls, and the bound for losses that change little inside each."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of, positive, real, whole, within
from corollary.catalog import implements
from corollary.generalization.bound import INDEPENDENT, RANGE, Bound, confidence, risk_of


class Cover(NamedTuple):
    """A cover of points by balls about some of them: which are `chosen`, and how many that are."""

    chosen: jax.Array
    size: jax.Array

    __repr__ = shown


@implements("T05.10")
def greedy_cover(points: Float[ArrayLike, "n d"], radius: Scalar) -> Cover:
    r"""Take the first point that no ball covers yet as the next centre, until all are covered.

    Every point lies within `radius` of a centre, and no two centres do: the balls of half the radius about them are
    disjoint. So their number is at least that of the smallest cover with the same radius, and at most that of the
    smallest cover with half of it.
    """
    points, radius = real("points", points, "n d"), positive("radius", real("radius", radius, ""))

    def take(chosen, i):
        near = jnp.sum((points - points[i]) ** 2, 1) <= radius**2
        return chosen.at[i].set(~jnp.any(near & chosen)), None

    chosen, _ = jax.lax.scan(take, jnp.zeros(len(points), bool), jnp.arange(len(points)))
    return Cover(chosen, jnp.sum(chosen))


@implements("T05.11")
def cover_size(
    dimension: Float[ArrayLike, "..."], radius: Float[ArrayLike, "..."], *, form: str = "sharp"
) -> Float[Array, "..."]:
    r"""$(1+2/\rho)^k$: as many balls of radius $\rho$ suffice for the unit ball of $\mathbb R^k$.

    For the disjoint balls of radius $\rho/2$ about the centres lie in a ball of radius $1+\rho/2$; and at least
    $\rho^{-k}$ are needed. `form="printed"` is $(\frac12+1/\rho)^k$, $2^k$ times too small.
    """
    one_of("form", form, ("sharp", "printed"))
    k, radius = within("dimension", real("dimension", dimension), 1.0), positive("radius", real("radius", radius))
    return (1 + 2 / radius if form == "sharp" else 0.5 + 1 / radius) ** k


@implements("T05.12")
def cover_bound(
    n: int,
    dimension: int,
    delta: Scalar,
    *,
    lipschitz: Scalar,
    radius: Scalar | None = None,
    risk: Scalar = 0.0,
) -> Bound:
    r"""For all $w$ of the unit ball, $L(w)\le\hat L(w)+2C\rho+\sqrt{\frac{k\ln(1+2/\rho)+\ln(1/\delta)}{2n}}$.

    If the loss changes by $C\|w-w'\|$ at most, $C$ = `lipschitz`: once for the expected and once for the training
    loss of the nearest centre, $\gamma=C\rho$. Without a `radius` the best is taken, for which nothing has to be paid
    because it depends on no data. Losses with a range of 1 and `dimension` $k$.
    """
    n, k, delta, risk = whole("n", n), whole("dimension", dimension), confidence(delta), risk_of(risk)
    constant = within("lipschitz", real("lipschitz", lipschitz, ""), 0.0)
    if radius is None:
        grid = jnp.asarray(np.geomspace(1e-9, 2.0, 2001), constant.dtype)
        radius = grid[jnp.argmin(2 * constant * grid + jnp.sqrt((k * jnp.log1p(2 / grid) - jnp.log(delta)) / (2 * n)))]
    radius = positive("radius", real("radius", radius, ""))
    surety = jnp.sqrt(-jnp.log(delta) / (2 * n))
    root = jnp.sqrt((k * jnp.log1p(2 / radius) - jnp.log(delta)) / (2 * n))
    terms = {"training error": risk, "radius": 2 * constant * radius, "centres": root - surety, "confidence": surety}
    premises = (INDEPENDENT, RANGE, "the loss has this Lipschitz constant in the parameters, for every example")
    return Bound(risk + 2 * constant * radius + root, delta, terms, premises)
