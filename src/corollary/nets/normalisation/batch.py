r"""Batch normalisation: every feature is centred and scaled by its statistics over the examples of a batch.

The examples of a batch see each other, so the layer works on whole batches; what it has seen of the statistics is a
state that the caller carries from batch to batch. Features are the last axis; all others are examples (of an image:
its positions too).

```python
norm = BatchNorm(64)
state = norm.state()
y, state = norm.batch(z, state)     # training: the statistics of this batch, and the running ones moved towards them
norm(z[0], state)                   # afterwards: one example, by the running statistics
```
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements


class BatchMoments(NamedTuple):
    r"""$\mu$ and $\sigma^2$ of every feature."""

    mean: jax.Array
    variance: jax.Array

    __repr__ = shown


class NormalisedBatch(NamedTuple):
    r"""$\hat z$, and the moments of the batch (the variance without $\delta$)."""

    values: jax.Array
    moments: BatchMoments

    __repr__ = shown


@implements("B10.28")
def batch_normalise(
    z: Float[ArrayLike, "... features"],
    scale: Float[ArrayLike, "..."] | None = None,
    shift: Float[ArrayLike, "..."] | None = None,
    *,
    eps: Scalar = 1e-5,
    unbiased: bool = False,
) -> NormalisedBatch:
    r"""$\hat z_i[j]=\alpha_i\frac{z_i[j]-\mu_i}{\sigma_i}+\beta_i$ with $\mu_i=\frac1B\sum_jz_i[j]$ and
    $\sigma_i^2=\delta+\frac1B\sum_j(z_i[j]-\mu_i)^2$.

    `z` has shape (..., features), and $j$ runs over all axes but the last; `scale` is $\alpha$, `shift` is $\beta$.
    `unbiased` divides the sum of squares by $B-1$ (B, problem 2 of chapter 10). $\delta=0$ needs features that vary.
    """
    z = _batch(z, eps, unbiased)
    scale, shift = _affine(scale, shift, z)
    moments = _moments(z, unbiased)
    return NormalisedBatch(_apply(z, moments, scale, shift, eps), moments)


@implements("B10.28")
def batch_normalise_backward(
    z: Float[ArrayLike, "... features"],
    scale: Float[ArrayLike, "..."],
    upstream: Float[ArrayLike, "..."],
    *,
    eps: Scalar = 1e-5,
    unbiased: bool = False,
) -> tuple:
    r"""The gradients by $z$, $\alpha$ and $\beta$ of a loss whose gradient by $\hat z$ is `upstream`, written out.

    With $g=\alpha\odot\partial\ell/\partial\hat z$ and averages over the batch,
    $\partial\ell/\partial z=\frac1\sigma(g-\bar g-\tilde z\,\overline{g\tilde z})$ ($\frac B{B-1}\overline{g\tilde z}$
    if unbiased): what changes the mean, or the variance, of a feature is taken out.
    """
    z = _batch(z, eps, unbiased)
    upstream = real("upstream", upstream, finite=False)
    if upstream.shape != z.shape:
        raise ValueError(f"upstream must have the shape of z, {z.shape}, got {upstream.shape}.")
    scale, _ = _affine(scale, None, z)
    examples = tuple(range(z.ndim - 1))
    moments = _moments(z, unbiased)
    sigma = jnp.sqrt(moments.variance + eps)
    plain = (z - moments.mean) / sigma
    g = upstream * scale
    size = z.size // z.shape[-1]
    along = jnp.sum(g * plain, axis=examples) / (size - 1 if unbiased else size)
    by_z = (g - jnp.mean(g, axis=examples) - plain * along) / sigma
    return by_z, jnp.sum(upstream * plain, axis=examples), jnp.sum(upstream, axis=examples)


@implements("B10.28")
class BatchNorm(eqx.Module):
    r"""The layer: $\alpha$, $\beta$ of the size of the features, and running statistics for what comes after training.

    `batch` normalises by the moments of the batch and moves the running ones: $m\leftarrow\rho m+(1-\rho)m_{batch}$
    with $\rho$ = `momentum`, where the variance of the batch enters in its unbiased form. Calling the layer normalises
    by the running ones, whatever else is in the batch. Inputs of 16 bits are averaged in 32.
    """

    scale: jax.Array
    shift: jax.Array
    eps: float = eqx.field(static=True)
    momentum: float = eqx.field(static=True)

    def __init__(self, features: int, *, eps: float = 1e-5, momentum: float = 0.9):
        features = whole("features", features)
        self.scale, self.shift = jnp.ones(features), jnp.zeros(features)
        self.eps = float(within("eps", eps, 0.0))
        self.momentum = float(within("momentum", momentum, 0.0, 1.0, open="high"))

    def state(self) -> BatchMoments:
        """Mean 0 and variance 1: what the running statistics start from."""
        return BatchMoments(jnp.zeros_like(self.scale), jnp.ones_like(self.scale))

    def __call__(self, z: Float[ArrayLike, "... _"], state: BatchMoments) -> Float[Array, "..."]:
        z = real("z", z, f"... {self.scale.shape[0]}", finite=False)
        return _apply(z, state, self.scale, self.shift, self.eps)

    def batch(self, z: Float[ArrayLike, "... _"], state: BatchMoments) -> tuple:
        z = real("z", z, f"... {self.scale.shape[0]}", finite=False)
        size = z.size // z.shape[-1]
        if size < 2:
            raise ValueError(f"z must hold at least two examples to normalise over, got shape {z.shape}.")
        moments = _moments(z, False)
        seen = BatchMoments(moments.mean, moments.variance * (size / (size - 1)))
        mix = lambda old, new: self.momentum * old + (1 - self.momentum) * new.astype(old.dtype)  # noqa: E731
        state = jax.tree.map(mix, state, jax.lax.stop_gradient(seen))
        return _apply(z, moments, self.scale, self.shift, self.eps), state


def _moments(z, unbiased) -> BatchMoments:
    examples = tuple(range(z.ndim - 1))
    size = z.size // z.shape[-1]
    wide = z.astype(jnp.promote_types(z.dtype, jnp.float32))
    mean = jnp.mean(wide, axis=examples)
    if z.dtype.itemsize < 4:
        # both sums in one pass over memory: what cancels here is below the rounding of the 16 bits themselves
        variance = jnp.maximum(jnp.mean(wide * wide, axis=examples) - mean * mean, 0)
    else:
        variance = jnp.mean((wide - mean) ** 2, axis=examples)
    return BatchMoments(mean, variance * (size / (size - 1)) if unbiased else variance)


def _apply(z, moments, scale, shift, eps):
    wide = jnp.promote_types(z.dtype, jnp.float32)
    factor = scale * jax.lax.rsqrt(moments.variance + eps)
    return ((z.astype(wide) - moments.mean) * factor + shift).astype(z.dtype)


def _batch(z, eps, unbiased):
    value, z = z, real("z", z, "... features")
    within("eps", eps, 0.0)
    if z.ndim < 2:
        raise ValueError(f"z must have an axis of examples before its features, got shape {z.shape}.")
    if unbiased and z.size // z.shape[-1] < 2:
        raise ValueError("z must hold at least two examples for an unbiased variance, got one.")
    if concrete(value) and concrete(eps) and float(eps) == 0:
        flat = np.asarray(value).reshape(-1, z.shape[-1])
        if (flat == flat[:1]).all(axis=0).any():
            raise ValueError("eps must be positive where a feature of z is the same in all examples, got 0.")
    return z


def _affine(scale, shift, z):
    size = str(z.shape[-1])
    scale = jnp.ones((), z.dtype) if scale is None else real("scale", scale, size)
    shift = jnp.zeros((), z.dtype) if shift is None else real("shift", shift, size)
    return scale, shift
