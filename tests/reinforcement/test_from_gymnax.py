import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.reinforcement import CartPole, Timed, from_gymnax, rollout

KEY = jax.random.key(0)


def test_the_cart_of_gymnax_moves_as_ours():
    gymnax = pytest.importorskip("gymnax")
    env, params = gymnax.make("CartPole-v1")
    theirs = from_gymnax(env, params)
    assert theirs.actions == 2
    history = rollout(theirs, lambda x, key: jax.random.randint(key, (), 0, 2), 100, key=KEY)
    assert history.terminated.sum() > 1
    moved = jax.jit(jax.vmap(lambda x, a: CartPole().step(Timed(x, jnp.asarray(0)), a).state.observation))
    np.testing.assert_allclose(moved(*history.project()), history.next_observation, atol=1e-5)
    short = from_gymnax(env, params.replace(max_steps_in_episode=5))
    cut = rollout(short, lambda x: (x[2] > 0).astype(int), 20, key=KEY)
    np.testing.assert_array_equal(np.flatnonzero(cut.truncated), [4, 9, 14, 19])
    assert not cut.terminated.any()


def test_what_is_no_environment_of_gymnax():
    with pytest.raises(TypeError, match="gymnax 1.0 or later, got CartPole without reset_env"):
        from_gymnax(CartPole())
