r"""Values fitted to a history, with a target that is held fixed while the network moves."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements
from corollary.reinforcement.environment import History


class FittedValues(NamedTuple):
    """The network that gives the values of all actions, and the loss before every step of it."""

    network: Any
    losses: Float[Array, "sweeps steps"]
    __repr__ = shown


class Table(eqx.Module):
    """A network without structure: one number for every state and action, looked up by the number of the state."""

    values: Float[Array, "x a"]

    def __init__(self, values: Float[Array, "x a"]):
        self.values = real("values", values, "x a")

    def __call__(self, x: Int[Array, ""]) -> Float[Array, "a"]:
        return self.values[x]


def fitted_target(network: NetworkLike, history: History, beta: Scalar) -> Float[Array, "n"]:
    r"""$r+\beta\max_{a'}Q(x',a')$ for every transition, without the second part where the episode terminated."""
    beta = within("beta", real("beta", beta, ""), 0.0, 1.0)
    _is_history(history)
    best = _values(network, history.next_observation).max(1)
    return history.reward + beta * jnp.where(history.terminated, 0.0, best)


@implements("M21.14", "M21.16")
def frozen_target_loss(
    network: NetworkLike, target: NetworkLike, history: History, beta: Scalar, *, averaged: bool = False
) -> Float[Array, ""]:
    r"""$\frac1{|H|}\sum_H|Q(x,a,\theta)-y|^2$ with the values $y$ that the network `target` makes of the transitions.

    With `averaged` the target of a pair is the mean over all transitions from it in the history, as in (21.18); else
    every transition has its own. The losses differ by the variance of the targets of each pair, which does not depend
    on $\theta$, so that the gradients are the same.
    """
    _is_history(history)
    miss = _chosen_values(network, history) - jax.lax.stop_gradient(_targets(target, history, beta, averaged))
    return (miss**2).mean()


@implements("M21.09")
def fitted_q(
    network: NetworkLike,
    history: History,
    *,
    beta: Scalar,
    optimiser: optax.GradientTransformation,
    sweeps: int,
    steps: int = 1,
) -> FittedValues:
    r"""In every sweep the target is that of the network as it is then, and `steps` steps of the optimiser are taken
    towards it on the whole history.

    `network` maps an observation to the values of all actions. With one step of plain descent per sweep it is
    (21.13), and for a `Table` damped value iteration.
    """
    sweeps, steps = whole("sweeps", sweeps), whole("steps", steps)
    within("beta", real("beta", beta, ""), 0.0, 1.0)
    _is_history(history)
    _values(network, history.observation)
    params, static = eqx.partition(network, eqx.is_inexact_array)

    def sweep(carry, _):
        params, state = carry
        y = fitted_target(eqx.combine(params, static), history, beta)

        def onward(carry, _):
            params, state = carry

            def loss(params):
                return ((_chosen_values(eqx.combine(params, static), history) - y) ** 2).mean()

            value, slope = jax.value_and_grad(loss)(params)
            update, state = optimiser.update(slope, state, params)
            return (optax.apply_updates(params, update), state), value

        return jax.lax.scan(onward, (params, state), length=steps)

    (params, _), losses = jax.lax.scan(sweep, (params, optimiser.init(params)), length=sweeps)
    return FittedValues(eqx.combine(params, static), losses)


def _targets(network, history, beta, averaged):
    y = fitted_target(network, history, beta)
    if not averaged:
        return y
    alike = _same_pairs(history)
    return alike @ y / alike.sum(1)


def _same_pairs(history: History) -> Bool[Array, "n n"]:
    flat = history.observation.reshape(len(history.action), -1)
    return (flat[:, None] == flat[None]).all(2) & (history.action[:, None] == history.action[None])


def _chosen_values(network, history):
    values = _values(network, history.observation)
    return jnp.take_along_axis(values, history.action[:, None], 1)[:, 0]


def _is_history(history):
    if not isinstance(history, History):
        raise TypeError(f"history must be a History, got {type(history).__name__}.")


def _values(network, observations):
    if not callable(network):
        raise TypeError(f"network must be a function of an observation, got {type(network).__name__}.")
    values = jax.vmap(network)(observations)
    if getattr(values, "ndim", 0) != 2:
        raise ValueError("network must map an observation to one vector, the values of all actions.")
    return values
