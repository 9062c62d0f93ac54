"""Recurrent layers in one direction: simple, LSTM and GRU cells, scanned over time.

Sequences are (time, batch, features). Weights are (gates · units, features) and (gates · units, units), their gates in
the order that the caller says by letters. `lengths`, one per sequence, ends sequences early: their states stay what
they were, and their outputs are zero from there on.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax


def rnn(xs, w, r, bias=None, start=None, *, activation=jnp.tanh, clip=None, reverse=False, lengths=None):
    """h' = f(W x + R h + b): all states (time, batch, units), and the last one."""
    h = _start(xs, r, start)

    def step(h, a):
        h = activation(_clipped(a + h @ r.T, clip))
        return h, h

    return _scanned(step, h, _inputs(xs, w, bias), reverse, lengths)


def lstm(
    xs,
    w,
    r,
    bias=None,
    start=None,
    cell=None,
    *,
    gates="ifco",
    activations=(jax.nn.sigmoid, jnp.tanh, jnp.tanh),
    peepholes=None,
    coupled=False,
    clip=None,
    reverse=False,
    lengths=None,
):
    """Long short-term memory: all states, the last state, and the last cell.

    `gates` orders input, forget, candidate (c) and output. `activations` are those of the gates, of the candidate and
    of the cell on its way out. `peepholes` are three vectors by which the cell reaches the gates i, f and o. `coupled`
    forgets as much as comes in.
    """
    gate, candidate, out = activations
    h, c = _start(xs, r, start), _start(xs, r, cell)
    p = dict(zip("ifo", peepholes, strict=True)) if peepholes is not None else {}

    def step(state, a):
        h, c = state
        parts = dict(zip(gates, jnp.split(a + h @ r.T, 4, axis=-1), strict=True))

        def opened(name, cell):
            through = parts[name] + p[name] * cell if p else parts[name]
            return gate(_clipped(through, clip))

        i = opened("i", c)
        f = 1 - i if coupled else opened("f", c)
        c = f * c + i * candidate(_clipped(parts["c"], clip))
        h = opened("o", c) * out(c)
        return (h, c), h

    hs, (h, c) = _scanned(step, (h, c), _inputs(xs, w, bias), reverse, lengths)
    return hs, h, c


def gru(
    xs,
    w,
    r,
    bias=None,
    recurrent_bias=None,
    start=None,
    *,
    gates="rzn",
    activations=(jax.nn.sigmoid, jnp.tanh),
    reset_after=True,
    clip=None,
    reverse=False,
    lengths=None,
):
    """Gated recurrent units: all states, and the last one.

    `gates` orders reset, update (z) and the new state (n). `reset_after` applies the reset gate to R h + b, as PyTorch
    does, and else to h, as the first paper does. `recurrent_bias` is the bias of R h.
    """
    gate, candidate = activations
    h = _start(xs, r, start)
    at = gates.index("n")
    matrices = jnp.split(r, 3)
    shifts = jnp.split(jnp.zeros(r.shape[0], r.dtype) if recurrent_bias is None else recurrent_bias, 3)
    both = [k for k in range(3) if k != at]
    r_gates, b_gates = jnp.concatenate([matrices[k] for k in both]), jnp.concatenate([shifts[k] for k in both])

    def step(h, a):
        a = jnp.split(a, 3, axis=-1)
        if reset_after:  # one product for all three
            through = jnp.split(h @ r.T + jnp.concatenate(shifts), 3, axis=-1)
            opened = {gates[k]: gate(_clipped(a[k] + through[k], clip)) for k in both}
            new = a[at] + opened["r"] * through[at]
        else:
            through = jnp.split(h @ r_gates.T + b_gates, 2, axis=-1)
            opened = {gates[k]: gate(_clipped(a[k] + b, clip)) for k, b in zip(both, through, strict=True)}
            new = a[at] + (opened["r"] * h) @ matrices[at].T + shifts[at]
        h = (1 - opened["z"]) * candidate(_clipped(new, clip)) + opened["z"] * h
        return h, h

    return _scanned(step, h, _inputs(xs, w, bias), reverse, lengths)


def _inputs(xs, w, bias):
    """What the inputs of all times add, in one product."""
    a = xs @ w.T
    return a if bias is None else a + bias


def _start(xs, r, state):
    return jnp.zeros((xs.shape[1], r.shape[1]), jnp.result_type(xs, r)) if state is None else state


def _clipped(a, clip):
    return a if clip is None else jnp.clip(a, -clip, clip)


def _scanned(step, state, inputs, reverse, lengths):
    if lengths is None:
        state, hs = lax.scan(step, state, inputs, reverse=reverse)
        return hs, state

    def masked(state, time_and_input):
        time, a = time_and_input
        alive = (time < lengths)[:, None]
        new, h = step(state, a)
        return jax.tree.map(lambda n, o: jnp.where(alive, n, o), new, state), jnp.where(alive, h, 0)

    state, hs = lax.scan(masked, state, (jnp.arange(inputs.shape[0]), inputs), reverse=reverse)
    return hs, state
