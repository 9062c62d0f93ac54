r"""A recurrence without input, iterated: where one unit ends."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import real, whole
from corollary.catalog import implements


@implements("M13.47")
def iterate_map(f: Callable, start: Float[ArrayLike, "..."], steps: int, *, keep: int = 1) -> Float[Array, "..."]:
    r"""The last `keep` of $Z_1,\dots,Z_{steps}$ for $Z_n=f(Z_{n-1})$, along a leading axis; `start` of any shape.

    A limit shows as one value that is kept, a cycle of period $p$ as $p$ of them.
    """
    if not callable(f):
        raise TypeError(f"f must be a function of the state, got {type(f).__name__}.")
    steps = whole("steps", steps)
    keep = whole("keep", keep, 1, steps)
    start = real("start", start)
    before = jax.lax.fori_loop(0, steps - keep, lambda _, z: f(z), start)

    def advance(z, _):
        z = f(z)
        return z, z

    return jax.lax.scan(advance, before, length=keep)[1]
