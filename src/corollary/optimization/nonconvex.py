r"""Smooth functions that are not convex, with known constants, and the double well."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.foundations import SIGMOID_SMOOTHNESS
from corollary.optimization.problem import Problem


def log_squares(start: Float[ArrayLike, "..."]) -> Problem:
    r"""$\sum_i\ln(1+\theta_i^2)$: $L=2$, minimum 0 at the origin, gradients at most $\sqrt d$ long, not PL."""
    start = real("start", start)
    zero = jnp.zeros_like(start)
    return Problem(
        lambda theta: jnp.log1p(theta**2).sum(), (), start, L=zero.sum() + 2, minimum=zero.sum(), minimiser=zero
    )


def cosine_wells(start: Float[ArrayLike, "..."]) -> Problem:
    r"""$\sum_i(1-\cos\theta_i)$: $L=1$, minimum 0 at every multiple of $2\pi$ (the origin is given), maxima between."""
    start = real("start", start)
    zero = jnp.zeros_like(start)
    return Problem(
        lambda theta: (1 - jnp.cos(theta)).sum(), (), start, L=zero.sum() + 1, minimum=zero.sum(), minimiser=zero
    )


def sigmoid_classification(
    x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n"], start: Float[ArrayLike, "d"] | None = None
) -> Problem:
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


def double_well(tilt: Scalar = 0.0, start: Scalar = 0.5) -> Problem:
    r"""$\theta^4-2\theta^2+c\,\theta$ on the line: for $|c|<\frac{8}{3\sqrt3}$ two local minima, of which the one
    on the side of $-c$ is lower. Smooth on bounded sets only, with $L=12R^2-4$ on $|\theta|\le R$, $R\ge\sqrt{2/3}$.
    """
    tilt, start = real("tilt", tilt, ""), real("start", start, "")
    return Problem(lambda theta, tilt: theta**4 - 2 * theta**2 + tilt * theta, (tilt,), start)


def washboard(steps: int, *, L: Scalar = 1.0, gap: Scalar = 1.0, step: Scalar | None = None) -> Problem:
    r"""On the line: a slope whose gradient dips between the iterates of gradient descent, and a bowl at its end.

    Every one of the first `steps` steps of $\eta\le1/L$ (which is the default) from `start` meets the same gradient
    $g$, and lowers the value by $\eta(1-\frac{\eta L}4)g^2$ only, since the gradient falls and rises again at the rate
    $L$ in between; the bowl takes the last $\frac{g^2}{2L}$. No $L$-smooth function with $f(\theta_0)-f^*=$ `gap`
    keeps all $n+1$ gradients longer: $g^2=\frac{4L\,\mathrm{gap}}{\eta L(4-\eta L)n+2}$.
    """
    steps = whole("steps", steps, 0)
    L, gap = positive("L", real("L", L, "")), positive("gap", real("gap", gap, ""))
    step = 1 / L if step is None else positive("step", real("step", step, ""))
    within("step times L", step * L, 0.0, 1 + 1e-9, open="low")
    slope = jnp.sqrt(4 * L * gap / (step * L * (4 - step * L) * steps + 2))
    edge, period = slope / L, step * slope

    def value(theta, L, slope, edge, period):
        beyond = (theta - edge) / period
        tooth = jnp.floor(beyond)
        s = period * (beyond - tooth)
        # the integral of the dip from the left end of a tooth
        dip = jnp.where(s <= period / 2, s**2 / 2, period**2 / 4 - (period - s) ** 2 / 2)
        climb = slope * (theta - edge) - L * (tooth * period**2 / 4 + dip)
        return jnp.where(theta <= edge, L * theta**2 / 2, slope * edge / 2 + climb)

    zero = jnp.zeros_like(slope)
    return Problem(value, (L, slope, edge, period), edge + steps * period, L=L, minimum=zero, minimiser=zero)
