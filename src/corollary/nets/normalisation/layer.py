r"""Layer normalisation: every example is centred and scaled by its statistics over its own features.

The layer itself is `equinox.nn.LayerNorm`; here are the formula, and its derivative, as functions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import concrete, real, within
from corollary.catalog import implements


@implements("B10.30", "M13.39")
def layer_normalise(
    z: Float[ArrayLike, "... m"],
    scale: Float[ArrayLike, "..."] | None = None,
    shift: Float[ArrayLike, "..."] | None = None,
    *,
    eps: Scalar = 1e-5,
) -> Float[Array, "..."]:
    r"""$\alpha_i\frac{z_i-\mu}{\sigma}+\beta_i$ with $\mu=\frac1m\sum_iz_i$ and
    $\sigma^2=\delta+\frac1m\sum_i(z_i-\mu)^2$, for `z` of shape (..., m), each example for itself.

    $\delta=0$ needs examples whose features differ.
    """
    z, scale, shift = _checked(z, scale, shift, eps)
    away = z - jnp.mean(z, axis=-1, keepdims=True)
    return scale * away * jax.lax.rsqrt(jnp.mean(away**2, axis=-1, keepdims=True) + eps) + shift


@implements("B10.30")
def layer_normalise_jacobian(z: Float[ArrayLike, "m"], *, eps: Scalar = 1e-5) -> Float[Array, "_ _"]:
    r"""$\frac1\sigma(I-\frac1m\mathbf 1\mathbf 1^\top-\frac1m\tilde z\tilde z^\top)$ at one example, without $\alpha$.

    For $\delta=0$ it has rank $m-2$: shifts and multiples of $z$ are what the layer does not see.
    """
    z, _, _ = _checked(real("z", z, "m"), None, None, eps)
    size = z.shape[0]
    away = z - jnp.mean(z)
    sigma = jnp.sqrt(jnp.mean(away**2) + eps)
    plain = away / sigma
    return (jnp.eye(size, dtype=z.dtype) - 1 / size - jnp.outer(plain, plain) / size) / sigma


def _checked(z, scale, shift, eps):
    value, z = z, real("z", z, "... m")
    within("eps", eps, 0.0)
    if concrete(value) and concrete(eps) and float(eps) == 0:
        seen = np.asarray(value)
        if (seen == seen[..., :1]).all(axis=-1).any():
            raise ValueError("eps must be positive where all features of an example are equal, got 0.")
    size = str(z.shape[-1])
    scale = jnp.ones((), z.dtype) if scale is None else real("scale", scale, size)
    shift = jnp.zeros((), z.dtype) if shift is None else real("shift", shift, size)
    return z, scale, shift
