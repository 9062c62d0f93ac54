r"""Depth in a recurrent network: cells on top of each other, or many layers in one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.activations import tanh
from corollary.nets.mlp import MLP
from corollary.nets.recurrent.elman import ElmanCell
from corollary.nets.recurrent.unroll import checked, shown, unroll


@implements("E05.09")
class Stacked(eqx.Module):
    r"""A cell made of cells: $z_{t,\ell}=F_\ell(z_{t-1,\ell},z_{t,\ell-1})$ with $z_{t,0}=x_t$.

    Its state is the tuple of theirs, from the bottom up. `unroll(stack, xs)` takes all layers through one step after
    the other; `stack.layers(xs)` takes one layer after the other through all steps, which is the same, faster.
    """

    cells: tuple

    def __init__(self, cells: Sequence):
        if not isinstance(cells, Sequence) or not cells:
            raise TypeError(f"cells must be a sequence of at least one cell, got {cells!r}.")
        self.cells = tuple(map(checked, cells))

    @classmethod
    def elman(
        cls, inputs: int, units: int, depth: int, activation: Callable = tanh, *, key: PRNGKeyArray, bias: bool = True
    ) -> "Stacked":
        """`depth` Elman cells of the same size."""
        keys = jax.random.split(key, whole("depth", depth))
        return cls(
            [ElmanCell(inputs if i == 0 else units, units, activation, key=k, bias=bias) for i, k in enumerate(keys)]
        )

    def initial(self) -> tuple:
        return tuple(cell.initial() for cell in self.cells)

    def output(self, state: Sequence[Any]) -> Float[Array, "_"]:
        """What the top layer shows."""
        return shown(state[-1])

    def __call__(self, x: Float[ArrayLike, "..."], state: Sequence[Any]) -> tuple:
        after = []
        for cell, before in zip(self.cells, state, strict=True):
            after.append(cell(x, before))
            x = shown(after[-1])
        return tuple(after)

    def layers(self, xs: Float[ArrayLike, "..."], state: PyTree | None = None) -> tuple:
        """The states of all layers, each along a leading axis of time."""
        found = []
        for cell, before in zip(self.cells, self.initial() if state is None else state, strict=True):
            found.append(unroll(cell, xs, before))
            xs = shown(found[-1])
        return tuple(found)


@implements("E05.10")
class DeepTransitionCell(eqx.Module):
    r"""$z_t=\phi(\mathrm{MLP}(z_{t-1},x_t))$ with hidden layers of the given `widths`; none of them: the Elman cell."""

    network: MLP
    activation: Callable = eqx.field(static=True)
    units: int = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        units: int,
        widths: Sequence[int] = (),
        activation: Callable = tanh,
        *,
        key: PRNGKeyArray,
        bias: bool = True,
    ):
        if not callable(activation):
            raise TypeError(f"activation must be a function of a number, got {activation!r}.")
        self.units = whole("units", units)
        self.network = MLP((self.units + whole("inputs", inputs), *widths, units), activation, key=key, bias=bias)
        self.activation = activation

    def initial(self) -> Any:
        return jnp.zeros(self.units, self.network.layers[0].weight.dtype)

    def __call__(self, x: Float[ArrayLike, "n"], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        x = real("x", x, "n", finite=False)
        return self.activation(self.network(jnp.concatenate([state, x])))
