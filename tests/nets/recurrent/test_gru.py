import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import GRU, unroll

KEY = jax.random.key(3)


def inputs(steps=6, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


def test_gru_with_the_reset_after_is_that_of_equinox():
    peer = eqx.nn.GRUCell(3, 2, key=KEY)
    cell = eqx.tree_at(
        lambda c: (c.inputs, c.gate_recurrent, c.recurrent, c.bias, c.recurrent_bias),
        GRU(3, 2, key=KEY, reset="after"),
        (peer.weight_ih, peer.weight_hh[:4], peer.weight_hh[4:], peer.bias, peer.bias_n),
    )
    state = jnp.zeros(2)
    ours = unroll(cell, inputs())
    for t, x in enumerate(inputs()):
        state = peer(x, state)
        np.testing.assert_allclose(ours[t], state, rtol=1e-12)


def test_gru_resets_before_and_after_agree_for_a_diagonal_matrix_only():
    before = GRU(3, 2, key=KEY, bias=False)
    after = GRU(3, 2, key=KEY, bias=False, reset="after")
    assert float(jnp.abs(unroll(before, inputs()) - unroll(after, inputs())).max()) > 1e-4
    same = [eqx.tree_at(lambda c: c.recurrent, c, jnp.diag(jnp.array([0.5, -2.0]))) for c in (before, after)]
    np.testing.assert_allclose(unroll(same[0], inputs()), unroll(same[1], inputs()), rtol=1e-12)


def test_gru_gates_may_see_the_input_alone():
    cell = GRU(3, 2, key=KEY, gates_see_state=False)
    x, y = jnp.array([1.0, -2.0, 0.5]), jnp.array([0.3, -0.9])
    r, u, v = jnp.split(cell.inputs @ x + cell.bias, 3)
    r, u = jax.nn.sigmoid(r), jax.nn.sigmoid(u)
    expected = u * y + (1 - u) * jnp.tanh(v + cell.recurrent @ (r * y))
    np.testing.assert_allclose(cell(x, y), expected, rtol=1e-12)
    alone = GRU(3, 2, key=KEY, gates_see_state=False, reset="after", bias=False)
    r, u, v = jnp.split(alone.inputs @ x, 3)
    r, u = jax.nn.sigmoid(r), jax.nn.sigmoid(u)
    expected = u * y + (1 - u) * jnp.tanh(v + r * (alone.recurrent @ y))
    np.testing.assert_allclose(alone(x, y), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="reset must be one of 'before', 'after', got 'never'."):
        GRU(3, 2, key=KEY, reset="never")
    with pytest.raises(ValueError, match="keep_bias must be a number"):
        GRU(3, 2, key=KEY, keep_bias=jnp.ones(3))
