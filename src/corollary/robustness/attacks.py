r"""Inputs that a network gets wrong, close to inputs that it gets right: sign steps and projected ascent.

`success` is what a fresh forward pass says about the inputs that are returned, `distance` is measured on them, and
`dead` says how often the slope led nowhere: an attack without a slope to follow shows nothing about a network.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Int, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import concrete, labels, one_of, positive, real, whole
from corollary.catalog import implements
from corollary.network.batches import each
from corollary.robustness._climb import Gradient, Plan, Search, climb
from corollary.robustness._cores import side_by_side
from corollary.robustness._victim import Victim, forward, victim
from corollary.robustness.ball import Ball


class Dead(NamedTuple):
    """In how many steps of each example the slope was zero, the same as one step before elsewhere, or not finite, (n,).

    Where the loss is affine in the input a slope that does not change is as it should be.
    """

    zero: jax.Array
    constant: jax.Array
    nonfinite: jax.Array

    __repr__ = shown


class Attack(NamedTuple):
    """What an attack found, one entry for each example.

    `success` is whether the network's class at `inputs` differs from the label (is the target, of a targeted attack);
    where targets are no classes, whether the loss is larger than at the example. `loss` is that of the label, at
    `inputs`; `distance` is how far these are from the examples in the norm of `ball`, whose box they respect; `queries`
    counts the inputs that the network was asked about.
    """

    inputs: jax.Array
    success: jax.Array
    loss: jax.Array
    distance: jax.Array
    dead: Dead
    queries: jax.Array
    ball: Ball

    __repr__ = shown


@implements("B12.04", "T18.06")
def fgsm(network: NetworkLike, loss: LossLike, data: PyTree, ball: Ball, *, batch_size: int = 128) -> Attack:
    r"""One step to the largest loss, linearised at the example: $x+r\,\mathrm{sign}\nabla_x\ell$ for $p=\infty$.

    In the other norms it is the farthest point of ball and box along the gradient. Exact where the loss is a monotone
    function of a linear one.

    >>> found = fgsm(network, "squared", data, Ball(jnp.inf, 0.1))
    >>> bool((found.distance <= 0.1001).all())
    True
    """
    found, batch_size = victim("fgsm", network, loss, data, ball), whole("batch_size", batch_size)
    inputs, dead = _one_step(found, ball, batch_size)
    queries = jnp.ones(inputs.shape[0], int)
    return concluded(found, inputs, ball, dead, queries, batch_size)


@implements("B12.02", "B12.03", "T18.02", "T18.05", "T18.07")
def pgd(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    ball: Ball,
    *,
    steps: int = 40,
    restarts: int = 1,
    step: Scalar | None = None,
    direction: str = "steepest",
    target: Int[ArrayLike, "n"] | None = None,
    stop: bool = True,
    key: PRNGKeyArray | None = None,
    batch_size: int = 256,
) -> Attack:
    r"""Projected ascent of the loss from every example: $x'\leftarrow\Pi(x'+\text{step})$, `steps` times.

    A step goes to the steepest point within its length in the norm of `ball` (the sign step for $p=\infty$); with
    `direction="gradient"` it is $\eta\nabla\ell$ with $\eta$ = `step`, as the texts have it. Without `step` the lengths
    fall in equal parts from the radius, the first one being that of `fgsm`. The first ascent starts at the example, the
    others (`restarts`, which need a `key`) at random points and with a quarter of these lengths, for $p=1$ along all
    coordinates. With a `target`, classes (n,), it ascends $\ell(y)-\ell(\mathrm{target})$. An example whose class has
    changed stops there; with `stop=False` it goes on to the largest loss. Returned is the best of all inputs that were
    visited: one of another class before any of a larger loss.

    >>> found = pgd(network, "squared", data, Ball(2, 0.5), steps=10)
    >>> bool((found.loss >= fgsm(network, "squared", data, Ball(2, 0.5)).loss - 1e-6).all())
    True
    """
    found, batch_size = victim("pgd", network, loss, data, ball), whole("batch_size", batch_size)
    return ascent(
        found, ball, Gradient(), steps=steps, restarts=restarts, step=step, direction=direction, target=target,
        stop=stop, key=key, batch_size=batch_size,
    )  # fmt: skip


def ascent(
    found: Victim, ball, slope, *, steps, restarts, step, direction, target, stop, key, batch_size, radius=None
) -> Attack:
    """`pgd` for a network that was checked, along any kind of `slope`, with a `radius` of its own for every example."""
    steps, restarts = whole("steps", steps), whole("restarts", restarts)
    if one_of("direction", direction, ("steepest", "gradient")) == "gradient" and step is None:
        raise ValueError("direction='gradient' needs a step: the factor of the gradient.")
    step = None if step is None else positive("step", real("step", step, ""))
    if restarts > 1 and key is None:
        raise TypeError("key must be given with several restarts: they start at random points.")
    target = None if target is None else _target(found, target)
    plan = Plan(steps, restarts, direction, bool(stop) and found.classes, target is not None, found.classes)
    key = jax.random.key(0) if key is None else key  # not used then
    radius = jnp.broadcast_to(ball.radius if radius is None else radius, found.x.shape[:1])

    def run(start, count, batch_size) -> Search:
        x, y, goal, reach = (
            None if a is None else a[start : start + count] for a in (found.x, found.y, target, radius)
        )
        first = jnp.asarray(start)
        return climb(found.network, found.loss, slope, plan, ball, reach, step, x, y, goal, key, batch_size, first)

    end = side_by_side(run, found.x, batch_size, (found, ball, radius, step, target, key))
    dead = Dead(end.zero, end.constant, end.nonfinite)
    return concluded(found, end.best, ball, dead, end.queries, batch_size, target)


def concluded(found: Victim, inputs, ball: Ball, dead: Dead, queries, batch_size: int, target=None) -> Attack:
    """What a fresh forward pass says about the inputs that an attack ended with."""
    loss, same = forward(found, inputs, batch_size, target)
    success = ~same if target is None else same
    if not found.classes:
        success = loss > forward(found, found.x, batch_size)[0]
    distance = jax.vmap(ball.distance)(inputs, found.x)
    return Attack(inputs, success, loss, distance, dead, queries, ball)


@eqx.filter_jit
def _one_step(found: Victim, ball, batch_size):
    def one(x, y):
        g = jax.grad(lambda x: found.loss(found.network(x), y))(x)
        broken = ~jnp.all(jnp.isfinite(g))
        dead = Dead(jnp.all(g == 0).astype(int), jnp.zeros((), int), broken.astype(int))
        return ball.steepest(jnp.where(jnp.isfinite(g), g, 0), x), dead

    return each(lambda batch: jax.vmap(one)(*batch), (found.x, found.y), batch_size)


def _target(found: Victim, target):
    """The classes that a targeted attack is after: none of them the label."""
    if not found.classes:
        raise ValueError("a target is a class, and the targets of these data are no classes.")
    out = jax.eval_shape(found.network, jax.ShapeDtypeStruct(found.x.shape[1:], found.x.dtype))
    target = labels("target", target, out.size) if out.size > 1 else real("target", target, "n")
    if target.shape != (found.y.shape[0],):
        raise ValueError(f"target must hold a class for each of {found.y.shape[0]} examples, got shape {target.shape}.")
    if concrete(target) and concrete(found.y) and np.any(np.asarray(target) == np.asarray(found.y).reshape(-1)):
        at = int(np.argmax(np.asarray(target) == np.asarray(found.y).reshape(-1)))
        raise ValueError(f"target must differ from the label, and is the same for example {at}.")
    return target.astype(found.y.dtype).reshape(found.y.shape)
