import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.reinforcement import CartPole, Timed, from_gymnax, rollout

KEY = jax.random.key(0)


def test_the_cart_of_gymnax_moves_as_ours():
    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make("CartPole-v1")
    theirs = from_gymnax(env, params.replace(max_steps_in_episode=12))
    assert theirs.actions == 2
    history = rollout(theirs, lambda x, key: jax.random.randint(key, (), 0, 2), 200, key=KEY)
    moved = jax.jit(jax.vmap(lambda x, a: CartPole().step(Timed(x, jnp.asarray(0)), a).state.observation))
    np.testing.assert_allclose(moved(*history.project()), history.next_observation, atol=1e-5)
    lengths = np.diff(np.flatnonzero(history.ended), prepend=-1)
    np.testing.assert_array_equal(lengths == 12, np.asarray(history.truncated)[np.asarray(history.ended)])
    assert history.terminated.sum() > 1
    assert not (history.terminated & ~(np.abs(history.next_observation[:, 2]) > np.deg2rad(12))).any()


def test_what_is_no_environment_of_gymnax():
    with pytest.raises(TypeError, match="gymnax 1.0 or later, got CartPole without reset_env"):
        from_gymnax(CartPole())
