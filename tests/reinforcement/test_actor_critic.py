"""The gradient of the value of a policy against finite differences; actor and critic against policy iteration."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.nets import MLP, tanh
from corollary.reinforcement import FiniteMDP, actor_critic, policy_gradient, softmax_policy

RNG = np.random.default_rng(0)
P, R, STATES = RNG.dirichlet(np.ones(3), size=(3, 2)), RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2))
START = np.array([0.5, 0.3, 0.2])


def test_gradient_against_finite_differences():
    mdp, actor = FiniteMDP(P, R, 0.8), MLP((2, 3, 2), tanh, key=jax.random.key(0))
    params, fixed = eqx.partition(actor, eqx.is_inexact_array)
    flat, tree = jax.flatten_util.ravel_pytree(params)

    @jax.jit
    def worth(flat):
        policy = softmax_policy(eqx.combine(tree(flat), fixed), STATES)
        return START @ mdp.evaluate(policy)

    slopes = [(worth(flat + 1e-5 * e) - worth(flat - 1e-5 * e)) / 2e-5 for e in np.eye(flat.size)]
    gradient = jax.jit(lambda: policy_gradient(actor, STATES, mdp, start=START))()
    np.testing.assert_allclose(jax.flatten_util.ravel_pytree(gradient)[0], slopes, atol=1e-8)


def test_both_learn_the_best_policy():
    mdp = FiniteMDP(P, R, 0.7)
    keys = jax.random.split(jax.random.key(1))
    actor, critic = (MLP((2, 16, 2), tanh, key=k) for k in keys)
    optimisers = optax.adam(2e-2), optax.adam(2e-2)
    run = actor_critic(actor, critic, STATES, mdp, optimisers, steps=1500, key=jax.random.key(2), every=500)
    best = float(mdp.policy_iteration().q.max(1).mean())
    assert run.values.shape == (4,)
    # what is between the first policy and the best one is closed
    assert best - run.values[-1] < 0.02 * (best - run.values[0])
    assert best >= run.values[-1] - 1e-9
    np.testing.assert_array_equal(jnp.argmax(softmax_policy(run.actor, STATES), 1), mdp.policy_iteration().policy)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"actor": MLP((2, 3), tanh, key=jax.random.key(0))}, "actor must give one number for each of the 2 actions"),
        ({"critic": 3}, "critic must be callable"),
        ({"states": STATES[:2]}, "states must have shape"),
        ({"optimisers": optax.sgd(0.1)[:1]}, "optimisers must be a pair"),
        ({"optimisers": (1, 2)}, "optimisers must be Optax transformations"),
        ({"every": 2}, "every must divide steps"),
        ({"mdp": 1}, "mdp must be a FiniteMDP"),
    ],
)
def test_sentences(change, match):
    network = MLP((2, 2), tanh, key=jax.random.key(0))
    given = {"actor": network, "critic": network, "states": STATES, "mdp": FiniteMDP(P, R, 0.7)}
    options = {"optimisers": (optax.sgd(0.1), optax.sgd(0.1)), "steps": 3, "key": jax.random.key(0)}
    with pytest.raises((ValueError, TypeError), match=match):
        actor_critic(**given | options | change)
