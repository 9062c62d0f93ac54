r"""Cells, and a cell run along a sequence.

A **cell** is a module with `cell(x, state) -> state`, one step, and `cell.initial() -> state`, where it begins. A state
is an array or a named tuple of arrays; what a network answers is read from what it shows: its field `hidden` where it
has one (an LSTM shows its output and keeps its memory to itself), else all of it, or `cell.output(state)` where the
cell has that method. A cell whose inputs enter through a map
of their own may say so: `cell.drive(xs)` computes what the inputs contribute, for any leading axes, and
`cell.step(drive, state)` does the rest, so that `cell(x, state)` is `cell.step(cell.drive(x), state)`. `unroll` then
takes the inputs of all steps through it in one matrix product, and only the rest one step after the other.

```python
cell = GRU(3, 64, key=key)
states = unroll(cell, xs)                            # xs (T, 3): (T, 64)
hidden = shown(unroll(LSTM(3, 64, key=key), xs))     # of an LSTM, whose states have a memory too: (T, 64)
states = jax.vmap(lambda xs: unroll(cell, xs))(batch)  # (B, T, 64); every step is one product for the whole batch
```
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree


def unroll(
    cell: Callable, xs: Float[ArrayLike, "..."], state: PyTree | None = None, *, reverse: bool = False
) -> PyTree:
    r"""The states $z_t$ = `cell`$(x_t,z_{t-1})$ of all steps, along a leading axis of the length of `xs`.

    `xs` is an array (T, ...), or a tuple of such. $z_0$ is `state`, or `cell.initial()`. With `reverse` time runs
    backwards, $z_t$ = `cell`$(x_t,z_{t+1})$, and the states come in the order of `xs` all the same.
    """
    checked(cell)
    xs = sequence(xs)
    state = cell.initial() if state is None else _like(cell.initial(), state)
    if hasattr(cell, "drive") and hasattr(cell, "step"):
        return scan_states(cell.step, cell.drive(xs), state, reverse=reverse)
    return scan_states(cell, xs, state, reverse=reverse)


def scan_states(advance, drives, state, *, reverse: bool = False):
    r"""The states $z_t$ = `advance`$(d_t,z_{t-1})$ of all steps, from `state`."""
    # inputs of a higher precision raise that of the state, from its beginning
    after = jax.eval_shape(advance, jax.tree.map(lambda a: a[0], drives), state)
    state = jax.tree.map(lambda s, new: jnp.asarray(s, new.dtype), state, after)

    def body(before, drive):
        after = advance(drive, before)
        return after, after

    return jax.lax.scan(body, state, drives, reverse=reverse)[1]


def shown(state: PyTree) -> Float[Array, "..."]:
    """What a cell shows to the outside: the field `hidden` of its state where there is one, else the state."""
    return getattr(state, "hidden", state)


def checked(cell):
    """`cell`, if it is one."""
    if not (callable(cell) and callable(getattr(cell, "initial", None))):
        raise TypeError(f"cell must have cell(x, state) and cell.initial(), got {type(cell).__name__}.")
    return cell


def sequence(xs, name: str = "xs"):
    """`xs` as arrays with a leading axis of the same length, at least 1: the time."""
    xs = jax.tree.map(jnp.asarray, xs)
    shapes = [a.shape for a in jax.tree.leaves(xs)]
    if not shapes or any(len(s) == 0 or s[0] == 0 for s in shapes) or len({s[0] for s in shapes}) > 1:
        raise ValueError(f"{name} must have at least one step along the first axis, the same for all, got {shapes}.")
    return xs


def _like(initial, state):
    """`state`, if it has the form of the one that the cell begins with."""
    want, got = (jax.tree.map(jnp.shape, s) for s in (initial, state))
    if want != got or jax.tree.structure(initial) != jax.tree.structure(state):
        raise ValueError(f"state must have the shapes of cell.initial(), {want}, got {got}.")
    return state
