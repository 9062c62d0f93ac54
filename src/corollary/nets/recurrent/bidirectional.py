r"""Two recurrent networks over one sequence, one from each end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree

from corollary.catalog import implements
from corollary.nets.recurrent.unroll import checked, sequence, shown, unroll


@implements("E05.08", "M13.22")
class Bidirectional(eqx.Module):
    r"""$\vec z_t=F_+(\vec z_{t-1},x_t)$ and $\overleftarrow z_t=F_-(\overleftarrow z_{t+1},x_t)$, side by side.

    Every position sees the whole sequence: not for predicting what comes next. `readout` is a function of
    $(\vec z_t,\overleftarrow z_t)$ in one vector, and of $x_t$ with `sees_input`; without one that vector is the
    output. Any two cells; of a state with a field `hidden` only that is shown.
    """

    forward: Any
    backward: Any
    readout: Callable | None
    sees_input: bool = eqx.field(static=True)

    def __init__(
        self, forward: Callable, backward: Callable, readout: Callable | None = None, *, sees_input: bool = False
    ):
        if readout is not None and not callable(readout):
            raise TypeError(f"readout must be a function of both states, got {type(readout).__name__}.")
        self.forward, self.backward = checked(forward), checked(backward)
        self.readout, self.sees_input = readout, sees_input

    def states(self, xs: Float[ArrayLike, "..."], starts: Sequence[Any] = (None, None)) -> tuple:
        r"""$\vec z_t$ and $\overleftarrow z_t$ of all steps, both in the order of `xs`, from $\vec z_0$ and
        $\overleftarrow z_{T+1}$.
        """
        xs, (first, last) = sequence(xs), starts
        return unroll(self.forward, xs, first), unroll(self.backward, xs, last, reverse=True)

    def __call__(
        self, xs: Float[ArrayLike, "..."], starts: tuple[PyTree, PyTree] = (None, None)
    ) -> Float[Array, "..."]:
        there, back = map(shown, self.states(xs, starts))
        both = jnp.concatenate([there, back], axis=-1)
        if self.readout is None:
            return both
        return jax.vmap(self.readout)(both, xs) if self.sees_input else jax.vmap(self.readout)(both)
