"""The cell of an LSTM as the text on backpropagation has it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import LSTMCell, LSTMState


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_lstm_by_hand():
    cell = LSTMCell(1, 1, key=jax.random.key(0))
    state = LSTMState(jnp.array([0.2]), jnp.array([-0.5]))
    i, f, g, o = np.asarray(cell.inputs @ jnp.array([0.7]) + cell.recurrent @ state.hidden + cell.bias)
    s = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    c = s(f) * -0.5 + s(i) * np.tanh(g)
    out = cell(state, jnp.array([0.7]))
    np.testing.assert_allclose([out.memory[0], out.hidden[0]], [c, s(o) * np.tanh(c)], rtol=1e-12)
