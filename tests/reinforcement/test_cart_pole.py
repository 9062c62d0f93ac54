import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.reinforcement import CartPole, Timed

gymnasium = pytest.importorskip("gymnasium")


def test_the_same_states_as_gymnasium_over_10000_random_steps():
    theirs = gymnasium.make("CartPole-v1")
    actions = np.random.default_rng(0).integers(2, size=10_000)
    starts, seen, ends = np.zeros((10_000, 4)), np.zeros((10_000, 4)), np.zeros((10_000, 2), bool)
    begins = np.zeros(10_000, bool)
    ended = True
    for n, action in enumerate(actions):
        begins[n] = ended
        if ended:
            theirs.reset(seed=n)
        starts[n] = theirs.unwrapped.state
        seen[n], reward, *flags, _ = theirs.step(int(action))
        ends[n], ended = flags, any(flags)
        assert reward == 1.0
    env = CartPole()

    @jax.jit
    def replayed(starts, begins, actions):
        """Whole episodes from gymnasium's starts: our state goes on, theirs is not looked at again."""

        def onward(state, given):
            start, begin, action = given
            state = jax.tree.map(lambda a, b: jnp.where(begin, a, b), Timed(start, jnp.asarray(0)), state)
            outcome = env.step(state, action)
            return outcome.state, (outcome.state.observation, outcome.terminated, outcome.truncated)

        first = Timed(jnp.zeros(4), jnp.asarray(0))
        return jax.lax.scan(onward, first, (starts, begins, actions))[1]

    ours, terminated, truncated = replayed(starts, begins, actions)
    assert begins.sum() > 300
    np.testing.assert_allclose(ours, seen, atol=1e-6)  # gymnasium shows its states in single precision
    np.testing.assert_array_equal(np.stack([terminated, truncated], 1), ends)


def test_an_episode_ends_by_the_clock_or_by_itself():
    env = CartPole(limit=3)
    state = env.reset(key=jax.random.key(0))
    flags = []
    for _ in range(3):
        state, _, terminated, truncated = env.step(state, 1)
        flags.append((bool(terminated), bool(truncated)))
    assert flags == [(False, False), (False, False), (False, True)]
    assert bool(env.step(Timed(jnp.array([0.0, 0, 0.3, 0]), jnp.asarray(0)), 0).terminated)


@pytest.mark.parametrize("action", [2, -1])
def test_an_action_out_of_range(action):
    env = CartPole()
    with pytest.raises(ValueError, match="action must hold labels from 0 to 1"):
        env.step(env.reset(key=jax.random.key(0)), action)
