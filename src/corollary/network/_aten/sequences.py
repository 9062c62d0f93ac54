"""Attention and recurrent layers."""

from __future__ import annotations

import jax.numpy as jnp

from corollary._engine.operators import attention, recurrent
from corollary.network._aten.activations import relu
from corollary.network._aten.table import aten


@aten("scaled_dot_product_attention")
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """Fewer heads of keys than of queries are repeated, whether `enable_gqa` says so or not."""
    if dropout_p:
        raise ValueError("the module drops attention at random in inference mode: give dropout_p=0 unless it trains.")
    return attention.attend(query, key, value, attn_mask, causal=is_causal, scale=scale)


def _stacked(input, states, params, has_biases, num_layers, bidirectional, batch_first, one):
    """Layers on layers of a recurrent network, each one way or both ways: all outputs, and the last states of each.

    `states` are arrays (layers · ways, batch, units); `one` runs one layer one way, from states to outputs and states.
    """
    ways = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    if len(params) != each * num_layers * ways:
        raise ValueError("a recurrent layer with projections (proj_size) is not supported.")
    xs = input.swapaxes(0, 1) if batch_first else input
    last = []
    for layer in range(num_layers):
        outputs = []
        for way in range(ways):
            k = layer * ways + way
            w, r, *biases = params[k * each : (k + 1) * each]
            hs, state = one(xs, w, r, biases, [s[k] for s in states], bool(way))
            outputs.append(hs)
            last.append(state)
        xs = jnp.concatenate(outputs, -1) if ways == 2 else outputs[0]
    last = tuple(jnp.stack(parts) for parts in zip(*last, strict=True))
    return (xs.swapaxes(0, 1) if batch_first else xs), *last


def _sum(biases):
    return sum(biases) if biases else None


@aten("lstm.input")
def lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    def one(xs, w, r, biases, state, reverse):
        hs, h, c = recurrent.lstm(xs, w, r, _sum(biases), *state, reverse=reverse)
        return hs, (h, c)

    return _stacked(input, hx, params, has_biases, num_layers, bidirectional, batch_first, one)


@aten("gru.input")
def gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    def one(xs, w, r, biases, state, reverse):
        hs, h = recurrent.gru(xs, w, r, *(biases or (None, None)), *state, reverse=reverse)
        return hs, (h,)

    return _stacked(input, (hx,), params, has_biases, num_layers, bidirectional, batch_first, one)


def _rnn(activation):
    def rnn(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        def one(xs, w, r, biases, state, reverse):
            hs, h = recurrent.rnn(xs, w, r, _sum(biases), *state, activation=activation, reverse=reverse)
            return hs, (h,)

        return _stacked(input, (hx,), params, has_biases, num_layers, bidirectional, batch_first, one)

    return rnn


aten("rnn_tanh.input")(_rnn(jnp.tanh))
aten("rnn_relu.input")(_rnn(relu))


@aten("lstm_cell")
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    _, h, c = recurrent.lstm(input[None], w_ih, w_hh, None if b_ih is None else b_ih + b_hh, *hx)
    return h, c


@aten("gru_cell")
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    return recurrent.gru(input[None], w_ih, w_hh, b_ih, b_hh, hx)[1]


def _rnn_cell(activation):
    def cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        bias = None if b_ih is None else b_ih + b_hh
        return recurrent.rnn(input[None], w_ih, w_hh, bias, hx, activation=activation)[1]

    return cell


aten("rnn_tanh_cell")(_rnn_cell(jnp.tanh))
aten("rnn_relu_cell")(_rnn_cell(relu))
