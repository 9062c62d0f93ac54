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
from corollary.nets import stepwise
from corollary.network import BatchLoss
from corollary.reinforcement.environment import History
from corollary.reinforcement.values import checked, chosen_values, value_target


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
    beta = _at_most_one(beta)
    return value_target(network, checked(network, history, name="history")[0], beta)


@implements("M21.14", "M21.16")
def frozen_target_loss(
    network: NetworkLike, target: NetworkLike, history: History, beta: Scalar, *, averaged: bool = False
) -> Float[Array, ""]:
    r"""$\frac1{|H|}\sum_H|Q(x,a,\theta)-y|^2$ with the values $y$ that the network `target` makes of the transitions.

    With `averaged` the target of a pair is the mean over all transitions from it in the history, as in (21.18); else
    every transition has its own. The losses differ by the variance of the targets of each pair, which does not depend
    on $\theta$, so that the gradients are the same.
    """
    moves, _ = checked(network, history, name="history")
    y = fitted_target(target, moves, beta)
    if averaged:
        alike = _same_pairs(moves)
        y = alike @ y / alike.sum(1)
    miss = chosen_values(network, moves.observation, moves.action) - jax.lax.stop_gradient(y)
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
    sweeps, steps, beta = whole("sweeps", sweeps), whole("steps", steps), _at_most_one(beta)
    moves, _ = checked(network, history, name="history")
    training = stepwise(network, _squared_miss, (moves.observation, moves.action, moves.reward), optimiser)

    def sweep(progress, _):
        y = value_target(training.network(progress), moves, beta)
        batch = moves.observation, moves.action, y
        return jax.lax.scan(lambda progress, _: training.step(progress, batch), progress, length=steps)

    progress, losses = jax.lax.scan(sweep, training.start, length=sweeps)
    return FittedValues(training.network(progress), losses)


@BatchLoss
def _squared_miss(network, batch):
    observation, action, y = batch
    return jnp.mean((chosen_values(network, observation, action) - y) ** 2)


def _at_most_one(beta):
    """The discount; a value of 1 is allowed, since a history is finite."""
    return within("beta", real("beta", beta, ""), 0.0, 1.0)


def _same_pairs(history: History) -> Bool[Array, "n n"]:
    flat = history.observation.reshape(len(history.action), -1)
    return (flat[:, None] == flat[None]).all(2) & (history.action[:, None] == history.action[None])
