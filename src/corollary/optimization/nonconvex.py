r"""Smooth functions that are not convex, with known constants, and the double well."""

import jax
import jax.numpy as jnp

from corollary._validate import real, within
from corollary.foundations import SIGMOID_SMOOTHNESS
from corollary.optimization.problem import Problem


def log_squares(start) -> Problem:
    r"""$\sum_i\ln(1+\theta_i^2)$: $L=2$, minimum 0 at the origin, gradients at most $\sqrt d$ long, not PL."""
    start = real("start", start)
    zero = jnp.zeros_like(start)
    return Problem(
        lambda theta: jnp.log1p(theta**2).sum(), (), start, L=zero.sum() + 2, minimum=zero.sum(), minimiser=zero
    )


def cosine_wells(start) -> Problem:
    r"""$\sum_i(1-\cos\theta_i)$: $L=1$, minimum 0 at every multiple of $2\pi$ (the origin is given), maxima between."""
    start = real("start", start)
    zero = jnp.zeros_like(start)
    return Problem(
        lambda theta: (1 - jnp.cos(theta)).sum(), (), start, L=zero.sum() + 1, minimum=zero.sum(), minimiser=zero
    )


def sigmoid_classification(x, y, start=None) -> Problem:
    r"""$\frac1n\sum_i\sigma(-(2y_i-1)x_i\cdot\theta)$, $y\in\{0,1\}$: a smooth count of the errors, between 0 and 1.

    $L\le\lambda_{\max}(X^\top X/n)/(6\sqrt3)$; `minimum` is None, 0 is a lower bound.
    """
    dims = {}
    x, y = real("x", x, "n d", dims), within("y", real("y", y, "n", dims), 0.0, 1.0)
    start = jnp.zeros(x.shape[1], x.dtype) if start is None else real("start", start, "d", dims)

    def value(theta, x, y):
        return jnp.mean(jax.nn.sigmoid((1 - 2 * y) * (x @ theta)))

    L = SIGMOID_SMOOTHNESS * jnp.linalg.eigvalsh(x.T @ x / x.shape[0])[-1]
    return Problem(value, (x, y), start, L=L)


def double_well(tilt=0.0, start=0.5) -> Problem:
    r"""$\theta^4-2\theta^2+c\,\theta$ on the line: for $|c|<\frac{8}{3\sqrt3}$ two local minima, of which the one
    on the side of $-c$ is lower. Smooth on bounded sets only, with $L=12R^2-4$ on $|\theta|\le R$, $R\ge\sqrt{2/3}$.
    """
    tilt, start = real("tilt", tilt, ""), real("start", start, "")
    return Problem(lambda theta, tilt: theta**4 - 2 * theta**2 + tilt * theta, (tilt,), start)
