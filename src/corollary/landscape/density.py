r"""The spectral density of a symmetric matrix known only by its products: stochastic Lanczos quadrature.

For a random unit vector $v$ the measure $\sum_i(u_i\cdot v)^2\delta_{\lambda_i}$ has the spectral density as its mean.
Its Gauss quadrature with $s$ nodes comes from $s$ Lanczos steps: the nodes are the Ritz values, the weights the squared
first entries of their vectors; all its moments up to order $2s-1$ are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray
from matfree import decomp

from corollary._types import Scalar
from corollary._validate import positive, real, whole


class Density(NamedTuple):
    """A discrete measure of mass one near the spectrum's own: `nodes` and `weights`, `(probes, steps)` each."""

    nodes: jax.Array
    weights: jax.Array

    def smooth(self, grid: Float[ArrayLike, "g"], width: Scalar) -> Float[Array, "_"]:
        """The density on `grid`, every node blurred into a Gaussian of standard deviation `width`."""
        grid = real("grid", grid, "g")
        positive("width", width)
        bumps = jnp.exp(-0.5 * ((grid[:, None] - self.nodes.reshape(1, -1)) / width) ** 2)
        return bumps @ self.weights.reshape(-1) / (width * jnp.sqrt(2 * jnp.pi)) / self.nodes.shape[0]

    def mean(self, function: Callable) -> Float[Array, "..."]:
        """The mean of a function of the eigenvalues, per probe: `(probes,)`. Times `size` it is the trace of it."""
        return (function(self.nodes) * self.weights).sum(1)

    def mass_below(self, value: Scalar) -> Float[Array, ""]:
        """The share of the eigenvalues below `value`."""
        return jnp.where(self.nodes < value, self.weights, 0).sum() / self.nodes.shape[0]


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
