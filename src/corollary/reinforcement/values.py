"""What learning of values asks of a network and of the transitions that it learns from."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from corollary._types import NetworkLike, Scalar
from corollary._validate import labels, real, within
from corollary.network.batches import examples
from corollary.network.parts import require_network, split
from corollary.reinforcement.environment import History


def checked(network: NetworkLike, transitions: History, *, name: str = "transitions") -> tuple[History, int]:
    """The transitions, and the number of actions that `network` has values for; one sentence where they do not fit."""
    require_network(network)
    if not isinstance(transitions, History):
        raise TypeError(f"{name} must be a History, as rollout returns it, got {type(transitions).__name__}.")
    seen = examples("observation", transitions.observation)
    after = examples("next_observation", transitions.next_observation)
    kinds = [jax.tree.map(lambda a: (a.shape, a.dtype), tree) for tree in (seen, after)]
    if kinds[0] != kinds[1]:
        raise ValueError("next_observation must have the shapes and dtypes of observation: one row per transition.")
    actions = actions_of(network, seen)
    n = {"n": jax.tree.leaves(seen)[0].shape[0]}
    action = labels("action", transitions.action, actions, "n", n)
    reward = real("reward", transitions.reward, "n", n)
    ends = (_truths(name, getattr(transitions, name), n["n"]) for name in ("terminated", "truncated"))
    return History(seen, action, reward, after, *ends), actions


def actions_of(network: NetworkLike, observations: PyTree) -> int:
    """How many values the network gives for one of these observations."""
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), observations)
    out = eqx.filter_eval_shape(network, one)
    if not isinstance(out, jax.ShapeDtypeStruct) or len(out.shape) != 1 or not out.shape[0]:
        shapes = [a.shape for a in jax.tree.leaves(out)]
        got = f"shape {shapes[0]}" if len(shapes) == 1 else f"{len(shapes)} arrays"
        raise ValueError(f"network must return one value per action, an array of one axis, got {got}.")
    return out.shape[0]


@eqx.filter_jit
def values_of(network: NetworkLike, observations: PyTree) -> Float[Array, "n actions"]:
    """The values of all actions at each of the observations, in inference mode."""
    return jax.vmap(split(network).join())(observations)


def chosen_values(network: NetworkLike, observation: PyTree, action: Int[Array, "n"]) -> Float[Array, "n"]:
    """$Q(x,a)$ of the actions that were taken."""
    return jnp.take_along_axis(jax.vmap(network)(observation), action[:, None], 1)[:, 0]


def later_values(network: NetworkLike, moves: History, *, chooser: NetworkLike | None = None) -> Float[Array, "n"]:
    r"""$\max_{a'}Q(x',a')$ of every transition, 0 where the episode terminated; with a `chooser`, $Q$ at the action
    that the chooser values most."""
    values = jax.vmap(network)(moves.next_observation)
    if chooser is None:
        best = jnp.max(values, 1)
    else:
        action = jnp.argmax(jax.vmap(chooser)(moves.next_observation), 1)
        best = jnp.take_along_axis(values, action[:, None], 1)[:, 0]
    return jnp.where(moves.terminated, 0, best)


def value_target(
    network: NetworkLike, moves: History, beta: Scalar, *, chooser: NetworkLike | None = None
) -> Float[Array, "n"]:
    r"""What the value of every transition is drawn to: $r+\beta\max_{a'}Q(x',a')$."""
    return moves.reward + beta * later_values(network, moves, chooser=chooser)


def discount(beta: Any) -> Float[Array, ""]:
    """The discount as an array; one sentence outside [0, 1)."""
    return within("beta", real("beta", beta, ""), 0.0, 1.0, open="high")


def _truths(name, value, n):
    value = jnp.asarray(value)
    if value.dtype != bool or value.shape != (n,):
        raise ValueError(f"{name} must hold one truth value per transition, got {value.dtype} of shape {value.shape}.")
    return value
