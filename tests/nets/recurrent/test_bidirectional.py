import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import GRU, LSTM, Bidirectional, Elman, ElmanCell, future_influence, unroll

KEY = jax.random.key(0)


def sequence(steps=6, width=2, key=KEY):
    return jax.random.normal(key, (steps, width))


def by_hand(cell, xs, z):
    states = []
    for x in np.asarray(xs):
        z = np.tanh(np.asarray(cell.recurrent) @ z + np.asarray(cell.inputs) @ x + np.asarray(cell.bias))
        states.append(z)
    return np.array(states)


def test_bidirectional_runs_from_both_ends():
    xs = sequence()
    there, back = ElmanCell(2, 3, key=KEY), ElmanCell(2, 4, key=KEY)
    both = Bidirectional(there, back)(xs)
    np.testing.assert_allclose(both[:, :3], by_hand(there, xs, np.zeros(3)), rtol=1e-12)
    np.testing.assert_allclose(both[:, 3:], by_hand(back, xs[::-1], np.zeros(4))[::-1], rtol=1e-12)
    memories = Bidirectional(LSTM(2, 3, key=KEY), back)(xs)
    np.testing.assert_allclose(memories[:, :3], unroll(LSTM(2, 3, key=KEY), xs).hidden, rtol=1e-12)
    read = Bidirectional(there, back, lambda z, x: z.sum() * x, sees_input=True)
    np.testing.assert_allclose(read(xs), np.asarray(both).sum(1)[:, None] * np.asarray(xs), rtol=1e-12)


def test_only_the_bidirectional_network_sees_the_future():
    xs = sequence(4)
    assert future_influence(Elman(2, 3, 1, key=KEY), xs, key=KEY) == 0
    assert future_influence(Bidirectional(ElmanCell(2, 3, key=KEY), ElmanCell(2, 3, key=KEY)), xs, key=KEY) > 0.01


@pytest.mark.parametrize("cell", [GRU, LSTM, ElmanCell])
def test_bidirectional_networks_of_gated_cells(cell):
    a, b = jax.random.split(KEY)
    there, back = cell(3, 2, key=a), cell(3, 2, key=b)
    xs = sequence(6, 3)
    ys = Bidirectional(there, back)(xs)
    assert ys.shape == (6, 4)
    # reversing time and swapping the cells reverses the answers
    swapped = Bidirectional(back, there)(xs[::-1])[::-1]
    np.testing.assert_allclose(ys, jnp.roll(swapped, 2, axis=1), rtol=1e-12)
