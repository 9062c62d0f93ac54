import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import LSTM, LSTMDropout, MinGRU, StateDropout, unroll

KEY = jax.random.key(7)


def inputs(steps=5, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


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
