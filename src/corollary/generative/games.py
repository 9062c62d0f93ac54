r"""Games of two players who follow their gradients, and the ways to move that do or do not reach a saddle.

```python
play = extragradient(lambda x, y: x * y, (1.0, 0.5), step=0.1, steps=1000)
play.x, play.values                                             # the whole path, and the payoff along it
gda(lambda x, y: x * y, (1.0, 0.5), step=0.1, steps=1000)       # walks away from the saddle
```

The first player wants the payoff low, the second one high. Where each player has a loss of his own, the payoff is the
pair of them, and both want theirs low.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float, PyTree

from corollary._engine.runge_kutta import flow, moved
from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.network._code import by_code


class Play(NamedTuple):
    """What both players did: their points and the payoff, from the start on, along a first axis."""

    x: Any
    y: Any
    values: jax.Array

    __repr__ = shown

    @property
    def end(self) -> tuple[Any, Any]:
        """Where both players have come to."""
        return jax.tree.map(lambda a: a[-1], (self.x, self.y))


@implements("T16.09", "M15.43")
def gda(
    payoff: Callable | tuple[Callable, Callable], start: tuple[PyTree, PyTree], *, step: Scalar, steps: int
) -> Play:
    r"""Both move at once: $x_{k+1}=x_k-\eta\partial_xf(x_k,y_k)$, $y_{k+1}=y_k+\eta\partial_yf(x_k,y_k)$.

    `payoff(x, y)` is a number $f$, which the first player lowers and the second one raises, or a pair of such
    functions, the losses of both; $x$ and $y$ are any pytrees of real arrays.

    >>> play = gda(lambda x, y: x**2 - y**2, (1.0, 1.0), step=0.25, steps=2)
    >>> play.x.tolist(), play.y.tolist()
    ([1.0, 0.5, 0.25], [1.0, 0.5, 0.25])
    """
    return _checked_play(_together, payoff, start, step, steps)


@implements("M15.27", "M15.39", "M15.23")
def alternating(
    payoff: Callable | tuple[Callable, Callable], start: tuple[PyTree, PyTree], *, step: Scalar, steps: int
) -> Play:
    r"""One after the other: the second player answers to $x_{k+1}$, with $y_k+\eta\partial_yf(x_{k+1},y_k)$.

    >>> alternating(lambda x, y: x * y, (1.0, 0.0), step=0.5, steps=1).end[1].item()
    0.5
    """
    return _checked_play(_in_turn, payoff, start, step, steps)


@implements("T16.09")
def extragradient(
    payoff: Callable | tuple[Callable, Callable], start: tuple[PyTree, PyTree], *, step: Scalar, steps: int
) -> Play:
    r"""Both move from where they are, along the slopes at the point that `gda` would go to: a look ahead.

    >>> round(extragradient(lambda x, y: x * y, (1.0, 0.0), step=0.5, steps=1).end[0].item(), 4)
    0.75
    """
    return _checked_play(_ahead, payoff, start, step, steps)


@implements("T16.09")
def optimistic(
    payoff: Callable | tuple[Callable, Callable], start: tuple[PyTree, PyTree], *, step: Scalar, steps: int
) -> Play:
    r"""Both move along $2v_k-v_{k-1}$, where $v_k$ are the slopes now and $v_{-1}=v_0$: one gradient a step.

    The difference of the last two slopes stands for the one that is still to come.

    >>> optimistic(lambda x, y: x * y, (1.0, 0.0), step=0.5, steps=1).end[1].item()
    0.5
    """
    return _checked_play(_remembering, payoff, start, step, steps)


@implements("T16.09")
def unrolled(
    payoff: Callable | tuple[Callable, Callable],
    start: tuple[PyTree, PyTree],
    *,
    step: Scalar,
    steps: int,
    look: int = 1,
) -> Play:
    r"""The first player reckons with the answer: down the slope of $x\mapsto f(x,y_\ell(x))$, as the second one moves.

    $y_\ell(x)$ is where `look` steps of the second player lead from $y_k$ if the first one stays at $x$; the slope goes
    through these steps.

    >>> unrolled(lambda x, y: x * y, (1.0, 0.0), step=0.5, steps=1).end[0].item()
    0.5
    """
    return _checked_play(_reckoning(whole("look", look)), payoff, start, step, steps)


@implements("M15.42")
def gda_flow(
    payoff: Callable | tuple[Callable, Callable],
    start: tuple[PyTree, PyTree],
    times: Float[ArrayLike, "n"],
    *,
    substeps: int = 20,
) -> Play:
    r"""$\dot x=-\partial_xf$, $\dot y=\partial_yf$ from time 0: points and payoff at each of the increasing `times`.

    By the method of Runge and Kutta, with `substeps` equal steps to each time from the one before.

    >>> round(gda_flow(lambda x, y: x**2 - y**2, (1.0, 1.0), [1.0]).x[0].item(), 4)
    0.1353
    """
    losses, start = _checked(payoff, start)
    times, substeps = real("times", times, "n"), whole("substeps", substeps)
    return _flowing(losses, start, times, substeps)


def _checked_play(rule, payoff, start, step, steps):
    losses, start = _checked(payoff, start)
    return _played(losses, by_code(rule), start, positive("step", real("step", step, "")), whole("steps", steps))


def _checked(payoff, start):
    """Both players' losses, and where they start; one sentence for what is no game."""
    if not (isinstance(start, tuple | list) and len(start) == 2):
        raise TypeError("start must be the pair of what the first and what the second player begins with.")
    x, y = (
        jax.tree_util.tree_map_with_path(
            lambda path, leaf, i=i: real(f"start[{i}]{jax.tree_util.keystr(path)}", leaf), start[i]
        )
        for i in (0, 1)
    )
    if not (jax.tree.leaves(x) and jax.tree.leaves(y)):
        raise ValueError("start must have at least one array for each player.")
    pair = isinstance(payoff, tuple | list)
    if not (all(map(callable, payoff)) and len(payoff) == 2 if pair else callable(payoff)):
        raise TypeError("payoff must be a function of x and y, or a pair of them, the losses of both players.")
    losses = tuple(map(by_code, payoff)) if pair else (by_code(payoff), None)
    for loss in losses[: 2 if pair else 1]:
        value = eqx.filter_eval_shape(loss, x, y)
        if getattr(value, "shape", None) != ():
            raise ValueError(f"payoff must return a number, got {getattr(value, 'shape', type(value).__name__)}.")
    return losses, (x, y)


def _slopes(losses):
    """The slopes of both players' losses, in each case by what is theirs to move."""
    first, second = losses
    second = second or (lambda x, y: -first(x, y))
    return jax.grad(first), jax.grad(second, argnums=1)


def _together(losses, h):
    by_x, by_y = _slopes(losses)
    return lambda x, y, old: (moved(x, by_x(x, y), -h), moved(y, by_y(x, y), -h), old)


def _in_turn(losses, h):
    by_x, by_y = _slopes(losses)

    def turn(x, y, old):
        x = moved(x, by_x(x, y), -h)
        return x, moved(y, by_y(x, y), -h), old

    return turn


def _ahead(losses, h):
    by_x, by_y = _slopes(losses)

    def turn(x, y, old):
        u, v = moved(x, by_x(x, y), -h), moved(y, by_y(x, y), -h)
        return moved(x, by_x(u, v), -h), moved(y, by_y(u, v), -h), old

    return turn


def _remembering(losses, h):
    by_x, by_y = _slopes(losses)

    def turn(x, y, old):
        now = by_x(x, y), by_y(x, y)
        ahead = jax.tree.map(lambda n, o: 2 * n - o, now, old)
        return moved(x, ahead[0], -h), moved(y, ahead[1], -h), now

    return turn


def _reckoning(look):
    def rule(losses, h):
        _, by_y = _slopes(losses)

        def answered(x, y):
            return losses[0](x, jax.lax.fori_loop(0, look, lambda _, y: moved(y, by_y(x, y), -h), y))

        return lambda x, y, old: (moved(x, jax.grad(answered)(x, y), -h), moved(y, by_y(x, y), -h), old)

    return rule


@eqx.filter_jit
def _played(losses, rule, start, h, steps):
    turn = rule(losses, h)
    by_x, by_y = _slopes(losses)

    def onward(carry, _):
        carry = turn(*carry)
        return carry, carry[:2]

    first = (*start, (by_x(*start), by_y(*start)))
    _, path = jax.lax.scan(onward, first, length=steps)
    x, y = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, path)
    return Play(x, y, jax.vmap(losses[0])(x, y))


@eqx.filter_jit
def _flowing(losses, start, times, substeps):
    by_x, by_y = _slopes(losses)

    def velocity(state):
        return jax.tree.map(jnp.negative, (by_x(*state), by_y(*state)))

    (x, y), _ = flow(velocity, start, times, substeps=substeps)
    return Play(x, y, jax.vmap(losses[0])(x, y))
