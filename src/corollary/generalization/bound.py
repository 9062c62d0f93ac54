r"""Bounds as objects that show what they spent, and the first of them: classes of finitely many functions.

A bound says: with probability $1-\delta$ over the sample the expected loss is at most `value`. Its `terms` are what
each thing adds, the training error first; they sum to the value. Where several things stand under one root, a term is
what the value grows by when that thing is put beside those after it: the price of the class is the bound less the one
for a single function. Losses lie in an interval of length 1 and the examples are drawn independently, unless said.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._show import written
from corollary._validate import concrete, one_of, positive, real, whole, within
from corollary.catalog import implements

INDEPENDENT = "the examples are drawn independently from one law"
RANGE = "the loss lies in [0, 1]"


@implements("T05.02")
class Bound(eqx.Module):
    """With probability `1 - delta` over the sample, the expected loss is at most `value`, the sum of `terms`.

    `premises` are the sentences that the bound rests on and that no argument could check.
    """

    value: Float[Array, "..."]
    delta: Float[Array, "..."]
    terms: dict[str, Float[Array, "..."]]
    premises: tuple[str, ...] = eqx.field(static=True)

    def __repr__(self) -> str:
        terms = ", ".join(f"{name} {written(term)}" for name, term in self.terms.items())
        return f"Bound(value={written(self.value)}, delta={written(self.delta)}, terms: {terms})"

    @property
    def vacuous(self) -> Array:
        """Whether the bound says no more than that a loss is at most 1."""
        return self.value >= 1

    def check(self) -> "Bound":
        """The bound itself, or a sentence about what is wrong with it: the confidence, a term, or their sum."""
        within("delta", self.delta, 0.0, 1.0, open="both")
        for name, term in self.terms.items():
            within(f"the term {name!r}", term, -8 * np.finfo(np.asarray(term).dtype).eps)
        total, value = np.asarray(sum(self.terms.values())), np.asarray(self.value)
        # an infinite term makes an infinite value; otherwise each addition rounds once
        slack = 4 * len(self.terms) * np.finfo(value.dtype).eps * np.abs(value)
        with np.errstate(invalid="ignore"):
            wrong = (total != value) & ~(np.abs(total - value) <= slack)
        if wrong.any():
            raise ValueError(f"the terms of a bound must sum to its value, got {total} and {value}.")
        return self


def spent(
    risk: Float[ArrayLike, "..."],
    deviation: Callable,
    delta: Float[ArrayLike, "..."],
    budget: dict[str, Float[ArrayLike, "..."]],
    premises: tuple[str, ...],
) -> Bound:
    """The bound `deviation(sum of the budget)`, and what each entry of the budget adds when those after it are there.

    `budget` holds numbers that are added inside the bound, such as the logarithm of the size of a class and that of
    1/δ; `deviation` turns their sum into a bound on the expected loss, and 0 into `risk`.
    """
    total, last = jnp.zeros_like(delta), risk
    grown = {}
    for name, amount in reversed(budget.items()):
        total = total + amount
        value = deviation(total)
        # 0 · ∞: a term that was infinite already grows no further
        grown[name] = jnp.where(jnp.isinf(last), 0.0, value - jnp.where(jnp.isinf(last), 0.0, last))
        last = value
    return Bound(last, delta, {"training error": risk, **dict(reversed(grown.items()))}, premises)


@implements("B08.03", "B08.08", "T05.05")
def finite_class(
    n: Float[ArrayLike, "..."],
    size: Float[ArrayLike, "..."],
    delta: Float[ArrayLike, "..."],
    *,
    risk: Float[ArrayLike, "..."] = 0.0,
    sides: int = 1,
    form: str = "sharp",
) -> Bound:
    r"""For all of `size` functions at once, $L(h)\le\hat L(h)+\sqrt{\frac{\ln N+\ln(s/\delta)}{2n}}$.

    $s$ is the number of `sides`: 1 bounds $L-\hat L$ from above, 2 bounds $|L-\hat L|$, from which the minimiser of
    $\hat L$ has an expected loss within twice the root of the least. A loss of another range scales the root by its
    length. `form="printed"` is the looser $2\sqrt{(\ln N+\ln(s/\delta))/n}$. Without `risk` it bounds the gap. A size
    of 1 is Hoeffding's inequality for a function that was fixed before the sample.

    >>> round(float(finite_class(1000, 50, 0.05).value), 4)
    0.0588
    """
    n, risk, delta = within("n", real("n", n), 1.0), risk_of(risk), confidence(delta)
    size, sides = within("size", real("size", size), 1.0), whole("sides", sides, 1, 2)
    one_of("form", form, ("sharp", "printed"))
    scale = jnp.sqrt(8.0) if form == "printed" else 1.0
    return spent(
        risk,
        lambda nats: risk + scale * jnp.sqrt(nats / (2 * n)),
        delta,
        {"choice among the class": jnp.log(size), "confidence": jnp.log(sides / delta)},
        (INDEPENDENT, RANGE, "the class was chosen before the sample was seen"),
    )


def samples_to_reach(bound: Callable[[int], Bound], value: float, *, most: int = 2**62) -> int:
    r"""The least number $n$ of examples at which `bound(n).value` is at most `value`.

    Every bound of this room falls with $n$, so that its place can be closed in: by halves of the logarithm, from a
    factor of four on by straight lines in logarithms, as which most bounds nearly fall, and last by halves.

    >>> samples_to_reach(lambda n: finite_class(n, 50, 0.05), 0.05)
    1382
    """
    if not callable(bound):
        raise TypeError(f"bound must be a function of the number of examples, got {type(bound).__name__}.")
    target, most = float(positive("value", real("value", value, ""))), whole("most", most)

    def above(n):
        """How far the bound is above the value, as a logarithm: 0 or less is enough."""
        value = float(bound(n).value)
        if not value < math.inf:
            return math.inf
        found, tiny = math.log(max(value, sys.float_info.min) / target), sys.float_info.min
        return max(found, tiny) if value > target else min(found, -tiny)  # a ratio may round to 1

    low, high, over, under = 0, 1, math.inf, above(1)
    while under > 0:  # 2, 4, 16, 256, 65,536 ...
        if high >= most:
            raise ValueError(f"value must be reached with at most {most} examples, got {float(bound(most).value)}.")
        low, high, over = high, min(max(2, high**2), most), under
        under = above(high)
    straight = True  # until a step does not halve the interval: rounding makes stairs of bounds, where lines mislead
    while (gap := high - low) > 1:
        middle = math.isqrt(low * high)
        if high < 4 * low and over < math.inf:
            middle = round(low * (high / low) ** (over / (over - under))) if straight else (low + high) // 2
        middle = min(max(middle, low + 1), high - 1)
        found = above(middle)
        if found > 0:
            low, over = middle, found
        else:
            high, under = middle, found
        straight = straight and (high >= 4 * low or 2 * (high - low) <= gap)
    return high


def confidence(delta: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    """`delta` as an array, in (0, 1)."""
    return within("delta", real("delta", delta), 0.0, 1.0, open="both")


def risk_of(risk: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    """An average loss as an array, in [0, 1]; otherwise a sentence with the range that was found."""
    risk = real("risk", risk)
    if concrete(risk):
        seen = np.asarray(risk)
        if seen.min() < 0 or seen.max() > 1:
            raise ValueError(
                f"risk must be an average of losses in [0, 1], got values from {seen.min():g} to {seen.max():g}: "
                "divide the loss by its range first."
            )
    return risk
