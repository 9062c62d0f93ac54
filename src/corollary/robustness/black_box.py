r"""Attacks without the gradient of the network: by questions alone, through another network, past what hides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, PyTree

from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import one_of, positive, real, whole
from corollary.catalog import implements
from corollary.network.parts import require_network
from corollary.robustness._victim import victim
from corollary.robustness.attacks import Attack, ascent, concluded, pgd
from corollary.robustness.ball import Ball

#: Coordinates that are moved at once: the memory of an estimate does not grow with the number of coordinates.
AT_ONCE = 64


class Differences(NamedTuple):
    """The slope by difference quotients along the coordinates."""

    width: Any
    scheme: str

    def __call__(self, objective, x):
        value, flipped = objective(x)

        def quotient(i):
            way = self.width * jax.nn.one_hot(i, x.size, dtype=x.dtype).reshape(x.shape)
            if self.scheme == "central":
                return (objective(x + way)[0] - objective(x - way)[0]) / (2 * self.width)
            return (objective(x + way)[0] - value) / self.width

        slope = jax.lax.map(quotient, jnp.arange(x.size), batch_size=min(AT_ONCE, x.size))
        return (value, flipped), slope.reshape(x.shape).astype(x.dtype)

    def queries(self, size: int) -> int:
        return 1 + size * (2 if self.scheme == "central" else 1)


@implements("B12.06")
def finite_difference_pgd(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    ball: Ball,
    *,
    width: Scalar | None = None,
    scheme: str = "central",
    steps: int = 40,
    restarts: int = 1,
    target: Int[ArrayLike, "n"] | None = None,
    stop: bool = True,
    key: PRNGKeyArray | None = None,
    batch_size: int = 32,
) -> Attack:
    r"""`pgd` with the gradient estimated from values.

    For $d$ coordinates these are $2d+1$ questions per step (`"forward"`: $d+1$).
    `width` is the difference of inputs. Unless given it is the cube root of the rounding error (`"forward"`: the
    square root) where inputs are of the size of 1, which balances rounding and curvature. A network whose output is
    constant between steps of its own (quantised inputs) needs a width above these.

    >>> found = finite_difference_pgd(network, "squared", data, Ball(2, 0.5), steps=2)
    >>> print(found.queries)
    [15 15 15 15]
    """
    found = victim("finite_difference_pgd", network, loss, data, ball)
    one_of("scheme", scheme, ("central", "forward"))
    if width is None:
        width = float(jnp.finfo(found.x.dtype).eps) ** (1 / 3 if scheme == "central" else 1 / 2)
    slope = Differences(positive("width", real("width", width, "")), scheme)
    return ascent(
        found, ball, slope, steps=steps, restarts=restarts, step=None, direction="steepest", target=target, stop=stop,
        key=key, batch_size=whole("batch_size", batch_size),
    )  # fmt: skip


@implements("T18.03")
def transfer(
    source: NetworkLike,
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    ball: Ball,
    *,
    steps: int = 40,
    restarts: int = 1,
    key: PRNGKeyArray | None = None,
    batch_size: int = 128,
) -> Attack:
    """Attack `source`, whose gradients are known, and give what was found to `network`, of which nothing is known.

    The ascent goes on to the largest loss of `source`: what barely changes one network's mind does not change
    another's. `success` and `loss` are those of `network`, `dead` is about `source`; `network` is asked once per
    example.

    >>> bool((transfer(network, network, "squared", data, Ball(2, 0.1)).queries == 1).all())
    True
    """
    found = victim("transfer", network, loss, data, ball)
    require_network(source)
    white = pgd(source, loss, data, ball, steps=steps, restarts=restarts, stop=False, key=key, batch_size=batch_size)
    return concluded(found, white.inputs, ball, white.dead, jnp.ones_like(white.queries), batch_size)


class StraightThrough(eqx.Module):
    """A transformation of the input in front of a network, whose derivative is taken for that of the identity."""

    transform: Callable
    network: Any

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        return self.network(_passed(self.transform, real("x", x, finite=False)))


def straight_through(transform: Callable, network: NetworkLike) -> StraightThrough:
    """`network` behind `transform`, with gradients that pass through the transformation as if it were not there.

    For transformations of inputs of one shape that are near the identity and have no useful derivative, such as
    rounding. The outputs are those of `network(transform(x))`, bit for bit; attacks follow the gradients of this one.

    >>> rounded = straight_through(jnp.round, lambda x: x @ x)
    >>> print(rounded(jnp.array([1.2, 2.9])), jax.grad(rounded)(jnp.array([1.2, 2.9])))
    10.0 [2. 6.]
    """
    require_network(network)
    if not callable(transform):
        raise TypeError(f"transform must be a function of one input, got {type(transform).__name__}.")
    return StraightThrough(transform, network)


def _passed(transform, x):
    found = transform(x)
    if found.shape != x.shape:
        raise ValueError(f"transform must keep the shape of an input, {x.shape}, got {found.shape}.")
    zero = x - jax.lax.stop_gradient(x)  # 0, whose derivative is 1
    return jax.lax.stop_gradient(found) + zero


@implements("T18.10")
class QuantisedInput(eqx.Module):
    r"""A network that rounds its inputs to `levels` values between `low` and `high` first.

    The rounding is what hides the gradient: it is constant almost everywhere. `quantise` is the transformation alone.

    >>> hidden = QuantisedInput(lambda x: x.sum(), 2)
    >>> print(hidden(jnp.array([0.2, 0.7])), jax.grad(hidden)(jnp.array([0.2, 0.7])))
    1.0 [0. 0.]
    """

    network: Any
    levels: int = eqx.field(static=True)
    low: float = eqx.field(static=True)
    high: float = eqx.field(static=True)

    def __init__(self, network: NetworkLike, levels: int, low: float = 0.0, high: float = 1.0):
        require_network(network)
        self.network, self.levels = network, whole("levels", levels, 2)
        if not low < high:
            raise ValueError(f"low must be less than high, got {low} and {high}.")
        self.low, self.high = float(low), float(high)

    def quantise(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The nearest of the values that inputs can have."""
        x, gap = real("x", x, finite=False), (self.high - self.low) / (self.levels - 1)
        return self.low + gap * jnp.round((jnp.clip(x, self.low, self.high) - self.low) / gap)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        return self.network(self.quantise(x))
