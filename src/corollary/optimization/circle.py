r"""Stochastic gradient descent and diffusions on the circle, in expectation and without chance.

On $\mathbb R/2\pi$ with gradients $\Lambda'(\theta)\pm s(\theta)$, each sign as likely, $\mathbb E\phi(\theta_k)$ is
$K^k\phi$ with $(K\phi)(\theta)=\frac12\phi(\theta-\eta(\Lambda'+s))+\frac12\phi(\theta-\eta(\Lambda'-s))$; a diffusion
has $e^{t\mathcal A}\phi$. On a grid, by trigonometric interpolation, both are matrices, for all starts at once. The
grid must resolve what a step spreads over; compare two grids to see whether it does.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole


def circle_grid(size: int) -> Array:
    r"""`size` points $2\pi j/N$, an even number."""
    size = whole("size", size, 4)
    if size % 2:
        raise ValueError(f"size must be even, got {size}.")
    return 2 * jnp.pi * jnp.arange(size) / size


def interpolation(points: Float[ArrayLike, "p"], size: int) -> Array:
    r"""The matrix that takes the values of a function on the grid to its trigonometric interpolant at `points`."""
    grid, points = circle_grid(size), real("points", points, "p")
    distance = points[:, None] - grid
    half = size // 2
    frequencies = jnp.arange(1, half)
    # the Dirichlet kernel, its highest frequency taken half; a sum, so that nothing is divided by zero
    kernel = 1 + 2 * jnp.sum(jnp.cos(distance[..., None] * frequencies), -1) + jnp.cos(half * distance)
    return kernel / size


def transition(slope: Callable, spread: Callable, step: Scalar, size: int) -> Array:
    r"""$K$ for the derivative `slope` and the noise `spread`, functions of the angle, and a step: (size, size)."""
    step, grid = positive("step", real("step", step, "")), circle_grid(size)
    down, wide = _on(slope, "slope", grid), _on(spread, "spread", grid)
    return 0.5 * (interpolation(grid - step * (down + wide), size) + interpolation(grid - step * (down - wide), size))


def generator(drift: Callable, squared: Callable, size: int) -> Array:
    r"""$\mathcal A\phi=b\phi'+\frac12a\phi''$ for $d\Theta=b\,dt+\sqrt a\,dW$: `drift` is $b$, `squared` is $a$."""
    grid = circle_grid(size)
    b, a = _on(drift, "drift", grid), _on(squared, "squared", grid)
    frequencies = jnp.fft.fftfreq(size, 1 / size)
    waves = jnp.fft.fft(jnp.eye(size), axis=0)
    odd = frequencies.at[size // 2].set(0.0)
    first = jnp.fft.ifft(1j * odd[:, None] * waves, axis=0).real
    second = jnp.fft.ifft(-(frequencies[:, None] ** 2) * waves, axis=0).real
    return b[:, None] * first + 0.5 * a[:, None] * second


def expectation(matrix: Float[ArrayLike, "n n"], values: Float[ArrayLike, "n"], k: int) -> Array:
    r"""$K^k\phi$: the expected value after $k$ steps from every point of the grid."""
    dims = {}
    matrix, values = real("matrix", matrix, "n n", dims), real("values", values, "n", dims)
    return jnp.linalg.matrix_power(matrix, whole("k", k, 0)) @ values


def diffuse(matrix: Float[ArrayLike, "n n"], values: Float[ArrayLike, "n"], time: Scalar) -> Array:
    r"""$e^{t\mathcal A}\phi$: the expected value after the time $t$ from every point of the grid."""
    dims = {}
    matrix, values = real("matrix", matrix, "n n", dims), real("values", values, "n", dims)
    return jax.scipy.linalg.expm(matrix * real("time", time, ""), max_squarings=40) @ values


def _on(function, name, grid):
    if not callable(function):
        raise TypeError(f"{name} must be a function of the angle, got {type(function).__name__}.")
    return jnp.broadcast_to(jnp.asarray(function(grid), grid.dtype), grid.shape)
