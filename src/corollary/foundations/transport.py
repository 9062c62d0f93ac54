r"""Optimal transport, exactly: Wasserstein distances of samples, and Kantorovich's problem with its dual."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._validate import real
from corollary.catalog import implements
from corollary.foundations._laws import fixed_order, probabilities


@implements("M15.02")
def wasserstein(
    x: Float[ArrayLike, "n"] | Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "m"] | Float[ArrayLike, "m d"],
    *,
    order: float = 1,
) -> Float[Array, ""]:
    r"""$W_r=\inf_\gamma(\mathbb E_\gamma\|X-Y\|^r)^{1/r}$, $r\in[1,\infty]$, of the empirical laws of `x` and `y`.

    On the line by sorting, for any two numbers of samples; in more dimensions by the best assignment, of as many
    samples each. At $r=\infty$ it is the largest distance that any mass has to go. Laws with other weights are for
    `kantorovich`.

    >>> float(wasserstein([0.0, 1.0], [3.0, 2.0]))
    2.0
    """
    x, y = real("x", x), real("y", y)
    if x.ndim not in (1, 2) or x.ndim != y.ndim or x.shape[1:] != y.shape[1:]:
        raise ValueError(f"x and y must be samples of shape (n,) or (n, d) on one space, got {x.shape} and {y.shape}.")
    if not (x.size and y.size):
        raise ValueError(f"x and y must not be empty, got shapes {x.shape} and {y.shape}.")
    order = fixed_order(order, 1.0)
    if x.ndim == 1 or x.shape[1] == 1:
        return _on_the_line(x.ravel(), y.ravel(), order)
    if x.shape != y.shape:
        raise ValueError(
            f"x and y must have equally many samples in more than one dimension, got {len(x)} and {len(y)}: "
            "kantorovich takes laws with any weights."
        )
    distances = _norm(x[:, None] - y)
    fixed = lax.stop_gradient(distances)  # the best pairs stay the best ones nearby
    if order == np.inf:
        return distances[_bottleneck(fixed)].max()
    rows, columns = optax.assignment.hungarian_algorithm(fixed**order)
    return jnp.mean(distances[rows, columns] ** order) ** (1 / order)


class Transport(NamedTuple):
    r"""A plan that moves `p` to `q` at the least cost, and what shows that none is cheaper.

    `plan` (n, m) has the marginals $p$ and $q$ and costs `value`. `potentials` are $u$ (n,) and $v$ (m,) with
    $u_i+v_j\le c_{ij}$: every plan costs $u\cdot p+v\cdot q$ at least.
    """

    value: jax.Array
    plan: jax.Array
    potentials: tuple

    __repr__ = shown

    def gap(self, cost: Float[ArrayLike, "n m"]) -> Float[Array, ""]:
        r"""By how much the plan could be too dear at most, from its marginals and the potentials: 0 up to rounding.

        The value less $u\cdot p+v\cdot q$, and what $u_i+v_j$ exceeds the cost by, were it to be lowered for that.
        """
        u, v = self.potentials
        plan, dims = self.plan, dict(zip("nm", self.plan.shape, strict=True))
        cost = real("cost", cost, "n m", dims)
        dual = plan.sum(1) @ u + plan.sum(0) @ v
        return jnp.sum(plan * cost) - dual + jnp.maximum(jnp.max(u[:, None] + v - cost), 0)


@implements("M15.02")
def kantorovich(p: Float[ArrayLike, "n"], q: Float[ArrayLike, "m"], cost: Float[ArrayLike, "n m"]) -> Transport:
    r"""$\min_\gamma\sum_{ij}\gamma_{ij}c_{ij}$ over all plans $\gamma\ge0$ with the marginals $p$ and $q$.

    Exact, by shortest augmenting paths; the potentials are the solution of the dual problem
    $\max\{u\cdot p+v\cdot q:u_i+v_j\le c_{ij}\}$. The derivative of the value by the cost is the plan, those by the
    laws are the potentials (up to a constant, which moves no mass).

    >>> move = kantorovich([0.5, 0.5], [1.0], [[1.0], [3.0]])
    >>> float(move.value), float(move.gap([[1.0], [3.0]]))
    (2.0, 0.0)
    """
    dims = {}
    cost = real("cost", cost, "n m", dims)
    p, q = probabilities("p", p, "n", dims), probabilities("q", q, "m", dims)
    dtype = jnp.result_type(p, q, cost)
    p, q, cost = (a.astype(dtype) for a in (p, q, cost))
    plan, u, v = _shortest_paths(*map(lax.stop_gradient, (p, q, cost)))
    moved = u @ (p - lax.stop_gradient(p)) + v @ (q - lax.stop_gradient(q))
    return Transport(jnp.sum(plan * cost) + moved, plan, (u, v))


def _norm(a):
    """Euclidean length along the last axis, with the derivative 0 at 0."""
    square = jnp.sum(a**2, -1)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def _on_the_line(x, y, order):
    x, y = jnp.sort(x), jnp.sort(y)
    # between the levels i/n and j/m both quantile functions are constant
    n, m = x.size, y.size
    levels = np.unique(np.concatenate([np.arange(n + 1) * m, np.arange(m + 1) * n]))  # times n m, whole numbers
    apart = jnp.abs(x[levels[:-1] // m] - y[levels[:-1] // n])
    if order == np.inf:
        return apart.max()
    return jnp.sum(np.diff(levels) / (n * m) * apart**order) ** (1 / order)


def _bottleneck(distances):
    """The assignment whose largest distance is least: the shortest length of which the pairs within it suffice."""
    lengths = jnp.sort(distances.ravel())

    def pairs(length):
        rows, columns = optax.assignment.hungarian_algorithm((distances > length).astype(distances.dtype))
        return rows, columns, (distances[rows, columns] <= length).all()

    def halve(_, ends):
        low, high = ends
        middle = (low + high) // 2
        enough = pairs(lengths[middle])[2]
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    rounds = int(np.ceil(np.log2(lengths.size))) + 1
    _, last = lax.fori_loop(0, rounds, halve, (jnp.asarray(0), jnp.asarray(lengths.size - 1)))
    return pairs(lengths[last])[:2]


def _shortest_paths(p, q, cost):
    """Plan and potentials: mass goes along the cheapest path that is left, until there is none to move.

    The reduced cost c - u - v stays zero or more everywhere and zero where mass has gone, which is optimality. A path
    leads from a place with mass left to one with room left, over places that are served otherwise from then on.
    """
    n, m = cost.shape

    def reach(plan, supply, reduced):
        """Distances from the places with mass left, and the step before each place on a shortest path."""

        def relax(carry):
            # a step is noted only where it shortens the way, so that the steps of a path never go in a circle
            from_p, back, to_q, before, _ = carry
            along = from_p[:, None] + reduced
            shorter = along.min(0) < to_q
            to_q, before = jnp.where(shorter, along.min(0), to_q), jnp.where(shorter, along.argmin(0), before)
            returned = jnp.where(plan > 0, to_q, jnp.inf)
            better = returned.min(1) < from_p
            from_p, back = jnp.where(better, returned.min(1), from_p), jnp.where(better, returned.argmin(1), back)
            return from_p, back, to_q, before, better.any()

        start = jnp.where(supply > 0, 0.0, jnp.inf).astype(cost.dtype)
        begin = relax((start, jnp.full(n, -1), jnp.full(m, jnp.inf, cost.dtype), jnp.zeros(m, int), True))
        return lax.while_loop(lambda c: c[-1], relax, begin)[:-1]

    def augment(state):
        plan, supply, room, u, v = state
        reduced = jnp.where(plan > 0, 0, jnp.maximum(cost - u[:, None] - v, 0))
        from_p, back, to_q, before = reach(plan, supply, reduced)
        end = jnp.argmin(jnp.where(room > 0, to_q, jnp.inf))
        u, v = u - jnp.minimum(from_p, to_q[end]), v + jnp.minimum(to_q, to_q[end])

        def walk(carry):  # backwards from the end: over i to j, and to the j whose mass i gives up
            j, least, path = carry
            i = before[j]
            path = path.at[i, j].add(1.0)
            at = back[i]
            least = jnp.minimum(least, jnp.where(at < 0, supply[i], plan[i, at]))
            path = jnp.where(at < 0, path, path.at[i, at].add(-1.0))
            return at, least, path

        first = walk((end, room[end], jnp.zeros_like(plan)))
        _, amount, path = lax.while_loop(lambda c: c[0] >= 0, walk, first)
        # subtracting the least of all leaves an exact zero there
        return plan + amount * path, supply - amount * path.sum(1), room - amount * path.sum(0), u, v

    start = jnp.zeros_like(cost), p, q, jnp.zeros_like(p), cost.min(0)
    plan, _, _, u, v = lax.while_loop(lambda s: (s[1] > 0).any() & (s[2] > 0).any(), augment, start)
    return plan, u, v
