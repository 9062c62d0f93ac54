"""Matrices: span, product, inverse, orthogonality."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, real, within
from corollary.catalog import implements


class Membership(NamedTuple):
    """Whether a vector lies in a span, the coefficients of its nearest point there, and its distance to that point."""

    inside: jax.Array
    coefficients: jax.Array
    distance: jax.Array

    __repr__ = shown


@implements("B01.01")
def in_span(vectors: Float[ArrayLike, "d k"], b: Float[ArrayLike, "d"], tolerance: Scalar | None = None) -> Membership:
    r"""Whether $b=\sum_ic_iv_i$ for some $c$, where the $v_i$ are the columns of `vectors` (d, k).

    `tolerance` is the largest distance that counts as zero; by default what rounding can leave.
    """
    dims = {}
    vectors, b = real("vectors", vectors, "d k", dims), real("b", b, "d", dims)
    c = jnp.linalg.lstsq(vectors, b)[0]
    distance = jnp.linalg.norm(vectors @ c - b)
    if tolerance is None:
        size = jnp.linalg.norm(vectors) * jnp.linalg.norm(c) + jnp.linalg.norm(b)
        tolerance = 10 * max(vectors.shape) * jnp.finfo(distance.dtype).eps * size
    else:
        tolerance = within("tolerance", real("tolerance", tolerance, ""), 0.0)
    return Membership(distance <= tolerance, c, distance)


class ColumnSpace(NamedTuple):
    """The first `rank` columns of `basis` are an orthonormal basis; the others complete it."""

    basis: jax.Array
    rank: jax.Array

    __repr__ = shown


@implements("B01.01")
def column_space(a: Float[ArrayLike, "m n"]) -> ColumnSpace:
    r"""The span of the columns of `a` (m, n): the left singular vectors with nonzero singular values."""
    a = real("a", a, "m n")
    u, s, _ = jnp.linalg.svd(a)
    return ColumnSpace(u, jnp.sum(s > max(a.shape) * jnp.finfo(s.dtype).eps * s[0]))


@implements("B01.02")
def matrix_product(a: Float[ArrayLike, "m n"], b: Float[ArrayLike, "n d"]) -> Float[Array, "_ _"]:
    r"""$C_{ij}=\sum_kA_{ik}B_{kj}$ as the definition has it: all products first, then the sums over $k$.

    For reading and for checking; `a @ b` needs neither the memory nor the time.
    """
    dims = {}
    a, b = real("a", a, "m n", dims), real("b", b, "n d", dims)
    return jnp.sum(a[:, :, None] * b[None, :, :], axis=1)


@implements("B01.02")
def commutator(a: Float[ArrayLike, "n n"], b: Float[ArrayLike, "n n"]) -> Float[Array, "_ _"]:
    r"""$AB-BA$: zero exactly if the two matrices commute."""
    dims = {}
    a, b = real("a", a, "n n", dims), real("b", b, "n n", dims)
    return a @ b - b @ a


@implements("B01.02")
def inverse(a: Float[ArrayLike, "n n"]) -> Float[Array, "n n"]:
    r"""$A^{-1}$ with $AA^{-1}=A^{-1}A=I$, by elimination with pivots on $(A\mid I)$; a singular matrix is refused."""
    a = real("a", a, "n n")
    n = a.shape[0]
    if concrete(a) and np.linalg.matrix_rank(np.asarray(a)) < n:
        raise ValueError("a must be invertible, got a singular matrix.")
    table = jnp.concatenate([a, jnp.eye(n, dtype=a.dtype)], axis=1)

    def clear(k, table):
        column = jnp.where(jnp.arange(n) >= k, jnp.abs(table[:, k]), -1)
        best = jnp.argmax(column)
        pivot, other = table[best], table[k]
        table = table.at[best].set(other).at[k].set(pivot / pivot[k])
        factors = jnp.where(jnp.arange(n) == k, 0, table[:, k])
        return table - factors[:, None] * table[k]

    return jax.lax.fori_loop(0, n, clear, table)[:, n:]


@implements("B01.22")
def orthogonality_defect(a: Float[ArrayLike, "n n"]) -> Float[Array, ""]:
    r"""The largest entry of $|A^\top A-I|$ and $|AA^\top-I|$: zero exactly for orthogonal matrices."""
    a = real("a", a, "n n")
    eye = jnp.eye(a.shape[0], dtype=a.dtype)
    return jnp.maximum(jnp.abs(a.T @ a - eye).max(), jnp.abs(a @ a.T - eye).max())


@implements("B01.22")
def is_orthogonal(a: Float[ArrayLike, "n n"], tolerance: Scalar | None = None) -> Bool[Array, ""]:
    """Whether rows and columns are orthonormal, up to `tolerance` in every inner product (by default, rounding)."""
    defect = orthogonality_defect(a)
    if tolerance is None:
        tolerance = 10 * jnp.shape(a)[0] * jnp.finfo(defect.dtype).eps
    return defect <= within("tolerance", real("tolerance", tolerance, ""), 0.0)
