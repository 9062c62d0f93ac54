r"""The gradient flow $\dot\theta=-\nabla f(\theta)$, of which gradient descent is the explicit Euler method."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary._engine.runge_kutta import flow
from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements
from corollary.optimization.problem import Problem


class Flow(NamedTuple):
    r"""The flow at the given times: points, values, and $\int_0^t\|\nabla f(\theta(s))\|^2ds$, the energy dissipated,
    which is $f(\theta(0))-f(\theta(t))$ up to the error of the integrator.
    """

    theta: jax.Array
    value: jax.Array
    dissipated: jax.Array


@implements("B05.08", "M17.01", "M17.23", "T09.03", "E09.05")
def gradient_flow(problem: Problem, times, *, start=None, substeps: int = 20) -> Flow:
    r"""Follow $\dot\theta=-\nabla f(\theta)$ from $t=0$ to each of the increasing `times`.

    The classical Runge-Kutta method of fourth order, with `substeps` equal steps to each time from the one before; they
    should be well below $2.7/L$. How far value and dissipation add up tells how good that was.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}.")
    times, substeps = within("times", real("times", times, "t"), 0.0), whole("substeps", substeps)
    if concrete(times) and (np.diff(np.asarray(times)) < 0).any():
        raise ValueError("times must increase.")
    start = problem.start if start is None else jnp.asarray(start, problem.start.dtype)
    if start.shape != problem.start.shape:
        raise ValueError(f"start must have shape {problem.start.shape} like the problem's own, got {start.shape}.")

    def velocity(state):
        slope = problem.gradient(state[0])
        return -slope, jnp.sum(slope**2)

    beginning = start, jnp.zeros((), start.dtype)
    (theta, dissipated), _ = flow(velocity, beginning, times, substeps=substeps)
    return Flow(theta, jax.vmap(problem)(theta), dissipated)
