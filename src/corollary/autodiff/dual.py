r"""Forward mode: numbers $a+b\varepsilon$ with $\varepsilon^2=0$ carry a derivative along with the value.

$f(a+b\varepsilon)=f(a)+f'(a)\,b\,\varepsilon$, so running a program on dual numbers runs its derivative in the
direction $b$ beside it. Written for reading: a loop in Python over the operations of the program is its nature. Every
operation is counted, those on values and those on tangents, because the cost is the point: one direction costs a
constant times the program, a gradient in $n$ variables $n$ times that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float

from corollary._validate import real
from corollary.autodiff import elementary
from corollary.catalog import implements


@dataclass
class Tally:
    """Arithmetic operations done so far: on values (the program itself) and on tangents (its derivative)."""

    values: int = 0
    tangents: int = 0

    def count(self, values: int, tangents: int) -> "Tally":
        self.values, self.tangents = self.values + values, self.tangents + tangents
        return self


@implements("M24.04")
@dataclass(frozen=True)
class Dual:
    """A value and its derivative in one direction. Duals of one differentiation share one `tally`."""

    value: object
    tangent: object
    tally: Tally = field(default_factory=Tally, compare=False)
    __array_ufunc__ = None  # NumPy numbers leave the operation to us

    def __add__(self, other):
        if not isinstance(other, Dual):
            return self._with(self.value + other, self.tangent, 1, 0)
        self._same(other)
        return self._with(self.value + other.value, self.tangent + other.tangent, 1, 1)

    def __mul__(self, other):
        if not isinstance(other, Dual):
            return self._with(self.value * other, self.tangent * other, 1, 1)
        self._same(other)
        tangent = self.tangent * other.value + self.value * other.tangent
        return self._with(self.value * other.value, tangent, 1, 3)

    def __truediv__(self, other):
        if not isinstance(other, Dual):
            return self._with(self.value / other, self.tangent / other, 1, 1)
        self._same(other)
        value = self.value / other.value
        return self._with(value, (self.tangent - value * other.tangent) / other.value, 1, 3)

    def __rtruediv__(self, other):
        value = other / self.value
        return self._with(value, -(value * self.tangent) / self.value, 1, 3)

    def __pow__(self, power):
        if isinstance(power, Dual):
            raise TypeError("The exponent of a dual number must be a constant; write exp(b * log(a)).")
        slope = power * self.value ** (power - 1) if power != 0 else 0.0  # 0 to the power of -1 is no number
        return self._with(self.value**power, slope * self.tangent, 1, 3)

    def __neg__(self):
        return self._with(-self.value, -self.tangent, 1, 1)

    def __sub__(self, other):
        if not isinstance(other, Dual):
            return self._with(self.value - other, self.tangent, 1, 0)
        self._same(other)
        return self._with(self.value - other.value, self.tangent - other.tangent, 1, 1)

    def __rsub__(self, other):
        return self._with(other - self.value, -self.tangent, 1, 1)

    __radd__, __rmul__ = __add__, __mul__

    def exp(self) -> Dual:
        value = elementary.exp(self.value)
        return self._with(value, value * self.tangent, 1, 1)

    def log(self) -> Dual:
        return self._with(elementary.log(self.value), self.tangent / self.value, 1, 1)

    def tanh(self) -> Dual:
        value = elementary.tanh(self.value)
        return self._with(value, (1 - value * value) * self.tangent, 1, 3)

    def sin(self) -> Dual:
        return self._with(elementary.sin(self.value), elementary.cos(self.value) * self.tangent, 1, 2)

    def cos(self) -> Dual:
        return self._with(elementary.cos(self.value), -elementary.sin(self.value) * self.tangent, 1, 3)

    # A program may branch on values: the derivative is that of the branch taken.
    def __lt__(self, other):
        return self.value < (other.value if isinstance(other, Dual) else other)

    def __gt__(self, other):
        return self.value > (other.value if isinstance(other, Dual) else other)

    def _with(self, value, tangent, values: int, tangents: int) -> "Dual":
        return Dual(value, tangent, self.tally.count(values, tangents))

    def _same(self, other: "Dual") -> None:
        # two differentiations nested in each other have two different ε, and mixing them gives a wrong number
        if self.tally is not other.tally:
            raise ValueError("Dual numbers of two different differentiations cannot be mixed.")


@implements("M24.04", "M06.01")
def forward_derivative(f: Callable, x: Float[ArrayLike, "n"], direction: Float[ArrayLike, "n"]) -> tuple:
    r"""$f(x)$, the derivative $Df(x)v$ in the direction $v$, and the tally of operations.

    `f` maps a list of `n` numbers to a number or a list of numbers and is written with operators and
    `corollary.autodiff.elementary`; `x` and `direction` have length `n`.
    """
    if not callable(f):
        raise TypeError(f"f must be a function of a list of numbers, got {type(f).__name__}.")
    dims: dict = {}
    real("x", x, "n", dims)
    real("direction", direction, "n", dims)
    tally = Tally()
    out = f([Dual(value, tangent, tally) for value, tangent in zip(x, direction, strict=True)])
    if isinstance(out, list | tuple):
        pairs = [_parts(each) for each in out]
        return [value for value, _ in pairs], [tangent for _, tangent in pairs], tally
    return *_parts(out), tally


@implements("M24.04")
def forward_gradient(f: Callable, x: Float[ArrayLike, "n"]) -> tuple[list, Any]:
    """The gradient of a scalar `f`, one forward pass for each of the `n` variables, and the tally of all passes.

    >>> [float(d) for d in forward_gradient(lambda v: v[0] * v[1], [2.0, 3.0])[0]]
    [3.0, 2.0]
    """
    n = real("x", x, "n").size
    total, gradient = Tally(), []
    for direction in np.eye(n):
        _, tangent, tally = forward_derivative(f, x, direction)
        if isinstance(tangent, list):
            raise ValueError("f must return one number to have a gradient, got a list.")
        gradient.append(tangent)
        total.count(tally.values, tally.tangents)
    return gradient, total


def _parts(out):
    # what does not depend on the variables comes out as a plain number
    return (out.value, out.tangent) if isinstance(out, Dual) else (out, 0.0)
