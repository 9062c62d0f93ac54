r"""The spectral density of a symmetric matrix known only by its products: stochastic Lanczos quadrature.

For a random unit vector $v$ the measure $\sum_i(u_i\cdot v)^2\delta_{\lambda_i}$ has the spectral density as its mean.
Its Gauss quadrature with $s$ nodes comes from $s$ Lanczos steps: the nodes are the Ritz values, the weights the squared
first entries of their vectors; all its moments up to order $2s-1$ are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray
from matfree import decomp

from corollary._charts import lines, log_scale
from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole


class Density(NamedTuple):
    """The spectrum as a discrete measure of mass one: `nodes` and `weights`, `(probes, steps)` each."""

    nodes: jax.Array
    weights: jax.Array

    __repr__ = shown

    def width(self) -> Array:
        """A hundredth of the distance between the extreme nodes: what `smooth` blurs by unless told otherwise."""
        low, high = self.nodes.min(), self.nodes.max()
        # of a multiple of the identity all nodes are one
        size = jnp.maximum(jnp.abs(low), jnp.abs(high))
        spread = jnp.where(high - low > 1e-6 * size, high - low, size)
        return jnp.where(spread > 0, spread, 1) / 100

    def grid(self, points: int = 400) -> Array:
        """So many points from below the least node to above the largest: where `smooth` looks by default."""
        room = 4 * self.width()
        return jnp.linspace(self.nodes.min() - room, self.nodes.max() + room, whole("points", points, 2))

    def smooth(self, grid: Float[ArrayLike, "g"] | None = None, width: Scalar | None = None) -> Float[Array, "_"]:
        """The density on `grid`, every node blurred into a Gaussian of standard deviation `width`.

        `self.grid()` and `self.width()` unless given.
        """
        grid = self.grid() if grid is None else real("grid", grid, "g")
        width = self.width() if width is None else positive("width", width)
        bumps = jnp.exp(-0.5 * ((grid[:, None] - self.nodes.reshape(1, -1)) / width) ** 2)
        return bumps @ self.weights.reshape(-1) / (width * jnp.sqrt(2 * jnp.pi)) / self.nodes.shape[0]

    def mean(self, function: Callable | None = None) -> Float[Array, "..."]:
        """The mean of a function of the eigenvalues, per probe: `(probes,)`. Times `size` it estimates the trace.

        Without a function the mean eigenvalue.
        """
        values = self.nodes if function is None else function(self.nodes)
        return (values * self.weights).sum(1)

    def mass_below(self, value: Scalar) -> Float[Array, ""]:
        """The share of the eigenvalues below `value`."""
        return jnp.where(self.nodes < value, self.weights, 0).sum() / self.nodes.shape[0]

    def plot(self, grid: Float[ArrayLike, "g"] | None = None, width: Scalar | None = None) -> Any:
        """An Altair chart of the smoothed density, with a logarithmic axis: a few eigenvalues matter, and weigh little.

        What is a hundred thousand times lower than the highest peak is left out.
        """
        grid = np.asarray(self.grid() if grid is None else grid, float)
        height = np.asarray(self.smooth(grid, width), float)
        floor = 1e-5 * height.max()
        rows = [{"eigenvalue": float(x), "density": float(max(y, floor))} for x, y in zip(grid, height, strict=True)]
        return lines(rows, "eigenvalue", "density", y_scale=log_scale([floor, height.max()]))


def spectral_density(
    product: Callable, size: int, *, key: PRNGKeyArray, probes: int = 8, steps: int = 64, dtype: DTypeLike | None = None
) -> Density:
    """Nodes and weights of a quadrature of the spectrum from `probes` random vectors with `steps` products each.

    One probe at a time: memory for `steps` vectors and a few more.
    """
    size, probes = whole("size", size), whole("probes", probes)
    steps = min(whole("steps", steps), size)
    dtype = jnp.result_type(float) if dtype is None else dtype
    tridiagonal = decomp.tridiag_sym(steps, reortho="full", materialize=True, custom_vjp=False)

    def one(key):
        v = jax.random.normal(key, (size,), dtype)
        small = tridiagonal(product, v).J_small
        # after the Krylov space is exhausted what follows is rounding, coupled to the rest by rounding only
        values, vectors = jnp.linalg.eigh(small)
        return values, vectors[0] ** 2

    return Density(*jax.lax.map(one, jax.random.split(key, probes)))
