r"""How well ReLU networks with bounded weights fit random signs: exactly, for points of the plane.

Networks $W_L\sigma(W_{L-1}\cdots\sigma(W_1x))$ with one output and $\|W_i\|_F\le B$, of any widths. Because the ReLU is
positively homogeneous, two layers do best with one unit, which turns a supremum over networks into one over a circle.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


@implements("B08.22")
def relu_unit_supremum(
    signs: Float[ArrayLike, "... m"], x: Float[ArrayLike, "m 2"], *, radius: Float[ArrayLike, ""] = 1.0
) -> Float[Array, "..."]:
    r"""$\sup_{\|w\|\le B}\sum_i\sigma_i\max(w\cdot x_i,0)$ for points of the plane, $B$ = `radius`, exactly.

    On an arc of directions between those that are orthogonal to a point the sum is $w\cdot v$, $v=\sum\sigma_ix_i$ over
    the active points: the largest is at the direction of $v$, or at an end of the arc. All arcs are looked at.
    """
    dims = {}
    x, signs = real("x", x, "m 2", dims), real("signs", signs, "... m", dims)
    radius = within("radius", real("radius", radius, ""), 0.0)
    angle = jnp.arctan2(x[:, 1], x[:, 0])
    ends = jnp.sort(jnp.concatenate([angle + jnp.pi / 2, angle - jnp.pi / 2]) % (2 * jnp.pi))
    middle = (ends + jnp.append(ends[1:], ends[0] + 2 * jnp.pi)) / 2
    active = (_directions(middle) @ x.T > 0).astype(x.dtype)
    v = jnp.einsum("...m,am,md->...ad", signs, active, x)
    length = jnp.linalg.norm(v, axis=-1, keepdims=True)
    inside = jnp.maximum(v / jnp.where(length > 0, length, 1) @ x.T, 0)
    best = jnp.max(jnp.einsum("...m,...am->...a", signs, inside), -1)
    at_ends = jnp.max(signs @ jnp.maximum(_directions(ends) @ x.T, 0).T, -1)
    return radius * jnp.maximum(jnp.maximum(best, at_ends), 0)


@implements("B08.23")
def two_layer_supremum(
    signs: Float[ArrayLike, "... m"], x: Float[ArrayLike, "m 2"], *, radius: Float[ArrayLike, ""] = 1.0
) -> Float[Array, "..."]:
    r"""The supremum over two layers with $\|W_1\|_F,\|W_2\|_F\le B$ = `radius`, of any width: $B^2$ times one unit's.

    The unit may enter with either sign: it is the larger one of the suprema for the signs and for their opposites.
    """
    signs = real("signs", signs, "... m")
    one = jnp.maximum(relu_unit_supremum(signs, x), relu_unit_supremum(-signs, x))
    return within("radius", real("radius", radius, ""), 0.0) ** 2 * one


@implements("B08.24")
def norm_bounded_complexity(
    n: Float[ArrayLike, "..."], bound: Float[ArrayLike, "..."], depth: int
) -> Float[Array, "..."]:
    r"""$(2B)^L/\sqrt n$: bounds the complexity of ReLU networks of `depth` $L$ layers with $\|W_i\|_F\le B$ = `bound`.

    For $n$ points of length 1 at most, and networks of any widths (Theorem 65).
    """
    n, bound = within("n", real("n", n), 1.0), positive("bound", real("bound", bound))
    return (2 * bound) ** whole("depth", depth) / jnp.sqrt(n)


def _directions(angle):
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1)
