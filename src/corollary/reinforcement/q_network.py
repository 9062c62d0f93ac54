r"""Values from a wide network of one hidden layer on pairs $\xi=(x,a)$ of state and action, learned along a path.

$Q(\xi)=N^{-\gamma}\sum_nC^n\sigma(W^n\cdot\xi)$ is the network of `corollary.dynamics`; a step of Q-learning is its
step of SGD with the target $r(\xi_k)+\beta\max_{a'}Q(x_{k+1},a')$ in the place of a label.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._types import Scalar
from corollary._validate import concrete, labels, positive, real, whole
from corollary.catalog import implements
from corollary.dynamics import ScaledNetwork, shallow_step
from corollary.network import Network
from corollary.reinforcement.finite import FiniteMDP


@implements("M21.20")
def q_network(network: ScaledNetwork, actions: Float[ArrayLike, "a e"]) -> Network:
    r"""The network of pairs as one of states, $x\mapsto(Q(x,a))_a$: `actions` has a vector for each action.

    Its parameters are the weights of the units; the number of units and the exponent $\gamma$ are none.
    """
    _shallow(network)
    actions = real("actions", actions, "a e").astype(network.inner.dtype)
    options = {"activation": network.activation, "bias": network.bias}

    def apply(params, buffers, x):
        units = ScaledNetwork(*params, gamma=buffers["gamma"], width=buffers["width"], **options)
        x = jnp.broadcast_to(x, (buffers["actions"].shape[0], *x.shape))
        return units(jnp.concatenate([x, buffers["actions"]], 1))

    buffers = {"gamma": network.gamma, "width": network.width, "actions": actions}
    return Network(apply, (network.outer, network.inner), buffers)


def state_action_pairs(states: Float[ArrayLike, "x d"], actions: Float[ArrayLike, "a e"]) -> Float[Array, "x a _"]:
    r"""All $\xi=(x,a)$: the vector of each state followed by that of each action."""
    states, actions = real("states", states, "x d"), real("actions", actions, "a e")
    shape = (states.shape[0], actions.shape[0])
    parts = (states[:, None], actions[None].astype(states.dtype))
    return jnp.concatenate([jnp.broadcast_to(p, (*shape, p.shape[-1])) for p in parts], 2)


@implements("M21.21", "M21.34")
def q_network_sgd(
    network: ScaledNetwork,
    pairs: Float[ArrayLike, "x a d"],
    mdp: FiniteMDP,
    path: tuple[Int[ArrayLike, "t+1"], Int[ArrayLike, "t"]],
    eta: Scalar,
    checkpoints: Int[ArrayLike, "c"] | None = None,
    *,
    horizon: int | None = None,
    final: Float[ArrayLike, "x"] | None = None,
    observe: Callable | None = None,
) -> tuple[Float[Array, "..."], Any]:
    r"""Q-learning along a `path` of states and actions: what `observe(network)` gives after each of `checkpoints`.

    Step $k$ moves $C^n$ and $W^n$ by $\eta^NN^{-\gamma}\Delta_k$ times $\sigma(W^n\cdot\xi_k)$ and
    $C^n\sigma'(W^n\cdot\xi_k)\xi_k$, with $\Delta_k=r(\xi_k)+\beta\max_{a'}Q(x_{k+1},a')-Q(\xi_k)$ and
    $\eta^N=\eta N^{-2(1-\gamma)}$, which is $\eta/N$ for $\gamma=\frac12$. `pairs` holds the vectors $\xi$; `path` is
    what `FiniteMDP.simulate` returns. `checkpoints` are increasing numbers of steps, all unless given; `observe` is the
    values of all pairs unless given.

    With a `horizon` $J$ there is a network for each of the times $0,\dots,J-1$, along a leading axis of all arrays of
    `network`; each step moves them all, with the values of the network after it in the target, and `final` (zero unless
    given) after the last.
    """
    _shallow(network)
    pairs, states, actions, eta, points = _checked(pairs, mdp, path, eta, checkpoints)
    if observe is not None and not callable(observe):
        raise TypeError(f"observe must be a function of the network, got {type(observe).__name__}.")
    if horizon is None:
        see = observe or (lambda network: network(pairs))
        one = _step(pairs, mdp, states, actions, eta)
    else:
        horizon = whole("horizon", horizon)
        if network.outer.ndim != 2 or network.outer.shape[0] != horizon:
            raise ValueError(
                f"network must have a leading axis of {horizon} networks, one per time, got outer weights of shape "
                f"{network.outer.shape}: draw them with vmap."
            )
        final = jnp.zeros(len(mdp.r)) if final is None else real("final", final, f"{len(mdp.r)}")
        see = observe or jax.vmap(lambda network: network(pairs))
        one = _steps(pairs, mdp, states, actions, eta, final.astype(pairs.dtype))

    def onward(state, end):
        begin, network = state
        network = jax.lax.fori_loop(begin, end, one, network)
        return (end, network), see(network)

    (_, network), observed = jax.lax.scan(onward, (jnp.zeros((), points.dtype), network), points)
    return observed, network


def _step(pairs, mdp, states, actions, eta):
    def one(k, network):
        x, a, after = states[k], actions[k], states[k + 1]
        target = mdp.r[x, a] + mdp.beta * jnp.max(network(pairs[after]))
        # computed by itself: for β = 0 the rest is the program of SGD, and rounds alike
        return shallow_step(network, pairs[x, a], jax.lax.optimization_barrier(target), eta)

    return one


def _steps(pairs, mdp, states, actions, eta, final):
    def one(k, networks):
        x, a, after = states[k], actions[k], states[k + 1]
        best = jax.vmap(lambda network: jnp.max(network(pairs[after])))(networks)
        targets = mdp.r[x, a] + mdp.beta * jnp.append(best[1:], final[after])
        return jax.vmap(lambda network, y: shallow_step(network, pairs[x, a], y, eta))(networks, targets)

    return one


def _checked(pairs, mdp, path, eta, checkpoints):
    problem(mdp)
    size, moves = mdp.r.shape
    pairs = real("pairs", pairs, f"{size} {moves} d")
    if not isinstance(path, tuple | list) or len(path) != 2:
        raise TypeError("path must be the pair of states and actions that FiniteMDP.simulate returns.")
    actions = labels("actions", path[1], moves, "t")
    states = labels("states", path[0], size, "t", {"t": actions.shape[0] + 1})
    if checkpoints is None:
        checkpoints = np.arange(actions.shape[0] + 1)
    points = labels("checkpoints", checkpoints, actions.shape[0] + 1, "c")
    if concrete(checkpoints) and (np.diff(np.asarray(checkpoints)) < 0).any():
        raise ValueError("checkpoints must increase.")
    return pairs, states, actions, positive("eta", real("eta", eta, "")).astype(pairs.dtype), points


def problem(mdp):
    """Refuse what is no finite problem."""
    if not isinstance(mdp, FiniteMDP):
        raise TypeError(f"mdp must be a FiniteMDP, got {type(mdp).__name__}.")


def _shallow(network):
    if not isinstance(network, ScaledNetwork):
        raise TypeError(f"network must be a ScaledNetwork, as draw_shallow makes it, got {type(network).__name__}.")
