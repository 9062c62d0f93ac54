import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import LSTM, BatchNormalised, ElmanCell, LayerNormCell, MinGRU

KEY = jax.random.key(7)


def inputs(steps=5, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


@pytest.mark.parametrize("place", ["inputs", "all"])
@pytest.mark.parametrize("statistics", ["shared", "per_step"])
def test_batch_normalised_cell_by_its_formula(place, statistics):
    steps = 4 if statistics == "per_step" else None
    cell = ElmanCell(3, 2, key=KEY)
    norm = BatchNormalised(cell, place, statistics, steps=steps, eps=0.0, momentum=0.0)
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
    norm = BatchNormalised(LSTM(3, 2, key=KEY), eps=0.0)
    xs = jax.random.normal(jax.random.key(1), (6, 4, 3))
    states, _ = norm.batch(xs, norm.state())
    other, _ = norm.batch(3.0 * xs - 2.0, norm.state())
    np.testing.assert_allclose(states.hidden, other.hidden, rtol=1e-9)
    assert states.hidden.shape == (6, 4, 2)


def test_layer_normalised_cell_by_its_formula():
    cell = LayerNormCell(3, 4, key=KEY, eps=0.0)
    x, z = inputs()[0], jnp.array([0.1, -0.5, 0.2, 0.9])
    alpha = cell.inputs @ x + cell.recurrent @ z
    np.testing.assert_allclose(cell(x, z), jnp.tanh((alpha - alpha.mean()) / alpha.std()), rtol=1e-12)
    with pytest.raises(ValueError, match="units must be at least 2, got 1."):
        LayerNormCell(3, 1, key=KEY)
