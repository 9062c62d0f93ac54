r"""The cheapest way to a goal on a finite set of states, with or without chance.

$V(x)=\min_\alpha\sum_\zeta\{r(x,\Phi_\alpha(x,\zeta),\alpha)+\beta V(\Phi_\alpha(x,\zeta))\}p(\zeta)$ off the goal and
0 on it; a cost of $\delta$ per step and $\beta=1$ make it the least expected time.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from corollary._types import Scalar
from corollary._validate import concrete, labels, positive, real, whole, within
from corollary.catalog import implements
from corollary.reinforcement.finite import policy_law, transition_law


class ShortestTime(eqx.Module):
    r"""A `graph` with a `goal`, which may be one state, several, or a truth value for each state.

    `graph[x, a]` is the state that the action a leads to, or `graph[x, a, z]` the law of the next state z. A step costs
    `cost`, a number ($\delta$, for times), `cost[x, a]` or `cost[x, a, z]`, and what comes later counts `beta` as much.

    >>> problem = ShortestTime([[0, 1], [0, 2], [0, 2]], goal=2)
    >>> print(problem.value_iteration(), problem.greedy(problem.value_iteration()))
    [2. 1. 0.] [1 1 1]
    """

    p: Float[Array, "x a z"]
    goal: Bool[Array, "x"]
    cost: Float[Array, "x a"]
    beta: Float[Array, ""]

    def __init__(
        self,
        graph: Int[ArrayLike, "x a"] | Float[ArrayLike, "x a x"],
        goal: Int[ArrayLike, "..."] | Bool[ArrayLike, "x"],
        *,
        cost: Float[ArrayLike, "..."] = 1.0,
        beta: Scalar = 1.0,
    ):
        if np.ndim(graph) == 2:
            successors = labels("graph", graph, len(graph), "x a")
            self.p = jax.nn.one_hot(successors, len(successors), dtype=jnp.result_type(float))
        else:
            self.p = transition_law("graph", graph, {})
        states, actions, _ = self.p.shape
        self.goal = _mask(goal, states)
        cost = positive("cost", real("cost", cost))
        if cost.shape == self.p.shape:
            cost = (self.p * cost).sum(2)
        if cost.shape not in ((), (states, actions)):
            raise ValueError(
                f"cost must be a number or have shape {(states, actions)}, or that of p, got {cost.shape}."
            )
        self.cost = jnp.broadcast_to(cost, (states, actions)).astype(self.p.dtype)
        self.beta = within("beta", real("beta", beta, ""), 0.0, 1.0).astype(self.p.dtype)

    @implements("M21.07")
    def q_from_v(self, v: Float[ArrayLike, "x"]) -> Float[Array, "x a"]:
        r"""$Q(x,\alpha)=\sum_\zeta\{r+\beta V(\Phi_\alpha(x,\zeta))\}p(\zeta)$."""
        v = jnp.where(self.goal, 0.0, real("v", v, f"{len(self.p)}", finite=False))
        # where nothing leads to it an infinite value does not count
        return self.cost + self.beta * jnp.where(self.p > 0, self.p * v, 0.0).sum(2)

    def v_from_q(self, q: Float[ArrayLike, "x a"]) -> Float[Array, "x"]:
        r"""$V=\min_\alpha Q$ off the goal, 0 on it."""
        q = real("q", q, f"{self.cost.shape[0]} {self.cost.shape[1]}", finite=False)
        return jnp.where(self.goal, 0.0, q.min(1))

    def bellman(self, v: Float[ArrayLike, "x"]) -> Float[Array, "x"]:
        """One sweep: the right-hand side of Bellman's equation."""
        return self.v_from_q(self.q_from_v(v))

    def residual(self, q: Float[ArrayLike, "x a"]) -> Float[Array, "x a"]:
        r"""What is between $Q$ and the right-hand side of its own equation; 0 at states of the goal."""
        return jnp.where(self.goal[:, None], 0.0, q - self.q_from_v(self.v_from_q(q)))

    def greedy(self, v: Float[ArrayLike, "x"]) -> Int[Array, "x"]:
        """The action that is best if `v` is what comes after it."""
        return self.q_from_v(v).argmin(1)

    @implements("M21.06")
    def value_iteration(self) -> Float[Array, "x"]:
        """The solution of Bellman's equation, by repetition from zero until a sweep changes nothing but rounding.

        Where a policy that reaches the goal with certainty does not exist and nothing is discounted, there is no value:
        that is refused, with the states from which it is so.
        """
        lost = self.lost()
        if concrete(lost) and np.asarray(lost).any():
            raise ValueError(
                f"No policy reaches the goal with certainty from {_listed(lost)}: leave these states out, or discount."
            )
        rounding = 4 * jnp.finfo(self.p.dtype).eps

        def onward(carry):
            v, _ = carry
            return jnp.where(lost, jnp.inf, self.bellman(v)), v

        def moving(carry):
            v, before = carry
            return (jnp.where(lost, 0.0, jnp.abs(v - before)) > rounding * jnp.abs(v)).any()

        start = jnp.where(lost, jnp.inf, 0.0).astype(self.p.dtype)
        return jax.lax.while_loop(moving, onward, onward((start, start)))[0]

    def evaluate(self, policy: Int[ArrayLike, "x"] | Float[ArrayLike, "x a"]) -> Float[Array, "x"]:
        """The expected cost of a policy from every state, by a linear solve; infinite where it may never arrive."""
        law = policy_law(policy, *self.cost.shape).astype(self.p.dtype)
        chain = self.chain(policy)
        never = ~_reaches(chain > 0, self.goal)
        lost = _reaches(chain > 0, never) & (self.beta == 1)
        off = ~(self.goal | lost)
        inside = jnp.where(off[:, None] & off[None], chain, 0.0)
        costs = jnp.where(off, (law * self.cost).sum(1), 0.0)
        found = jnp.linalg.solve(jnp.eye(len(inside), dtype=inside.dtype) - self.beta * inside, costs)
        return jnp.where(lost, jnp.inf, jnp.where(self.goal, 0.0, found))

    def chain(self, policy: Int[ArrayLike, "x"] | Float[ArrayLike, "x a"]) -> Float[Array, "x x"]:
        """The transition matrix under a policy; the goal is not left."""
        law = policy_law(policy, *self.cost.shape).astype(self.p.dtype)
        moves = jnp.einsum("xa,xaz->xz", law, self.p)
        return jnp.where(self.goal[:, None], jnp.eye(len(moves), dtype=moves.dtype), moves)

    def distances(self) -> Float[Array, "x"]:
        """The number of steps in which the goal can be reached with luck, by breadth-first search from it backwards.

        Infinite where it cannot. Without chance these are the least times.
        """
        edges = (self.p > 0).any(1)

        def onward(n, carry):
            found, reached = carry
            reached = reached | (edges & reached).any(1)
            return jnp.where(reached & jnp.isinf(found), n, found), reached

        start = jnp.where(self.goal, 0.0, jnp.inf).astype(self.p.dtype), self.goal
        return jax.lax.fori_loop(1, len(self.p), onward, start)[0]

    def lost(self) -> Bool[Array, "x"]:
        """The states from which no policy reaches the goal with certainty; none where costs are discounted."""
        moves = self.p > 0

        def onward(carry):
            kept, _ = carry
            safe = ~(moves & ~kept).any(2)  # actions that never leave what is kept
            edges = (moves & safe[..., None]).any(1)
            return kept & _reaches(edges, self.goal), kept

        everything = jnp.ones(len(self.p), bool)
        kept, _ = jax.lax.while_loop(lambda c: (c[0] != c[1]).any(), onward, onward((everything, everything)))
        return ~kept & (self.beta == 1)


@implements("M21.11")
def hitting_time_law(
    p: Float[ArrayLike, "x z"], goal: Int[ArrayLike, "..."] | Bool[ArrayLike, "x"], steps: int
) -> Float[Array, "x t"]:
    r"""$P(T=n)$, $n=0,\dots,$ `steps`, from every state, of the time at which a chain with the matrix `p` first hits
    the goal.

    From powers of the matrix in which the goal is not left: $P(T\le n)$ is what has arrived by then.
    """
    p = transition_law("p", real("p", p, "x z")[:, None], {})[:, 0]
    goal, steps = _mask(goal, len(p)), whole("steps", steps)
    held = jnp.where(goal[:, None], jnp.eye(len(p), dtype=p.dtype), p)

    def onward(power, _):
        power = power @ held
        return power, power @ goal.astype(p.dtype)

    _, arrived = jax.lax.scan(onward, jnp.eye(len(p), dtype=p.dtype), length=steps)
    arrived = jnp.concatenate([goal[None].astype(p.dtype), arrived])
    return jnp.diff(arrived, axis=0, prepend=0.0).T


def _mask(goal, states):
    if jnp.asarray(goal).dtype == bool:
        if np.shape(goal) != (states,):
            raise ValueError(f"goal must have one truth value for each of {states} states, got shape {np.shape(goal)}.")
        mask = jnp.asarray(goal)
    else:
        mask = jnp.zeros(states, bool).at[labels("goal", jnp.ravel(jnp.asarray(goal)), states, "n")].set(True)
    if concrete(mask) and not np.asarray(mask).any():
        raise ValueError("goal must hold at least one state.")
    return mask


def _reaches(edges, target):
    """The states from which the target can be reached along edges."""

    def onward(carry):
        reached, _ = carry
        return reached | (edges & reached).any(1), reached

    return jax.lax.while_loop(lambda c: (c[0] != c[1]).any(), onward, onward((target, target)))[0]


def _listed(mask, most=8):
    found = np.flatnonzero(np.asarray(mask))
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"state{'s' * (len(found) > 1)} {', '.join(map(str, found[:most]))}{more}"
