r"""Residual networks: ResNet9, and the family of He et al. with basic and bottleneck blocks.

```python
network = ResNet9(3, 10, key=key)
state = network.state()
logits, state = network.batch(x, state, training=True)      # x (n, 3, 32, 32): one convolution a layer for all n
network(x[0], state)                                        # one image, by the running statistics
network.batch(x, state, dtype=jnp.bfloat16)[0]              # parameters stay as they are, the arithmetic has 16 bits
```
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import one_of, real, whole
from corollary.catalog import implements
from corollary.nets.convolutional.blocks import ConvNorm, Head, batch_max_pool, run, states, to_batch


class ImageClassifier(eqx.Module):
    """What the networks of this file and dense networks share: images in, logits out, running statistics beside."""

    def state(self):
        """The running statistics of all normalisations, before any batch was seen."""
        return states(self._layers())

    def __call__(self, x, state):
        """The logits of one image (channels, rows, columns), by the running statistics."""
        return self.batch(real("x", x, "c h w", finite=False)[None], state)[0][0]

    @abstractmethod
    def batch(self, x, state, *, training: bool = False, dtype=None):
        """The logits of images (n, channels, rows, columns) and the new state.

        In training the statistics are those of this batch. `dtype` is the precision of the layers; the parameters, the
        statistics and the logits keep theirs.
        """


@implements("B10.23")
class ResNet9(ImageClassifier):
    r"""Eight convolutions and an affine layer (B, listing 10.1) for images of 32 by 32.

    A block is a 3 by 3 convolution with bias, batch normalisation, ReLU, and a maximum over 2 by 2 where it says pool:
    64; 128 pool; two of 128 around which the input is added; 256 pool; 512 pool; two of 512 likewise; the maximum over
    the 4 by 4 positions that are left. 6,575,370 numbers for 3 channels and 10 classes. `widths` are those four.
    """

    conv1: ConvNorm
    conv2: ConvNorm
    res1: tuple[ConvNorm, ConvNorm]
    conv3: ConvNorm
    conv4: ConvNorm
    res2: tuple[ConvNorm, ConvNorm]
    head: Head

    def __init__(self, channels: int, classes: int, *, key: PRNGKeyArray, widths: Sequence[int] = (64, 128, 256, 512)):
        if not isinstance(widths, Sequence) or len(widths) != 4:
            raise TypeError(f"widths must be a sequence of four channel counts, got {widths!r}.")
        a, b, c, d = (whole("widths", w) for w in widths)
        keys = iter(jax.random.split(key, 9))
        block = lambda m, n: ConvNorm(m, n, key=next(keys), bias=True)  # noqa: E731
        self.conv1, self.conv2 = block(whole("channels", channels), a), block(a, b)
        self.res1 = (block(b, b), block(b, b))
        self.conv3, self.conv4 = block(b, c), block(c, d)
        self.res2 = (block(d, d), block(d, d))
        self.head = Head(d, classes, key=next(keys))

    def _layers(self):
        return self.conv1, self.conv2, self.res1, self.conv3, self.conv4, self.res2

    def batch(
        self,
        x: Float[ArrayLike, "n channels h w"],
        state: Sequence[Any],
        *,
        training: bool = False,
        dtype: DTypeLike | None = None,
    ) -> tuple[Float[Array, "n _"], tuple]:
        x = to_batch(x, self.conv1.kernel.shape[2], dtype)
        if any(size // 8 != 4 for size in x.shape[1:3]):
            raise ValueError(
                f"x must be images of 32 by 32, so that the last maximum is over 4 by 4, got {x.shape[1:3]}."
            )

        def block(layer, x, old):
            x, new = layer(x, old, training)
            return jax.nn.relu(x), new

        def twice(layers, x, old):
            out, first = block(layers[0], x, old[0])
            out, second = block(layers[1], out, old[1])
            return x + out, (first, second)

        conv1, conv2, res1, conv3, conv4, res2 = state
        x, conv1 = block(self.conv1, x, conv1)
        x, conv2 = block(self.conv2, x, conv2)
        x, res1 = twice(self.res1, batch_max_pool(x), res1)
        x, conv3 = block(self.conv3, x, conv3)
        x, conv4 = block(self.conv4, batch_max_pool(x), conv4)
        x, res2 = twice(self.res2, batch_max_pool(x), res2)
        return self.head(x.max(axis=(1, 2))), (conv1, conv2, res1, conv3, conv4, res2)


@implements("B10.19", "B10.21", "B10.22")
class ResidualConvBlock(eqx.Module):
    r"""$\mathrm{ReLU}(x+f(x))$, or $\mathrm{ReLU}(Px+f(x))$ where the shape changes, $P$ a 1 by 1 convolution.

    The branch $f$ is two 3 by 3 convolutions (`kind="basic"`), or 1 by 1, 3 by 3 and 1 by 1 to four times the width
    (`"bottleneck"`), each normalised, with ReLU between. `plain` leaves the shortcut out.
    """

    branch: tuple[ConvNorm, ...]
    projection: ConvNorm | None
    plain: bool = eqx.field(static=True)

    def __init__(
        self, inputs: int, width: int, stride: int = 1, *, key: PRNGKeyArray, kind: str = "basic", plain: bool = False
    ):
        keys = jax.random.split(key, 4)
        if one_of("kind", kind, ("basic", "bottleneck")) == "basic":
            outputs, shapes = width, ((inputs, width, 3, stride), (width, width, 3, 1))
        else:
            outputs = 4 * width
            shapes = ((inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1))
        self.branch = tuple(ConvNorm(*shape, key=k) for shape, k in zip(shapes, keys[1:], strict=False))
        changes = inputs != outputs or stride != 1
        self.projection = ConvNorm(inputs, outputs, 1, stride, key=keys[0]) if changes and not plain else None
        self.plain = bool(plain)

    def state(self) -> tuple[tuple, Any]:
        return states((self.branch, self.projection))

    def __call__(
        self, x: Float[ArrayLike, "..."], state: Sequence[Any], training: bool
    ) -> tuple[Float[Array, "..."], tuple[tuple, Any]]:
        branch, projection = state
        out, moved = x, []
        for i, (layer, old) in enumerate(zip(self.branch, branch, strict=True)):
            out, new = layer(out if i == 0 else jax.nn.relu(out), old, training)
            moved.append(new)
        if self.projection is not None:
            x, projection = self.projection(x, projection, training)
        return jax.nn.relu(out if self.plain else x + out), (tuple(moved), projection)


@implements("B10.22")
class ResNet(ImageClassifier):
    r"""Stages of residual blocks; every stage but the first halves the image. Mean over positions, affine layer.

    `stages` are the numbers of blocks and `widths` those of channels. The `stem` "large" is a 7 by 7 convolution of
    stride 2 and a maximum over 3 by 3 of stride 2, for photographs; "small" is a 3 by 3 convolution. Layers with
    weights: `depth`, $2\sum_i n_i+2$ for basic blocks.
    """

    stem: ConvNorm
    blocks: tuple[ResidualConvBlock, ...]
    head: Head
    large: bool = eqx.field(static=True)

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        key: PRNGKeyArray,
        stages: Sequence[int] = (3, 4, 6, 3),
        widths: Sequence[int] = (64, 128, 256, 512),
        kind: str = "basic",
        stem: str = "large",
        plain: bool = False,
    ):
        if not isinstance(stages, Sequence) or not isinstance(widths, Sequence) or len(stages) != len(widths):
            raise TypeError(f"stages and widths must be sequences of the same length, got {stages!r} and {widths!r}.")
        stages, widths = [whole("stages", n) for n in stages], [whole("widths", w) for w in widths]
        self.large = one_of("stem", stem, ("large", "small")) == "large"
        one_of("kind", kind, ("basic", "bottleneck"))
        stem_key, head_key, *keys = jax.random.split(key, 2 + sum(stages))
        self.stem = ConvNorm(channels, widths[0], 7 if self.large else 3, 2 if self.large else 1, key=stem_key)
        blocks, inputs, keys = [], widths[0], iter(keys)
        for i, (count, width) in enumerate(zip(stages, widths, strict=True)):
            for j in range(count):
                stride = 2 if i > 0 and j == 0 else 1
                blocks.append(ResidualConvBlock(inputs, width, stride, key=next(keys), kind=kind, plain=plain))
                inputs = width if kind == "basic" else 4 * width
        self.blocks = tuple(blocks)
        self.head = Head(inputs, classes, key=head_key)

    @property
    def depth(self) -> int:
        """Layers with weights on the way from image to logits; projections lie beside it."""
        return 2 + sum(len(block.branch) for block in self.blocks)

    def _layers(self):
        return self.stem, self.blocks

    def batch(
        self,
        x: Float[ArrayLike, "n channels h w"],
        state: Sequence[Any],
        *,
        training: bool = False,
        dtype: DTypeLike | None = None,
    ) -> tuple[Float[Array, "_ _"], tuple[Any, tuple]]:
        x = to_batch(x, self.stem.kernel.shape[2], dtype)
        stem, blocks = state
        x, stem = self.stem(x, stem, training)
        x = jax.nn.relu(x)
        if self.large:
            pad = ((0, 0), (1, 1), (1, 1), (0, 0))
            x = lax.reduce_window(x, -float("inf"), lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pad)
        x, blocks = run(self.blocks, x, blocks, training)
        return self.head(x.mean(axis=(1, 2))), (stem, blocks)


@implements("B10.22")
def resnet34(channels: int = 3, classes: int = 1000, *, key: PRNGKeyArray, plain: bool = False) -> ResNet:
    """The 34-layer network: 3, 4, 6 and 3 basic blocks of 64, 128, 256 and 512 channels; 21,797,672 numbers."""
    return ResNet(channels, classes, key=key, plain=plain)


@implements("B10.22")
def small_resnet(channels: int, classes: int, n: int = 3, *, key: PRNGKeyArray, plain: bool = False) -> ResNet:
    """The 6n + 2 layers for images of 32 by 32: three stages of n basic blocks of 16, 32 and 64 channels."""
    stages = (whole("n", n),) * 3
    return ResNet(channels, classes, key=key, stages=stages, widths=(16, 32, 64), stem="small", plain=plain)


#: Errors in per cent on ImageNet (top 1, top 5) as printed in B, figure 10.15; None where none is given.
IMAGENET_ERRORS = {
    "VGG (ILSVRC'14)": (None, 8.43),
    "GoogLeNet (ILSVRC'14)": (None, 7.89),
    "VGG (v5)": (24.4, 7.1),
    "PReLU-net": (21.59, 5.71),
    "BN-inception": (21.99, 5.81),
    "ResNet-34 B": (21.84, 5.71),
    "ResNet-34 C": (21.53, 5.60),
    "ResNet-50": (20.74, 5.25),
    "ResNet-101": (19.87, 4.60),
    "ResNet-152": (19.38, 4.49),
}
