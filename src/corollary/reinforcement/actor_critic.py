r"""A policy that is learned beside its values: the gradient of the value of a policy, and actor and critic together.

The actor is a network whose values at a state become probabilities, $\lambda(a|x)=\operatorname{softmax}_aP(x,a)$; the
critic $Q$ learns the values of that policy; the actor climbs $\sum_a\lambda(a|x)Q(x,a)$ with $Q$ held fixed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import NetworkLike
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.network.parts import require_network, split
from corollary.reinforcement.finite import FiniteMDP
from corollary.reinforcement.q_network import problem
from corollary.reinforcement.values import actions_of


def softmax_policy(actor: NetworkLike, states: Float[ArrayLike, "x d"]) -> Float[Array, "x _"]:
    r"""$\lambda(a|x)$, the softmax of what the actor gives for the vector of a state: laws of the action."""
    require_network(actor)
    states = real("states", states, "x d")
    actions_of(actor, states)
    return jax.nn.softmax(jax.vmap(actor)(states), axis=1)


@implements("M21.23")
def policy_gradient(
    actor: NetworkLike,
    states: Float[ArrayLike, "x d"],
    mdp: FiniteMDP,
    *,
    start: Float[ArrayLike, "x"] | None = None,
    q: Float[ArrayLike, "x a"] | None = None,
) -> PyTree:
    r"""$\frac1{1-\beta}\sum_xd(x)\sum_a\nabla\lambda(a|x)\,Q(x,a)$: how the mean of $W_\lambda(x_0)$ changes.

    $d$ is the discounted occupancy from the law `start` of $x_0$, uniform unless given; `q` are the critic's values,
    those of the policy itself unless given: then it is the gradient, otherwise an estimate of it. A tree like the
    actor, None where it has no parameter.
    """
    states = _fitting(actor, states, mdp, "actor")
    parts = split(actor, name="actor")
    policy = softmax_policy(actor, states)
    q = mdp.action_values(policy) if q is None else real("q", q, f"{mdp.r.shape[0]} {mdp.r.shape[1]}")
    weight = mdp.occupancy(policy, start).sum(1) / (1 - mdp.beta)

    def climbed(params):
        law = softmax_policy(parts.join(params), states)
        return jnp.sum(weight[:, None] * law * q)

    return jax.grad(climbed)(parts.params)


class ActorCritic(NamedTuple):
    r"""Both networks at the end, and the mean of $W_\lambda(x_0)$ of the actor's policy before the first step and after
    each stretch of `every` steps.
    """

    actor: Any
    critic: Any
    values: Float[Array, "t"]
    __repr__ = shown


@implements("M21.23")
def actor_critic(
    actor: NetworkLike,
    critic: NetworkLike,
    states: Float[ArrayLike, "x d"],
    mdp: FiniteMDP,
    optimisers: tuple[optax.GradientTransformation, optax.GradientTransformation],
    *,
    steps: int,
    key: PRNGKeyArray,
    batch_size: int = 32,
    every: int | None = None,
) -> ActorCritic:
    r"""Learn a policy and its values together, from moves of `batch_size` walkers that follow the policy.

    Both networks take the vector of a state and give one number per action. In each step every walker draws an action
    from $\lambda(\cdot|x)$ and moves; the critic goes down the square of
    $r+\beta\sum_{a'}\lambda(a'|x')Q(x',a')-Q(x,a)$ with the target held constant, the actor up
    $\sum_a\lambda(a|x)Q(x,a)$ at the same states. A walker begins anew, anywhere, with the probability $1-\beta$, so
    that states are met with their discounted occupancy. `optimisers` are those of actor and critic.
    """
    states = _fitting(actor, states, mdp, "actor")
    _fitting(critic, states, mdp, "critic")
    steps, batch_size = whole("steps", steps), whole("batch_size", batch_size)
    every = steps if every is None else whole("every", every)
    if steps % every:
        raise ValueError(f"every must divide steps, got {every} and {steps}.")
    if not isinstance(optimisers, tuple | list) or len(optimisers) != 2:
        raise TypeError("optimisers must be a pair of Optax transformations, for the actor and for the critic.")
    for optimiser in optimisers:
        if not isinstance(optimiser, optax.GradientTransformation):
            raise TypeError(f"optimisers must be Optax transformations, got {type(optimiser).__name__}.")
    return _learned(actor, critic, states, mdp, tuple(optimisers), steps, key, batch_size, every)


@eqx.filter_jit
def _learned(actor, critic, states, mdp, optimisers, steps, key, batch_size, every):
    parts = split(actor, name="actor"), split(critic, name="critic")
    anywhere, size = jnp.zeros(mdp.r.shape[0]), mdp.r.shape[0]

    def values(critic, x):
        return jax.vmap(critic)(states[x])

    def one(carry, key):
        params, memory, x = carry
        act, move, restart, begin = jax.random.split(key, 4)
        law = softmax_policy(parts[0].join(params[0]), states)
        a = jax.random.categorical(act, jnp.log(law[x]))
        z = jax.random.categorical(move, jnp.log(mdp.p[x, a]))
        later = jnp.sum(law[z] * values(parts[1].join(params[1]), z), 1)
        target = jax.lax.stop_gradient(mdp.r[x, a] + mdp.beta * later)

        def missed(params):
            now = jnp.take_along_axis(values(parts[1].join(params), x), a[:, None], 1)[:, 0]
            return jnp.mean((target - now) ** 2)

        held = values(parts[1].join(params[1]), x)

        def fallen(params):
            return -jnp.mean(jnp.sum(softmax_policy(parts[0].join(params), states)[x] * held, 1))

        moved = [
            _stepped(optimiser, objective, p, m)
            for optimiser, objective, p, m in zip(optimisers, (fallen, missed), params, memory, strict=True)
        ]
        params, memory = zip(*moved, strict=True)
        fresh = jax.random.categorical(begin, anywhere, shape=x.shape)
        return (params, memory, jnp.where(jax.random.bernoulli(restart, 1 - mdp.beta, x.shape), fresh, z)), None

    def worth(params):
        return jnp.mean(mdp.evaluate(softmax_policy(parts[0].join(params[0]), states)))

    def stretch(carry, keys):
        carry, _ = jax.lax.scan(one, carry, keys)
        return carry, worth(carry[0])

    first, key = jax.random.split(key)
    params = tuple(p.params for p in parts)
    memory = tuple(optimiser.init(p) for optimiser, p in zip(optimisers, params, strict=True))
    x = jax.random.randint(first, (batch_size,), 0, size)
    keys = jax.random.split(key, (steps // every, every))
    (ends, _, _), record = jax.lax.scan(stretch, (params, memory, x), keys)
    record = jnp.concatenate([worth(params)[None], record])
    return ActorCritic(*(eqx.combine(e, n) for e, n in zip(ends, (actor, critic), strict=True)), record)


def _stepped(optimiser, objective, params, memory):
    updates, memory = optimiser.update(jax.grad(objective)(params), memory, params)
    return optax.apply_updates(params, updates), memory


def _fitting(network, states, mdp, name):
    if not callable(network):
        raise TypeError(f"{name} must be callable with the vector of a state, got {type(network).__name__}.")
    problem(mdp)
    size, actions = mdp.r.shape
    states = real("states", states, "x d", {"x": size})
    if (given := actions_of(network, states)) != actions:
        raise ValueError(f"{name} must give one number for each of the {actions} actions, got {given}.")
    return states
