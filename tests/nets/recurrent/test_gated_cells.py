import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import (
    GRU,
    LSTM,
    Bidirectional,
    ElmanCell,
    GatedPlant,
    LSTMState,
    MinGRU,
    gate,
    gated_solution,
    half_life,
    lstm_memory_weights,
    memory_biases,
    retained,
    unroll,
    unroll_linear,
)

KEY = jax.random.key(3)


def inputs(steps=6, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


def parameters(cell):
    return sum(a.size for a in jax.tree.leaves(eqx.filter(cell, eqx.is_array)))


def test_unroll_is_the_loop_forwards_and_backwards():
    xs, cell = inputs(), GRU(3, 2, key=KEY)
    state, found = cell.initial(), []
    for x in xs:
        state = cell(x, state)
        found.append(state)
    np.testing.assert_allclose(unroll(cell, xs), jnp.stack(found), rtol=1e-12)
    np.testing.assert_allclose(unroll(cell, xs[::-1], reverse=True)[::-1], jnp.stack(found), rtol=1e-12)
    later = unroll(cell, xs[3:], found[2])
    np.testing.assert_allclose(later, jnp.stack(found[3:]), rtol=1e-12)


def test_unroll_raises_the_precision_of_the_state():
    cell = jax.tree.map(lambda a: a.astype(jnp.float32), GRU(3, 2, key=KEY))
    assert unroll(cell, inputs().astype(jnp.float32)).dtype == jnp.float32
    assert unroll(cell, inputs()).dtype == jnp.float64


def test_unroll_refuses():
    cell = GRU(3, 2, key=KEY)
    with pytest.raises(TypeError, match=r"cell must have cell\(x, state\) and cell.initial\(\), got function."):
        unroll(lambda x, z: z, inputs())
    with pytest.raises(ValueError, match="xs must have at least one step along the first axis"):
        unroll(cell, jnp.zeros((0, 3)))
    with pytest.raises(ValueError, match=r"xs must have shape \(..., 3\)"):
        unroll(cell, inputs(6, 2))
    with pytest.raises(ValueError, match=r"state must have the shapes of cell.initial\(\), \(2,\), got \(1,\)."):
        unroll(cell, inputs(), jnp.zeros(1))
    with pytest.raises(ValueError, match="state must have the shapes of cell.initial\\(\\), LSTMState"):
        unroll(LSTM(3, 2, key=KEY), inputs(), (jnp.zeros(2), jnp.zeros(2)))


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


def test_mingru_is_an_average_of_the_past():
    cell, xs = MinGRU(3, 2, key=KEY, bias=True, keep_bias=0.5), inputs()
    states = unroll(cell, xs)
    np.testing.assert_allclose(unroll_linear(cell, xs), states, rtol=1e-12)
    np.testing.assert_allclose(unroll_linear(cell, xs[2:], states[1]), states[2:], rtol=1e-12)
    kept = np.asarray(jax.nn.sigmoid(xs @ cell.gate.T + 0.5))
    weights = np.stack([np.prod(kept[t + 1 :], axis=0) * (1 - kept[t]) for t in range(6)])
    np.testing.assert_allclose(states[-1], np.sum(weights * (xs @ cell.value.T), axis=0), rtol=1e-12)
    np.testing.assert_allclose(weights.sum(0), 1 - np.prod(kept, axis=0), rtol=1e-12)
    with pytest.raises(ValueError, match="keep_bias must be a number"):
        MinGRU(3, 2, key=KEY, bias=True, keep_bias=jnp.ones(3))
    with pytest.raises(TypeError, match="cell must be linear in its state"):
        unroll_linear(GRU(3, 2, key=KEY), xs)


def test_a_constant_gate_forgets_exponentially():
    assert float(retained(0.5, 3)) == 0.125
    assert float(half_life(0.5)) == pytest.approx(1.0)
    assert float(retained(0.99, half_life(0.99))) == pytest.approx(0.5)
    assert gate(jnp.array([0.0, 1.0, 0.5]), jnp.array([3.0, 3.0, 3.0])).tolist() == [0.0, 3.0, 1.5]
    with pytest.raises(ValueError, match=r"s must be in \[0, 1\]"):
        gate(1.5, 1.0)
    with pytest.raises(ValueError, match=r"g must be in \(0, 1\)"):
        half_life(1.0)


def test_memories_begin_with_all_lengths():
    lifetimes = 1 / (1 - jax.nn.sigmoid(memory_biases(1000, 50.0, key=KEY)))
    assert 2 <= float(lifetimes.min()) < 4
    assert 48 < float(lifetimes.max()) <= 50
    with pytest.raises(ValueError, match="longest must be at least 2, got 1.0."):
        memory_biases(3, 1.0, key=KEY)


def test_gated_plant_and_its_solution():
    plant, xs = GatedPlant(3, 2, lambda x: jnp.tanh(x[:2]), key=KEY), inputs()
    start = jnp.array([0.5, -1.0])
    gates, updates = plant.coefficients(xs)
    np.testing.assert_allclose(unroll(plant, xs, start)[-1], gated_solution(gates, updates, start), rtol=1e-12)
    np.testing.assert_allclose(unroll_linear(plant, xs, start), unroll(plant, xs, start), rtol=1e-12)
    with pytest.raises(TypeError, match="update must be a function of one input, got int."):
        GatedPlant(3, 2, 3, key=KEY)
    with pytest.raises(ValueError, match=r"updates must have shape \(T, N\) with T = 6"):
        gated_solution(gates, updates[:3], start)


def test_memory_weights_do_not_underflow():
    cell = LSTM(3, 2, key=KEY, keep_bias=-800.0)
    found = lstm_memory_weights(cell, inputs())
    assert bool(jnp.isfinite(found.candidates).all())
    gates = jax.nn.sigmoid(cell.drive(inputs())[0, :2])  # the first hidden state is zero
    np.testing.assert_allclose(found.candidates[0, 0], gates, rtol=1e-12)
    with pytest.raises(TypeError, match="cell must be an LSTM, got GRU."):
        lstm_memory_weights(GRU(3, 2, key=KEY), inputs())


@pytest.mark.parametrize("cell", [GRU, LSTM, ElmanCell])
def test_bidirectional_networks_of_gated_cells(cell):
    a, b = jax.random.split(KEY)
    there, back = cell(3, 2, key=a), cell(3, 2, key=b)
    xs = inputs()
    ys = Bidirectional(there, back)(xs)
    assert ys.shape == (6, 4)
    # reversing time and swapping the cells reverses the answers
    swapped = Bidirectional(back, there)(xs[::-1])[::-1]
    np.testing.assert_allclose(ys, jnp.roll(swapped, 2, axis=1), rtol=1e-12)
