r"""Problems on which momentum shows what it can and cannot do."""

from __future__ import annotations

import jax.numpy as jnp

from corollary._types import Scalar
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.optimization.problem import Problem
from corollary.optimization.problems import quadratic


@implements("M17.19", "T02.17")
def bent_line(start: Scalar = 3.3) -> Problem:
    r"""$f'(x)=25x$ for $x<1$, $x+24$ for $1\le x<2$, $25x-24$ beyond: $L=25$, $\mu=1$, the minimum 0 at 0.

    Heavy ball with Polyak's parameters $\eta=\frac19$, $\rho=\frac49$ runs from 3.3 into a cycle of length three
    (Lessard, Recht and Packard); from 0.5 it converges.
    """
    start = real("start", start, "")

    def value(x):
        # each piece continues the value and the slope of the one before
        low, middle = 12.5 * x**2, 0.5 * x**2 + 24 * x - 12
        return jnp.where(x < 1, low, jnp.where(x < 2, middle, 12.5 * x**2 - 24 * x + 36))

    zero = jnp.zeros_like(start)
    return Problem(value, (), start, L=zero + 25, mu=zero + 1, pl=zero + 1, minimum=zero, minimiser=zero)


def nesterov_chain(dim: int) -> Problem:
    r"""$\frac18\theta^\top T\theta-\frac14\theta_1$ with $T=\mathrm{tridiag}(-1,2,-1)$, from 0, less its
    minimum: the convex quadratic of the lower bounds, $L<1$.

    A method that moves in the span of the gradients reaches one more coordinate with each step.
    """
    dim = whole("dim", dim, 2)
    k = jnp.arange(1, dim + 1)
    angles = k * jnp.pi / (dim + 1)
    spectrum = (1 - jnp.cos(angles)) / 2
    axes = jnp.sqrt(2 / (dim + 1)) * jnp.sin(jnp.outer(k, angles))
    return quadratic(spectrum, jnp.zeros(dim), minimiser=1 - k / (dim + 1), rotation=axes)
