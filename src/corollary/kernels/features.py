r"""Features behind kernels: monomials for powers, eigenfunctions for any kernel.

A feature map $\psi$ gives the kernel $\psi(x)\cdot\psi(x')$. Back from the kernel to features leads the expansion
$K(x,x')=\sum_i\mu_i\psi_i(x)\psi_i(x')$ of Mercer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import one_of, positive, real, whole, within
from corollary.catalog import implements
from corollary.kernels.gram import gram


class Expansion(NamedTuple):
    r"""The leading eigenvalues $\mu_i$, largest first, and the eigenfunctions at the nodes: (rank,) and (n, rank)."""

    eigenvalues: jax.Array
    functions: jax.Array

    __repr__ = shown


@implements("M04.08", "B07.01")
def plane_features(x: Float[ArrayLike, "2"]) -> Array:
    r"""$\psi(a,b)=(a^2,\sqrt2\,ab,b^2)$ of a point in the plane: $\psi(x)\cdot\psi(x')=(x\cdot x')^2$."""
    a, b = real("x", x, "2")
    return jnp.stack([a * a, 2**0.5 * a * b, b * b])


@implements("M04.08")
def monomial_features(x: Float[ArrayLike, "d"], degree: int) -> Array:
    r"""All monomials of this degree of one point, each times the root of its multinomial coefficient.

    $\psi(x)\cdot\psi(x')=(x\cdot x')^p$ by the multinomial theorem. There are $\binom{d+p-1}p$ of them.
    """
    x, degree = real("x", x, "d"), whole("degree", degree)
    picks, weights = _monomials(x.shape[0], degree)
    return jnp.asarray(weights, x.dtype) * jnp.prod(x[jnp.asarray(picks)], axis=1)


@implements("T03.11")
def polynomial_features(x: Float[ArrayLike, "d"], degree: int, offset: Scalar = 1.0) -> Float[Array, "_"]:
    r"""Features of $(x\cdot x'+c)^p$ at one point: the monomials of degree $p$ of $(\sqrt c,x)$.

    For $p=2$, $c=1$: the constant 1, $\sqrt2x_i$, $\sqrt2x_ix_j$ for $i<j$ and $x_i^2$, in all $\binom{d+2}2$.
    """
    x = real("x", x, "d")
    offset = within("offset", real("offset", offset, ""), 0.0).astype(x.dtype)
    return monomial_features(jnp.concatenate([jnp.sqrt(offset)[None], x]), degree)


@implements("T03.12")
def sphere_series(kernel: str, terms: int) -> Array:
    r"""The first coefficients $c_k$ of $K(x,x')=\sum_kc_k(x\cdot x')^k$ on unit vectors.

    `"gaussian"`: $e^{-\|x-x'\|^2}$, $c_k=e^{-2}2^k/k!$. `"laplace"`: $g=e^{-\|x-x'\|_2}$ as a function of
    $u=x\cdot x'$ solves $(2-2u)g''=g'+g$, so that $c_{k+2}=\frac{(k+1)(2k+1)c_{k+1}+c_k}{2(k+1)(k+2)}$ from
    $c_0=e^{-\sqrt2}$, $c_1=c_0/\sqrt2$: all positive, hence a kernel with features $\sqrt{c_k}\,x^{\otimes k}$.
    `"growing"`: $e^{+\|x-x'\|_2}$ has the same recursion from $c_0=e^{\sqrt2}$, $c_1=-c_0/\sqrt2$, and is no kernel.
    """
    one_of("kernel", kernel, ("gaussian", "laplace", "growing"))
    terms = whole("terms", terms)
    if kernel == "gaussian":
        k = jnp.arange(1, terms, dtype=jnp.result_type(float))
        return jnp.exp(-2.0 + jnp.concatenate([jnp.zeros(1, k.dtype), jnp.cumsum(jnp.log(2 / k))]))
    sign = 1.0 if kernel == "laplace" else -1.0
    first = jnp.exp(-sign * jnp.sqrt(2.0))

    def advance(pair, k):
        a, b = pair
        c = ((k + 1) * (2 * k + 1) * b + a) / (2 * (k + 1) * (k + 2))
        return (b, c), a

    start = first, sign * first / jnp.sqrt(2.0)
    return jax.lax.scan(advance, start, jnp.arange(terms, dtype=first.dtype))[1]


@implements("M04.08")
def monomial_count(dim: int, degree: int) -> int:
    r"""$\binom{d+p-1}p$, the number of monomials of degree $p$ in $d$ variables."""
    dim, degree = whole("dim", dim), whole("degree", degree)
    return math.comb(dim + degree - 1, degree)


@implements("M04.13")
def mercer(kernel: Callable, nodes: Float[ArrayLike, "..."], weights: Float[ArrayLike, "n"], rank: int) -> Expansion:
    r"""The expansion of a kernel on the measure with mass `weights`, all positive, at the `nodes`.

    The eigenvalues of $\int K(x,x')\psi(x')\,dx'=\mu\psi(x)$ are those of $w_i^{1/2}K(x_i,x_j)w_j^{1/2}$, and the
    functions have $\sum_kw_k\psi_i(x_k)\psi_j(x_k)=\delta_{ij}$. With weights 1 it is the spectral theorem for the Gram
    matrix. For quadrature nodes it approaches the expansion on the continuum.
    """
    dims = {}
    nodes = real("nodes", nodes)
    nodes = real("nodes", nodes[:, None] if nodes.ndim == 1 else nodes, "n d", dims)
    weights = positive("weights", real("weights", weights, "n", dims))
    rank = whole("rank", rank, 1, nodes.shape[0])
    root = jnp.sqrt(weights)
    values, vectors = jnp.linalg.eigh(gram(kernel, nodes) * root[:, None] * root)
    return Expansion(values[::-1][:rank], vectors[:, ::-1][:, :rank] / root[:, None])


@implements("M04.13")
def mercer_features(
    kernel: Callable,
    nodes: Float[ArrayLike, "..."],
    weights: Float[ArrayLike, "n"],
    expansion: Expansion,
    x: Float[ArrayLike, "..."],
) -> Array:
    r"""The features $\sqrt{\mu_i}\psi_i(x)$ at new points, by the eigen-equation.

    $\psi_i(x)=\frac1{\mu_i}\int K(x,x')\psi_i(x')\,dx'$. Only functions with $\mu_i>0$ can be extended; the others
    count as zero, as they do in the sum.
    """
    if not isinstance(expansion, Expansion):
        raise TypeError(f"expansion must be an Expansion, as mercer returns it, got {type(expansion).__name__}.")
    cross = gram(kernel, x, nodes)
    weights = real("weights", weights, "n", {"n": cross.shape[1]})
    floor = jnp.finfo(cross.dtype).eps * cross.shape[1] * jnp.abs(expansion.eigenvalues).max()
    some = expansion.eigenvalues > floor
    root = jnp.sqrt(jnp.where(some, expansion.eigenvalues, 1.0))
    return jnp.where(some, (cross * weights) @ expansion.functions / root, 0.0)


@implements("M04.13")
def truncated(expansion: Expansion) -> Array:
    r"""$\sum_{i\le r}\mu_i\psi_i(x)\psi_i(x')$ at all pairs of nodes."""
    if not isinstance(expansion, Expansion):
        raise TypeError(f"expansion must be an Expansion, as mercer returns it, got {type(expansion).__name__}.")
    return (expansion.functions * expansion.eigenvalues) @ expansion.functions.T


@implements("M04.13")
def brownian_eigenvalues(rank: int) -> Array:
    r"""$\mu_i=((i-\frac12)\pi)^{-2}$ of $\min(s,t)$ on $[0,1]$."""
    return ((jnp.arange(whole("rank", rank)) + 0.5) * np.pi) ** -2.0


@implements("M04.13")
def brownian_eigenfunctions(t: Float[ArrayLike, "n"], rank: int) -> Array:
    r"""$\psi_i(t)=\sqrt2\sin((i-\frac12)\pi t)$ at points of $[0,1]$: shape (len(t), rank)."""
    t = within("t", real("t", t, "n"), 0.0, 1.0)
    frequency = (jnp.arange(whole("rank", rank)) + 0.5) * np.pi
    return 2**0.5 * jnp.sin(t[:, None] * frequency.astype(t.dtype))


def _monomials(dim, degree):
    """The coordinates of each monomial, with repetition, and the root of how often it occurs in the power."""
    picks = np.array(list(combinations_with_replacement(range(dim), degree)))
    powers = [np.bincount(row, minlength=dim) for row in picks]
    counts = [math.factorial(degree) / math.prod(math.factorial(int(k)) for k in row) for row in powers]
    return picks, np.sqrt(counts)
