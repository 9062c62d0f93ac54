"""Classifiers of two classes whose probabilities under normal noise are known exactly."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs


class Region(NamedTuple):
    """Where class 1 is: `score(x)` is positive there; `probability(x, scale)` is exact, for points (n, d)."""

    name: str
    score: Callable
    probability: Callable


def regions(normal: np.ndarray, offset: float = 0.7, size: float = 1.4) -> tuple[Region, ...]:
    """A half-space across `normal`, a slab, a ball, its outside, and the exclusive or of two half-spaces."""
    unit = normal / np.linalg.norm(normal)
    cdf = scipy.special.ndtr

    def half(x, scale):
        return cdf((offset - x @ unit) / scale)

    def slab(x, scale):
        return cdf((size - x @ unit) / scale) - cdf((-size - x @ unit) / scale)

    def ball(x, scale):
        return scipy.stats.ncx2.cdf((size / scale) ** 2, x.shape[1], np.sum(x**2, 1) / scale**2)

    def outside(x, scale):
        return scipy.stats.ncx2.sf((size / scale) ** 2, x.shape[1], np.sum(x**2, 1) / scale**2)

    def either(x, scale):
        first, second = cdf(x[:, 0] / scale), cdf(x[:, 1] / scale)
        return first * (1 - second) + second * (1 - first)

    return (
        Region("half-space", lambda x: offset - x @ unit, half),
        Region("slab", lambda x: size - jnp.abs(x @ unit), slab),
        Region("ball", lambda x: size - jnp.sqrt(jnp.sum(x**2)), ball),
        Region("all but a ball", lambda x: jnp.sqrt(jnp.sum(x**2)) - size, outside),
        Region("exclusive or", lambda x: -x[0] * x[1], either),
    )
