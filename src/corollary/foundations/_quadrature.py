"""Gauss-Legendre rules on panels, and the exponential change of variable for a half-line."""

from functools import cache

import jax.numpy as jnp
import numpy as np


@cache
def gauss_legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]: exact for polynomials of degree below `2 * nodes`."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) / 2, w / 2


def panels(breaks, nodes: int):
    """Points and weights, of shape (panels * nodes,), of the rule repeated between successive `breaks`."""
    x, w = (jnp.asarray(a, breaks.dtype) for a in gauss_legendre(nodes))
    width = jnp.diff(breaks)[:, None]
    return (breaks[:-1, None] + width * x).ravel(), (width * w).ravel()


@cache
def half_line(points: int = 200, reach: float = 4.5) -> tuple[np.ndarray, np.ndarray]:
    r"""Points and weights on $(0,\infty)$: the trapezoidal rule in $s$ for $t=\exp(\frac\pi2\sinh s)$.

    The error falls exponentially in the number of points, for tails as heavy as a power too. Up to `reach` the
    points span $e^{\pm70}$, beyond which nothing integrable is left in float64.
    """
    s = np.linspace(-reach, reach, points + 1)
    t = np.exp(np.pi / 2 * np.sinh(s))
    return t, t * np.pi / 2 * np.cosh(s) * (s[1] - s[0])
