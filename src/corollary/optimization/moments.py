r"""Stochastic gradient descent without chance: mean and variance of the iterates, exactly, where they are closed.

On a quadratic with noise that does not depend on the place, and on least squares with any data, the first two moments
of $\theta_k$ follow recursions of their own; nothing needs to be sampled.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


class Moments(NamedTuple):
    """Mean (steps + 1, d) of the iterates and their variance, (steps + 1, d) or (steps + 1, d, d)."""

    mean: jax.Array
    variance: jax.Array

    __repr__ = shown


def quadratic_moments(
    spectrum: Float[ArrayLike, "d"],
    noise: Float[ArrayLike, "d"],
    start: Float[ArrayLike, "d"],
    steps: Float[ArrayLike, "k"],
) -> Moments:
    r"""Moments of $\theta_{k+1}=\theta_k-\eta_k(H\theta_k+\xi_k)$ along the eigenvectors of $H$.

    `noise` is the variance of $\xi_k$ along each, so $\kappa_1$ is its sum and $\kappa_2=1$; `steps` are the
    $\eta_k$, shape (steps,). $\mathbb Ef(\theta_k)$ is `expected_value(spectrum, moments)`.
    """
    dims = {}
    spectrum, start = real("spectrum", spectrum, "d", dims), real("start", start, "d", dims)
    noise, steps = within("noise", real("noise", noise, "d", dims), 0.0), positive("steps", real("steps", steps, "k"))

    def advance(moments, eta):
        mean, variance = moments
        factor = 1 - eta * spectrum
        moments = factor * mean, factor**2 * variance + eta**2 * noise.astype(mean.dtype)
        return moments, moments

    first = (start, jnp.zeros_like(start))
    _, (mean, variance) = jax.lax.scan(advance, first, steps.astype(start.dtype))
    return Moments(jnp.concatenate([start[None], mean]), jnp.concatenate([first[1][None], variance]))


def expected_value(spectrum: Float[ArrayLike, "d"], moments: Moments) -> Array:
    r"""$\mathbb E\frac12\theta_k^\top H\theta_k=\frac12\sum_ih_i(m_i^2+v_i)$ for every $k$."""
    return 0.5 * (moments.mean**2 + moments.variance) @ real("spectrum", spectrum, "d")


@implements("M18.38")
def quadratic_law(
    spectrum: Float[ArrayLike, "d"], noise: Float[ArrayLike, "d"], start: Float[ArrayLike, "d"], step: Scalar, k: Scalar
) -> Moments:
    r"""The law after $k$ steps of constant size: with normal noise it is normal, with mean $(1-\eta h)^k\theta_0$ and
    variance $\eta^2c\frac{1-(1-\eta h)^{2k}}{1-(1-\eta h)^2}$ along an eigenvector ($c$ the noise there).

    `k` is a number; infinity gives the stationary law $N(0,\frac{\eta c}{h(2-\eta h)})$, which needs $0<\eta h<2$.
    """
    dims = {}
    spectrum, start = positive("spectrum", real("spectrum", spectrum, "d", dims)), real("start", start, "d", dims)
    noise, step = within("noise", real("noise", noise, "d", dims), 0.0), positive("step", real("step", step, ""))
    k = within("k", real("k", k, "", finite=False), 0.0)
    within("step times spectrum", step * spectrum, 0.0, 2.0, open="both")
    factor = 1 - step * spectrum
    # a negative factor to a whole power, or to none at all where k is infinite
    power = jnp.where(jnp.isinf(k), 0.0, jnp.where(k % 2 == 1, jnp.sign(factor), 1.0) * jnp.abs(factor) ** k)
    return Moments(power * start, step**2 * noise * (1 - power**2) / (1 - factor**2))


@implements("B05.27")
def stationary_value(spectrum: Float[ArrayLike, "d"], noise: Float[ArrayLike, "_"], step: Scalar) -> Array:
    r"""$\mathbb Ef$ when nothing changes any more: $\sum_i\frac{\eta c_i}{2(2-\eta h_i)}$."""
    spectrum = real("spectrum", spectrum, "d")
    law = quadratic_law(spectrum, noise, jnp.zeros_like(spectrum), step, jnp.inf)
    return 0.5 * spectrum @ law.variance


def least_squares_moments(
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    start: Float[ArrayLike, "d"],
    step: Float[ArrayLike, "..."],
    steps: int,
    *,
    batch_size: Scalar = 1,
) -> Moments:
    r"""Mean of $\theta_k-\theta^*$ and second moment $\mathbb E(\theta_k-\theta^*)(\theta_k-\theta^*)^\top$ of SGD on
    $f_i=\frac12(x_i\cdot\theta-y_i)^2$.

    Batches of `batch_size` with replacement; `step` is a number or has shape (steps,). Only mean and variance of a step
    enter: any other noise with the same two, the normal one say, has the same moments.
    """
    dims = {}
    x, y = real("x", x, "n d", dims), real("y", y, "n", dims)
    start, step = real("start", start, "d", dims), positive("step", real("step", step))
    steps, batch_size = whole("steps", steps), within("batch_size", real("batch_size", batch_size, ""), 1.0)
    centre = jnp.linalg.lstsq(x, y)[0]
    residual, hessian, n = x @ centre - y, x.T @ x / x.shape[0], x.shape[0]
    batch_size = batch_size.astype(x.dtype)
    if step.ndim > 1 or (step.ndim == 1 and step.shape[0] != steps):
        raise ValueError(f"step must be a number or have shape ({steps},), got {step.shape}.")

    def advance(moments, step):
        mean, second = moments
        # E (x.u + r)^2 for every example, the factor of x x^T in the second moment of its gradient
        square = jnp.einsum("ni,ij,nj->n", x, second, x) + 2 * residual * (x @ mean) + residual**2
        one = (square * x.T) @ x / n
        full = hessian @ second @ hessian
        second = second - step * (hessian @ second + second @ hessian) + step**2 * (full + (one - full) / batch_size)
        moments = mean - step * hessian @ mean, second
        return moments, moments

    away = start - centre
    first = (away, jnp.outer(away, away))
    _, (mean, second) = jax.lax.scan(advance, first, jnp.broadcast_to(step, (steps,)).astype(away.dtype))
    return Moments(jnp.concatenate([away[None], mean]), jnp.concatenate([first[1][None], second]))


@implements("B05.28")
def averaged_error(
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    start: Float[ArrayLike, "d"],
    step: Float[ArrayLike, "..."],
    steps: int,
    *,
    batch_size: Scalar = 1,
) -> Array:
    r"""$\mathbb E\|\bar\theta_k-\theta^*\|^2$ of the average of $\theta_1,\dots,\theta_k$ in the same setting, for
    $k=1,\dots$: shape (steps,).

    The mean of a later iterate given $\theta_i$ is $\theta^*+(I-\eta A)^{j-i}(\theta_i-\theta^*)$, so the correlations
    follow from the second moments. $A=\frac1n\sum x_ix_i^\top$ must have full rank.
    """
    moments = least_squares_moments(x, y, start, step, steps, batch_size=batch_size)
    spectrum, basis = jnp.linalg.eigh(jnp.asarray(x).T @ jnp.asarray(x) / len(x))
    second = jnp.einsum("kij,ia,ja->ka", moments.variance[1:], basis, basis)
    factor = 1 - step * spectrum
    later = factor / (1 - factor)

    def advance(sums, new):
        plain, faded = sums[0] + new, factor * sums[1] + new
        return (plain, faded), jnp.sum((1 + 2 * later) * plain - 2 * later * faded)

    zero = jnp.zeros_like(factor)
    return jax.lax.scan(advance, (zero, zero), second)[1] / jnp.arange(1, steps + 1) ** 2


class ConfusionZone(NamedTuple):
    r"""Where the minimisers $y_m/x_m$ of the single terms lie, and the stationary law of SGD there."""

    low: jax.Array
    high: jax.Array
    minimiser: jax.Array
    variance: jax.Array

    __repr__ = shown


@implements("M18.25")
def confusion_zone(x: Float[ArrayLike, "m"], y: Float[ArrayLike, "m"], step: Scalar) -> ConfusionZone:
    r"""$\frac1M\sum(wx_m-y_m)^2$ on the line: the interval of the $y_m/x_m$, which SGD with $2\eta\max x_m^2\le1$
    enters and never leaves.

    There its mean is $w^*=\frac{\sum x_my_m}{\sum x_m^2}$ and its variance
    $\frac{\eta\,\overline{x^2r^2}}{\overline{x^2}-\eta\,\overline{x^4}}$ with $r_m=y_m-w^*x_m$, wherever
    $\eta\,\overline{x^4}<\overline{x^2}$; a step is $w-2\eta x_m(wx_m-y_m)$.
    """
    dims = {}
    x, y = real("x", x, "m", dims), real("y", y, "m", dims)
    step = positive("step", real("step", step, ""))
    positive("the absolute value of x", jnp.abs(x))
    ratios, minimiser = y / x, x @ y / (x @ x)
    second, fourth = jnp.mean(x**2), jnp.mean(x**4)
    positive("mean x^2 less step times mean x^4", second - step * fourth)
    variance = step * jnp.mean(x**2 * (y - minimiser * x) ** 2) / (second - step * fourth)
    return ConfusionZone(ratios.min(), ratios.max(), minimiser, variance)
