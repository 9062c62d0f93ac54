"""Recurrent layers, in one direction or in both."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from corollary._engine.operators import recurrent
from corollary.onnx._table import operator

#: activations by their names in lower case, of alpha and beta, with ONNX's values for these; None takes none
ACTIVATIONS = {
    "relu": (lambda x: jax.nn.relu(x), None, None),
    "tanh": (lambda x: jnp.tanh(x), None, None),
    "sigmoid": (lambda x: jax.nn.sigmoid(x), None, None),
    "softsign": (lambda x: x / (1 + jnp.abs(x)), None, None),
    "softplus": (lambda x: jax.nn.softplus(x), None, None),
    "leakyrelu": (lambda x, a: jnp.where(x < 0, a * x, x), 0.01, None),
    "thresholdedrelu": (lambda x, a: jnp.where(x >= a, x, 0), 1.0, None),
    "elu": (lambda x, a: jnp.where(x < 0, a * jnp.expm1(jnp.minimum(x, 0)), x), 1.0, None),
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "scaledtanh": (lambda x, a, b: a * jnp.tanh(b * x), 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: jnp.maximum(0, jnp.minimum(1, a * x + b)), 0.2, 0.5),
}


def activations(node, default):
    """One tuple of functions per direction; alpha and beta are taken off their lists by those that have them."""
    directions = 2 if node["direction"] == "bidirectional" else 1
    names = node["activations"] or default * directions
    alphas, betas = list(node["activation_alpha"] or ()), list(node["activation_beta"] or ())
    made = []
    for name in names[: len(default) * directions]:
        if name.lower() not in ACTIVATIONS:
            raise node.refuse(f"with the activation {name}")
        function, alpha, beta = ACTIVATIONS[name.lower()]
        numbers = []
        for value, given in ((alpha, alphas), (beta, betas)):
            if value is not None:
                numbers.append(given.pop(0) if given else value)
        made.append(lambda x, function=function, numbers=tuple(numbers): function(x, *numbers))
    return [made[k : k + len(default)] for k in range(0, len(made), len(default))]


def layer(node, x, lengths, states, default, run):
    """All states, and the last ones, of `run(direction, xs, states, functions, options)` in each direction.

    ONNX's arrays are (time, directions, batch, units) and (directions, batch, units), or with `layout=1` batch first.
    """
    batch_first = bool(node["layout"])
    xs = x.swapaxes(0, 1) if batch_first else x
    states = [None if s is None else s.swapaxes(0, 1) if batch_first else s for s in states]
    reverses = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[node["direction"]]
    options = {"clip": node["clip"], "lengths": None if lengths is None else jnp.asarray(lengths)}
    results = []
    for d, (reverse, functions) in enumerate(zip(reverses, activations(node, default), strict=True)):
        start = [None if s is None else s[d] for s in states]
        results.append(run(d, xs, start, functions, {**options, "reverse": reverse}))
    hs, *last = (jnp.stack(parts, axis) for axis, parts in zip((1, 0, 0), zip(*results, strict=True), strict=False))
    if batch_first:
        return hs.transpose(2, 0, 1, 3), *(a.swapaxes(0, 1) for a in last)
    return hs, *last


def halved(bias, d):
    """The biases of the inputs and of the states, zeros where there are none."""
    return (None, None) if bias is None else jnp.split(bias[d], 2)


def total(bias, d):
    of_inputs, of_states = halved(bias, d)
    return None if bias is None else of_inputs + of_states


@operator("RNN")
def rnn(node, x, w, r, bias=None, lengths=None, start=None):
    def run(d, xs, states, functions, options):
        return recurrent.rnn(xs, w[d], r[d], total(bias, d), *states, activation=functions[0], **options)

    return layer(node, x, lengths, [start], ["Tanh"], run)


@operator("GRU")
def gru(node, x, w, r, bias=None, lengths=None, start=None):
    after = bool(node["linear_before_reset"])

    def run(d, xs, states, functions, options):
        biases = halved(bias, d)
        return recurrent.gru(
            xs, w[d], r[d], *biases, *states, gates="zrn", activations=functions, reset_after=after, **options
        )

    return layer(node, x, lengths, [start], ["Sigmoid", "Tanh"], run)


@operator("LSTM")
def lstm(node, x, w, r, bias=None, lengths=None, start=None, cell=None, peepholes=None):
    def run(d, xs, states, functions, options):
        i, o, f = (None,) * 3 if peepholes is None else jnp.split(peepholes[d], 3)
        return recurrent.lstm(
            xs,
            w[d],
            r[d],
            total(bias, d),
            *states,
            gates="iofc",
            activations=functions,
            peepholes=None if i is None else (i, f, o),
            coupled=bool(node["input_forget"]),
            **options,
        )

    return layer(node, x, lengths, [start, cell], ["Sigmoid", "Tanh", "Tanh"], run)
