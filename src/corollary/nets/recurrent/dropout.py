r"""Dropout in recurrent networks: of the state, of what the gates see of it, and of what is written to memory.

Masks are inputs like any other, so that a run with given masks is deterministic and can be enumerated: the wrapped
cells take pairs (x, mask). `masks(key, steps)` draws them, `expected(steps)` is the rule for testing, which puts the
probability `keep` in the place of the mask.

```python
cell = LSTMDropout(LSTM(8, 64, key=key), 0.8, "update")
unroll(cell, (xs, cell.masks(len(xs), key=key)))    # training
unroll(cell, (xs, cell.expected(len(xs))))      # testing
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements
from corollary.nets.recurrent.lstm import LSTM, LSTMState, split_gates
from corollary.nets.recurrent.unroll import checked

STATE_MODES = ("per_step", "per_sequence")
LSTM_MODES = ("per_step", "per_sequence", "update")


class _Masked(eqx.Module):
    """What both have in common: masks of a width that are drawn anew in every step, or once."""

    def masks(self, steps: int, *, key):
        """One mask of zeros and ones for each step, (steps, width); the same one `per_sequence`."""
        steps = whole("steps", steps)
        shape = (1 if self.mode == "per_sequence" else steps, self.width)
        drawn = jax.random.bernoulli(key, self.keep, shape).astype(jnp.result_type(float))
        return jnp.broadcast_to(drawn, (steps, self.width))

    def expected(self, steps: int):
        """`keep` in the place of every entry of a mask."""
        return jnp.full((whole("steps", steps), self.width), self.keep, jnp.result_type(float))


@implements("M13.25")
class StateDropout(_Masked):
    r"""$Z_t=m(X_t,\gamma_t\odot Z_{t-1})$ with entries of $\gamma_t$ that are 1 with probability `keep`, else 0.

    For a cell that is linear in its state and fresh masks (`per_step`) the rule for testing, $pZ_{t-1}$, gives the
    mean over all masks. With one mask for the sequence it does not: $\gamma^t=\gamma$ has the mean $p$ and not $p^t$.
    """

    cell: Any
    keep: float = eqx.field(static=True)
    mode: str = eqx.field(static=True)

    def __init__(self, cell: Callable, keep: float, mode: str = "per_step"):
        self.cell = checked(cell)
        self.keep, self.mode = _probability(keep), one_of("mode", mode, STATE_MODES)

    @property
    def width(self) -> int:
        return jax.tree.leaves(self.cell.initial())[0].shape[-1]

    def initial(self) -> Float[Array, "_"]:
        return self.cell.initial()

    def __call__(self, x: Sequence[Array], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        x, mask = x
        mask = real("mask", mask, f"{self.width}", finite=False)
        return self.cell(x, jax.tree.map(lambda s: s * mask.astype(s.dtype), state))


@implements("M13.26", "M13.27", "M13.28")
class LSTMDropout(_Masked):
    r"""An LSTM whose past is dropped for its gates, or whose memory is not always written.

    `per_sequence`: $\gamma_i\odot U^{(i)}Y_{t-1}$ in each of the four, with masks drawn once for all steps;
    `per_step`: with masks drawn in every step. Both drop the product, not the hidden state. `update`:
    $Z_t=f_t\odot Z_{t-1}+g_t\odot\gamma_t\odot r_t$, which never drops what is already remembered.
    """

    cell: LSTM
    keep: float = eqx.field(static=True)
    mode: str = eqx.field(static=True)

    def __init__(self, cell: LSTM, keep: float, mode: str = "update"):
        if not isinstance(cell, LSTM):
            raise TypeError(f"cell must be an LSTM, got {type(cell).__name__}.")
        self.cell, self.keep, self.mode = cell, _probability(keep), one_of("mode", mode, LSTM_MODES)

    @property
    def width(self) -> int:
        return self.cell.units if self.mode == "update" else 4 * self.cell.units

    def initial(self) -> LSTMState:
        return self.cell.initial()

    def drive(self, xs: Sequence[Array]) -> tuple[Float[Array, "_ _"], Float[Array, "_ _"]]:
        xs, masks = xs
        return self.cell.drive(xs), real("mask", masks, f"... {self.width}", finite=False)

    def step(self, drive: Sequence[Array], state: LSTMState) -> LSTMState:
        drive, mask = drive
        past = self.cell.preactivations(jnp.zeros_like(drive), state.hidden)
        gates = split_gates(drive + (past if self.mode == "update" else mask * past))
        candidate = mask * gates.candidate if self.mode == "update" else gates.candidate
        memory = gates.keep * state.memory + gates.write * candidate
        return LSTMState(self.cell.shown(gates, memory), memory)

    def __call__(self, x: Float[ArrayLike, "..."], state: LSTMState) -> LSTMState:
        return self.step(self.drive(x), state)


def _probability(keep) -> float:
    return float(within("keep", keep, 0.0, 1.0))
