r"""What the shallow network is at infinite width: Gaussian outputs at the start, and a kernel that does not move.

For independent $W\sim\mathcal N(0,I)$ and $C$ of mean 0 all of it is in the dual kernels of the activation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import one_of, positive, real, whole
from corollary.catalog import implements
from corollary.dynamics.shallow import OUTER
from corollary.foundations import normal_rule
from corollary.kernels.dual import activation as resolved


@implements("M19.11", "M19.22", "M19.34")
def limit_parts(
    x: Float[ArrayLike, "n d"],
    x2: Float[ArrayLike, "m d"] | None = None,
    *,
    activation: str | Callable = "erf",
    outer_variance: Scalar = 1.0,
    bias: bool = False,
) -> tuple[Float[Array, "_ _"], Float[Array, "_ _"]]:
    r"""$\mathbb E[\sigma(W\cdot x)\sigma(W\cdot x')]$ and $\mathbb E[C^2]\,\mathbb E[\sigma'(W\cdot x)\sigma'(W\cdot
    x')]\,x\cdot x'$, each (n, n2): the limits of `tangent_parts`.
    """
    x, x2, variance = _inputs(x, x2, outer_variance, bias)
    inner = x @ x2.T
    value, slope = resolved(activation).pair(jnp.sum(x**2, 1)[:, None], inner, jnp.sum(x2**2, 1))
    return value, variance * slope * inner


@implements("M19.11", "M19.18")
def limit_kernel(
    x: Float[ArrayLike, "n d"],
    x2: Float[ArrayLike, "m d"] | None = None,
    *,
    activation: str | Callable = "erf",
    outer_variance: Scalar = 1.0,
    bias: bool = False,
) -> Float[Array, "_ _"]:
    r"""The kernel $K$ of the limit, (n, n2): the sum of `limit_parts`.

    M's matrix $A$ is $\frac\eta MK$ in section 19.4, and $K$ itself in section 19.3.
    """
    return sum(limit_parts(x, x2, activation=activation, outer_variance=outer_variance, bias=bias))


@implements("M19.13")
def start_covariance(
    x: Float[ArrayLike, "n d"],
    x2: Float[ArrayLike, "m d"] | None = None,
    *,
    activation: str | Callable = "erf",
    outer_variance: Scalar = 1.0,
    bias: bool = False,
) -> Float[Array, "_ _"]:
    r"""$\mathbb E[C^2]\,\mathbb E[\sigma(W\cdot x)\sigma(W\cdot x')]$: the covariance of the outputs at the start.

    For $\gamma=\frac12$ at every width; they are Gaussian in the limit.
    """
    variance = positive("outer_variance", real("outer_variance", outer_variance, ""))
    return variance * limit_parts(x, x2, activation=activation, bias=bias)[0]


@implements("M19.20")
def distinct_directions(x: Float[ArrayLike, "n d"], tolerance: Scalar = 1e-9) -> bool | jax.Array:
    r"""Whether no two of the points `x` (n, d) lie on one line through the origin, and none is the origin.

    Two lines are one if the sine of their angle is at most `tolerance`.
    """
    x = real("x", x, "n d")
    tolerance = positive("tolerance", real("tolerance", tolerance, ""))
    norms = jnp.linalg.norm(x, axis=1)
    units = x / jnp.where(norms > 0, norms, 1)[:, None]
    # the part of one unit vector across the other: right to rounding also for small angles, which a cosine is not
    across = jnp.linalg.norm(units[:, None] - (units @ units.T)[..., None] * units[None], axis=-1)
    apart = across > tolerance
    return jnp.all(norms > 0) & jnp.all(apart | jnp.eye(x.shape[0], dtype=bool))


class LimitPremises(NamedTuple):
    r"""Assumption 19.2 of M, measured: largest $|\sigma|,|\sigma'|,|\sigma''|$ on the interval looked at, whether they
    are bounded, whether $\sigma$ is twice continuously differentiable, whether $C$ is.
    """

    largest: tuple[float, float, float]
    bounded: bool
    smooth: bool
    bounded_outer: bool

    @property
    def hold(self) -> bool:
        return self.bounded and self.smooth and self.bounded_outer


@implements("M19.17")
def limit_premises(
    activation: str | Callable = "erf", outer: str = "uniform", *, reach: Scalar = 50.0
) -> LimitPremises:
    r"""What of the assumptions of the limit holds for this activation and this law of the outer weights.

    Measured on a grid over $\pm$ `reach`, not proved: bounded, if the outer half of the interval has nothing larger
    than the inner half; continuous, if the jumps between neighbours shrink with the grid. That $C$ has mean 0 and is
    independent of $W\sim\mathcal N(0,I)$, which makes $\mathbb E[C\sigma(W\cdot x)]=0$, holds for all laws of
    `draw_shallow`.
    """
    phi = resolved(activation)
    reach = float(positive("reach", reach))
    support = OUTER[one_of("outer", outer, OUTER)][1]

    def slope(f):
        return lambda z: jax.jvp(f, (z,), (jnp.ones_like(z),))[1]

    functions = (phi, slope(phi), slope(slope(phi)))
    # an odd number of intervals: no point is the origin, where kinks like to be
    coarse, fine = (jnp.asarray(np.linspace(-reach, reach, n)) for n in (4096, 65536))
    far = jnp.abs(fine) > reach / 2
    largest, bounded, smooth = [], True, True
    for f in functions:
        values = jnp.abs(f(fine))
        top = float(jnp.max(values))
        largest.append(top)
        bounded &= float(jnp.max(jnp.where(far, values, 0))) <= 1.01 * float(jnp.max(jnp.where(far, 0, values)))
        jumps = [float(jnp.max(jnp.abs(jnp.diff(f(grid))))) for grid in (coarse, fine)]
        # sixteen times finer: a continuous function jumps much less, a discontinuous one as much
        smooth &= jumps[1] <= max(0.5 * jumps[0], 1e-6 * max(top, 1.0))
    return LimitPremises(tuple(largest), bool(bounded), bool(smooth), bool(np.isfinite(support)))


@implements("M19.33")
def gaussian_output_variance(
    outer: Float[ArrayLike, "..."],
    slopes: Float[ArrayLike, "..."],
    offsets: Float[ArrayLike, "..."],
    *,
    activation: str | Callable = "logistic",
    nodes: int = 200,
) -> Float[Array, ""]:
    r"""$\operatorname{Var}Y$ of $Y=\sum_nc^n\sigma(w^nX+b^n)$, $X\sim\mathcal N(0,1)$, by quadrature."""
    outer, slopes, offsets, phi = _units(outer, slopes, offsets, activation)
    z, weights = normal_rule(whole("nodes", nodes, 2), outer.dtype)
    y = phi(jnp.asarray(z, outer.dtype)[:, None] * slopes + offsets) @ outer
    weights = jnp.asarray(weights, outer.dtype)
    return weights @ (y - weights @ y) ** 2


@implements("M19.33")
def linearised_output_variance(
    outer: Float[ArrayLike, "..."],
    slopes: Float[ArrayLike, "..."],
    offsets: Float[ArrayLike, "..."],
    *,
    activation: str | Callable = "logistic",
) -> Float[Array, ""]:
    r"""The first-order answer $(\sum_nc^nw^n\sigma'(b^n))^2$ to the same, up to fourth order in the slopes."""
    outer, slopes, offsets, phi = _units(outer, slopes, offsets, activation)
    return (outer * slopes @ jax.jvp(phi, (offsets,), (jnp.ones_like(offsets),))[1]) ** 2


def _units(outer, slopes, offsets, activation):
    dims = {}
    arrays = (real(n, a, "n", dims) for n, a in (("outer", outer), ("slopes", slopes), ("offsets", offsets)))
    return *arrays, resolved(activation)


def _inputs(x, x2, variance, bias):
    dims = {}
    x = real("x", x, "n d", dims)
    x2 = x if x2 is None else real("x2", x2, "m d", dims).astype(x.dtype)
    variance = positive("outer_variance", real("outer_variance", variance, "")).astype(x.dtype)
    if bias:
        x, x2 = (jnp.concatenate([jnp.ones_like(z[:, :1]), z], 1) for z in (x, x2))
    return x, x2, variance
