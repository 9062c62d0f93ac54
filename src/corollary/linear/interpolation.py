r"""Fewer equations than unknowns: all weights that fit the data exactly, the shortest of them, and who finds it.

$\hat L(w)=\frac12\|Xw-y\|^2$ with $X\in\mathbb R^{n\times d}$, $d>n$ and independent rows has an affine space of
zeros, of dimension $d-n$.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, labels, positive, real, within
from corollary.catalog import implements


class Interpolants(NamedTuple):
    r"""All $w$ with $Xw=y$: `shortest + null @ c` for any $c$; the columns of `null` are orthonormal, (d, d - n)."""

    shortest: jax.Array
    null: jax.Array

    __repr__ = shown


@implements("T03.01", "B07.02")
def sum_of_squares(
    w: Float[ArrayLike, "d"], x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], scale: Scalar = 0.5
) -> Float[Array, ""]:
    r"""$\frac12\|Xw-y\|^2$, a sum and not a mean: steps depend on it. `scale` replaces the $\frac12$."""
    w, x, y, scale = _problem(w, x, y, scale)
    return scale * jnp.sum((x @ w - y) ** 2)


@implements("T03.01", "B07.02")
def sum_of_squares_gradient(
    w: Float[ArrayLike, "d"], x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], scale: Scalar = 0.5
) -> Float[Array, "_"]:
    r"""$X^\top(Xw-y)$, times twice the `scale`."""
    w, x, y, scale = _problem(w, x, y, scale)
    return 2 * scale * x.T @ (x @ w - y)


@implements("T03.07")
def moore_penrose(m: Float[ArrayLike, "r c"], tolerance: Scalar | None = None) -> Float[Array, "c r"]:
    r"""$M^+=\sum_{i\le k}\frac1{\sigma_i}v_iu_i^\top$ over the $k$ singular values that are not zero: (columns, rows).

    Zero is what lies below `tolerance` times the largest one, by default what rounding makes of zero.
    """
    m = real("m", m, "r c")
    u, inverse, v = _inverted(m, tolerance)
    return (v * inverse) @ u.T


@implements("T03.06", "B07.02")
def min_norm_interpolant(x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$X^+y$, which is $X^\top(XX^\top)^{-1}y$ if the rows are independent: of all $w$ with $Xw=y$ the shortest.

    Of all $w$ of least squared error, where none fits exactly. `y` is (n,), or (n, k) for several labels.
    """
    x, y = _data(x, y)
    u, inverse, v = _inverted(x, None)
    return v @ (inverse.reshape(-1, *(1,) * (y.ndim - 1)) * (u.T @ y))


@implements("T03.02")
def interpolants(x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "..."]) -> Interpolants:
    """The whole solution space, for fewer rows than columns and independent rows."""
    x, y = _data(x, y)
    n, d = x.shape
    if n >= d:
        raise ValueError(f"x must have fewer rows than columns, got shape {x.shape}.")
    if concrete(x) and (rank := np.linalg.matrix_rank(np.asarray(x))) < n:
        raise ValueError(f"x must have independent rows, got rank {rank} of {n} rows.")
    _, _, vt = jnp.linalg.svd(x, full_matrices=True)
    return Interpolants(min_norm_interpolant(x, y), vt[n:].T)


@implements("T03.02")
def sparse_interpolant(
    x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "..."], support: Int[ArrayLike, "n"]
) -> Float[Array, "..."]:
    r"""The solution that is zero outside the $n$ coordinates `support`; NaN where those columns are dependent.

    A generic $X$ has one for every support. Not every $X$ with independent rows has.
    """
    x, y = _data(x, y)
    n, d = x.shape
    support = labels("support", support, d, "n", {"n": n})
    if concrete(support) and len(set(np.asarray(support).tolist())) < n:
        raise ValueError("support must name different coordinates.")
    u, s, vt = jnp.linalg.svd(x[:, support])
    # a singular system answers with huge numbers; none at all is the honest answer
    regular = s[-1] > n * jnp.finfo(x.dtype).eps * s[0]
    solution = vt.T @ ((u.T @ y).T / jnp.where(regular, s, jnp.nan)).T
    return jnp.zeros((d, *y.shape[1:]), x.dtype).at[support].set(solution)


@implements("T03.03")
def descent_from_zero(
    x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "..."], step: Scalar, steps: Int[ArrayLike, "t"]
) -> Float[Array, "..."]:
    r"""Gradient descent on $\frac12\|Xw-y\|^2$ from 0 after each number of `steps`, without iterating: (len(steps), d).

    $w_t=\sum_{j<t}(I-\eta X^\top X)^j\eta X^\top y=\sum_i\frac{1-(1-\eta\sigma_i^2)^t}{\sigma_i}(u_i\cdot y)v_i$: what
    the data say along large singular values is learned first.
    """
    x, y = _data(x, y)
    if y.ndim != 1:
        raise ValueError(f"y must have shape (n,), got {y.shape}.")
    step, steps = positive("step", real("step", step, "")), labels("steps", steps, None, "t")
    u, inverse, v = _inverted(x, None)
    s = jnp.linalg.norm(x @ v, axis=0)
    learned = 1 - (1 - step * s**2) ** steps[:, None]
    return (learned * inverse * (u.T @ y)) @ v.T


def _inverted(m, tolerance):
    """Thin singular vectors, and the inverses of the singular values, zero for zero."""
    u, s, vt = jnp.linalg.svd(m, full_matrices=False)
    if tolerance is None:
        tolerance = max(m.shape) * jnp.finfo(m.dtype).eps
    else:
        tolerance = within("tolerance", real("tolerance", tolerance, ""), 0.0)
    kept = s > tolerance * s[0]
    return u, jnp.where(kept, 1 / jnp.where(kept, s, 1), 0), vt.T


def _data(x, y):
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y)
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, k), got {y.shape}.")
    y = real("y", y, "n" if y.ndim == 1 else "n k", dims)
    dtype = jnp.result_type(x, y)
    return x.astype(dtype), y.astype(dtype)


def _problem(w, x, y, scale):
    dims = {}
    x, y, w = real("x", x, "n d", dims), real("y", y, "n", dims), real("w", w, "d", dims)
    return w, x, y, positive("scale", real("scale", scale, ""))
