"""What learning of values is fed with: moves from a state to the next, and what they earned."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree

from corollary._show import shown
from corollary._types import NetworkLike
from corollary._validate import concrete, labels, real
from corollary.network.batches import examples
from corollary.network.parts import require_network, split


class Transitions(NamedTuple):
    """Moves (state, action, reward, next state), one per row of the first axis.

    States are arrays or pytrees of arrays, actions whole numbers from 0. Where `terminated` holds nothing is earned
    after the move; None says that no move ends an episode.
    """

    state: PyTree
    action: Int[ArrayLike, "n"]
    reward: Float[ArrayLike, "n"]
    next_state: PyTree
    terminated: Bool[ArrayLike, "n"] | None = None

    __repr__ = shown


def checked(network: NetworkLike, transitions: Transitions) -> tuple[Transitions, int]:
    """The transitions, with the number of actions that `network` has values for; one sentence where they do not fit."""
    require_network(network)
    if not isinstance(transitions, Transitions):
        raise TypeError(f"transitions must be a Transitions, got {type(transitions).__name__}.")
    state, following = examples("state", transitions.state), examples("next_state", transitions.next_state)
    kinds = [jax.tree.map(lambda a: (a.shape, a.dtype), tree) for tree in (state, following)]
    if kinds[0] != kinds[1]:
        raise ValueError("next_state must have the shapes and dtypes of state: one row per transition.")
    actions = actions_of(network, state)
    n = {"n": jax.tree.leaves(state)[0].shape[0]}
    ended = jnp.zeros(n["n"], bool) if transitions.terminated is None else jnp.asarray(transitions.terminated)
    if ended.dtype != bool or ended.shape != (n["n"],):
        raise ValueError(
            f"terminated must hold one truth value per transition, got {ended.dtype} of shape {ended.shape}."
        )
    move = labels("action", transitions.action, actions, "n", n)
    return Transitions(state, move, real("reward", transitions.reward, "n", n), following, ended), actions


def actions_of(network: NetworkLike, state: PyTree) -> int:
    """How many values the network gives for one of these states."""
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), state)
    out = eqx.filter_eval_shape(network, one)
    if not isinstance(out, jax.ShapeDtypeStruct) or len(out.shape) != 1 or not out.shape[0]:
        raise ValueError(
            f"network must return one value per action for a state, an array of one axis, got {_spelled(out)}."
        )
    return out.shape[0]


@eqx.filter_jit
def values_of(network: NetworkLike, state: PyTree) -> Float[Array, "n actions"]:
    """The values of all actions in each of the states, in inference mode."""
    return jax.vmap(split(network).join())(state)


def discount(beta: Any) -> Float[Array, ""]:
    """The discount as an array; one sentence outside [0, 1)."""
    beta = real("beta", beta, "")
    if concrete(beta) and not 0 <= float(np.asarray(beta)) < 1:
        raise ValueError(f"beta must be in [0, 1), got {np.asarray(beta)}.")
    return beta


def _spelled(out) -> str:
    shapes = [a.shape for a in jax.tree.leaves(out)]
    return f"shape {shapes[0]}" if len(shapes) == 1 else f"{len(shapes)} arrays"
