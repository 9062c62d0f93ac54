r"""Deep matrix factorisation under gradient flow: $W_L\cdots W_1$ fitted to a matrix $W^*$, all factors square.

The loss is $\frac1{2L}\|W_L\cdots W_1-W^*\|_F^2=\frac1{2L}\mathbb E\langle W-W^*,A\rangle^2$ over measurements $A$ of
independent standard normal entries. Factors are stacked, the one that acts first comes first: shape (L, d, d).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole
from corollary.catalog import implements
from corollary.landscape._chain import around, product
from corollary.optimization.flow import gradient_flow
from corollary.optimization.problem import Problem


@implements("B06.23")
def deep_factorization_loss(factors: Float[ArrayLike, "L d d"], target: Float[ArrayLike, "d d"]) -> Float[Array, ""]:
    r"""$\frac1{2L}\|W_L\cdots W_1-W^*\|_F^2$."""
    factors, target = _factors(factors, target)
    return _loss(factors, target)


@implements("B06.23")
def factor_velocity(factors: Float[ArrayLike, "L d d"], target: Float[ArrayLike, "d d"]) -> Float[Array, "L _ _"]:
    r"""$\dot W_k=-\frac1L(W_L\cdots W_{k+1})^\top(W-W^*)(W_{k-1}\cdots W_1)^\top$ for all factors: (L, d, d)."""
    factors, target = _factors(factors, target)
    error = target - product(factors)
    return jnp.stack([after.T @ error @ before.T for after, before in around(factors)]) / len(factors)


@implements("B06.23")
def imbalance(factors: Float[ArrayLike, "L d d"]) -> Float[Array, "_ _ _"]:
    r"""$W_{k+1}^\top W_{k+1}-W_kW_k^\top$ for $k=1,\dots,L-1$: conserved by the flow, zero at balanced factors."""
    factors = real("factors", factors, "L d d")
    return jnp.swapaxes(factors[1:], 1, 2) @ factors[1:] - factors[:-1] @ jnp.swapaxes(factors[:-1], 1, 2)


@implements("B06.23")
def balanced_factors(
    matrix: Float[ArrayLike, "d d"], depth: int, *, key: PRNGKeyArray | None = None
) -> Float[Array, "_ _ _"]:
    r"""Factors $W_k=Q_k\Sigma^{1/L}Q_{k-1}^\top$ with the product $U\Sigma V^\top=$ `matrix` and no imbalance.

    $Q_0=V$, $Q_L=U$; those between are the identity, or random orthogonal matrices with a `key`.
    """
    matrix, depth = real("matrix", matrix, "d d"), whole("depth", depth)
    u, s, vt = jnp.linalg.svd(matrix)
    d = s.size
    if key is None:
        inner = jnp.broadcast_to(jnp.eye(d, dtype=s.dtype), (depth - 1, d, d))
    else:
        inner = jax.random.orthogonal(key, d, (depth - 1,), dtype=s.dtype)
    bases = jnp.concatenate([vt.T[None], inner, u[None]])
    return bases[1:] * s ** (1 / depth) @ jnp.swapaxes(bases[:-1], 1, 2)


@implements("B06.23")
def balanced_velocity(
    matrix: Float[ArrayLike, "d d"], target: Float[ArrayLike, "d d"], depth: int
) -> Float[Array, "_ _"]:
    r"""$\dot W=\frac1L\sum_{k=1}^L[WW^\top]^{(L-k)/L}(W^*-W)[W^\top W]^{(k-1)/L}$: the flow of the product alone.

    True of the product of balanced factors.
    """
    dims = {}
    matrix, target = real("matrix", matrix, "d d", dims), real("target", target, "d d", dims)
    depth = whole("depth", depth)
    u, s, vt = jnp.linalg.svd(matrix)
    k = np.arange(1, depth + 1, dtype=s.dtype)[:, None]
    # in the bases of the singular vectors the powers are diagonal, and each entry has a gain of its own
    left, right = s ** (2 * (depth - k) / depth), s ** (2 * (k - 1) / depth)
    gain = jnp.einsum("ki,kj->ij", left, right) / depth
    return u @ (gain * (u.T @ (target - matrix) @ vt.T)) @ vt


@implements("B06.23")
def factor_flow(
    factors: Float[ArrayLike, "L d d"],
    target: Float[ArrayLike, "d d"],
    times: Float[ArrayLike, "t"],
    *,
    substeps: int = 20,
) -> Float[Array, "t L _ _"]:
    r"""The factors at the increasing `times` (t,) of the gradient flow: shape (t, L, d, d)."""
    factors, target = _factors(factors, target)
    return gradient_flow(Problem(_loss, (target,), factors), times, substeps=substeps).theta


@implements("B06.23")
def singular_value_time(
    start: Float[ArrayLike, "..."], end: Float[ArrayLike, "..."], target: Scalar, depth: int, *, nodes: int = 60
) -> Float[Array, "..."]:
    r"""How long $\dot s=s^{2-2/L}(s^*-s)$ takes from `start` to `end`: the flow of one singular value.

    True where balanced factors and the target share their singular vectors. All three are positive; `start` and `end`
    are on one side of the target. $\int\frac{ds}{s^{2-2/L}(s^*-s)}$ by Gauss and Legendre's rule in the variable in
    which the way is $\ln(s/|s^*-s|)$ long.
    """
    start, end, target = (positive(n, real(n, v)) for n, v in {"start": start, "end": end, "target": target}.items())
    if all(map(concrete, (start, end, target))):
        first, last, goal = (np.asarray(v) for v in (start, end, target))
        if ((first - goal) * (last - goal) <= 0).any():
            raise ValueError("start and end must lie on the same side of target.")
    start, end, target = jnp.broadcast_arrays(start, end, target)
    depth, nodes = whole("depth", depth), whole("nodes", nodes)
    sign = jnp.sign(target - start)
    low, high = (jnp.log(s) - jnp.log(jnp.abs(target - s)) for s in (start, end))
    points, weights = np.polynomial.legendre.leggauss(nodes)
    points, weights = points.astype(low.dtype), weights.astype(low.dtype)
    z = (low + high)[..., None] / 2 + (high - low)[..., None] / 2 * points
    # s/(s* - s) = sign e^z, and then ds/(s (s* - s)) = dz / s*
    s = target[..., None] / (1 + sign[..., None] * jnp.exp(-z))
    return (high - low) / 2 / target * jnp.sum(weights * s ** (2 / depth - 1), axis=-1)


def _loss(factors, target):
    return jnp.sum((product(factors) - target) ** 2) / (2 * len(factors))


def _factors(factors, target):
    dims = {}
    factors, target = real("factors", factors, "L d d", dims), real("target", target, "d d", dims)
    dtype = jnp.result_type(factors, target)
    return factors.astype(dtype), target.astype(dtype)
