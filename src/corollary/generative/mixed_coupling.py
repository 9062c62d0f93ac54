r"""A coupling that bends: each number goes through a mixture of logistic distributions before it is scaled and moved.

```python
layer = MixtureCoupling(half_mask((4, 14, 14)), network, 6)     # network returns 2 + 3 · 6 times as many channels
```
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.nn import log_sigmoid, log_softmax, logsumexp
from jaxtyping import Array, ArrayLike, Bool, Float

from corollary._show import shown
from corollary._types import NetworkLike
from corollary._validate import concrete, real, whole
from corollary.catalog import implements

#: halvings of the interval in which the inverse lies: more than float64 can tell
HALVINGS = 60


@implements("T14.19")
class MixtureCoupling(eqx.Module):
    r"""$z_A\mapsto z_A$, $z_B\mapsto e^r\ln\frac F{1-F}+s$ with $F(z)=\sum_k\pi_k\sigma((z-\mu_k)e^{-\nu_k})$.

    $\sigma$ is the logistic function; with one part it is an affine coupling. `mask` has the shape of one example and
    is true on $A$. `network` is given the example with zeros on $B$ and returns $2+3K$ arrays like it, one after the
    other along the first axis: $r$, $s$, the $K$ logits of the weights $\pi_k$, the $\mu_k$, the $\nu_k$.
    """

    mask: jax.Array
    network: Any
    parts: int = eqx.field(static=True)

    def __init__(self, mask: Bool[ArrayLike, "..."], network: NetworkLike, parts: int):
        mask = np.asarray(mask) if concrete(mask) else mask
        if mask.dtype != bool or mask.ndim == 0:
            raise TypeError(f"mask must be an array of True and False like one example, got {mask.dtype}{mask.shape}.")
        if not callable(network):
            raise TypeError(f"network must be a network of one example, got {type(network).__name__}.")
        self.mask, self.network, self.parts = jnp.asarray(mask), network, whole("parts", parts)

    __repr__ = shown

    def forward(self, z: Float[ArrayLike, "..."]) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        r"""The image of one example, and $\ln|\det J|=\sum_{j\in B}r_j+\ln\frac{F'}{F(1-F)}$."""
        z, (r, s, weights, mu, nu) = self._given(z)
        t = (z - mu) * jnp.exp(-nu)
        below, above = (logsumexp(weights + log_sigmoid(side), 0) for side in (t, -t))
        density = logsumexp(weights - nu + log_sigmoid(t) + log_sigmoid(-t), 0)
        moved = (below - above) * jnp.exp(r) + s
        return jnp.where(self.mask, z, moved), jnp.sum(jnp.where(self.mask, 0, r + density - below - above))

    def inverse(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$F^{-1}(\sigma((z_B-s)e^{-r}))$, halving the interval between the parts' own quantiles."""
        z, (r, s, weights, mu, nu) = self._given(z)
        wanted = (z - s) * jnp.exp(-r)
        quantiles = mu + jnp.exp(nu) * wanted

        def halve(_, ends):
            low, high = ends
            middle = (low + high) / 2
            t = (middle - mu) * jnp.exp(-nu)
            below, above = (logsumexp(weights + log_sigmoid(side), 0) for side in (t, -t))
            less = below - above < wanted
            return jnp.where(less, middle, low), jnp.where(less, high, middle)

        low, high = lax.fori_loop(0, HALVINGS, halve, (quantiles.min(0), quantiles.max(0)))
        return jnp.where(self.mask, z, (low + high) / 2)

    def _given(self, z):
        """The example, and what the network says about it: r, s, logarithms of the weights, means, log-scales."""
        z = real("z", z)
        if z.shape != self.mask.shape:
            raise ValueError(f"z must be one example of shape {self.mask.shape}, got {z.shape}.")
        out, count = jnp.asarray(self.network(jnp.where(self.mask, z, 0))), 2 + 3 * self.parts
        if out.shape != (want := (count * len(z), *z.shape[1:])):
            raise ValueError(f"the network of a MixtureCoupling must return an array of shape {want}, got {out.shape}.")
        (r, s), weights, mu, nu = jnp.split(out.reshape(count, *z.shape), [2, 2 + self.parts, 2 + 2 * self.parts])
        return z, (r, s, log_softmax(weights, 0), mu, nu)
