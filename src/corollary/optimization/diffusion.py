r"""What stochastic gradient descent is like: steps with normal noise, and a diffusion in continuous time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from corollary._engine.trees import each
from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.optimization.minimize import Method
from corollary.optimization.problem import FiniteSum, Problem


@implements("M18.21")
def gaussian_sgd(step: Scalar, *, batch_size: int = 1) -> Method:
    r"""$\theta_{k+1}=\theta_k-\eta\nabla f(\theta_k)+\frac\eta{\sqrt B}\Sigma(\theta_k)^{1/2}Z_k$ with normal $Z_k$.

    $\Sigma$ is the covariance of the gradients of one example of a `FiniteSum`: mean and covariance of a step are those
    of a batch of $B$ drawn with replacement.
    """
    step, batch_size = positive("step", real("step", step, "")), whole("batch_size", batch_size)

    def advance(problem, theta, key):
        full, spread = _mean_and_spread(problem, theta, key)
        return each(lambda t, g, xi: t - step * g + step / batch_size**0.5 * xi, theta, full, spread)

    return Method(lambda problem, theta: theta, advance, lambda theta: theta)


@implements("M18.22")
def diffusion_sgd(step: Scalar, *, batch_size: int = 1, substeps: int = 20, corrected: bool = True) -> Method:
    r"""$d\Theta=(-\nabla f-\frac\eta4\nabla\|\nabla f\|^2)dt+\sqrt{\eta/B}\,\Sigma(\Theta)^{1/2}dW$, over the time
    $\eta$ in each step.

    Euler's method with `substeps` parts of a step. Without the correction $\frac\eta4\nabla\|\nabla f\|^2$ the law is
    that of SGD only up to the order $\eta$, with it $\eta^2$.
    """
    step, batch_size, substeps = (
        positive("step", real("step", step, "")),
        whole("batch_size", batch_size),
        whole("substeps", substeps),
    )
    time = step / substeps

    def advance(problem, theta, key):
        def part(theta, key):
            full, spread = _mean_and_spread(problem, theta, key)
            drift = modified_drift(problem, theta, step) if corrected else jax.tree.map(jnp.negative, full)
            size = jnp.sqrt(step / batch_size * time)
            return each(lambda t, b, xi: t + time * b + size * xi, theta, drift, spread), None

        return jax.lax.scan(part, theta, jax.random.split(key, substeps))[0]

    return Method(lambda problem, theta: theta, advance, lambda theta: theta)


def modified_drift(problem: Problem, theta: PyTree, step: Scalar) -> PyTree:
    r"""$-\nabla f-\frac\eta4\nabla\|\nabla f\|^2=-\nabla f-\frac\eta2\nabla^2f\,\nabla f$ at $\theta$: the flow that
    gradient descent with step $\eta$ follows up to $\eta^2$.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}.")
    slope = problem.gradient(theta)
    bent = jax.jvp(problem.gradient, (theta,), (slope,))[1]
    return jax.tree.map(lambda slope, bent: -slope - 0.5 * step * bent, slope, bent)


def _mean_and_spread(problem, theta, key):
    """The full gradient, and a normal vector with the covariance of those of the examples, which is never formed."""
    if not isinstance(problem, FiniteSum):
        raise TypeError(f"problem must be a FiniteSum, got {type(problem).__name__}.")
    slopes = problem.gradients(theta)
    full = jax.tree.map(lambda rows: rows.mean(0), slopes)
    n = problem.data[0].shape[0]

    def spread(rows, mean):
        return jnp.tensordot(jax.random.normal(key, (n,), rows.dtype), rows - mean, 1) / n**0.5

    return full, jax.tree.map(spread, slopes, full)
