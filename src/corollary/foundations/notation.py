r"""Small words that every text uses: indicator, entrywise product, the set of all minimisers, orders of growth."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

from corollary._types import Scalar
from corollary._validate import positive, real, within
from corollary.catalog import implements


@implements("M00.03")
def indicator(contains: Callable, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\mathbf 1_A(z)$, where the function `contains` says whether a point is in $A$."""
    if not callable(contains):
        raise TypeError(f"contains must be a function of a point, got {type(contains).__name__}.")
    return jnp.where(contains(z), 1.0, 0.0)


@implements("M00.03")
def hadamard(x: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$(x\odot y)_d=x_dy_d$: entry by entry, for arrays of one shape (where `*` would also stretch them)."""
    x, y = real("x", x), real("y", y)
    if x.shape != y.shape:
        raise ValueError(f"x and y must have the same shape, got {x.shape} and {y.shape}.")
    return x * y


@implements("M00.03")
def entrywise(phi: Callable, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\phi(x)$ for a function $\phi$ of a number and an array $x$: $\phi$ at every entry."""
    if not callable(phi):
        raise TypeError(f"phi must be a function of a number, got {type(phi).__name__}.")
    x = real("x", x)
    return jax.vmap(phi)(x.ravel()).reshape(x.shape)


@implements("M00.03")
def argmin_set(g: Callable, candidates: Float[ArrayLike, "..."], tolerance: Scalar = 0.0) -> Bool[Array, "..."]:
    r"""Which of `candidates` (n, ...) are in $\arg\min g=\{z:g(z)\le g(z')\ \forall z'\}$: all of them, not only one.

    Values within `tolerance` of the least count as least.
    """
    if not callable(g):
        raise TypeError(f"g must be a function of a point, got {type(g).__name__}.")
    candidates = real("candidates", candidates)
    if candidates.ndim == 0 or candidates.shape[0] == 0:
        raise ValueError(f"candidates must hold at least one point, got shape {candidates.shape}.")
    values = jax.vmap(g)(candidates)
    if values.ndim != 1:
        raise ValueError(f"g must return a number, got shape {values.shape[1:]}.")
    return values <= values.min() + within("tolerance", real("tolerance", tolerance, ""), 0.0)


@implements("B12.17")
def growth_ratio(f: Callable, g: Callable, n: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$|f(n)|/g(n)$ at every entry of `n`, for functions of a number with $g>0$.

    $f=O(g)$ says that it stays below some $C$ from some $N$ on, $f=\Omega(g)$ that it stays above some $C'>0$, and
    $f=o(g)$ that it tends to 0.

    >>> print(growth_ratio(lambda n: 3 * n + 4, lambda n: n, jnp.array([1.0, 4.0])))
    [7. 4.]
    """
    for name, function in (("f", f), ("g", g)):
        if not callable(function):
            raise TypeError(f"{name} must be a function of a number, got {type(function).__name__}.")
    n = real("n", n)
    return jnp.abs(entrywise(f, n)) / positive("g(n)", entrywise(g, n))
