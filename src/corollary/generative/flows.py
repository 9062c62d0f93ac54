r"""Normalising flows: invertible layers whose Jacobian has a cheap determinant, so that the likelihood is exact.

```python
layers = [AffineCoupling(mask, network), AffineCoupling(~mask, another), …]
flow = NormalisingFlow(layers, 2)
trained = nets.fit(flow, flow_loss(), x, optax.adam(1e-3), steps=5000, batch_size=256, key=key).network
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import NetworkLike
from corollary._validate import concrete, real, whole
from corollary.catalog import implements
from corollary.network import BatchLoss


@implements("T14.19", "T14.22")
class AffineCoupling(eqx.Module):
    r"""$z_A\mapsto z_A$, $z_B\mapsto z_B\odot e^{r(z_A)}+s(z_A)$, with the determinant $\prod_{j\in B}e^{r_j}$.

    `mask` has the shape of one example and is true on $A$. `network` is given the example with zeros on $B$ and returns
    $r$ and then $s$, twice as long along the first axis as the example; what it says about $A$ is not used.
    """

    mask: jax.Array
    network: Any

    def __init__(self, mask: Bool[ArrayLike, "..."], network: NetworkLike):
        self.mask, self.network = _mask(mask), _network(network)

    __repr__ = shown

    def _pair(self, z):
        out, want = jnp.asarray(self.network(jnp.where(self.mask, z, 0))), (2 * len(z), *z.shape[1:])
        if out.shape != want:
            raise ValueError(
                f"the network of an AffineCoupling must return an array of shape {want}, r and then s of an example "
                f"of shape {z.shape}, got {out.shape}."
            )
        r, s = jnp.split(out, 2)
        return jnp.where(self.mask, 0, r), jnp.where(self.mask, 0, s)

    def forward(self, z: Float[ArrayLike, "..."]) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        r"""The image of one example, and $\ln|\det J|=\sum_{j\in B}r_j$."""
        z = _example(z, self.mask.shape)
        r, s = self._pair(z)
        return z * jnp.exp(r) + s, jnp.sum(r)

    def inverse(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$z_B\mapsto(z_B-s(z_A))\oslash e^{r(z_A)}$."""
        z = _example(z, self.mask.shape)
        r, s = self._pair(z)
        return (z - s) * jnp.exp(-r)


@implements("T14.19")
class AdditiveCoupling(eqx.Module):
    r"""$z_A\mapsto z_A$, $z_B\mapsto z_B+s(z_A)$, which keeps volumes; `network` returns $s$, like the example."""

    mask: jax.Array
    network: Any

    def __init__(self, mask: Bool[ArrayLike, "..."], network: NetworkLike):
        self.mask, self.network = _mask(mask), _network(network)

    __repr__ = shown

    def _shift(self, z):
        s = jnp.asarray(self.network(jnp.where(self.mask, z, 0)))
        if s.shape != z.shape:
            raise ValueError(
                f"the network of an AdditiveCoupling must return an array like the example, {z.shape}, got {s.shape}."
            )
        return jnp.where(self.mask, 0, s)

    def forward(self, z: Float[ArrayLike, "..."]) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        r"""The image of one example, and $\ln|\det J|=0$."""
        z = _example(z, self.mask.shape)
        return z + self._shift(z), jnp.zeros((), z.dtype)

    def inverse(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$z_B\mapsto z_B-s(z_A)$."""
        z = _example(z, self.mask.shape)
        return z - self._shift(z)


@implements("T14.20")
class Invertible1x1(eqx.Module):
    r"""The same matrix $W$ on the channels, the first axis, of each of $n$ pixels: $\ln|\det J|=n\ln|\det W|$."""

    matrix: jax.Array

    def __init__(self, matrix: Float[ArrayLike, "c c"]):
        self.matrix = real("matrix", matrix, "c c")
        if concrete(self.matrix) and (rank := np.linalg.matrix_rank(np.asarray(self.matrix))) < len(self.matrix):
            raise ValueError(f"matrix must be invertible, got one of rank {rank} for {len(self.matrix)} channels.")

    __repr__ = shown

    def forward(self, z: Float[ArrayLike, "c ..."]) -> tuple[Float[Array, "c ..."], Float[Array, ""]]:
        r"""$Wz$ at every pixel, and $\ln|\det J|$."""
        flat = self._pixels(z)
        out = (self.matrix @ flat).reshape(jnp.shape(z))
        return out, flat.shape[1] * jnp.linalg.slogdet(self.matrix)[1]

    def inverse(self, z: Float[ArrayLike, "c ..."]) -> Float[Array, "c ..."]:
        r"""$W^{-1}z$ at every pixel."""
        return jnp.linalg.solve(self.matrix, self._pixels(z)).reshape(jnp.shape(z))

    def _pixels(self, z):
        z = real("z", z)
        if z.ndim == 0 or len(z) != len(self.matrix):
            raise ValueError(f"z must have {len(self.matrix)} channels along its first axis, got shape {z.shape}.")
        return z.reshape(len(z), -1)


class Inverted(eqx.Module):
    r"""A layer run the other way: its `forward` is the layer's `inverse`, with minus the logarithm there."""

    layer: Any

    def __init__(self, layer: Any):
        self.layer = _layer(layer)

    __repr__ = shown

    def forward(self, z: Float[ArrayLike, "..."]) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        r"""$f^{-1}(z)$ and $-\ln|\det J_f(f^{-1}(z))|$."""
        out = self.layer.inverse(z)
        return out, -self.layer.forward(out)[1]

    def inverse(self, z: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$f(z)$."""
        return self.layer.forward(z)[0]


@implements("T14.17", "T14.18")
class NormalisingFlow(eqx.Module):
    r"""The law of $x$ whose image $h=f(x)$ is standard normal: $\rho(x)=\mu(f(x))|\det J_f(x)|$.

    `layers` are run in turn from $x$ to $h$; each has `forward(z)`, which returns the image and $\ln|\det J|$ there,
    and `inverse(z)`. `shape` is that of one example, a number for a vector.

    >>> flow = NormalisingFlow([Invertible1x1([[2.0, 0.0], [0.0, 1.0]])], 2)
    >>> round(float(flow.log_prob([0.0, 0.0]) + jnp.log(2 * jnp.pi)), 4)
    0.6931
    """

    layers: tuple
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, layers: Sequence[Any], shape: int | Sequence[int]):
        self.layers = tuple(_layer(layer) for layer in layers)
        self.shape = _shape(shape)

    __repr__ = shown

    def forward(self, x: Float[ArrayLike, "..."]) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        r"""$f(x)$ of one example, and $\ln|\det J_f(x)|$, the sum over the layers."""
        z, total = _example(x, self.shape, "x"), 0.0
        for layer in self.layers:
            z, log_det = layer.forward(z)
            total = total + log_det
        return z, jnp.asarray(total, z.dtype)

    def inverse(self, h: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$f^{-1}(h)$."""
        z = real("h", h)
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z

    def log_prob(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        r"""$\ln\rho(x)$ at one example."""
        h, log_det = self.forward(x)
        return log_det - 0.5 * jnp.sum(h**2) - 0.5 * h.size * jnp.log(2 * jnp.pi)

    def sample(self, count: int, *, key: PRNGKeyArray) -> Float[Array, "_ ..."]:
        r"""Independent samples $f^{-1}(h)$, `count` of them along the first axis."""
        count = whole("count", count)
        kinds = [a.dtype for a in jax.tree.leaves(self.layers) if eqx.is_inexact_array(a)]
        # the shape of h is not that of x where a layer moves pixels into channels
        h = jax.eval_shape(lambda x: self.forward(x)[0], jax.ShapeDtypeStruct(self.shape, jnp.result_type(float)))
        noise = jax.random.normal(key, (count, *h.shape), jnp.result_type(*kinds) if kinds else None)
        return jax.vmap(self.inverse)(noise)


@implements("T14.17")
def flow_loss() -> BatchLoss:
    r"""Minus the mean log-likelihood of a batch `x`, for `nets.fit(flow, flow_loss(), x, optimiser, …)`."""
    return BatchLoss(lambda network, batch: -jnp.mean(jax.vmap(network.log_prob)(batch)))


def bits_per_dimension(log_prob: Float[ArrayLike, "..."], dimensions: int, *, levels: int = 256) -> Float[Array, "..."]:
    r"""$\log_2L-\frac{\ln p(x)}{d\ln2}$: bits for each of the $d$ numbers that had $L$ `levels` in $[0,1]$.

    $p$ is a density of $[0,1]^d$, where a grey value is an interval of length $1/L$. The uniform density costs
    $\log_2L$. With `levels=1` it is that of the density itself.

    >>> float(bits_per_dimension(0.0, 784))
    8.0
    """
    log_prob, dimensions = real("log_prob", log_prob, finite=False), whole("dimensions", dimensions)
    return np.log2(whole("levels", levels)) - log_prob / (dimensions * np.log(2))


@implements("T14.20")
def half_mask(shape: int | Sequence[int]) -> Bool[np.ndarray, "..."]:
    r"""True on the first half of the channels, the first axis of an example; their number must be even."""
    shape = _shape(shape)
    if shape[0] % 2:
        raise ValueError(f"the number of channels must be even to be split in half, got {shape[0]}.")
    mask = np.zeros(shape, bool)
    mask[: shape[0] // 2] = True
    return mask


def _mask(mask):
    mask = np.asarray(mask) if concrete(mask) else mask
    if mask.dtype != bool or mask.ndim == 0:
        raise TypeError(f"mask must be an array of True and False like one example, got {mask.dtype}{mask.shape}.")
    if concrete(mask) and mask.all() | ~mask.any():
        raise ValueError("mask must be true at some places, which are kept, and false at others, which are moved.")
    return jnp.asarray(mask)


def _example(z, shape, name="z"):
    z = real(name, z)
    if z.shape != shape:
        raise ValueError(f"{name} must be one example of shape {shape}, got {z.shape}.")
    return z


def _network(network):
    if not callable(network):
        raise TypeError(f"network must be a network of one example, got {type(network).__name__}.")
    return network


def _layer(layer):
    if not callable(getattr(layer, "forward", None)) or not callable(getattr(layer, "inverse", None)):
        raise TypeError(f"a layer of a flow has forward and inverse, got {type(layer).__name__}.")
    return layer


def _shape(shape):
    whole_numbers = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if not whole_numbers:
        raise ValueError("shape must be that of one example with at least one axis, got ().")
    return tuple(whole("shape", size) for size in whole_numbers)
