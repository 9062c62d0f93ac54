r"""Dense networks: every layer sees all that came before it, side by side in channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets.convolutional.blocks import Head, NormConv, batch_convolve, draw_kernel, states, to_batch
from corollary.nets.convolutional.resnet import ImageClassifier
from corollary.nets.normalisation import BatchNorm
from corollary.nets.normalisation.batch import BatchMoments


@implements("B10.26")
class DenseBlock(eqx.Module):
    r"""$x_\ell=H_\ell([x_0,\dots,x_{\ell-1}])$, $\ell=1..L$, with $H$ = normalisation, ReLU, 3 by 3 convolution.

    Every layer adds `growth` $=k$ channels: layer $\ell$ takes $k_0+(\ell-1)k$, the block gives $k_0+Lk$, and
    $L(L+1)/2$ connections run inside. Called on a batch in the inner order, (n, rows, columns, channels).
    """

    layers: tuple[NormConv, ...]

    def __init__(self, inputs: int, layers: int, growth: int, *, key: PRNGKeyArray):
        inputs, layers, growth = whole("inputs", inputs), whole("layers", layers), whole("growth", growth)
        keys = jax.random.split(key, layers)
        self.layers = tuple(NormConv(inputs + i * growth, growth, key=k) for i, k in enumerate(keys))

    @property
    def connections(self) -> int:
        r"""$L(L+1)/2$: one from each earlier state, the input included, to each layer."""
        return len(self.layers) * (len(self.layers) + 1) // 2

    @property
    def outputs(self) -> int:
        r"""$k_0+Lk$."""
        return sum(self.layers[-1].kernel.shape[2:])

    def state(self) -> tuple:
        return states(self.layers)

    def __call__(
        self, x: Float[ArrayLike, "..."], state: Sequence[Any], training: bool
    ) -> tuple[Float[Array, "..."], tuple]:
        moved = []
        for layer, old in zip(self.layers, state, strict=True):
            out, new = layer(x, old, training)
            x = jnp.concatenate([x, out], axis=-1)
            moved.append(new)
        return x, tuple(moved)


class Transition(eqx.Module):
    """Between blocks: normalisation, ReLU, a 1 by 1 convolution to fewer channels, the mean over 2 by 2."""

    layer: NormConv

    def __init__(self, inputs: int, outputs: int, *, key: PRNGKeyArray):
        self.layer = NormConv(inputs, outputs, 1, key=key)

    def state(self) -> BatchMoments:
        return self.layer.state()

    def __call__(
        self, x: Float[ArrayLike, "..."], state: BatchMoments, training: bool
    ) -> tuple[Float[Array, "..."], Any]:
        x, state = self.layer(x, state, training)
        n, h, w, c = x.shape
        blocks = x[:, : h // 2 * 2, : w // 2 * 2].reshape(n, h // 2, 2, w // 2, 2, c)
        return blocks.mean(axis=(2, 4)), state


@implements("B10.26")
class DenseNet(ImageClassifier):
    r"""A 3 by 3 convolution to $2k$ channels, dense blocks with transitions between them, mean over positions, classes.

    `stages` are the numbers of layers of the blocks; a transition keeps the share `compression` of the channels.
    Methods as those of `ResNet9`.
    """

    stem: jax.Array
    blocks: tuple[DenseBlock, ...]
    transitions: tuple[Transition, ...]
    norm: BatchNorm
    head: Head

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        key: PRNGKeyArray,
        stages: Sequence[int] = (6, 6, 6),
        growth: int = 12,
        compression: float = 0.5,
    ):
        if not isinstance(stages, Sequence) or not stages:
            raise TypeError(f"stages must be a sequence of one or more numbers of layers, got {stages!r}.")
        if not 0 < compression <= 1:
            raise ValueError(f"compression must be in (0, 1], got {compression}.")
        growth = whole("growth", growth)
        stem_key, head_key, *keys = jax.random.split(key, 2 + 2 * len(stages))
        self.stem = draw_kernel(channels, 2 * growth, 3, key=stem_key)
        width, blocks, transitions = 2 * growth, [], []
        for i, layers in enumerate(stages):
            blocks.append(DenseBlock(width, layers, growth, key=keys[2 * i]))
            width = blocks[-1].outputs
            if i < len(stages) - 1:
                transitions.append(Transition(width, max(int(width * compression), 1), key=keys[2 * i + 1]))
                width = transitions[-1].layer.kernel.shape[3]
        self.blocks, self.transitions = tuple(blocks), tuple(transitions)
        self.norm = BatchNorm(width)
        self.head = Head(width, classes, key=head_key)

    def _layers(self):
        return self.blocks, self.transitions, self.norm

    def batch(
        self,
        x: Float[ArrayLike, "n channels h w"],
        state: Sequence[Any],
        *,
        training: bool = False,
        dtype: DTypeLike | None = None,
    ) -> tuple[Float[Array, "n _"], tuple[tuple, tuple, Any]]:
        x = batch_convolve(to_batch(x, self.stem.shape[2], dtype), self.stem)
        (*blocks,), (*transitions,), norm = state
        for i, block in enumerate(self.blocks):
            x, blocks[i] = block(x, blocks[i], training)
            if i < len(self.transitions):
                x, transitions[i] = self.transitions[i](x, transitions[i], training)
        x, norm = self.norm.batch(x, norm) if training else (self.norm(x, norm), norm)
        return self.head(jax.nn.relu(x).mean(axis=(1, 2))), (tuple(blocks), tuple(transitions), norm)
