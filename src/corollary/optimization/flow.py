r"""The gradient flow $\dot\theta=-\nabla f(\theta)$, of which gradient descent is the explicit Euler method."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float, PyTree

from corollary._engine.runge_kutta import flow
from corollary._engine.trees import squared_norm
from corollary._show import shown
from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements
from corollary.optimization._arguments import start_of
from corollary.optimization.problem import Problem


class Flow(NamedTuple):
    r"""The flow at the given times: points, values, and $\int_0^t\|\nabla f(\theta(s))\|^2ds$, the energy dissipated,
    which is $f(\theta(0))-f(\theta(t))$ up to the error of the integrator.
    """

    theta: Any
    value: jax.Array
    dissipated: jax.Array

    __repr__ = shown


@implements("B05.08", "M17.01", "M17.23", "T09.03", "E09.05")
def gradient_flow(
    problem: Problem, times: Float[ArrayLike, "t"], *, start: PyTree | None = None, substeps: int = 20
) -> Flow:
    r"""Follow $\dot\theta=-\nabla f(\theta)$ from $t=0$ to each of the increasing `times`.

    The classical Runge-Kutta method of fourth order, with `substeps` equal steps to each time from the one before; they
    should be well below $2.7/L$. How far value and dissipation add up tells how good that was.

    >>> flow = gradient_flow(Problem(lambda w: w**2 / 2, (), jnp.asarray(1.0)), [0.0, 1.0])
    >>> print(flow.theta)
    [1.    0.368]
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}.")
    times, substeps = within("times", real("times", times, "t"), 0.0), whole("substeps", substeps)
    if concrete(times) and (np.diff(np.asarray(times)) < 0).any():
        raise ValueError("times must increase.")
    start = start_of(problem, start)

    def velocity(state):
        slope = problem.gradient(state[0])
        return jax.tree.map(jnp.negative, slope), squared_norm(slope)

    beginning = start, jnp.zeros((), jnp.result_type(*jax.tree.leaves(start)))
    (theta, dissipated), _ = flow(velocity, beginning, times, substeps=substeps)
    return Flow(theta, jax.vmap(problem)(theta), dissipated)
