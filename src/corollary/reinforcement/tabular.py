r"""Values learned from transitions of a finite problem: one number per state and action, or linear in features."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, labels, positive, real, whole, within
from corollary.catalog import implements
from corollary.reinforcement.finite import FiniteMDP


class LearnedValues(NamedTuple):
    """`q` at the end, `path` at equally spaced times up to it, the parameters `theta`, and visits of each pair."""

    q: Float[Array, "x a"]
    path: Float[Array, "t x a"]
    theta: Float[Array, "d"]
    visits: Int[Array, "x a"]
    __repr__ = shown


class EmpiricalLaw(NamedTuple):
    """The frequencies `p[x, a, z]` of next states, and how often each pair was visited; 0 for pairs never visited."""

    p: Float[Array, "x a z"]
    visits: Int[Array, "x a"]
    __repr__ = shown


@implements("M21.22")
def explore(values: Float[ArrayLike, "... a"], epsilon: Scalar, *, key: PRNGKeyArray) -> Int[Array, "..."]:
    r"""An action for the values of all actions: any of them with probability $\epsilon$, else the best.

    $\epsilon=1$ is pure exploration, $\epsilon=0$ greed; between equals the first is the best.
    """
    values = real("values", values, "... a")
    epsilon = within("epsilon", real("epsilon", epsilon, ""), 0.0, 1.0)
    trying, choosing = jax.random.uniform(key, (2, *values.shape[:-1]))
    return _chosen(values, epsilon, trying, choosing)


@implements("M21.13")
def empirical_law(
    x: Int[ArrayLike, "n"], action: Int[ArrayLike, "n"], z: Int[ArrayLike, "n"], *, states: int, actions: int
) -> EmpiricalLaw:
    r"""$\mu_{(x,\alpha)}(S)$: of the transitions from x by $\alpha$, the part that led into $S$.

    It is divided by the number of visits of the pair, where the text has that of the whole history.
    """
    states, actions, dims = whole("states", states), whole("actions", actions), {}
    x, z = labels("x", x, states, "n", dims), labels("z", z, states, "n", dims)
    counts = jnp.zeros((states, actions, states), int).at[x, labels("action", action, actions, "n", dims), z].add(1)
    visits = counts.sum(2)
    return EmpiricalLaw(counts / jnp.maximum(visits, 1)[..., None], visits)


@implements("M21.19")
def td_direction(
    theta: Float[ArrayLike, "d"],
    features: Float[ArrayLike, "x a d"],
    x: Int[ArrayLike, ""],
    action: Int[ArrayLike, ""],
    r: Scalar,
    z: Int[ArrayLike, ""],
    beta: Scalar,
) -> Float[Array, "d"]:
    r"""$\bigl(r+\beta\max_{a'}Q(z,a')-Q(x,a)\bigr)\nabla_\theta Q(x,a)$ for $Q=\phi\cdot\theta$ with `features` $\phi$.

    One transition's part in the update; with one feature per state and action it is that of a table.
    """
    features = real("features", features, "x a d")
    theta = real("theta", theta, f"{features.shape[2]}")
    x, z = labels("x", x, len(features), ""), labels("z", z, len(features), "")
    here = features[x, labels("action", action, features.shape[1], "")]
    miss = real("r", r, "") + real("beta", beta, "") * (features[z] @ theta).max() - here @ theta
    return miss * here


@implements("M21.36", "M21.38")
def q_learning(
    mdp: FiniteMDP,
    steps: int,
    *,
    features: Float[ArrayLike, "x a d"] | None = None,
    step: Scalar | Callable = lambda n: n**-0.8,
    epsilon: Scalar = 1.0,
    start: Float[ArrayLike, "x a"] | Float[ArrayLike, "d"] | None = None,
    records: int = 1,
    key: PRNGKeyArray,
) -> LearnedValues:
    r"""Q-learning along one run of a finite problem that begins at state 0, with actions from `explore`.

    A table, $Q(x,a)\mathrel{+}=\eta(r+\beta\max_{a'}Q(z,a')-Q(x,a))$, or $Q=\phi\cdot\theta$ with `features`, and then
    $\theta\mathrel{+}=\eta(\dots)\phi(x,a)$. The step $\eta$ is a number or a function of how often the pair was
    visited, this time included (with features: of the number of the step). `start` holds the first values, or the first
    $\theta$; zero unless given. `records` divides `steps`: so often $Q$ is kept on the way.
    """
    if not isinstance(mdp, FiniteMDP):
        raise TypeError(f"mdp must be a FiniteMDP, got {type(mdp).__name__}.")
    steps, records, (states, actions) = whole("steps", steps), whole("records", records), mdp.r.shape
    if steps % records:
        raise ValueError(f"records must divide steps, got {records} and {steps}.")
    epsilon = within("epsilon", real("epsilon", epsilon, ""), 0.0, 1.0)
    if features is not None:
        features = real("features", features, f"{states} {actions} d").astype(mdp.r.dtype)
    size = (states, actions) if features is None else (features.shape[2],)
    theta = jnp.zeros(size) if start is None else real("start", start, " ".join(map(str, size)))
    theta = theta.astype(mdp.r.dtype)
    if not callable(step):
        positive("step", real("step", step, ""))
    rate = step if callable(step) else (lambda n: step)
    reach = jnp.cumsum(mdp.p, 2)

    def onward(carry, drawn):
        theta, visits, x, count = carry
        q = theta if features is None else features @ theta
        a = _chosen(q[x], epsilon, drawn[0], drawn[1])
        z = jnp.minimum((drawn[2] >= reach[x, a]).sum(), states - 1)  # rounding may leave the last sum below 1
        visits, count = visits.at[x, a].add(1), count + 1
        miss = mdp.r[x, a] + mdp.beta * q[z].max() - q[x, a]
        n = (visits[x, a] if features is None else count).astype(theta.dtype)
        move = (rate(n) * miss).astype(theta.dtype)
        theta = theta.at[x, a].add(move) if features is None else theta + move * features[x, a]
        return (theta, visits, z, count), None

    def recorded(carry, drawn):
        carry, _ = jax.lax.scan(onward, carry, drawn)
        return carry, carry[0] if features is None else features @ carry[0]

    drawn = jax.random.uniform(key, (records, steps // records, 3))
    first = theta, jnp.zeros((states, actions), int), jnp.asarray(0), jnp.asarray(0)
    (theta, visits, _, _), path = jax.lax.scan(recorded, first, drawn)
    if concrete(path) and not np.isfinite(np.asarray(path[-1])).all():
        raise ValueError("The values explode: take smaller steps, a smaller beta, or features that are less alike.")
    return LearnedValues(path[-1], path, theta.ravel(), visits)


def _chosen(values, epsilon, trying, choosing):
    """The action for two uniform numbers: whether to try out, and which."""
    actions = values.shape[-1]
    any_one = jnp.minimum((choosing * actions).astype(int), actions - 1)
    return jnp.where(trying < epsilon, any_one, values.argmax(-1))
