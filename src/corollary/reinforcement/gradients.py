r"""The two gradients of learning values from transitions.

With $\delta=r+\beta\max_{a'}Q(x',a')-Q(x,a)$ the semi-gradient $\delta\nabla Q(x,a)$ takes the target for a constant;
the residual gradient $\delta(\nabla Q(x,a)-\beta\nabla\max_{a'}Q(x',a'))$ is the slope of $-\frac12\delta^2$.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float, PyTree

from corollary._types import NetworkLike, Scalar
from corollary._validate import real
from corollary.catalog import implements
from corollary.network.batches import examples
from corollary.network.parts import split
from corollary.reinforcement.environment import History
from corollary.reinforcement.values import checked, chosen_values, discount, later_values


@implements("M21.24")
def semi_gradient(
    network: NetworkLike, transitions: History, beta: Scalar, *, weights: Float[ArrayLike, "n"] | None = None
) -> PyTree:
    r"""The mean of $\delta\nabla_\theta Q(x,a)$ over the transitions: the direction in which Q-learning moves.

    A tree like the network, None where it has no parameter. `weights` are their probabilities, equal unless given.
    """
    return _ascent(network, transitions, beta, weights, None, semi=True)


@implements("M21.24")
def residual_gradient(
    network: NetworkLike,
    transitions: History,
    beta: Scalar,
    *,
    second: PyTree | None = None,
    weights: Float[ArrayLike, "n"] | None = None,
) -> PyTree:
    r"""The mean of $\delta\,(\nabla_\theta Q(x,a)-\beta\nabla_\theta\max_{a'}Q(x',a'))$: down the squared error.

    Where moves are random, this is the slope of $-\frac12\mathbb E\delta^2$, which charges the network for the chance
    of the moves. With a `second` next observation, drawn independently of the first, in the second factor, it is that
    of $-\frac12(\mathbb E[\delta|x,a])^2$, the error of the Bellman equation.
    """
    return _ascent(network, transitions, beta, weights, second, semi=False)


def _ascent(network, transitions, beta, weights, second, *, semi):
    beta = discount(beta)
    moves, _ = checked(network, transitions)
    n = moves.action.shape[0]
    weights = jnp.full(n, 1 / n) if weights is None else real("weights", weights, "n", {"n": n})
    if second is not None:
        second = examples("second", second)
        if jax.tree.map(jnp.shape, second) != jax.tree.map(jnp.shape, moves.next_observation):
            raise ValueError("second must have the shapes of next_observation: another one per transition.")
    return _slopes(split(network), moves, beta, weights, second, semi)


@eqx.filter_jit
def _slopes(parts, moves, beta, weights, second, semi):
    def values(params, moves):
        network = parts.join(params)
        return chosen_values(network, moves.observation, moves.action), later_values(network, moves)

    other = moves if second is None else moves._replace(next_observation=second)

    def pull(params, deltas):
        """Of which the gradient is asked, with what it is weighted by held fixed."""
        now, later = values(params, other)
        return deltas @ (now if semi else now - beta * later)

    now, later = values(parts.params, moves)
    return jax.grad(pull)(parts.params, weights * (moves.reward + beta * later - now))
