r"""The version space $\mathcal V(S)$: all $(w,b)$ that classify every point of the data correctly.

Each point is an open half-space of parameters and $\mathcal V$ their intersection, an open convex cone. It is empty
exactly if some positive combination of the points $y_i(x_i,1)$ is zero, so that either answer has a certificate.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import concrete, real, whole
from corollary.catalog import implements
from corollary.linear._shapes import features
from corollary.linear._signs import halfspaces, signs


class Separability(NamedTuple):
    r"""The verdict of a linear program and its proof.

    Separable: `(w, b)` has $y_i(w\cdot x_i+b)>0$ for all $i$ and `multipliers` is None. Not separable: the
    `multipliers` $\lambda\ge0$ sum to one and $\sum_i\lambda_iy_i(x_i,1)=0$; `w` and `b` are None.
    """

    separable: bool
    w: np.ndarray | None
    b: float | None
    multipliers: np.ndarray | None


class Arc(NamedTuple):
    """The directions at angles strictly within `width / 2` of `centre`; none where `width` is 0."""

    centre: jax.Array
    width: jax.Array

    __repr__ = shown

    def contains(self, angle: Float[ArrayLike, "..."]) -> Bool[Array, "..."]:
        """Whether each angle lies in the arc."""
        off = jnp.mod(real("angle", angle) - self.centre + jnp.pi, 2 * jnp.pi) - jnp.pi
        return jnp.abs(off) < self.width / 2


@implements("E01.07")
def in_version_space(
    w: Float[ArrayLike, "... d"], b: Float[ArrayLike, "..."], x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."]
) -> Bool[Array, "..."]:
    r"""Whether $y_i(w\cdot x_i+b)>0$ for all of the data. `w` is (..., d) and `b` (...): many parameters at once."""
    dims = {}
    x = features(x, dims)
    y = signs("y", y, "n", dims)
    w, b = real("w", w, "... d", dims), real("b", b)
    if b.ndim and b.shape != w.shape[:-1]:
        raise ValueError(f"b must be one number or have shape {w.shape[:-1]} like w, got {b.shape}.")
    return jnp.all(y * (w @ x.T + b[..., None]) > 0, axis=-1)


@implements("E01.07", "M01.03", "E01.14")
def separability(x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."], *, bias: bool = True) -> Separability:
    r"""Decide $\mathcal V(S)\ne\emptyset$ by linear programming, with a certificate for either answer.

    Maximises $t$ subject to $y_i(w\cdot x_i+b)\ge t$ and $|w_j|,|b|\le1$: the optimum is positive exactly for separable
    data, and otherwise the multipliers of the constraints are the proof. Both certificates are checked against the
    data before they are returned; raises where rounding leaves neither. Runs on the host, outside `jit`.
    """
    from scipy.optimize import linprog

    dims = {}
    x = features(x, dims)
    y = signs("y", y, "n", dims)
    if not (concrete(x) and concrete(y)):
        raise TypeError("separability runs outside jit: use linearly_separable inside.")
    z = np.asarray(halfspaces(x, y, bias), float)
    # neither the unit of a feature nor the length of a point matters; powers of two change no digit
    unit_of, size = _powers(z, axis=0), _powers(z / _powers(z, axis=0), axis=1)
    unit = z / unit_of / size
    n, width = z.shape
    rows = np.concatenate([-unit, np.ones((n, 1))], axis=1)
    answer = linprog(
        np.append(np.zeros(width), -1.0),
        A_ub=rows,
        b_ub=np.zeros(n),
        bounds=[(-1, 1)] * width + [(None, None)],
        method="highs-ds",  # a vertex: multipliers that are zero are exactly so
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    rounding = 8 * width * np.finfo(float).eps
    theta = answer.x[:-1]
    if (unit @ theta > rounding * np.abs(theta).sum()).all():
        theta = theta / unit_of[0]
        w, b = (theta[:-1], float(theta[-1])) if bias else (theta, 0.0)
        return Separability(True, w, b, None)
    multipliers = np.maximum(-answer.ineqlin.marginals, 0) / size[:, 0]
    multipliers = multipliers / multipliers.sum()
    if (np.abs(multipliers @ z) > 1e-9 * (multipliers @ np.abs(z))).any():
        raise ValueError("x and y are too close to the border of separability to be decided in floating point.")
    return Separability(False, None, None, multipliers)


@implements("E01.07", "E01.08")
def version_space_share(
    x: Float[ArrayLike, "n *d"], y: Float[ArrayLike, "..."], *, samples: int, key: PRNGKeyArray, bias: bool = True
) -> Float[Array, ""]:
    """The share of uniformly random directions of the parameters that lie in the version space."""
    dims = {}
    x = features(x, dims)
    y = signs("y", y, "n", dims)
    z = halfspaces(x, y, bias)
    directions = jax.random.normal(key, (whole("samples", samples), z.shape[1]), z.dtype)
    return jnp.mean(jnp.all(directions @ z.T > 0, axis=1), dtype=z.dtype)


@implements("E01.16")
def feasible_arc(x: Float[ArrayLike, "n 2"], y: Float[ArrayLike, "..."]) -> Arc:
    r"""The version space without bias in the plane: an arc of directions, exactly.

    The points $y_ix_i$ must lie in an open half-plane, that is, leave a gap of angles wider than $\pi$ between two
    neighbours; what the gap has beyond $\pi$ is the width of the arc, opposite to its middle.
    """
    dims = {}
    x = real("x", x, "n 2", dims)
    z = halfspaces(x, signs("y", y, "n", dims), bias=False)
    if concrete(z) and not np.asarray(z).any(axis=1).all():
        raise ValueError("x must not hold the origin: no direction classifies it.")
    angles = jnp.sort(jnp.arctan2(z[:, 1], z[:, 0]))
    after = jnp.append(angles[1:], angles[0] + 2 * jnp.pi)
    widest = jnp.argmax(after - angles)
    gap, middle = (after - angles)[widest], (after + angles)[widest] / 2
    centre = jnp.mod(middle + 2 * jnp.pi, 2 * jnp.pi) - jnp.pi
    return Arc(centre, jnp.maximum(gap - jnp.pi, 0))


def _powers(z, axis):
    """The power of two next to the greatest entry along an axis; one where all are zero."""
    size = np.abs(z).max(axis=axis, keepdims=True)
    return np.exp2(np.floor(np.log2(np.where(size > 0, size, 1))))
