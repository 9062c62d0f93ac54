r"""How a linear network of two layers learns: its singular values one after another, each along a logistic curve.

Gradient flow on $\frac12\|W_2W_1-A\|_F^2$ from small weights stays near a saddle until the next singular value of $A$
has grown up to its size; the times follow from the start.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._validate import positive, real, within
from corollary.catalog import implements
from corollary.optimization.problem import Problem


@implements("B05.23")
def linear_network_loss(target: Float[ArrayLike, "p q"], start: Float[ArrayLike, "h w"]) -> Problem:
    r"""$\frac12\|W_2W_1-A\|_F^2$ for `target` $A$ (p, q): what least squares on whitened inputs amounts to.

    The parameters are one matrix (h, p + q), $W_2^\top$ beside $W_1$; `start` gives them. The minimum 0 is that of
    $h\ge$ rank $A$.
    """
    target, start = real("target", target, "p q"), real("start", start, "h w")
    p, q = target.shape
    if start.shape[1] != p + q:
        raise ValueError(f"start must have shape (h, {p + q}) for a target of shape ({p}, {q}), got {start.shape}.")

    def value(theta, target):
        return 0.5 * jnp.sum((theta[:, :p].T @ theta[:, p:] - target) ** 2)

    return Problem(value, (target,), start)


@implements("B05.23")
def mode_strength(target: Float[ArrayLike, "..."], start: Float[ArrayLike, "..."], t: Float[ArrayLike, "..."]) -> Array:
    r"""$u(t)=\frac{s}{1+(\frac s{u_0}-1)e^{-2st}}$, the solution of $\dot u=2u(s-u)$: a singular value of $W_2W_1$
    from $u_0$ to $s$, exactly, if the layers start aligned with $A$ and equally large.
    """
    target, start = positive("target", real("target", target)), positive("start", real("start", start))
    t = within("t", real("t", t), 0.0)
    return target / (1 + (target / start - 1) * jnp.exp(-2 * target * t))


class ModeTimes(NamedTuple):
    """Singular values of the target, what each starts from, and when it has grown half; all (r,), largest first."""

    target: jax.Array
    start: jax.Array
    time: jax.Array

    __repr__ = shown


@implements("B05.23")
def mode_times(target: Float[ArrayLike, "p q"], theta: Float[ArrayLike, "h w"]) -> ModeTimes:
    r"""When each singular value of a linear network has grown half, $\frac1{2s_i}\ln(\frac{s_i}{u_i}-1)$, for small
    weights `theta` (h, p + q) as in `linear_network_loss`.

    While all is small $W_1v_i$ and $W_2^\top u_i$ follow a linear equation in which only their mean grows, like
    $e^{s_it}$; what of it lies along the hidden directions of the values that were learned before is undone by them.
    So $u_i$ is the squared length of the mean with those directions taken out: to first order in the size of the
    weights, if the singular values are distinct. There must be hidden units for all of them.
    """
    target, theta = real("target", target, "p q"), real("theta", theta, "h w")
    rows, columns = target.shape
    rank = min(rows, columns)
    if theta.shape[1] != rows + columns:
        expected = f"(h, {rows + columns}) for a target of shape ({rows}, {columns})"
        raise ValueError(f"theta must have shape {expected}, got {theta.shape}.")
    if theta.shape[0] < rank:
        raise ValueError(f"theta must have at least {rank} rows, one per singular value, got {theta.shape[0]}.")
    u, s, vt = jnp.linalg.svd(target, full_matrices=False)
    # in the plane of W1 v and W2' u the flow is hyperbolic: the mean grows, the difference decays
    means = (theta[:, :rows] @ u + theta[:, rows:] @ vt.T) / 2
    # Gram and Schmidt, largest singular value first: the diagonal holds what is left of each
    left = jnp.diagonal(jnp.linalg.qr(means, mode="r"))[:rank] ** 2
    return ModeTimes(s, left, jnp.log(s / left - 1) / (2 * s))
