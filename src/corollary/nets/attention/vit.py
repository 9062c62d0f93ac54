r"""The vision transformer: an image is a sequence of patches.

Images have shape (channels, height, width), as those of convolutional layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.attention.block import drop, keys_of
from corollary.nets.attention.encoder import Encoder
from corollary.nets.attention.positions import LearnedPositions
from corollary.nets.initialisations import normal, uniform_fan_in
from corollary.nets.layers import FullyConnected


@implements("B10.64", "E06.19")
def image_patches(image: Float[ArrayLike, "channels height width"], size: int) -> Float[Array, "_ _"]:
    """The patches (count, channels * size * size) of an image (channels, height, width), row after row.

    Nothing is lost: `from_patches` puts them together again.
    """
    image, size = real("image", image, "channels height width", finite=False), whole("size", size)
    channels, height, width = image.shape
    if height % size or width % size:
        raise ValueError(
            f"image must have a height and width that are multiples of the patch size {size}, got {height} and {width}."
        )
    grid = image.reshape(channels, height // size, size, width // size, size)
    return grid.transpose(1, 3, 0, 2, 4).reshape(-1, channels * size * size)


@implements("B10.64", "E06.19")
def from_patches(rows: Float[ArrayLike, "count entries"], shape: tuple[int, int, int]) -> Float[Array, "_ _ _"]:
    """The image (channels, height, width) of which these are the patches."""
    channels, height, width = (whole("shape", a) for a in shape)
    rows = real("rows", rows, "count entries", finite=False)
    size = round((rows.shape[1] / channels) ** 0.5)
    whole_number = size and channels * size**2 == rows.shape[1] and not height % size and not width % size
    if not whole_number or rows.size != channels * height * width:
        raise ValueError(f"rows must be the square patches of an image of shape {tuple(shape)}, got {rows.shape}.")
    grid = rows.reshape(height // size, width // size, channels, size, size)
    return grid.transpose(2, 0, 3, 1, 4).reshape(channels, height, width)


@implements("B10.64", "E06.19")
class ViT(eqx.Module):
    """Patches, linearly embedded; [CLS] before them; positions; an encoder; the class from what became of [CLS].

    `shape` is that of an image. With `positions=False` the class does not depend on where a patch is. `unroll` blocks
    are one turn of the compiled loop over them (`unroll=depth` runs fastest). Options beyond these are those of
    `EncoderBlock`; normalisation comes before each part unless told otherwise.
    """

    embedding: FullyConnected
    cls: jax.Array
    places: LearnedPositions | None
    encoder: Encoder
    readout: FullyConnected
    shape: tuple[int, int, int] = eqx.field(static=True)
    patch: int = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, int, int],
        patch: int,
        classes: int,
        width: int,
        heads: int,
        depth: int,
        *,
        key: PRNGKeyArray,
        hidden: int | None = None,
        positions: bool = True,
        activation: Callable = jax.nn.gelu,
        order: str = "pre",
        dropout: float = 0.0,
        initialisation: Callable = uniform_fan_in,
        unroll: int = 4,
        **options: Any,
    ):
        self.shape, self.patch = tuple(whole("shape", a) for a in shape), whole("patch", patch)
        # the patches of a blank image tell how many there are, and whether they fit
        count, entries = jax.eval_shape(lambda: image_patches(jnp.zeros(self.shape), self.patch)).shape
        keys = jax.random.split(key, 5)
        self.embedding = FullyConnected(entries, width, key=keys[0], initialisation=initialisation)
        self.cls = normal(0.02)(keys[1], (1, width), jnp.result_type(float))
        self.places = LearnedPositions(count + 1, width, key=keys[2]) if positions else None
        self.encoder = Encoder(
            width,
            heads,
            depth,
            hidden,
            key=keys[3],
            order=order,
            activation=activation,
            dropout=dropout,
            initialisation=initialisation,
            unroll=unroll,
            **options,
        )
        self.readout = FullyConnected(width, classes, key=keys[4], initialisation=initialisation)
        self.dropout = float(dropout)

    def __call__(self, image: Float[ArrayLike, "..."], *, key: PRNGKeyArray | None = None) -> Float[Array, "..."]:
        """Logits (classes,) of one image."""
        keys = keys_of(key, 2)
        x = drop(self.tokens(image), self.dropout, keys[0])
        return self.readout(self.encoder(x, key=keys[1])[0])

    def tokens(self, image: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """[CLS] and the embedded patches with their positions: what the encoder gets, (count + 1, width)."""
        image = real("image", image, " ".join(map(str, self.shape)), finite=False)
        x = jnp.concatenate([self.cls, jax.vmap(self.embedding)(image_patches(image, self.patch))])
        return x if self.places is None else self.places(x)

    def kernel(self) -> Array:
        """The convolution that the embedding is: its kernel (width, channels, patch, patch), of stride `patch`."""
        return self.embedding.weight.reshape(-1, self.shape[0], self.patch, self.patch)
