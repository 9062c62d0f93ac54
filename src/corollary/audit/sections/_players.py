"""The inputs whose importance is asked for: columns, groups of columns, patches of an image, places, whole inputs."""

from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import patch_players
from corollary.audit._names import spelled

#: as many players are told apart; a picture and a list of more is read by nobody
MOST = 64
# an image has so many colours at the most
COLOURS = 4


class Players(NamedTuple):
    """The number of each coordinate's player, a pytree like one example, and the players' names."""

    owner: Any
    names: tuple[str, ...]


def players_of(x, most: int = MOST, columns=None) -> Players:
    """At most about `most` players for examples `x`, whose `columns` may have names."""
    if not isinstance(x, jax.Array):
        # whole inputs: of several their own coordinates would be too many
        paths, form = jax.tree_util.tree_flatten_with_path(x)
        owner = jax.tree.unflatten(form, [np.full(a.shape[1:], i) for i, (_, a) in enumerate(paths)])
        names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
        return Players(owner, tuple(f"input {name}" for name in names))
    shape = x.shape[1:]
    if is_image(x):
        return _patches(shape, most)
    size = int(np.prod(shape))
    word = "place" if not jnp.issubdtype(x.dtype, np.floating) else "column" if len(shape) == 1 else "number"
    edges = np.unique(np.linspace(0, size, min(size, most) + 1).astype(int))
    owner = np.repeat(np.arange(len(edges) - 1), np.diff(edges)).reshape(shape)
    return Players(owner, tuple(_span(word, a, b - 1, columns) for a, b in pairwise(edges)))


def _span(word: str, first: int, last: int, names=None) -> str:
    one, other = (spelled(names, i) for i in (first, last))
    return f"{word} {one}" if first == last else f"{word}s {one} to {other}"


def is_image(x) -> bool:
    """Whether examples are images, (height, width) with at most four colours first or last."""
    if not isinstance(x, jax.Array) or not jnp.issubdtype(x.dtype, np.floating) or x.ndim not in (3, 4):
        return False
    shape = x.shape[1:]
    sides = shape if len(shape) == 2 else shape[1:] if shape[0] <= COLOURS else shape[:2]
    return min(sides) > COLOURS and (len(shape) == 2 or min(shape[0], shape[2]) <= COLOURS)


def _patches(shape, most: int) -> Players:
    first = len(shape) == 3 and shape[0] <= COLOURS
    sides = shape[1:] if first else shape[:2]
    size = -(-max(sides) // max(1, int(most**0.5)))
    patches = patch_players(tuple(sides), size)
    columns = -(-sides[1] // size)
    names = []
    for number in range(int(patches.max()) + 1):
        top, left = (size * place for place in divmod(number, columns))
        bottom, right = (min(a + size, side) - 1 for a, side in zip((top, left), sides, strict=True))
        names.append(f"{_span('row', top, bottom)}, {_span('column', left, right)}")
    owner = patches if len(shape) == 2 else patches[None] if first else patches[..., None]
    return Players(np.broadcast_to(owner, shape).copy(), tuple(names))
