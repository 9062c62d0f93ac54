import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import GRU, LSTM, LSTMState, lstm_memory_weights, unroll

KEY = jax.random.key(3)


def inputs(steps=6, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


def parameters(cell):
    return sum(a.size for a in jax.tree.leaves(eqx.filter(cell, eqx.is_array)))


def test_lstm_is_that_of_equinox():
    peer = eqx.nn.LSTMCell(3, 2, key=KEY)
    cell = eqx.tree_at(
        lambda c: (c.inputs, c.recurrent, c.bias), LSTM(3, 2, key=KEY), (peer.weight_ih, peer.weight_hh, peer.bias)
    )
    state = (jnp.zeros(2), jnp.zeros(2))
    ours = unroll(cell, inputs())
    for t, x in enumerate(inputs()):
        state = peer(x, state)
        np.testing.assert_allclose(ours.hidden[t], state[0], rtol=1e-12)
        np.testing.assert_allclose(ours.memory[t], state[1], rtol=1e-12)


def test_lstm_forms_and_their_sizes():
    n, m, xs = 3, 2, inputs()
    full = LSTM(n, m, key=KEY)
    assert parameters(full) == 4 * (m * n + m * m + m)
    assert parameters(LSTM(n, m, key=KEY, bias=False, mixing=True)) == 4 * m * (m + n) + m * m
    assert parameters(GRU(n, m, key=KEY, bias=False)) == 3 * m * (m + n)
    alone = LSTM(n, m, key=KEY, recurrent=False)
    blind = eqx.tree_at(lambda c: c.recurrent, full, jnp.zeros_like(full.recurrent))
    start = LSTMState(jnp.array([0.1, -0.2]), jnp.array([1.0, 2.0]))
    one = unroll(alone, xs, start)
    for other in (unroll(blind, xs, start), alone.parallel(xs, start)):
        np.testing.assert_allclose(one.hidden, other.hidden, rtol=1e-12)
        np.testing.assert_allclose(one.memory, other.memory, rtol=1e-12)
    mixed = eqx.tree_at(lambda c: c.mixing, full, jnp.eye(m), is_leaf=lambda leaf: leaf is None)
    np.testing.assert_allclose(unroll(mixed, xs).hidden, unroll(full, xs).hidden, rtol=1e-12)
    assert LSTM(n, m, key=KEY, keep_bias=jnp.array([1.0, 5.0]), write_bias=-2.0).bias.tolist()[:5] == [-2, -2, 1, 5, 0]
    with pytest.raises(ValueError, match="the LSTM must have recurrent=False"):
        full.parallel(xs)
    with pytest.raises(ValueError, match=r"keep_bias must be a number or have shape \(2,\), got \(3,\)."):
        LSTM(n, m, key=KEY, keep_bias=jnp.ones(3))


def test_memory_weights_do_not_underflow():
    cell = LSTM(3, 2, key=KEY, keep_bias=-800.0)
    found = lstm_memory_weights(cell, inputs())
    assert bool(jnp.isfinite(found.candidates).all())
    gates = jax.nn.sigmoid(cell.drive(inputs())[0, :2])  # the first hidden state is zero
    np.testing.assert_allclose(found.candidates[0, 0], gates, rtol=1e-12)
    with pytest.raises(TypeError, match="cell must be an LSTM, got GRU."):
        lstm_memory_weights(GRU(3, 2, key=KEY), inputs())
