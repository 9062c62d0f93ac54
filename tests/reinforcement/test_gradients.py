"""Gradients of value learning against autodiff and enumeration."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import MLP, tanh
from corollary.reinforcement import History, residual_gradient, semi_gradient

RNG = np.random.default_rng(0)


def history(n, *, end=0.2):
    x, z = RNG.normal(size=(2, n, 3))
    return History(x, RNG.integers(0, 2, n), RNG.normal(size=n), z, RNG.random(n) < end, np.zeros(n, bool))


def flat(tree):
    return jax.flatten_util.ravel_pytree(tree)[0]


def deltas(network, h, target_of):
    now = jax.vmap(network)(h.observation)[np.arange(len(h.action)), h.action]
    later = jnp.where(h.terminated, 0, jax.vmap(target_of)(h.next_observation).max(1))
    return h.reward + 0.8 * later - now


def test_gradients_are_those_of_the_two_losses():
    network, h = MLP((3, 4, 2), tanh, key=jax.random.key(0)), history(6)
    params, fixed = eqx.partition(network, eqx.is_inexact_array)

    @jax.jit
    def both(params):
        def loss(params, target):
            return jnp.mean(deltas(eqx.combine(params, fixed), h, eqx.combine(target, fixed)) ** 2) / 2

        return jax.grad(loss)(params, params), jax.grad(lambda p: loss(p, p))(params)

    semi, residual = both(params)
    np.testing.assert_allclose(flat(semi_gradient(network, h, 0.8)), -flat(semi), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(flat(residual_gradient(network, h, 0.8)), -flat(residual), rtol=1e-10, atol=1e-14)


def test_two_next_states_give_the_square_of_the_mean():
    # from one pair to one of two states: all four couples of next states, with their probabilities
    network, x, z = MLP((3, 4, 2), tanh, key=jax.random.key(1)), RNG.normal(size=3), RNG.normal(size=(2, 3))
    p = np.array([0.3, 0.7])
    first, second = np.repeat([0, 1], 2), np.tile([0, 1], 2)
    no = np.zeros(4, bool)
    h = History(np.tile(x, (4, 1)), np.ones(4, int), np.full(4, 0.4), z[first], no, no)
    weights = p[first] * p[second]
    params, fixed = eqx.partition(network, eqx.is_inexact_array)

    @jax.jit
    def slopes(params):
        def bellman(params):
            network = eqx.combine(params, fixed)
            later = jax.vmap(network)(z).max(1)
            return -((0.4 + 0.8 * p @ later - network(x)[1]) ** 2) / 2

        return jax.grad(bellman)(params)

    right = flat(slopes(params))
    with_two = flat(residual_gradient(network, h, 0.8, second=z[second], weights=weights))
    np.testing.assert_allclose(with_two, right, rtol=1e-10, atol=1e-14)
    with_one = flat(residual_gradient(network, h, 0.8, weights=weights))
    assert np.linalg.norm(with_one - right) > 1e-3 * np.linalg.norm(right)


class Linear(eqx.Module):
    theta: jax.Array

    def __call__(self, x):
        return x @ self.theta


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"beta": 1.0}, "beta must be in"),
        ({"weights": np.ones(3)}, "weights must have shape"),
        ({"second": np.ones((2, 4))}, "second must have the shapes"),
    ],
)
def test_sentences(options, match):
    network, h = Linear(jnp.zeros(3)), history(2)
    h = h._replace(observation=h.observation[:, None], next_observation=h.next_observation[:, None], action=[0, 0])
    with pytest.raises(ValueError, match=match):
        residual_gradient(network, h, **{"beta": 0.5} | options)
