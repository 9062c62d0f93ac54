r"""Markov decision problems with finitely many states and actions, solved exactly.

A state $x$, an action $a$, the reward $r(x,a)$, and the law $p(z|x,a)$ of the next state; the value of a policy
$\lambda$ is $W_\lambda(x)=E_\lambda[\sum_j\beta^jr(x_j,a_j)|x_0=x]$.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, labels, real, whole, within
from corollary.catalog import implements

MOST_POLICIES = 1 << 20  # that are listed one by one


class Solution(NamedTuple):
    """The values `q` of all states and actions, a `policy` that is greedy for them, and how many sweeps it took."""

    q: Float[Array, "x a"]
    policy: Int[Array, "x"]
    sweeps: Int[Array, ""]
    __repr__ = shown


@implements("M21.17")
class FiniteMDP(eqx.Module):
    r"""The law `p[x, a, z]` of the next state z, the rewards `r[x, a]`, and the discount $0\le\beta<1$.

    A policy is an array of actions, one per state, or a law: `policy[x, a]` is the probability of a at x.

    >>> mdp = FiniteMDP([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]], [[0.0, 0.0], [0.0, 1.0]], 0.5)
    >>> mdp.policy_iteration()
    Solution(q=float32[2, 2] from 0.5 to 2, policy=[1, 1], sweeps=3)
    """

    p: Float[Array, "x a z"]
    r: Float[Array, "x a"]
    beta: Float[Array, ""]

    def __init__(self, p: Float[ArrayLike, "x a x"], r: Float[ArrayLike, "x a"], beta: Scalar):
        dims: dict = {}
        p, r, beta = transition_law("p", p, dims), real("r", r, "x a", dims), real("beta", beta, "")
        within("beta", beta, 0.0, 1.0, open="high")
        dtype = jnp.result_type(p, r)
        self.p, self.r, self.beta = p.astype(dtype), r.astype(dtype), beta.astype(dtype)

    def bellman(self, q: Float[ArrayLike, "x a"]) -> Float[Array, "x a"]:
        r"""$(Tq)(x,a)=r(x,a)+\beta\sum_z\max_{a'}q(z,a')p(z|x,a)$, a contraction by $\beta$ in the largest entry."""
        q = real("q", q, f"{self.r.shape[0]} {self.r.shape[1]}", finite=False)
        return self.r + self.beta * self.p @ q.max(1)

    def q_iteration(self) -> Solution:
        r"""The solution of $q=Tq$ by repetition: no sweep changes q any more, or all that are needed are done.

        After $\log\epsilon/\log\beta$ sweeps from zero the contraction leaves the error $\epsilon\|q\|$.
        """
        enough = jnp.ceil(jnp.log(jnp.finfo(self.r.dtype).eps) / jnp.log(self.beta)) + 1

        def onward(carry):
            q, _, sweeps = carry
            return self.bellman(q), q, sweeps + 1

        start = self.r, jnp.zeros_like(self.r), jnp.asarray(1)
        q, _, sweeps = jax.lax.while_loop(lambda c: (c[0] != c[1]).any() & (c[2] < enough), onward, start)
        return Solution(q, q.argmax(1), sweeps)

    def policy_iteration(self) -> Solution:
        """The values of a policy, then the policy that is greedy for them, until it stays the same.

        An action is left only for one that is better by more than rounding: between equals nothing goes back and
        forth.
        """
        states, actions = self.r.shape
        rounding = 64 * jnp.finfo(self.r.dtype).eps

        def improved(carry):
            policy, _, sweeps = carry
            q = self.action_values(policy)
            kept = jnp.take_along_axis(q, policy[:, None], 1)[:, 0]
            better = q.max(1) > kept + rounding * jnp.abs(q).max()
            return jnp.where(better, q.argmax(1), policy), policy, sweeps + 1

        start = jnp.zeros(states, int), jnp.full(states, actions), jnp.asarray(0)
        policy, _, sweeps = jax.lax.while_loop(lambda c: (c[0] != c[1]).any(), improved, start)
        return Solution(self.action_values(policy), policy, sweeps)

    def evaluate(self, policy: Int[ArrayLike, "x"] | Float[ArrayLike, "x a"]) -> Float[Array, "x"]:
        r"""$W_\lambda=(I-\beta P_\lambda)^{-1}r_\lambda$, the value of a policy at every state."""
        law = self.law_of(policy)
        return jnp.linalg.solve(self._resolvent(law), (law * self.r).sum(1))

    def action_values(self, policy: Int[ArrayLike, "x"] | Float[ArrayLike, "x a"]) -> Float[Array, "x a"]:
        r"""$r(x,a)+\beta\sum_zW_\lambda(z)p(z|x,a)$: a first, then the policy."""
        return self.r + self.beta * self.p @ self.evaluate(policy)

    def occupancy(
        self, policy: Int[ArrayLike, "x"] | Float[ArrayLike, "x a"], start: Float[ArrayLike, "x"] | None = None
    ) -> Float[Array, "x a"]:
        r"""$(1-\beta)\sum_j\beta^jP_\lambda(x_j=x,a_j=a)$, a law; `start` is that of $x_0$ (uniform unless given).

        The mean of $W_\lambda(x_0)$ is the sum of occupancy times reward over $1-\beta$.
        """
        law, states = self.law_of(policy), len(self.r)
        start = jnp.full(states, 1 / states) if start is None else _law("start", start, f"{states}", {})
        first = jnp.linalg.solve(self._resolvent(law).T, start.astype(self.r.dtype))
        return (1 - self.beta) * first[:, None] * law

    @implements("M21.18")
    def backward_induction(
        self,
        horizon: int,
        *,
        r: Float[ArrayLike, "j x a"] | None = None,
        final: Float[ArrayLike, "x"] | None = None,
        beta: Scalar | None = None,
    ) -> Float[Array, "j+1 x a"]:
        r"""The values $V(j,x,a)$ of a game of `horizon` $J$ steps, $j=0,\dots,J$, by going backwards from the end.

        $V(J,x,a)=r(J,x)$, which is `final`, nothing unless given, and
        $V(j,x,a)=r(j,x,a)+\beta\sum_z\max_{a'}V(j+1,z,a')p(z|x,a)$, with rewards `r` that may depend on the time.
        Here $\beta=1$ is allowed.
        """
        horizon, (states, actions) = whole("horizon", horizon), self.r.shape
        r = (
            jnp.broadcast_to(self.r, (horizon, *self.r.shape))
            if r is None
            else real("r", r, f"{horizon} {states} {actions}")
        )
        final = jnp.zeros(states) if final is None else real("final", final, f"{states}")
        beta = self.beta if beta is None else within("beta", real("beta", beta, ""), 0.0, 1.0)
        last = jnp.broadcast_to(final[:, None], self.r.shape).astype(self.r.dtype)

        def back(later, r):
            now = (r + beta * self.p @ later.max(1)).astype(later.dtype)
            return now, now

        _, values = jax.lax.scan(back, last, r, reverse=True)
        return jnp.concatenate([values, last[None]])

    def enumerate_policies(self) -> Int[Array, "n x"]:
        r"""All $|A|^{|X|}$ policies that choose one action per state."""
        return all_policies(*self.r.shape)

    def simulate(
        self,
        policy: Int[ArrayLike, "x"] | Float[ArrayLike, "x a"],
        steps: int,
        *,
        start: Int[ArrayLike, ""] = 0,
        key: PRNGKeyArray,
    ) -> tuple[Int[Array, "t+1"], Int[Array, "t"]]:
        """The states and the actions of one run of `steps` steps that begins at the state `start`."""
        law, steps = self.law_of(policy), whole("steps", steps)
        start = labels("start", start, len(self.r), "")
        log_law, log_p = jnp.log(law), jnp.log(self.p)

        def onward(x, key):
            first, second = jax.random.split(key)
            a = jax.random.categorical(first, log_law[x])
            z = jax.random.categorical(second, log_p[x, a])
            return z, (z, a)

        _, (later, actions) = jax.lax.scan(onward, start, jax.random.split(key, steps))
        return jnp.concatenate([start[None], later]), actions

    def law_of(self, policy: Int[ArrayLike, "x"] | Float[ArrayLike, "x a"]) -> Float[Array, "x a"]:
        """A policy as probabilities of the actions."""
        return policy_law(policy, *self.r.shape).astype(self.r.dtype)

    def _resolvent(self, law):
        return jnp.eye(len(self.r), dtype=self.r.dtype) - self.beta * jnp.einsum("xa,xaz->xz", law, self.p)


def all_policies(states: int, actions: int) -> Int[Array, "n x"]:
    """All choices of one action per state, as many as there are."""
    states, actions = whole("states", states), whole("actions", actions)
    if actions**states > MOST_POLICIES:
        raise ValueError(
            f"There are {actions}^{states} policies, more than {MOST_POLICIES:,}: use policy_iteration, which finds "
            "the best one without listing them."
        )
    return jnp.asarray(np.indices((actions,) * states).reshape(states, -1).T)


def policy_law(policy, states, actions):
    """A policy, checked, as probabilities of actions."""
    if np.ndim(policy) == 1:
        chosen = labels("policy", policy, actions, f"{states}")
        return jax.nn.one_hot(chosen, actions, dtype=jnp.result_type(float))
    return _law("policy", policy, f"{states} {actions}", {})


def transition_law(name, p, dims):
    """The array p[x, a, z], checked: its rows are laws of the next state."""
    p = _law(name, p, "x a z", dims)
    if p.shape[0] != p.shape[2]:
        raise ValueError(f"{name} must have as many next states as states, got shape {p.shape}.")
    return p


def _law(name, value, shape, dims):
    law = within(name, real(name, value, shape, dims), 0.0)
    if concrete(law):
        sums = np.asarray(law, float).sum(-1)
        # numbers that were rounded to the precision of the law, added up
        wrong = np.abs(sums - 1) > law.shape[-1] * float(jnp.finfo(law.dtype).eps) + 1e-6
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            where = f"{name}[{', '.join(map(str, at))}]" if at else name
            raise ValueError(f"The rows of {name} must be laws and sum to one, but {where} sums to {sums[at]:.6g}.")
    return law
