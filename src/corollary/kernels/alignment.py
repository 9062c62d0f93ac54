r"""Two kernels on the same points compared, and one kernel with the labels.

Matrices are vectors with the inner product $\langle A,B\rangle=\sum_{ij}A_{ij}B_{ij}$. Centring removes what a kernel
has in common for all pairs of points: $\tilde K=HKH$ with $H=I-\frac1n\mathbf 1\mathbf 1^\top$ is the kernel of the
features less their mean.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import concrete, real


def centred_kernel(k: Float[ArrayLike, "n n"]) -> Float[Array, "n n"]:
    r"""$HKH$, $H=I-\frac1n\mathbf 1\mathbf 1^\top$: inner products of the features less their mean. `k` is (n, n)."""
    k = real("k", k, "n n")
    # twice one side: the same matrix as the usual four terms, and rows that are equal leave exact zeros
    k = k - k.mean(0)
    return k - k.mean(1, keepdims=True)


def kernel_alignment(k1: Float[ArrayLike, "n n"], k2: Float[ArrayLike, "n n"]) -> Float[Array, ""]:
    r"""$\langle K_1,K_2\rangle/\|K_1\|_F\|K_2\|_F$, the cosine of the angle between two matrices (n, n).

    1 exactly if one is a positive multiple of the other; of semidefinite matrices never negative. Of centred matrices
    this is the centred kernel alignment. A matrix of zeros has no direction: refused where the values are known, NaN
    inside a trace.

    >>> round(float(kernel_alignment(jnp.eye(2), 3 * jnp.eye(2))), 3)
    1.0
    """
    k1, k2 = _pair(k1, k2)
    for name, k in (("k1", k1), ("k2", k2)):
        _not_zero(name, k)
    # scaled first: squares of small entries must not vanish
    a, b = (k / jnp.abs(k).max() for k in (k1, k2))
    return jnp.sum(a * b) / jnp.sqrt(jnp.sum(a * a) * jnp.sum(b * b))


def kernel_drift(k1: Float[ArrayLike, "n n"], k2: Float[ArrayLike, "n n"]) -> Float[Array, ""]:
    r"""$\|K_2-K_1\|_F/\|K_1\|_F$: how far a kernel went from `k1`, (n, n), relative to its size.

    Where both are equal it has a kink: `grad` gives the subgradient 0 there.
    """
    k1, k2 = _pair(k1, k2)
    _not_zero("k1", k1)
    size = jnp.abs(k1).max()
    square = jnp.sum(((k2 - k1) / size) ** 2)
    # the root of another number where it is zero: 0 times the infinite slope there would be NaN
    moved = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
    return moved / jnp.linalg.norm(k1 / size)


def label_alignment(k: Float[ArrayLike, "n n"], y: Float[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""$\langle HKH,YY^\top\rangle/\|HKH\|_F\|HYY^\top H\|_F$: whether points with like labels are alike to the kernel.

    `y` is (n,) or (n, q), such as one-hot labels. Between 0 and 1 for semidefinite `k`; see `chance_alignment` for what
    few points give to any labels.
    """
    k, y = _labelled(k, y)
    return kernel_alignment(centred_kernel(k), y @ y.T)


def chance_alignment(k: Float[ArrayLike, "n n"], y: Float[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""The mean of `label_alignment(k, y)` over all orders of the labels: what it is where labels mean nothing.

    The mean of $\langle A,PBP^\top\rangle$ over permutations is $\mathrm{tr}A\,\mathrm{tr}B/(n-1)$ for centred $A$
    and $B$, and the norms do not change.
    """
    k, y = _labelled(k, y)
    a, b = centred_kernel(k), y @ y.T
    for name, matrix in (("k, centred,", a), ("y, centred,", b)):
        _not_zero(name, matrix)
    share = [jnp.trace(m) / jnp.linalg.norm(m) for m in (a, b)]
    return share[0] * share[1] / (k.shape[0] - 1)


def effective_rank(values: Float[ArrayLike, "n"]) -> Float[Array, ""]:
    r"""$(\sum_i\lambda_i)^2/\sum_i\lambda_i^2$: how many eigenvalues share the trace. `values` (n,) are not negative.

    n if all are equal, 1 if there is but one. What rounding left below zero counts as zero.
    """
    values = real("values", values, "n")
    _not_zero("values", values)
    values = jnp.maximum(values / jnp.abs(values).max(), 0)
    return jnp.sum(values) ** 2 / jnp.sum(values**2)


def _labelled(k, y):
    """The kernel, and the labels less their mean in columns."""
    dims = {}
    k, y = real("k", k, "n n", dims), real("y", y)
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, q), got {y.shape}.")
    y = real("y", y, "n" if y.ndim == 1 else "n q", dims).reshape(y.shape[0], -1).astype(k.dtype)
    return k, y - y.mean(0)


def _pair(k1, k2):
    dims = {}
    return real("k1", k1, "n n", dims), real("k2", k2, "n n", dims)


def _not_zero(name, k):
    if concrete(k) and not np.asarray(k).any():
        raise ValueError(f"{name} must not be zero everywhere.")
