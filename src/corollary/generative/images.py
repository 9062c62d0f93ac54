r"""Images in flows: grey values as densities, pixels as channels, every other pixel as the part that stays, several
sizes.

```python
layers = [Logit(), Squeeze(), AffineCoupling(checkerboard_mask((4, 14, 14)), network), …]
flow = NormalisingFlow(layers, (1, 28, 28))
bits_per_dimension(flow.log_prob(dequantised(x, key=key)), 784)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr, ndtri
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
        r"""The logits, and $\ln|\det J|=\sum\ln\frac{1-2m}{s(1-s)}$, where $0<s<1$: a little beyond $[0,1]$."""
        z = real("z", z)
        s = self.margin + (1 - 2 * self.margin) * z
        if concrete(z):
            seen = np.asarray(z)
            inside = self.margin + (1 - 2 * self.margin) * seen
            if (bad := (inside <= 0) | (inside >= 1)).any():
                beyond = self.margin / (1 - 2 * self.margin)
                raise ValueError(
                    f"z must lie in [0, 1], or beyond it by less than {beyond:.3g} for the margin of {self.margin:g}, "
                    f"got {seen[bad].flat[0]:g}: dequantised makes that of grey values."
                )
        return jnp.log(s) - jnp.log1p(-s), jnp.sum(jnp.log(1 - 2 * self.margin) - jnp.log(s) - jnp.log1p(-s))

    def inverse(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$(\frac1{1+e^{-z}}-m)/(1-2m)$."""
        return (jax.nn.sigmoid(real("z", z)) - self.margin) / (1 - 2 * self.margin)


class Histogram(eqx.Module):
    r"""$x\mapsto\Phi^{-1}(m+(1-2m)F(x))$, $F$ the distribution of grey values spread over their intervals of $[0,1]$.

    `counts` says how often each grey value was seen; one is added to each, so that none is impossible. A pixel of that
    law becomes standard normal but for the `margin` $m$, and black, which is most of many images, a wide interval where
    `Logit` leaves it narrow. The histogram is not trained.
    """

    masses: jax.Array
    margin: float = eqx.field(static=True)

    def __init__(self, counts: Real[ArrayLike, "levels"], margin: float = 1e-5):
        counts = within("counts", real("counts", jnp.asarray(counts, float), "levels"), 0.0)
        self.masses = (counts + 1) / jnp.sum(counts + 1)
        self.margin = float(within("margin", margin, 0.0, 0.5, open="both"))

    __repr__ = shown

    def forward(self, z: Float[ArrayLike, "..."]) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        r"""The normal scores, and $\ln|\det J|=\sum\ln\frac{(1-2m)F'(x)}{\varphi(z)}$."""
        z, (masses, edges) = real("z", z), self._steps()
        place = jnp.clip(z, 0, 1) * len(masses)
        at = jnp.minimum(place.astype(jnp.int32), len(masses) - 1)
        score = ndtri(self.margin + (1 - 2 * self.margin) * (edges[at] + masses[at] * (place - at)))
        slope = jnp.log(masses[at] * len(masses) * (1 - 2 * self.margin))
        return score, jnp.sum(slope + 0.5 * score**2 + 0.5 * jnp.log(2 * jnp.pi))

    def inverse(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""The grey values between 0 and 1 that have these scores."""
        masses, edges = self._steps()
        share = jnp.clip((ndtr(real("z", z)) - self.margin) / (1 - 2 * self.margin), 0, 1)
        at = jnp.clip(jnp.searchsorted(edges, share, side="right") - 1, 0, len(masses) - 1)
        return (at + jnp.clip((share - edges[at]) / masses[at], 0, 1)) / len(masses)

    def _steps(self):
        masses = lax.stop_gradient(self.masses / jnp.sum(self.masses))  # they stay a law where weights decay
        return masses, jnp.concatenate([jnp.zeros(1, masses.dtype), jnp.cumsum(masses)[:-1]])


class FactorOut(eqx.Module):
    r"""The first half of the channels goes on through `layers`, the other half is done: $(a,b)\mapsto(f(a),b)$.

    The layers must bring back the shape of $a$: what begins with `Squeeze()` ends with `Inverted(Squeeze())`.
    """

    layers: tuple

    def __init__(self, layers: Sequence[Any]):
        self.layers = tuple(layers)
        for layer in self.layers:
            if not callable(getattr(layer, "forward", None)) or not callable(getattr(layer, "inverse", None)):
                raise TypeError(f"a layer of a flow has forward and inverse, got {type(layer).__name__}.")

    __repr__ = shown

    def forward(self, z: Float[ArrayLike, "c ..."]) -> tuple[Float[Array, "c ..."], Float[Array, ""]]:
        r"""The image, and $\ln|\det J|$, which is that of the layers."""
        a, b = self._halves(z)
        shape, total = a.shape, jnp.zeros((), a.dtype)
        for layer in self.layers:
            a, log_det = layer.forward(a)
            total = total + log_det
        return self._together(a, b, shape), total

    def inverse(self, z: Float[ArrayLike, "c ..."]) -> Float[Array, "c ..."]:
        r"""$(f^{-1}(a),b)$."""
        a, b = self._halves(z)
        shape = a.shape
        for layer in reversed(self.layers):
            a = layer.inverse(a)
        return self._together(a, b, shape)

    def _halves(self, z):
        z = real("z", z)
        if z.ndim == 0 or len(z) % 2:
            raise ValueError(f"the number of channels must be even to be split in half, got shape {z.shape}.")
        return jnp.split(z, 2)

    def _together(self, a, b, shape):
        if a.shape != shape:
            raise ValueError(f"the layers must bring back the shape {shape} of half of the channels, got {a.shape}.")
        return jnp.concatenate([a, b])
