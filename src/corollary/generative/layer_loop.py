r"""Many layers of one kind in a flow, compiled as one.

```python
LayerLoop([MixtureCoupling(mask, network(key), 6) for mask, key in zip(masks, keys)])
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._validate import real


class LayerLoop(eqx.Module):
    r"""Layers that differ in the values of their arrays alone, run in turn: one program in a loop, however many.

    `layers` is the layer whose arrays have one axis more, the first, along which they are taken one after the other.
    """

    layers: Any

    def __init__(self, layers: Sequence[Any]):
        layers = list(layers)
        if not layers:
            raise ValueError("layers must be one or more layers of one kind, got none.")
        if not callable(getattr(layers[0], "forward", None)) or not callable(getattr(layers[0], "inverse", None)):
            raise TypeError(f"a layer of a flow has forward and inverse, got {type(layers[0]).__name__}.")
        parts = [eqx.partition(layer, eqx.is_array) for layer in layers]
        if any(_kind(*part) != _kind(*parts[0]) for part in parts):
            raise ValueError("layers must be of one kind, with arrays of the same shapes, and differ in values alone.")
        self.layers = eqx.combine(jax.tree.map(lambda *a: jnp.stack(a), *(a for a, _ in parts)), parts[0][1])

    __repr__ = shown

    def forward(self, z: Float[ArrayLike, "..."]) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        r"""The image of one example, and the sum of $\ln|\det J|$ over the layers."""
        arrays, rest = eqx.partition(self.layers, eqx.is_array)
        z, log_dets = lax.scan(lambda z, one: eqx.combine(one, rest).forward(z), real("z", z), arrays)
        return z, jnp.sum(log_dets)

    def inverse(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""The layers backwards, the last one first."""
        arrays, rest = eqx.partition(self.layers, eqx.is_array)
        back = lambda z, one: (eqx.combine(one, rest).inverse(z), None)  # noqa: E731
        return lax.scan(back, real("z", z), arrays, reverse=True)[0]


def _kind(arrays, rest):
    """What layers of one kind share."""
    leaves, tree = jax.tree.flatten(arrays)
    return tree, [(a.shape, a.dtype) for a in leaves], jax.tree.structure(rest), jax.tree.leaves(rest)
