"""The values that a network is looked at with: what does not depend on the input, what does, and their products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from corollary._engine.jaxpr import body_of, run_equation


class Fixed(NamedTuple):
    """A value that the input does not change, and the name of the parameter that it is made of."""

    value: Any
    name: str | None = None


class Signal(NamedTuple):
    """A value that depends on the input: `move(source)`, and how fast its source changes at most.

    Entry by entry it is a factor times the value with the number `root`. Of the result of a comparison `edge` is where
    in that value it changes.
    """

    bound: Any
    source: int
    shape: tuple[int, ...]
    dtype: Any
    move: Callable
    isometric: bool = True
    root: tuple[int, Any] = (-1, 1.0)
    edge: Any = None

    @property
    def slope(self):
        """A Lipschitz constant of the value itself."""
        if self.isometric:
            return self.bound
        one = jax.ShapeDtypeStruct(self.shape, self.dtype)
        out = jax.eval_shape(self.move, one)
        # each entry is one of the source or none: the norm is the root of how often one is repeated
        (times_used,) = jax.linear_transpose(self.move, one)(jnp.ones(out.shape, out.dtype))
        return scaled(self.bound, jnp.sqrt(jnp.max(times_used)))


class Product(NamedTuple):
    """A weight that multiplies a signal: the operation, the weight, and which operand it is."""

    name: str | None
    eqn: Any
    weight: Any
    operand: int
    signal: Signal

    def linear(self, v):
        """The map from the source of the signal."""
        return self.with_weight(self.weight)(v)

    def with_weight(self, weight) -> Callable:
        """The same map with another weight of the same shape."""
        place = 1 - self.operand

        def apply(v):
            operands = [weight, weight]
            operands[place] = self.signal.move(v)
            return run_equation(self.eqn, operands)[0]

        return apply


def matrices_of(product: Product):
    """The weight of a matrix product as (groups, rows, columns), the contracted axes in the columns."""
    weight, operand = product.weight, product.operand
    contracted, batch = (axes[operand] for axes in product.eqn.params["dimension_numbers"])
    free = [a for a in range(weight.ndim) if a not in contracted and a not in batch]
    groups, columns = (math.prod(weight.shape[a] for a in axes) for axes in (batch, contracted))
    return weight.transpose(*batch, *free, *contracted).reshape(groups, -1, columns)


def scaled(bound, factor):
    """Their product, and zero if either is: what does not pass does not matter, however fast it changes."""
    return jnp.where((bound == 0) | (factor == 0), 0.0, bound * factor)


def inside_of(eqn) -> ClosedJaxpr | None:
    """The program inside a call, also of functions with derivative rules of their own: values are what counts."""
    body = body_of(eqn)
    if body is not None:
        return ClosedJaxpr(*body)
    if eqn.primitive.name in ("custom_jvp_call", "custom_vjp_call"):
        return eqn.params.get("call_jaxpr") or eqn.params.get("fun_jaxpr")
    return None
