"""Recurrent layers beside PyTorch's, and what only ONNX has beside the formulas."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.special import expit

from corollary._engine.operators.recurrent import gru, lstm, rnn

FEATURES, UNITS = 3, 4


@pytest.fixture
def layer(draw):
    """xs, W, R, both biases, a state and a cell, for so many gates."""
    return lambda gates: (
        draw(5, 2, FEATURES),
        draw(gates * UNITS, FEATURES),
        draw(gates * UNITS, UNITS),
        draw(gates * UNITS),
        draw(gates * UNITS),
        draw(2, UNITS),
        draw(2, UNITS),
    )


def _theirs(function, reverse):
    def run(xs, w, r, b, rb, *state):
        # PyTorch runs backwards only beside a layer that runs forwards, of whose weights this takes none
        xs = xs.flip(0) if reverse else xs
        state = tuple(s[None] for s in state)
        hs, *_ = function(xs, state if len(state) > 1 else state[0], [w, r, b, rb], True, 1, 0.0, False, False, False)
        return hs.flip(0) if reverse else hs

    return run


@pytest.mark.parametrize("reverse", [False, True])
def test_cells_in_both_directions(agrees, layer, reverse):
    agrees(
        lambda xs, w, r, b, rb, h, c: lstm(xs, w, r, b + rb, h, c, reverse=reverse)[0],
        _theirs(torch.lstm, reverse),
        *layer(4),
    )
    agrees(
        lambda xs, w, r, b, rb, h: gru(xs, w, r, b, rb, h, reverse=reverse)[0],
        _theirs(torch.gru, reverse),
        *layer(3)[:6],
    )
    agrees(
        lambda xs, w, r, b, rb, h: rnn(xs, w, r, b + rb, h, reverse=reverse)[0],
        _theirs(torch.rnn_tanh, reverse),
        *layer(1)[:6],
    )


def test_states_start_at_zero(layer):
    xs, w, r, b, *_ = layer(4)
    zeros = jnp.zeros((2, UNITS))
    for ours, with_zeros in zip(lstm(xs, w, r, b), lstm(xs, w, r, b, zeros, zeros), strict=True):
        assert np.array_equal(ours, with_zeros)


def test_peepholes_and_coupled_gates(draw, layer):
    xs, w, r, b, _, h, c = layer(4)
    peepholes = draw(3, UNITS)
    hs, last, cell = lstm(xs[:1], w, r, b, h, c, gates="iofc", peepholes=peepholes, coupled=True)
    i, o, _, n = np.split(xs[0] @ w.T + h @ r.T + b, 4, axis=-1)
    i = expit(i + peepholes[0] * c)
    new = (1 - i) * c + i * np.tanh(n)
    np.testing.assert_allclose(cell, new, rtol=2e-5)
    np.testing.assert_allclose(last, expit(o + peepholes[2] * new) * np.tanh(new), rtol=2e-5, atol=1e-6)
    assert np.array_equal(hs[0], last)


def test_a_reset_before_the_product(draw, layer):
    xs, w, r, b, rb, h, _ = layer(3)
    hs, _ = gru(xs[:1], w, r, b, rb, h, gates="zrn", reset_after=False)
    a, s = np.split(xs[0] @ w.T + b, 3, axis=-1), np.split(rb, 3)
    rz, rr, rn = np.split(r, 3)
    z, reset = expit(a[0] + h @ rz.T + s[0]), expit(a[1] + h @ rr.T + s[1])
    new = np.tanh(a[2] + (reset * h) @ rn.T + s[2])
    np.testing.assert_allclose(hs[0], (1 - z) * new + z * h, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_sequences_that_end_early(layer, reverse):
    xs, w, r, b, _, h, c = layer(4)
    hs, last, cell = lstm(xs, w, r, b, h, c, reverse=reverse, lengths=np.array([5, 3]))
    short, short_last, short_cell = lstm(xs[:3, 1:], w, r, b, h[1:], c[1:], reverse=reverse)
    np.testing.assert_allclose(hs[:3, 1:], short, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last[1:], short_last, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(cell[1:], short_cell, rtol=1e-5, atol=1e-6)
    assert np.array_equal(hs[3:, 1], np.zeros((2, UNITS)))


def test_clipped_sums(layer):
    xs, w, r, b, _, h, _ = layer(1)
    hs, _ = rnn(xs, w, r, b, h, activation=lambda a: a, clip=0.5)
    assert float(jnp.max(jnp.abs(hs))) == 0.5
