r"""The step sizes of the texts as Optax schedules.

A schedule maps the number of steps already made, `count` = 0, 1, ..., to the next step size; the texts number the
steps $k=1,2,\dots$, so that $k$ = `count` + 1. A constant step is `optax.constant_schedule`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole, within
from corollary.catalog import implements


@implements("M18.05", "M07.07", "M17.14")
def inverse_time(c0: Scalar, c1: Scalar, c2: Scalar = 1.0) -> optax.Schedule:
    r"""$\eta_k=\frac{C_0}{C_1+C_2k}$, $k=1,2,\dots$: sums to infinity, its squares do not."""
    c0, c1 = positive("c0", real("c0", c0, "")), within("c1", real("c1", c1, ""), 0.0)
    c2 = positive("c2", real("c2", c2, ""))
    return lambda count: c0 / (c1 + c2 * (count + 1))


@implements("B05.24", "M07.07", "M17.14")
def inverse_power(first: Scalar, exponent: Scalar = 0.5) -> optax.Schedule:
    r"""$\eta_k=\eta_1k^{-a}$: $a=\frac12$ and $a=1$ are the usual ones; $a>1$ stops short, at a finite total length."""
    first, exponent = positive("first", real("first", first, "")), within("exponent", real("exponent", exponent, ""), 0)
    return lambda count: first * (count + 1.0) ** -exponent


@implements("M18.05", "M07.09")
def step_decay(first: Scalar, ends: Sequence[int], factor: Scalar = 0.1) -> optax.Schedule:
    r"""$\eta_1$ up to step $k=$ `ends[0]`, then `factor` times as much up to `ends[1]`, and so on (Optax has it)."""
    positive("factor", real("factor", factor, ""))  # but passed on as it came: Optax looks at its value
    first = positive("first", real("first", first, ""))
    ends = [whole(f"ends[{i}]", end) for i, end in enumerate(ends)]
    if any(later <= end for end, later in itertools.pairwise(ends)):
        raise ValueError(f"ends must increase, got {ends}.")
    return optax.piecewise_constant_schedule(first, dict.fromkeys(ends, factor))


def step_sizes(schedule: Scalar | Callable, steps: int) -> Array:
    """The first `steps` step sizes of a schedule, or of a number, as an array."""
    steps = whole("steps", steps)
    if not callable(schedule):
        size = positive("schedule", real("schedule", schedule, ""))
        return jnp.full(steps, size)
    sizes = jnp.broadcast_to(jnp.asarray(schedule(jnp.arange(steps))), (steps,))
    if concrete(sizes) and not (np.asarray(sizes) > 0).all():
        raise ValueError(f"schedule must give positive step sizes, got {float(np.asarray(sizes).min())}.")
    return sizes
