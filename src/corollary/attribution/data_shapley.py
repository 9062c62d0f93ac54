r"""Shapley values of training points: what a point adds to a measure of the trained network, over random orders.

Points are added one after the other in a random order, the network is trained after each, and what the measure gains
is the point's. Once a prefix is within a tolerance of what all points give, the rest of the order is left out
(truncated): its points gain nothing there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.foundations import average_deviation
from corollary.network.batches import count, examples


class DataShapley(NamedTuple):
    r"""`values` (n,), or (n, t) for a vector of measures, in the unit of the measure.

    - `error`: with probability at least $1-\delta$ every value is within it of the exact one, if no point ever changes
      the measure by more than `width` and, where orders were truncated, the measure never falls when a point is added:
      Hoeffding's deviation for all averages at once, plus the share of truncated places times the tolerance.
    - `truncated` (n,): the share of the orders in which the point came after the end.
    - `evaluations`: trainings in all.
    """

    values: jax.Array
    error: jax.Array
    truncated: jax.Array
    evaluations: jax.Array

    __repr__ = shown


def data_shapley(
    fit: Callable,
    measure: Callable,
    train: PyTree,
    *,
    orders: int,
    width: Scalar,
    key: PRNGKeyArray,
    tolerance: Scalar = 0.0,
    delta: Scalar = 0.05,
    batch_size: int | None = None,
) -> DataShapley:
    r"""Shapley values of the points of `train` for $U(S)$ = `measure(fit(train, weights))`, from random `orders`.

    `fit(train, weights)` trains with weights 1 and 0, as in `corollary.attribution.retraining`, and must also return
    something for no points at all. `measure(network)` is a number or a vector of them; `width` bounds how much one
    point can change it in either direction. An order ends where $|U(S)-U(\text{all})|\le$ `tolerance` in every entry,
    if that is positive. `batch_size` orders run side by side, all unless given; together they take as long as the
    longest of them.

    >>> found = data_shapley(lambda d, w: w @ d[0][:, 0], lambda s: s, data, orders=3, width=1.0, key=key)
    >>> bool(jnp.allclose(found.values, x[:, 0], atol=1e-6))
    True
    """
    for name, function in (("fit", fit), ("measure", measure)):
        if not callable(function):
            raise TypeError(f"{name} must be a function, got {type(function).__name__}.")
    train, orders = examples("train", train), whole("orders", orders)
    tolerance = within("tolerance", real("tolerance", tolerance, ""), 0.0)
    width, n = positive("width", real("width", width, "")), count(train)
    delta = within("delta", real("delta", delta, ""), 0.0, 1.0, open="both")
    batch_size = orders if batch_size is None else min(whole("batch_size", batch_size), orders)

    @jax.jit
    def run(train, keys, tolerance):
        utility = lambda present: measure(fit(train, present))  # noqa: E731
        none = jnp.zeros(n)
        start, end = utility(none), utility(none + 1)
        if start.ndim > 1:
            raise ValueError(f"measure must return a number or a vector, got shape {start.shape}.")

        def one(key):
            order = jax.random.permutation(key, n)

            def near(value):
                return (tolerance > 0) & jnp.all(jnp.abs(value - end) <= tolerance)

            def add(state):
                place, present, value, gains = state
                present = present.at[order[place]].set(1)
                # what all points give is known
                new = jax.lax.cond(place == n - 1, lambda: end, lambda: utility(present))
                return place + 1, present, new, gains.at[order[place]].set(new - value)

            first = (jnp.zeros((), int), none, start, jnp.zeros((n, *start.shape), start.dtype))
            place, present, _, gains = jax.lax.while_loop(lambda s: (s[0] < n) & ~near(s[2]), add, first)
            return gains, 1 - present, jnp.minimum(place, n - 1)

        gains, left, trained = jax.lax.map(one, keys, batch_size=batch_size)
        return gains.mean(0), left.mean(0), trained.sum() + 2

    values, truncated, evaluations = run(train, jax.random.split(key, orders), tolerance)
    # a gain lies in an interval of twice the width; the tail of an order that ended early gains at most the tolerance
    sampled = average_deviation(delta / values.size, orders, 2 * width)
    return DataShapley(values, sampled + truncated.max() * tolerance, truncated, evaluations)
