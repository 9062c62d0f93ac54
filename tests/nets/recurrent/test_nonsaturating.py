import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.nets.recurrent import NonSaturatingCell, unroll

KEY = jax.random.key(7)


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
