r"""The point of a convex polytope nearest to the origin, by Wolfe's method.

The method keeps a few vertices that are affinely independent (the corral). It goes to the point of their affine hull
nearest to the origin; if that leaves their convex hull, it stops at the border and drops a vertex there; once inside,
it asks for the vertex that lies furthest towards the origin, and adds it. It ends after finitely many steps, at the
minimum. The polytope is known only through that question, so it may have far more vertices than could be listed.

For every $p$ of the polytope, $\min_v p\cdot v/\|p\|\le\min\|p'\|\le\|p\|$: the difference of the two ends
certifies the result.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float

from corollary._show import shown
from corollary._validate import real, whole


class MinNorm(NamedTuple):
    """`point` is the nearest found, `weights` combine it from the given points.

    `gap` bounds how much shorter than `point` any other can be.
    """

    point: jax.Array
    weights: jax.Array
    gap: jax.Array
    steps: jax.Array

    __repr__ = shown


def min_norm_point(points: Float[ArrayLike, "n d"], *, steps: int = 10_000) -> MinNorm:
    r"""The point of the convex hull of `points` (n, d) nearest to the origin."""
    points, steps = real("points", points, "n d"), whole("steps", steps)
    scale = jnp.max(jnp.abs(points))
    scale = jnp.where(scale > 0, scale, 1)
    scaled = points / scale

    def support(p):
        at = jnp.argmin(scaled @ p)
        return scaled[at], at

    corral = wolfe(support, jnp.mean(scaled, axis=0), steps)
    weights = jnp.zeros(points.shape[0], points.dtype).at[corral.tags].add(corral.weights)
    return MinNorm(scale * corral.point, weights, scale * jnp.maximum(corral.gap, 0), corral.steps)


class Corral(NamedTuple):
    """The state of the method: slots for vertices, which of them are used, and their weights."""

    vertices: jax.Array
    tags: jax.Array
    weights: jax.Array
    used: jax.Array
    point: jax.Array
    gap: jax.Array
    fresh: jax.Array
    done: jax.Array
    steps: jax.Array

    __repr__ = shown


def wolfe(support, start, steps: int, enough=lambda p, v: False) -> Corral:
    """Wolfe's method. `support(p)` returns the vertex with the least product with `p`, and a tag (an integer array).

    Vertices are of the order of one. `enough(p, v)`, given the point and the vertex `support(p)`, may end it early.
    """
    vertex, tag = support(start)
    d, dtype = vertex.shape[0], vertex.dtype
    slots = d + 2  # d + 1 vertices span the space, and a new one needs room before another is dropped
    tolerance = 8 * slots * jnp.finfo(dtype).eps
    first = jnp.arange(slots) == 0

    def forward(corral, alpha, inside):
        """The affine minimum lies inside: go there, and add the vertex furthest towards the origin."""
        point = alpha @ corral.vertices
        vertex, tag = support(point)
        length = jnp.linalg.norm(point)
        gap = jnp.where(length > tolerance, (point @ point - point @ vertex) / jnp.maximum(length, tolerance), length)
        slot = jnp.argmin(corral.used)
        done = (gap <= tolerance) | corral.used[slot] | enough(point, vertex)
        add = (jnp.arange(slots) == slot) & ~done
        return corral._replace(
            vertices=jnp.where(add[:, None], vertex, corral.vertices),
            tags=jnp.where(add.reshape(-1, *[1] * tag.ndim), tag, corral.tags),
            weights=alpha,
            used=corral.used | add,
            point=point,
            gap=gap,
            fresh=slot,
            done=done,
        )

    def back(corral, alpha, inside):
        """It lies outside: go as far as all weights stay positive, and drop the vertex whose weight is then zero."""
        out = corral.used & ~inside
        alpha = jnp.where(out, jnp.minimum(alpha, 0), alpha)
        way = jnp.where(out, corral.weights / jnp.maximum(corral.weights - alpha, jnp.finfo(dtype).tiny), jnp.inf)
        far = jnp.min(way)
        drop = way <= far
        weights = jnp.where(drop | ~corral.used, 0, corral.weights + far * (alpha - corral.weights))
        # a vertex that is dropped as soon as it came was wanted by rounding only: nothing is left to gain
        stalled = (far <= 0) & drop[corral.fresh]
        return corral._replace(weights=weights, used=corral.used & ~drop, done=stalled)

    def advance(corral):
        alpha = _affine(corral.vertices, corral.used)
        inside = alpha > tolerance
        leave = jnp.any(corral.used & ~inside)
        ahead, behind = forward(corral, alpha, inside), back(corral, alpha, inside)
        chosen = jax.tree.map(lambda a, b: jnp.where(leave, b, a), ahead, behind)
        return chosen._replace(steps=corral.steps + 1)

    initial = Corral(
        vertices=jnp.where(first[:, None], vertex, jnp.zeros((slots, d), dtype)),
        tags=jnp.zeros((slots, *tag.shape), tag.dtype).at[0].set(tag),
        weights=first.astype(dtype),
        used=first,
        point=vertex,
        gap=jnp.full((), jnp.inf, dtype),
        fresh=jnp.zeros((), jnp.argmin(first).dtype),
        done=jnp.zeros((), bool),
        steps=jnp.zeros((), int),
    )
    return jax.lax.while_loop(lambda c: ~c.done & (c.steps < steps), advance, initial)


def _affine(vertices, used):
    r"""The weights, of sum one, of the point nearest to the origin in the affine hull of the used vertices.

    Up to a factor they solve the least-squares problem $\sum\alpha_iv_i=0$, $\sum\alpha_i=1$. It is solved by QR, which
    does not square the condition number; a row for each slot that is not used sets its weight to zero.
    """
    slots, d = vertices.shape
    columns = jnp.where(used, jnp.concatenate([vertices.T, jnp.ones((1, slots), vertices.dtype)]), 0)
    system = jnp.concatenate([columns, jnp.diag((~used).astype(vertices.dtype))])
    q, r = jnp.linalg.qr(system)
    alpha = jax.scipy.linalg.solve_triangular(r, q[d])
    alpha = jnp.where(used, alpha, 0)
    return alpha / jnp.sum(alpha)
