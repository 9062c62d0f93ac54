r"""The data of another class: how far they are, and where on the straight way there the class of a network changes.

A classifier that is right on two examples of different classes cannot be right on all inputs within half of their
distance of both: this is how far robustness can go, whatever the network. The way to the other example is also an
attack that asks for classes only, and finds something wherever the network knows both examples.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PyTree

from corollary._show import shown
from corollary._types import LossLike, NetworkLike
from corollary._validate import real, whole
from corollary.network.batches import each, pair
from corollary.robustness._victim import hits, victim
from corollary.robustness.attacks import Attack, Dead, concluded
from corollary.robustness.ball import Ball, norm_order


class OtherClass(NamedTuple):
    """The Euclidean `distance` of every example to the nearest one of another class, and the row (`index`) of that.

    Where there is none the distance is infinite.
    """

    distance: Float[Array, "n"]
    index: Int[Array, "n"]

    __repr__ = shown


def nearest_other_class(data: PyTree, among: PyTree, *, batch_size: int = 256) -> OtherClass:
    r"""For every example of `data = (x, y)` the nearest one of `among = (x', y')` that has another label.

    `batch_size` examples are compared with all others at once.

    >>> found = nearest_other_class(([[0.0], [4.0]], [0, 1]), ([[1.0], [3.0], [9.0]], [0, 1, 0]))
    >>> print(found.distance, found.index)
    [3. 3.] [1 0]
    """
    (x, y), (points, labels) = (_rows(name, given) for name, given in (("data", data), ("among", among)))
    if x.shape[1] != points.shape[1]:
        raise ValueError(
            f"data and among must have inputs of one size, got {x.shape[1]} and {points.shape[1]} numbers per example."
        )
    return OtherClass(*_nearest(x, y, points, labels, whole("batch_size", batch_size)))


def straight_attack(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    towards: Float[ArrayLike, "n ..."],
    *,
    p: Literal[1, 2] | float = 2,
    halvings: int = 10,
    batch_size: int = 128,
) -> Attack:
    r"""An input of another class on the straight way from every example to a point `towards`, by bisection.

    No slope is asked for, so that nothing can hide it; with the nearest example of another class as the point, the
    distance found is at most that to it, if the network gives it another class. It is exact up to $2^{-h}$ of the way,
    $h$ = `halvings`, where the class changes once. Where the class is the same at both ends the example itself comes
    back.

    >>> labels = jnp.sign(jax.vmap(network)(data[0]))
    >>> straight_attack(network, "squared", (data[0], labels), -data[0]).inputs.shape
    (4, 3)
    """
    found = victim("straight_attack", network, loss, data)
    if not found.classes:
        raise ValueError("data must have classes for targets: whole numbers from 0, or two labels for a single output.")
    towards = real("towards", towards)
    if towards.shape != found.x.shape:
        raise ValueError(f"towards must have the shape of the inputs, {found.x.shape}, got {towards.shape}.")
    halvings, batch_size = whole("halvings", halvings), whole("batch_size", batch_size)
    ball = Ball(norm_order(p), 0.0)
    inputs = _crossing(found, towards.astype(found.x.dtype), halvings, batch_size)
    none = jnp.zeros(inputs.shape[0], int)
    longest = jnp.max(jax.vmap(ball.distance)(towards, found.x))
    reached = Ball(ball.p, longest)
    return concluded(found, inputs, reached, Dead(none, none, none), none + halvings + 2, batch_size)


def _rows(name, given):
    x, y = pair(name, given)
    if not isinstance(x, jax.Array) or not isinstance(y, jax.Array) or y.size != y.shape[0]:
        raise TypeError(f"{name} must have one array of inputs, and one label for each of them.")
    return real(f"{name} x", x).reshape(x.shape[0], -1), y.reshape(-1)


@eqx.filter_jit
def _nearest(x, y, points, labels, batch_size):
    centre = jnp.mean(points, 0)  # differences of small numbers
    theirs = points - centre
    squares = jnp.sum(theirs**2, 1)

    def some(batch):
        rows, y = batch
        far = squares - 2 * (rows - centre) @ theirs.T  # the square of the row is the same for all
        return jnp.argmin(jnp.where(y[:, None] == labels, jnp.inf, far), 1)

    index = each(some, (x, y), batch_size)
    distance = jnp.sqrt(jnp.sum((x - points[index]) ** 2, 1))
    return jnp.where(labels[index] == y, jnp.inf, distance), index


@eqx.filter_jit
def _crossing(found, towards, halvings, batch_size):
    def one(x, y, end):
        def other(share):
            return ~hits(found.network(x + share * (end - x)), y)

        def halve(_, ends):
            near, far = ends
            middle = (near + far) / 2
            crossed = other(middle)
            return jnp.where(crossed, near, middle), jnp.where(crossed, middle, far)

        zero, full = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
        far = jax.lax.fori_loop(0, halvings, halve, (zero, full))[1]
        far = jnp.where(other(zero) | ~other(full), zero, far)
        return jnp.where(far == 1, end, x + far * (end - x))

    return each(lambda batch: jax.vmap(one)(*batch), (found.x, found.y, towards), batch_size)
