r"""Solutions of $\dot u=m(u)$ with fixed steps, a plain loop that compiles to one scan, or with steps of Diffrax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._engine.invariant import prepared
from corollary._engine.runge_kutta import METHODS, stepped
from corollary._types import Scalar
from corollary._validate import concrete, one_of, positive, real, whole
from corollary.catalog import implements
from corollary.differential import _adaptive
from corollary.differential._states import states


@implements("M22.07")
def solve(
    field: Callable,
    start: Float[ArrayLike, "..."],
    times: Float[ArrayLike, "t"],
    *,
    method: Literal["euler", "rk4", "adaptive", "stiff"] = "rk4",
    substeps: int = 1,
    tolerance: Scalar = 1e-6,
) -> Float[Array, "t ..."]:
    r"""The solution of $\dot u=m(u)$, $m$ the `field`, that is at `start` at the first of the increasing `times`.

    Between two times lie `substeps` equal steps of Euler's method, $u_{i+1}=u_i+m(u_i)\Delta$ (error of the order
    $\Delta$), or of the classical one of Runge and Kutta (order $\Delta^4$). With the method "adaptive", or "stiff" for
    stiff equations, Diffrax (`corollary[ode]`) chooses the steps, so that each misses its end by about `tolerance`, of
    the state and absolutely. For events use Diffrax itself.

    >>> print(solve(lambda u: -u, 1.0, [0.0, 0.5, 1.0], substeps=10))
    [1.    0.607 0.368]
    """
    method, substeps = one_of("method", method, METHODS + _adaptive.METHODS), whole("substeps", substeps)
    tolerance = positive("tolerance", real("tolerance", tolerance, ""))
    start, times = real("start", start), real("times", times, "t")
    if concrete(times) and (np.diff(np.asarray(times)) <= 0).any():
        raise ValueError("times must increase.")
    start = for_field(field, start)
    if method in _adaptive.METHODS:
        return _adaptive.by_diffrax(field, start, times.astype(start.dtype), method, tolerance)

    field, values = prepared(field, start)

    def step(values, u, h):
        def on(_, u):
            return stepped(lambda u, _: field(values, u), u, h, method)

        return on(0, u) if substeps == 1 else jax.lax.fori_loop(0, substeps, on, u)

    later = states(step, values, start, jnp.diff(times).astype(start.dtype) / substeps)
    return finite(jnp.concatenate([start[None], later]), times)


def for_field(field, start):
    """`start` in the precision of the field, which must be a function to what has the shape of `start`."""
    if not callable(field):
        raise TypeError(f"field must be a function of the state, got {type(field).__name__}.")
    slope = jax.eval_shape(field, start)
    if getattr(slope, "shape", None) != start.shape:
        got = getattr(slope, "shape", type(slope).__name__)
        raise ValueError(f"field must return what has the shape {start.shape} of the state, got {got}.")
    return start.astype(jnp.result_type(start.dtype, slope.dtype))


def finite(states, times):
    """`states`, or the time at which they are no longer finite."""
    if concrete(states):
        bad = ~np.isfinite(np.asarray(states)).reshape(len(states), -1).all(1)
        if bad.any():
            raise ValueError(
                f"The solution explodes: at time {float(np.asarray(times)[bad.argmax()]):.4g} it is not finite. "
                "Take shorter steps or an earlier end."
            )
    return states
