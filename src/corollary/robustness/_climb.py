"""Projected ascent from many inputs at once, as one program: examples that are done cost no more steps.

Examples go through in batches. After every stretch of steps those that still move are brought together, so that batches
in which nothing moves any more end at once: shapes stay fixed, and the work shrinks with the number of examples left.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary._engine.cpu_ready import cpu_ready
from corollary.robustness._victim import hits
from corollary.robustness.ball import Ball

#: How often in one ascent examples that have stopped are set aside.
STRETCHES = 8
#: The longest step of an ascent from a random point, in radii.
RESTARTED = 0.25


class Gradient(NamedTuple):
    """The slope by differentiation; one look at the network."""

    def __call__(self, objective, x):
        return jax.value_and_grad(objective, has_aux=True)(x)

    def queries(self, size: int) -> int:
        return 1


class Plan(NamedTuple):
    """What is the same for all examples; `stop` ends the ascent of an example whose class has changed."""

    steps: int
    restarts: int = 1
    direction: str = "steepest"
    stop: bool = True
    targeted: bool = False
    classes: bool = True


class Search(NamedTuple):
    """Where the ascent of every example is, the best that it has seen, and what its slopes were like."""

    x: Any
    live: Any
    best: Any
    value: Any
    flipped: Any
    last: Any
    moved: Any
    zero: Any
    constant: Any
    nonfinite: Any
    queries: Any


class _Rows(NamedTuple):
    """What belongs to an example and does not change."""

    start: Any
    y: Any
    target: Any
    radius: Any


@eqx.filter_jit
def climb(
    network, loss, slope, plan: Plan, ball: Ball, radius, step, x, y, target, key, batch_size: int, number=0
) -> Search:
    """`plan.restarts` ascents from every input `x`, the first from the input itself; all within `radius`, one for each.

    Random points are those of examples number `number` and on.

    The length of a step is `step`; if that is None it falls in equal parts, in the first ascent from the radius, so
    that the first step is the longest that there is, in the others from a quarter of it, so that they stay where they
    began.
    """
    n = x.shape[0]
    size = min(batch_size, n)
    padding = -n % size
    target = y if target is None else target
    rows = _Rows(x, y, target, jnp.broadcast_to(radius, (n,)).astype(x.dtype))
    rows = jax.tree.map(lambda a: jnp.concatenate([a, jnp.repeat(a[:1], padding, 0)]) if padding else a, rows)
    true = jnp.arange(n + padding) < n
    search = _begin(rows, true)

    def objective(x, y, target):
        output = network(x)
        value = loss(output, y) - loss(output, target) if plan.targeted else loss(output, y)
        if not plan.classes:
            return value, jnp.array(False)
        return value, hits(output, target) if plan.targeted else ~hits(output, y)

    queries = slope.queries(x[0].size)
    look = cpu_ready(jax.vmap(lambda x, y, target: slope(lambda x: objective(x, y, target), x)))
    glance = cpu_ready(jax.vmap(objective))

    def onward(first, share, x, g, start, radius):
        length = radius * share if step is None else step
        if plan.direction == "steepest":
            further = Ball(ball.p, length, ball.low, ball.high).steepest(g, x)
            if ball.p == 1 and plan.restarts > 1:  # along one axis at a time an ascent ends at a kink
                further = jnp.where(first, further, Ball(2, length, ball.low, ball.high).steepest(g, x))
        else:
            further = x + length * g
        return Ball(ball.p, radius, ball.low, ball.high).project(further, start).astype(x.dtype)

    def advance(bounds, first, search: Search, rows: _Rows) -> Search:
        def go(carry):
            number, search = carry
            (value, flipped), g = look(search.x, rows.y, rows.target)
            search = _noted(search, value, flipped, plan.stop, queries)
            search, g = _judged(search, value, g)
            share = jnp.where(first, 1, RESTARTED) * (1 - number / plan.steps)
            further = jax.vmap(partial(onward, first, share))(search.x, g, rows.start, rows.radius)
            x = jnp.where(along(search.live, g), further, search.x)
            moved = jnp.any((x != search.x).reshape(x.shape[0], -1), 1)
            return number + 1, search._replace(x=x, moved=moved)

        return lax.while_loop(lambda c: (c[0] < bounds[1]) & jnp.any(c[1].live), go, (bounds[0], search))[1]

    def ending(search: Search, rows: _Rows) -> Search:
        value, flipped = glance(search.x, rows.y, rows.target)
        return _noted(search, value, flipped, plan.stop, 1)

    def ascend(search: Search, start):
        restart, key = start
        live = true & ~search.flipped if plan.stop else true
        keys = jax.vmap(partial(jax.random.fold_in, key))(number + jnp.arange(n + padding))
        somewhere = jax.vmap(lambda r, x, k: Ball(ball.p, r, ball.low, ball.high).sample(x, key=k))
        begin = jnp.where(restart == 0, rows.start, somewhere(rows.radius, rows.start, keys))
        search = search._replace(
            x=jnp.where(along(live, begin), begin, search.x), live=live, last=search.last * jnp.nan
        )
        stretches = min(STRETCHES, plan.steps) if n > size else 1
        ends = np.linspace(0, plan.steps, stretches + 1).astype(int)
        bounds = jnp.asarray(ends[:-1]), jnp.asarray(ends[1:])

        def stretch(search, bounds):
            return _by_batch(partial(advance, bounds, restart == 0), search, rows, size), None

        search, _ = lax.scan(stretch, search, bounds)
        return _by_batch(ending, search, rows, size), None

    search, _ = lax.scan(ascend, search, (jnp.arange(plan.restarts), jax.random.split(key, plan.restarts)))
    return jax.tree.map(lambda a: a[:n], search)


def _begin(rows: _Rows, true) -> Search:
    x = rows.start
    none = jnp.zeros(x.shape[0], int)
    lowest, no = jnp.full(x.shape[0], -jnp.inf, x.dtype), jnp.zeros(x.shape[0], bool)
    return Search(x, true, x, lowest, no, jnp.full_like(x, jnp.nan), no, none, none, none, none)


def _noted(search: Search, value, flipped, stop: bool, queries: int) -> Search:
    """The best so far: a change of class before any loss, then the larger loss."""
    value = value.astype(search.value.dtype)
    fair = search.live & jnp.isfinite(value)
    more = (flipped & ~search.flipped) | ((flipped == search.flipped) & (value > search.value))
    better = fair & more
    return search._replace(
        best=jnp.where(along(better, search.best), search.x, search.best),
        value=jnp.where(better, value, search.value),
        flipped=search.flipped | (fair & flipped),
        live=search.live & ~flipped if stop else search.live,
        queries=search.queries + queries * search.live,
    )


def _judged(search: Search, value, g):
    """Slopes that lead nowhere are counted; what is not finite in them is taken for 0."""
    flat = g.reshape(g.shape[0], -1)
    zero = jnp.all(flat == 0, 1)
    broken = ~jnp.all(jnp.isfinite(flat), 1) | ~jnp.isfinite(value)
    same = search.moved & jnp.all(g == search.last, tuple(range(1, g.ndim))) & ~zero
    counted = search.live.astype(int)
    return search._replace(
        last=g,
        zero=search.zero + counted * zero,
        constant=search.constant + counted * same,
        nonfinite=search.nonfinite + counted * broken,
    ), jnp.where(jnp.isfinite(g), g, 0)


def along(mask, like):
    """A mask over examples, in the shape to choose among whole examples."""
    return mask.reshape(mask.shape[0], *[1] * (like.ndim - 1))


def _by_batch(function, search: Search, rows: _Rows, size: int) -> Search:
    """`function` on batches of `size`, in which those that are still on their way come together."""
    n = search.x.shape[0]
    if n == size:
        return function(search, rows)
    order = jnp.argsort(~search.live)
    batches = jax.tree.map(lambda a: a[order].reshape(n // size, size, *a.shape[1:]), (search, rows))
    found = lax.map(lambda batch: function(*batch), batches)
    return jax.tree.map(lambda old, a: old.at[order].set(a.reshape(old.shape)), search, found)
