import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import GRU, LSTM, unroll

KEY = jax.random.key(3)


def inputs(steps=6, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


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
