r"""Images in flows: grey values as densities, pixels as channels, every other pixel as the part that stays.

```python
layers = [Logit(), Squeeze(), AffineCoupling(checkerboard_mask((4, 14, 14)), network), …]
flow = NormalisingFlow(layers, (1, 28, 28))
bits_per_dimension(flow.log_prob(dequantised(x, key=key)), 784)
```
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray, Real

from corollary._show import shown
from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements


def dequantised(x: Real[ArrayLike, "..."], *, levels: int = 256, key: PRNGKeyArray) -> Float[Array, "..."]:
    r"""$(x+u)/L$ with $u$ uniform on $[0,1)$: grey values $0,\dots,L-1$ spread over their intervals of $[0,1)$.

    The mean over $u$ of $\ln p((x+u)/L)-d\ln L$ is at most the logarithm of the probability that the density $p$ gives
    to the cell of $x$, and equal where $p$ is constant on it: bits of a density are an upper bound of bits of grey
    values.
    """
    levels, x = whole("levels", levels, 2), jnp.asarray(x)
    if concrete(x):
        seen = np.asarray(x)
        wrong = seen[(seen < 0) | (seen > levels - 1) | (seen != np.round(seen))]
        if wrong.size:
            raise ValueError(f"x must hold whole grey values from 0 to {levels - 1}, got {wrong.flat[0]}.")
    kind = jnp.result_type(x, float) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.result_type(float)
    return (x.astype(kind) + jax.random.uniform(key, x.shape, kind)) / levels


@implements("T14.20")
def checkerboard_mask(shape: Sequence[int]) -> Bool[np.ndarray, "c h w"]:
    r"""True on the pixels whose row and column add up to an even number, the same in all channels."""
    channels, *size = (whole("shape", n) for n in shape)
    if len(size) != 2:
        raise ValueError(f"shape must be channels, height and width, got {tuple(shape)}.")
    return np.broadcast_to(np.add.outer(*map(np.arange, size)) % 2 == 0, (channels, *size)).copy()


class Squeeze(eqx.Module):
    r"""Squares of two by two pixels become channels: $(c,h,w)\mapsto(4c,h/2,w/2)$, with the determinant 1."""

    __repr__ = shown

    def forward(self, z: Float[ArrayLike, "c h w"]) -> tuple[Float[Array, "_ _ _"], Float[Array, ""]]:
        r"""The image with four times the channels, and $\ln|\det J|=0$."""
        z = real("z", z, "c h w")
        c, h, w = z.shape
        if h % 2 or w % 2:
            raise ValueError(f"height and width must be even to be squeezed, got {h} and {w}.")
        z = z.reshape(c, h // 2, 2, w // 2, 2).transpose(0, 2, 4, 1, 3)
        return z.reshape(4 * c, h // 2, w // 2), jnp.zeros((), z.dtype)

    def inverse(self, z: Float[ArrayLike, "c h w"]) -> Float[Array, "_ _ _"]:
        """The pixels back in their places."""
        z = real("z", z, "c h w")
        c, h, w = z.shape
        if c % 4:
            raise ValueError(f"the number of channels must be a multiple of 4 to be unsqueezed, got {c}.")
        return z.reshape(c // 4, 2, 2, h, w).transpose(0, 3, 1, 4, 2).reshape(c // 4, 2 * h, 2 * w)


class Logit(eqx.Module):
    r"""$x\mapsto\ln\frac s{1-s}$ with $s=m+(1-2m)x$: numbers in $[0,1]$ to the whole line, $m$ the `margin`."""

    margin: float = eqx.field(static=True)

    def __init__(self, margin: float = 0.05):
        self.margin = float(within("margin", margin, 0.0, 0.5, open="both"))

    __repr__ = shown

    def forward(self, z: Float[ArrayLike, "..."]) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        r"""The logits, and $\ln|\det J|=\sum\ln\frac{1-2m}{s(1-s)}$."""
        s = self.margin + (1 - 2 * self.margin) * real("z", z)
        return jnp.log(s) - jnp.log1p(-s), jnp.sum(jnp.log(1 - 2 * self.margin) - jnp.log(s) - jnp.log1p(-s))

    def inverse(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$(\frac1{1+e^{-z}}-m)/(1-2m)$."""
        return (jax.nn.sigmoid(real("z", z)) - self.margin) / (1 - 2 * self.margin)
