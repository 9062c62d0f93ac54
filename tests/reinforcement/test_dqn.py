"""Deep Q-learning on a small corridor against policy iteration; many seeds against one."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.reinforcement import FiniteMDP, Greedy, Outcome, Timed, dqn, play

CELLS, LIMIT = 5, 20


class Corridor(eqx.Module):
    """Five cells in a row: to the right end for 1, to the left end for 0.2, and nothing on the way."""

    @property
    def actions(self) -> int:
        return 2

    def reset(self, *, key):
        return Timed(jax.nn.one_hot(jax.random.randint(key, (), 1, CELLS - 1), CELLS), jnp.asarray(0))

    def step(self, state, action, *, key=None):
        cell = jnp.argmax(state.observation) + 2 * action - 1
        reward = jnp.where(cell == CELLS - 1, 1.0, jnp.where(cell == 0, 0.2, 0.0))
        after = Timed(jax.nn.one_hot(cell, CELLS), state.time + 1)
        return Outcome(after, reward, (cell == 0) | (cell == CELLS - 1), after.time >= LIMIT)


class Table(eqx.Module):
    values: jax.Array

    def __call__(self, x):
        return x @ self.values


OPTIONS = {
    "steps": 1024,
    "collect": 64,
    "updates": 64,
    "warmup": 128,
    "batch_size": 32,
    "beta": 0.9,
    "target_every": 32,
}


def learned(key, step=0.05, **options):
    return dqn(Corridor(), Table(jnp.zeros((CELLS, 2))), optax.adam(step), key=key, **OPTIONS | options)


def test_finds_the_values_of_a_corridor():
    p = np.zeros((CELLS, 2, CELLS))
    p[[0, CELLS - 1], :, [0, CELLS - 1]] = 1
    for cell in range(1, CELLS - 1):
        p[cell, 0, cell - 1] = p[cell, 1, cell + 1] = 1
    r = np.zeros((CELLS, 2))
    r[1, 0], r[CELLS - 2, 1] = 0.2, 1.0
    exact = FiniteMDP(p, r, 0.9).policy_iteration().q[1:-1]
    for double in (False, True):
        run = learned(jax.random.key(0), double=double)
        np.testing.assert_allclose(run.network.values[1:-1], exact, atol=0.02)
    assert run.losses.shape == (16,)
    assert (run.losses[:1] == 0).all()
    returns = play(Greedy(run.network), Corridor(), episodes=8, key=jax.random.key(1)).returns
    np.testing.assert_array_equal(returns, 1.0)


def test_history_is_what_was_played():
    history = learned(jax.random.key(2)).history
    before, after = (np.asarray(a).argmax(1) for a in (history.observation, history.next_observation))
    np.testing.assert_array_equal(after, before + 2 * np.asarray(history.action) - 1)
    goes_on = ~np.asarray(history.ended)[:-1]
    np.testing.assert_array_equal(after[:-1][goes_on], before[1:][goes_on])
    assert abs(np.asarray(history.action)[:64].mean() - 0.5) < 0.25  # at random at first


def test_snapshots_are_the_networks_on_the_way():
    whole, parts = (learned(jax.random.key(2), snapshots=n) for n in (1, 4))
    np.testing.assert_allclose(parts.network.values, whole.network.values, atol=1e-8)
    np.testing.assert_array_equal(parts.snapshots.values[-1], parts.network.values)
    assert parts.snapshots.values.shape == (4, *whole.network.values.shape)
    assert len(np.unique(np.asarray(parts.snapshots.values), axis=0)) == 4


def test_many_seeds_and_steps_in_one_program():
    keys = jax.random.split(jax.random.key(3), 2)
    both = jax.vmap(learned)(keys, jnp.array([0.05, 0.02]))
    alone = learned(keys[1], 0.02)
    np.testing.assert_allclose(both.network.values[1], alone.network.values, atol=1e-8)
    np.testing.assert_array_equal(both.history.action[1], alone.history.action)
    assert not np.allclose(both.losses[0], both.losses[1])


class Plain(NamedTuple):
    reset: object = None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"collect": 100}, "collect must divide steps"),
        ({"snapshots": 3}, "snapshots must divide the 16 rounds"),
        ({"beta": 1.0}, "beta must be in"),
        ({"epsilon": 2.0}, "epsilon must be in"),
        ({"network": Table(jnp.zeros((CELLS, 3)))}, "one value for each of the 2 actions"),
        ({"optimiser": 0.1}, "optimiser must be an Optax transformation"),
        ({"env": Plain()}, "env must have reset"),
        ({"updates": 0}, "updates must be at least 1"),
    ],
)
def test_sentences(change, match):
    given = {"env": Corridor(), "network": Table(jnp.zeros((CELLS, 2))), "optimiser": optax.sgd(0.1)}
    with pytest.raises((ValueError, TypeError), match=match):
        dqn(**given | OPTIONS | {"key": jax.random.key(0)} | change)
