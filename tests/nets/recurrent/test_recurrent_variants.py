import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import (
    LSTM,
    BatchNormalised,
    ElmanCell,
    HighwayLayer,
    HighwayStack,
    LayerNormCell,
    LSTMAttention,
    LSTMDropout,
    MinGRU,
    NonSaturatingCell,
    RecurrentHighway,
    StateDropout,
    unroll,
)

KEY = jax.random.key(7)


def inputs(steps=5, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


def test_a_closed_highway_is_the_identity():
    x = jnp.array([0.3, -2.0, 1.0])
    layer = HighwayLayer(3, key=KEY, gate_bias=-40.0)
    np.testing.assert_allclose(layer(x), x, rtol=1e-12)
    layer = HighwayLayer(3, key=KEY, gate_bias=40.0)
    np.testing.assert_allclose(layer(x), jnp.tanh(layer.transform.weight @ x), rtol=1e-12)
    stack = HighwayStack(3, 2, key=KEY)
    first, second = (jax.tree.map(lambda a, i=i: a[i] if eqx.is_array(a) else a, stack.layers) for i in (0, 1))
    np.testing.assert_allclose(stack(x), second(first(x)), rtol=1e-12)


def test_recurrent_highway_by_its_formula():
    cell = RecurrentHighway(2, 3, 2, key=KEY, gate_bias=-1.0)
    x, s = jnp.array([0.5, -1.0]), jnp.array([0.1, -0.4, 0.8])
    expected = s
    for layer in range(2):
        z = cell.recurrent[layer] @ expected + (cell.inputs @ x if layer == 0 else 0)
        opened = jax.nn.sigmoid(z[3:] - 1)
        expected = opened * jnp.tanh(z[:3]) + (1 - opened) * expected
    np.testing.assert_allclose(cell(x, s), expected, rtol=1e-12)
    assert unroll(cell, inputs(4, 2)).shape == (4, 3)
    with pytest.raises(TypeError, match="activation must be a function of a number, got 3."):
        RecurrentHighway(2, 3, 2, 3, key=KEY)


def test_non_saturating_cell_keeps_what_it_does_not_write():
    cell = NonSaturatingCell(3, 2, key=KEY)
    state = type(cell.initial())(jnp.array([0.5, 0.1]), jnp.array([2.0, -3.0]))
    x = jnp.array([1.0, 0.2, -0.3])
    after = cell(x, state)
    hidden = jax.nn.relu(cell.inputs @ x + cell.recurrent @ state.hidden + cell.remembered @ state.memory)
    np.testing.assert_allclose(after.hidden, hidden, rtol=1e-12)
    write, erase, new, old = map(jax.nn.relu, jnp.split(cell.control @ jnp.concatenate([hidden, state.memory]), 4))
    unit = lambda r: r / (1 + jnp.linalg.norm(r))  # noqa: E731
    np.testing.assert_allclose(after.memory, state.memory + write * unit(new) - erase * unit(old), rtol=1e-12)
    shut = eqx.tree_at(lambda c: c.control_bias, cell, -100 * jnp.ones(8))
    np.testing.assert_array_equal(shut(x, state).memory, state.memory)
    # at the origin, where every unit of the norm is zero, the gradient is a number
    slope = jax.grad(lambda c: jnp.sum(unroll(c, jnp.zeros((2, 3))).memory))(cell)
    assert all(bool(jnp.isfinite(a).all()) for a in jax.tree.leaves(slope))


def test_state_dropout_masks_the_state_before_a_step():
    cell = StateDropout(MinGRU(3, 2, key=KEY), 0.5)
    x, z, mask = inputs()[0], jnp.array([1.0, 2.0]), jnp.array([0.0, 1.0])
    np.testing.assert_allclose(cell((x, mask), z), cell.cell(x, jnp.array([0.0, 2.0])), rtol=1e-12)
    assert unroll(cell, (inputs(), cell.expected(5))).shape == (5, 2)
    once = StateDropout(MinGRU(3, 40, key=KEY), 0.5, "per_sequence").masks(5, key=KEY)
    assert bool((once == once[0]).all())
    assert 0 < float(once.mean()) < 1
    assert not bool((StateDropout(MinGRU(3, 40, key=KEY), 0.5).masks(5, key=KEY) == once[0]).all())
    with pytest.raises(ValueError, match=r"keep must be in \[0, 1\], got 1.5."):
        StateDropout(MinGRU(3, 2, key=KEY), 1.5)
    with pytest.raises(ValueError, match="mode must be one of 'per_step', 'per_sequence', got 'update'."):
        StateDropout(MinGRU(3, 2, key=KEY), 0.5, "update")


@pytest.mark.parametrize("mode", ["per_sequence", "per_step", "update"])
def test_lstm_dropout_between_its_ends(mode):
    cell, xs = LSTM(3, 2, key=KEY), inputs()
    all_kept = LSTMDropout(cell, 1.0, mode)
    np.testing.assert_allclose(unroll(all_kept, (xs, all_kept.masks(5, key=KEY))).memory, unroll(cell, xs).memory)
    none = LSTMDropout(cell, 0.0, mode)
    found = unroll(none, (xs, none.masks(5, key=KEY))).memory
    if mode == "update":
        np.testing.assert_array_equal(found, 0.0)
    else:
        alone = eqx.tree_at(lambda c: c.recurrent, cell, jnp.zeros_like(cell.recurrent))
        np.testing.assert_allclose(found, unroll(alone, xs).memory)
    assert none.masks(5, key=KEY).shape == (5, 2 if mode == "update" else 8)


def test_lstm_dropout_refuses():
    with pytest.raises(TypeError, match="cell must be an LSTM, got MinGRU."):
        LSTMDropout(MinGRU(3, 2, key=KEY), 0.5)
    with pytest.raises(ValueError, match=r"mask must have shape \(..., 2\)"):
        LSTMDropout(LSTM(3, 2, key=KEY), 0.5).drive((inputs(), jnp.ones((5, 8))))


@pytest.mark.parametrize("place", ["inputs", "all"])
@pytest.mark.parametrize("statistics", ["shared", "per_step"])
def test_batch_normalised_cell_by_its_formula(place, statistics):
    steps = 4 if statistics == "per_step" else None
    cell = ElmanCell(3, 2, key=KEY)
    norm = BatchNormalised(cell, place, statistics, steps=steps, delta=0.0, momentum=0.0)
    xs = jax.random.normal(jax.random.key(1), (6, 4, 3))
    states, running = norm.batch(xs, norm.state())
    hat = lambda a, axes: (a - a.mean(axes)) / a.std(axes)  # noqa: E731
    drives, z = np.asarray(xs @ cell.inputs.T), np.zeros((6, 2))
    for t in range(4):
        if place == "all":
            z = np.tanh(hat(drives[:, t] + z @ cell.recurrent.T, 0))
        else:
            normal = hat(drives, (0, 1))[:, t] if statistics == "shared" else hat(drives[:, t], 0)
            z = np.tanh(normal + z @ cell.recurrent.T)
        np.testing.assert_allclose(states[:, t], z, rtol=1e-9)
    assert running.mean.shape == ((2,) if steps is None else (4, 2))
    assert norm(xs[0], running).shape == (4, 2)
    if place == "inputs" and statistics == "shared":
        # running statistics without inertia are those of the batch, with the unbiased variance
        flat = drives.reshape(-1, 2)
        expected = np.tanh((drives[0, 0] - flat.mean(0)) / flat.std(0, ddof=1))
        np.testing.assert_allclose(norm(xs[0], running)[0], expected, rtol=1e-9)


def test_batch_normalised_refuses():
    cell = ElmanCell(3, 2, key=KEY)
    norm = BatchNormalised(cell, statistics="per_step", steps=4)
    with pytest.raises(ValueError, match="xs must have at most 4 steps, for which there are statistics, got 5."):
        norm(inputs(5), norm.state())
    assert norm(inputs(3), norm.state()).shape == (3, 2)
    with pytest.raises(ValueError, match="steps must be given for statistics 'per_step', and only then."):
        BatchNormalised(cell, statistics="per_step")
    with pytest.raises(TypeError, match="cell must be an Elman cell for place 'all', got LSTM."):
        BatchNormalised(LSTM(3, 2, key=KEY), "all")
    with pytest.raises(TypeError, match="cell must have inputs, bias and step, got MinGRU."):
        BatchNormalised(MinGRU(3, 2, key=KEY))


def test_batch_normalised_lstm_normalises_each_gate():
    norm = BatchNormalised(LSTM(3, 2, key=KEY), delta=0.0)
    xs = jax.random.normal(jax.random.key(1), (6, 4, 3))
    states, _ = norm.batch(xs, norm.state())
    other, _ = norm.batch(3.0 * xs - 2.0, norm.state())
    np.testing.assert_allclose(states.hidden, other.hidden, rtol=1e-9)
    assert states.hidden.shape == (6, 4, 2)


def test_layer_normalised_cell_by_its_formula():
    cell = LayerNormCell(3, 4, key=KEY, delta=0.0)
    x, z = inputs()[0], jnp.array([0.1, -0.5, 0.2, 0.9])
    alpha = cell.inputs @ x + cell.recurrent @ z
    np.testing.assert_allclose(cell(x, z), jnp.tanh((alpha - alpha.mean()) / alpha.std()), rtol=1e-12)
    with pytest.raises(ValueError, match="units must be at least 2, got 1."):
        LayerNormCell(3, 1, key=KEY)


@pytest.mark.parametrize("both_ways", [False, True])
def test_lstm_attention_sees_the_order_of_its_inputs(both_ways):
    net = LSTMAttention(3, 4, 2, key=KEY, bidirectional=both_ways)
    xs = inputs()
    ys = net(xs)
    assert ys.shape == (5, 4)
    np.testing.assert_allclose(net.weights(xs, causal=True).sum(-1), 1.0, rtol=1e-12)
    order = jnp.array([2, 0, 1, 4, 3])
    assert float(jnp.abs(net(xs[order]) - ys[order]).max()) > 1e-4
    causal, changed = net(xs, causal=True), net(xs.at[4].add(1.0), causal=True)
    if not both_ways:
        np.testing.assert_allclose(causal[:4], changed[:4], rtol=1e-12)
