r"""What stochastic gradient descent is like: steps with normal noise, and a diffusion in continuous time."""

import jax
import jax.numpy as jnp

from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.optimization.minimize import Method
from corollary.optimization.problem import FiniteSum, Problem


@implements("M18.21")
def gaussian_sgd(step, *, batch: int = 1) -> Method:
    r"""$\theta_{k+1}=\theta_k-\eta\nabla f(\theta_k)+\frac\eta{\sqrt B}\Sigma(\theta_k)^{1/2}Z_k$ with normal $Z_k$.

    $\Sigma$ is the covariance of the gradients of one example of a `FiniteSum`: mean and covariance of a step are those
    of a batch of $B$ drawn with replacement.
    """
    step, batch = positive("step", real("step", step, "")), whole("batch", batch)

    def advance(problem, theta, key):
        each = _each(problem, theta)
        full = each.mean(0)
        return theta - step * full + step / batch**0.5 * _spread(each - full, key)

    return Method(lambda problem, theta: theta, advance, lambda theta: theta)


@implements("M18.22")
def diffusion_sgd(step, *, batch: int = 1, substeps: int = 20, corrected: bool = True) -> Method:
    r"""$d\Theta=(-\nabla f-\frac\eta4\nabla\|\nabla f\|^2)dt+\sqrt{\eta/B}\,\Sigma(\Theta)^{1/2}dW$, over the time
    $\eta$ in each step.

    Euler's method with `substeps` parts of a step. Without the correction $\frac\eta4\nabla\|\nabla f\|^2$ the law is
    that of SGD only up to the order $\eta$, with it $\eta^2$.
    """
    step, batch, substeps = positive("step", real("step", step, "")), whole("batch", batch), whole("substeps", substeps)
    time = step / substeps

    def advance(problem, theta, key):
        def part(theta, key):
            each = _each(problem, theta)
            drift = modified_drift(problem, theta, step) if corrected else -each.mean(0)
            noise = _spread(each - each.mean(0), key)
            return theta + time * drift + jnp.sqrt(step / batch * time) * noise, None

        return jax.lax.scan(part, theta, jax.random.split(key, substeps))[0]

    return Method(lambda problem, theta: theta, advance, lambda theta: theta)


def modified_drift(problem: Problem, theta, step):
    r"""$-\nabla f-\frac\eta4\nabla\|\nabla f\|^2=-\nabla f-\frac\eta2\nabla^2f\,\nabla f$ at $\theta$: the flow that
    gradient descent with step $\eta$ follows up to $\eta^2$.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}.")
    slope = problem.gradient(theta)
    bent = jax.jvp(problem.gradient, (theta,), (slope,))[1]
    return -slope - 0.5 * step * bent


def _each(problem, theta):
    if not isinstance(problem, FiniteSum):
        raise TypeError(f"problem must be a FiniteSum, got {type(problem).__name__}.")
    return problem.gradients(theta)


def _spread(centred, key):
    """A normal vector with the covariance of the rows of `centred`, which is never formed."""
    n = centred.shape[0]
    return jnp.tensordot(jax.random.normal(key, (n,), centred.dtype), centred, 1) / n**0.5
