r"""A U-Net: down to coarse images and up again, with what was seen on the way down laid beside; it predicts noise.

```python
network = UNet(1, (64, 128, 256), key=key, classes=10)
network((x, level, label))          # x (1, 28, 28); level the share of the signal; label -1, or none, for no class
```
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.convolutional.blocks import batch_convolve, draw_kernel
from corollary.nets.initialisations import he_normal

#: frequencies of the embedding of half the logarithm of noise over signal, which lies between about -8 and 8
FREQUENCIES = 32
EPS = 1e-5


class GroupNorm(eqx.Module):
    """Channels in groups, each of mean 0 and variance 1 over its channels and pixels; then scaled and moved."""

    scale: jax.Array
    shift: jax.Array
    groups: int = eqx.field(static=True)

    def __init__(self, channels, groups):
        self.scale, self.shift, self.groups = jnp.ones(channels), jnp.zeros(channels), groups

    def __call__(self, x):
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        # over pixels first, one pass for both moments; the sums over the few channels of a group cost nothing
        mean, square = (self._grouped(a.mean((0, 1))) for a in (wide, wide**2))
        rate = self.scale * jax.lax.rsqrt(jnp.maximum(square - mean**2, 0) + EPS)
        return (wide * rate + (self.shift - mean * rate)).astype(x.dtype)

    def _grouped(self, a):
        means = a.reshape(self.groups, -1).mean(1)
        return jnp.repeat(means, len(a) // self.groups)


class UNetBlock(eqx.Module):
    """Two convolutions, each after normalisation and SiLU, the embedding added between, and the input added to them."""

    norms: tuple[GroupNorm, GroupNorm]
    kernels: tuple[jax.Array, jax.Array]
    embedding: jax.Array
    shortcut: jax.Array | None

    def __init__(self, inputs, outputs, embedded, groups, *, key):
        a, b, c = jax.random.split(key, 3)
        self.norms = GroupNorm(inputs, groups), GroupNorm(outputs, groups)
        self.kernels = draw_kernel(inputs, outputs, 3, key=a), jnp.zeros((3, 3, outputs, outputs))
        self.embedding = he_normal(b, (outputs, embedded), jnp.result_type(float))
        self.shortcut = None if inputs == outputs else draw_kernel(inputs, outputs, 1, key=c)

    def __call__(self, x, embedded):
        out = _convolved(jax.nn.silu(self.norms[0](x)), self.kernels[0])
        out = out + (self.embedding @ embedded).astype(x.dtype)
        out = _convolved(jax.nn.silu(self.norms[1](out)), self.kernels[1])
        return out + (x if self.shortcut is None else _convolved(x, self.shortcut))


class PixelAttention(eqx.Module):
    """Every pixel looks at every other one, in four heads, and what it finds is added."""

    norm: GroupNorm
    queries: jax.Array
    out: jax.Array

    def __init__(self, channels, groups, *, key):
        self.norm = GroupNorm(channels, groups)
        self.queries = he_normal(key, (3 * channels, channels), jnp.result_type(float)) * 0.5**0.5
        self.out = jnp.zeros((channels, channels))

    def __call__(self, x):
        h, w, c = x.shape
        flat = self.norm(x).reshape(h * w, c)
        q, k, v = jnp.split((flat @ self.queries.astype(x.dtype).T).reshape(h * w, 12, c // 4), 3, axis=1)
        found = jax.nn.dot_product_attention(q, k, v).reshape(h * w, c)
        return x + (found @ self.out.astype(x.dtype).T).reshape(x.shape)


@implements("T14.25")
class UNet(eqx.Module):
    r"""Residual blocks of `widths` channels at sizes that halve, attention at the smallest, and the same way back.

    It is given $(x,\bar\alpha)$ or $(x,\bar\alpha,\text{label})$, an image (`channels`, rows, columns), the share of
    the signal in its variance and one of `classes`, -1 for none, and returns `outputs` channels, 0 before training.
    `dtype` is the precision of the layers; the parameters and the output keep theirs.
    """

    first: jax.Array
    time: tuple[jax.Array, jax.Array]
    labels: jax.Array
    down: tuple[UNetBlock, ...]
    middle: tuple[UNetBlock, PixelAttention, UNetBlock]
    up: tuple[UNetBlock, ...]
    norm: GroupNorm
    last: jax.Array
    dtype: DTypeLike | None = eqx.field(static=True)

    def __init__(
        self,
        channels: int,
        widths: Sequence[int],
        *,
        key: PRNGKeyArray,
        outputs: int | None = None,
        classes: int = 0,
        groups: int = 8,
        dtype: DTypeLike | None = None,
    ):
        widths, groups = tuple(whole("widths", w) for w in widths), whole("groups", groups)
        if not widths or any(w % groups for w in widths) or widths[-1] % 4:
            raise ValueError(f"widths must be multiples of groups={groups}, the last of 4 too, got {widths}.")
        keys = iter(jax.random.split(key, 7 + 2 * len(widths)))
        kind, embedded = jnp.result_type(float), 4 * widths[0]
        self.first = draw_kernel(channels, widths[0], 3, key=next(keys))
        self.time = (
            he_normal(next(keys), (embedded, 2 * FREQUENCIES), kind),
            he_normal(next(keys), (embedded, embedded), kind),
        )
        self.labels = jax.random.normal(next(keys), (whole("classes", classes, 0), embedded), kind)
        block = lambda inputs, outputs: UNetBlock(inputs, outputs, embedded, groups, key=next(keys))  # noqa: E731
        before = (widths[0], *widths[:-1])
        self.down = tuple(block(a, b) for a, b in zip(before, widths, strict=True))
        end = widths[-1]
        self.middle = block(end, end), PixelAttention(end, groups, key=next(keys)), block(end, end)
        below = (*widths[1:], end)
        self.up = tuple(block(a + b, b) for a, b in zip(below, widths, strict=True))[::-1]
        self.norm = GroupNorm(widths[0], groups)
        self.last = jnp.zeros((3, 3, widths[0], whole("outputs", channels if outputs is None else outputs)))
        self.dtype = None if dtype is None else jnp.dtype(dtype)

    __repr__ = shown

    def __call__(self, x: tuple) -> Float[Array, "_ h w"]:
        image, level, *label = x
        image = real("x", image, f"{self.first.shape[2]} h w", finite=False)
        times = 2 ** (len(self.down) - 1)
        if image.shape[1] % times or image.shape[2] % times:
            raise ValueError(f"x must have rows and columns that are multiples of {times}, got {image.shape[1:]}.")
        embedded = jax.nn.silu(self._embedded(level, *label))
        h = _convolved(image.transpose(1, 2, 0).astype(self.dtype or image.dtype), self.first)
        seen = []
        for i, block in enumerate(self.down):
            h = block(h if i == 0 else _halved(h), embedded)
            seen.append(h)
        before, attention, after = self.middle
        h = after(attention(before(h, embedded)), embedded)
        for i, block in enumerate(self.up):
            h = block(jnp.concatenate([h if i == 0 else _doubled(h), seen.pop()], -1), embedded)
        out = _convolved(jax.nn.silu(self.norm(h)), self.last)
        return out.astype(jnp.result_type(self.last, image)).transpose(2, 0, 1)

    def _embedded(self, level: Float[ArrayLike, ""], label=None):
        """Of the logarithm of noise over signal, by cosines and sines, and of the class."""
        level = jnp.clip(level, 1e-7, 1 - 1e-7)
        half = 0.5 * (jnp.log1p(-level) - jnp.log(level)).astype(self.last.dtype)
        angles = half * jnp.geomspace(0.1, 20.0, FREQUENCIES, dtype=self.last.dtype)
        hidden = self.time[0] @ jnp.concatenate([jnp.cos(angles), jnp.sin(angles)])
        out = self.time[1] @ jax.nn.silu(hidden)
        return out if label is None else out + jax.nn.one_hot(label, len(self.labels), dtype=out.dtype) @ self.labels


def _convolved(x, kernel):
    return batch_convolve(x[None], kernel)[0]


def _halved(x):
    """The mean of every two by two pixels."""
    h, w, c = x.shape
    return x.reshape(h // 2, 2, w // 2, 2, c).mean((1, 3))


def _doubled(x):
    return jnp.repeat(jnp.repeat(x, 2, 0), 2, 1)
