import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.reinforcement import CartPole, HillCar, Outcome, Timed, play, rollout

KEY = jax.random.key(0)


def leaning(x):
    return (x[2] + x[3] > 0).astype(int)


def late(x):
    """Looks at the angle alone, and falls after some 40 steps."""
    return (x[2] > 0).astype(int)


def uniform(x, key):
    return jax.random.randint(key, (), 0, 2)


def test_a_history_is_episodes_one_after_the_other():
    env = CartPole(limit=12)
    history = rollout(env, uniform, 200, key=KEY)
    ended = np.asarray(history.ended)
    assert history.terminated.sum() > 0
    assert history.truncated.sum() > 0
    # what is seen next is what was reached, unless an episode began in between
    np.testing.assert_array_equal(history.observation[1:][~ended[:-1]], history.next_observation[:-1][~ended[:-1]])
    assert np.abs(history.observation[1:][ended[:-1]]).max() <= 0.05
    moved = jax.jit(jax.vmap(lambda x, a: env.step(Timed(x, jnp.asarray(0)), a).state.observation))
    np.testing.assert_allclose(moved(*history.project()), history.next_observation, rtol=1e-12)
    assert set(np.unique(history.action)) == {0, 1}


def test_episodes_add_up_the_rewards_of_a_history():
    env = CartPole(limit=60)
    played = play(leaning, env, episodes=20, key=KEY)
    np.testing.assert_array_equal(played.returns, played.lengths)
    assert played.lengths.max() == 60
    np.testing.assert_array_equal(played.terminated, played.lengths < 60)
    hill = play(lambda x: 1 + jnp.sign(x[1]).astype(int), HillCar(), episodes=5, key=KEY)
    np.testing.assert_array_equal(hill.returns, -hill.lengths)
    assert hill.terminated.all()


def test_an_action_that_there_is_not():
    for policy in (lambda x: 5, lambda x: jnp.where(x[0] > 0.02, 1, -1)):
        for call in (lambda p: rollout(CartPole(), p, 30, key=KEY), lambda p: play(p, CartPole(), key=KEY)):
            with pytest.raises(ValueError, match="action must hold labels from 0 to 1, got (5|-1) at index"):
                call(policy)


def test_an_action_that_gymnasium_does_not_have():
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(ValueError, match=r"policy must give an action of Discrete\(2\), got 5"):
        play(lambda x: 5, gymnasium.make("CartPole-v1"), episodes=1, key=KEY)


def test_a_policy_in_gymnasium_has_the_return_that_it_has_here():
    gymnasium = pytest.importorskip("gymnasium")
    ours = play(late, CartPole(), episodes=200, key=KEY)
    theirs = play(late, gymnasium.make("CartPole-v1"), episodes=12, key=KEY)
    spread = np.sqrt(float(ours.returns.var()) / 200 + float(theirs.returns.var()) / 12)
    assert abs(float(ours.returns.mean() - theirs.returns.mean())) < 5 * spread + 1e-9
    car = play(lambda x: jnp.sign(x[1:]), gymnasium.make("MountainCarContinuous-v0"), episodes=1, key=KEY)
    assert car.terminated.all()
    assert 70 < int(car.lengths[0]) < 130


class Growing(eqx.Module):
    """Not an environment: its state becomes longer."""

    actions = 2

    def reset(self, *, key):
        return Timed(jnp.zeros(2), jnp.asarray(0))

    def step(self, state, action, *, key):
        return Outcome(Timed(jnp.zeros(3), state.time), jnp.zeros(()), jnp.asarray(False), jnp.asarray(False))


class Loud(Growing):
    def step(self, state, action, *, key):
        return Outcome(state, jnp.zeros(2), jnp.asarray(False), jnp.asarray(False))


class Bare(Growing):
    def reset(self, *, key):
        return jnp.zeros(2)


class Plain(Growing):
    def step(self, state, action, *, key):
        return state, 0.0


@pytest.mark.parametrize(
    ("env", "policy", "sentence"),
    [
        (Growing(), uniform, r"keep the shapes and dtypes of the state, and changes float64\[2\] to float64\[3\]"),
        (Loud(), uniform, r"reward that env.step returns must be one number, got shape \(2,\)"),
        (Bare(), uniform, "must have an observation"),
        (Plain(), uniform, "must return an Outcome"),
        (3, uniform, "reset is missing"),
        (CartPole(), 3, "policy must be a function of an observation"),
    ],
)
def test_bad_input(env, policy, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        rollout(env, policy, 3, key=KEY)
    with pytest.raises((TypeError, ValueError), match=sentence):
        play(policy, env, episodes=3, key=KEY)
