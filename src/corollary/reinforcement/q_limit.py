r"""What Q-learning with a network becomes as its width grows: an equation for the values of all pairs.

$$\dot h_t(\xi)=\eta\sum_{\xi'}\pi(\xi')A_{\xi,\xi'}\Big(r(\xi')+\beta\sum_zp(z|\xi')\max_{a}h_t(z,a)-h_t(\xi')\Big)$$
with the kernel $A$ of the limit on pairs $\xi=(x,a)$ and the stationary law $\pi$ of the pairs that are visited.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from corollary._engine.runge_kutta import flow
from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole, within
from corollary.catalog import implements
from corollary.reinforcement.finite import FiniteMDP
from corollary.reinforcement.q_network import problem


@implements("M21.25")
def stationary_law(
    mdp: FiniteMDP, policy: Int[ArrayLike, "x"] | Float[ArrayLike, "x a"] | None = None
) -> Float[Array, "x a"]:
    r"""How often each pair of state and action is visited in the long run: $\pi(x,a)=\pi(x)\lambda(a|x)$.

    `policy` is uniform unless given. Unique, and positive at every state, if the chain is `irreducible`; one of several
    laws otherwise.
    """
    problem(mdp)
    law = _policy(mdp, policy)
    chain = jnp.einsum("xa,xaz->xz", law, mdp.p)
    n = chain.shape[0]
    # π(I - P) = 0 and the sum is one: n + 1 equations, of which one follows from the others
    equations = jnp.concatenate([jnp.eye(n, dtype=chain.dtype) - chain.T, jnp.ones((1, n), chain.dtype)])
    right = jnp.zeros(n + 1, chain.dtype).at[-1].set(1)
    return jnp.linalg.lstsq(equations, right)[0][:, None] * law


@implements("M21.25")
def irreducible(mdp: FiniteMDP, policy: Int[ArrayLike, "x"] | Float[ArrayLike, "x a"] | None = None) -> Bool[Array, ""]:
    """Whether every state can be reached from every other one: then averages along a path are those of one law."""
    problem(mdp)
    n = mdp.r.shape[0]
    reach = jnp.eye(n) + (jnp.einsum("xa,xaz->xz", _policy(mdp, policy), mdp.p) > 0)
    # reached in at most 1, 2, 4, ... steps
    for _ in range(max(n - 1, 1).bit_length()):
        reach = (reach @ reach > 0).astype(reach.dtype)
    return jnp.all(reach > 0)


@implements("M21.26", "M21.34")
def q_limit(
    start: Float[ArrayLike, "..."],
    kernel: Float[ArrayLike, "n n"],
    mdp: FiniteMDP,
    eta: Scalar,
    times: Float[ArrayLike, "t"],
    *,
    policy: Float[ArrayLike, "x a"] | None = None,
    horizon: int | None = None,
    final: Float[ArrayLike, "x"] | None = None,
    substeps: int = 20,
) -> Float[Array, "t ..."]:
    r"""The solution of the limit equation from the values `start` (x, a), at each of the increasing `times`.

    `kernel` (n, n) is that of the n pairs, first by state, then by action; visits follow the stationary law of
    `policy`, uniform unless given. Runge and Kutta's method, `substeps` equal steps to each time from the one before.

    With a `horizon` $J$ the values are those of the times $0,\dots,J-1$, `start` (J, x, a), each with the next one's
    in its target, and `final` (zero unless given) after the last.
    """
    problem(mdp)
    states, actions = mdp.r.shape
    kernel = real("kernel", kernel, "n n", {"n": states * actions})
    shape = f"{states} {actions}" if horizon is None else f"{whole('horizon', horizon)} {states} {actions}"
    start = real("start", start, shape).astype(kernel.dtype)
    eta = positive("eta", real("eta", eta, "")).astype(kernel.dtype)
    times, substeps = within("times", real("times", times, "t"), 0.0), whole("substeps", substeps)
    if concrete(times) and (np.diff(np.asarray(times)) < 0).any():
        raise ValueError("times must increase.")
    final = jnp.zeros(states, kernel.dtype) if final is None else real("final", final, f"{states}")
    weights = stationary_law(mdp, policy)

    def velocity(h):
        best = h.max(-1) if horizon is None else jnp.concatenate([h[1:].max(-1), final[None]])
        miss = mdp.r + mdp.beta * jnp.einsum("xaz,...z->...xa", mdp.p, best) - h
        flat = (weights * miss).reshape(*h.shape[:-2], -1)
        return eta * (flat @ kernel.T).reshape(h.shape)

    return flow(velocity, start, times, substeps=substeps)[0]


def _policy(mdp, policy):
    if policy is None:
        return jnp.full(mdp.r.shape, 1 / mdp.r.shape[1], mdp.r.dtype)
    return mdp.law_of(policy)
