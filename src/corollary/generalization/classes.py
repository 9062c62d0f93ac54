r"""Classes of binary functions whose restrictions to given points can be listed, one by one and without any formula.

A class is what `dichotomies` takes: `Thresholds`, `Intervals`, `Rectangles(d)`, `Halfspaces(d)`, `FiniteClass(table)`
and `SineClass`. Points are looked at with NumPy: counting is exact, and is not traced.
"""

from __future__ import annotations

from itertools import combinations, permutations, product
from math import comb, factorial
from typing import TypeAlias

import equinox as eqx
import jax
import numpy as np
from jaxtyping import ArrayLike, Bool, Float, Int

from corollary._validate import concrete, whole
from corollary.catalog import implements
from corollary.linear import cover_count, labelings, realisable

# restrictions that are listed at most, before equal ones are found
MOST = 2_000_000


class Thresholds(eqx.Module):
    r"""$x\mapsto\mathbf 1\{x\ge c\}$ on the line, for all $c$ and $c=\infty$. Points are (n,)."""


class Intervals(eqx.Module):
    r"""$x\mapsto\mathbf 1\{a\le x\le b\}$ on the line, the empty one among them. Points are (n,)."""


class Rectangles(eqx.Module):
    r"""$x\mapsto\mathbf 1\{a_i\le x_i\le b_i\text{ for all }i\}$ in $\mathbb R^d$. Points are (n, d)."""

    d: int = eqx.field(static=True)

    def __init__(self, d: int):
        self.d = whole("d", d)


class Halfspaces(eqx.Module):
    r"""$x\mapsto\mathbf 1\{w\cdot x+b>0\}$ in $\mathbb R^d$, without $b$ if `bias` is False. Points are (n, d)."""

    d: int = eqx.field(static=True)
    bias: bool = eqx.field(static=True)

    def __init__(self, d: int, bias: bool = True):
        self.d, self.bias = whole("d", d), bool(bias)


class FiniteClass(eqx.Module):
    """Functions on finitely many places: `table` (functions, places) holds 0 and 1. Points are numbers of places."""

    table: np.ndarray

    def __init__(self, table: Bool[ArrayLike, "functions places"]):
        table = np.asarray(table)
        if table.ndim != 2 or table.size == 0 or not np.isin(table, (0, 1)).all():
            raise ValueError(f"table must hold 0 and 1, one row per function, got an array of shape {table.shape}.")
        self.table = table.astype(bool)


class SineClass(eqx.Module):
    r"""$x\mapsto\mathbf 1\{\sin(\omega x)>0\}$ on the line: one parameter, and all $2^{-1},\dots,2^{-n}$ shattered.

    Points are the exponents $j$ of $x=2^{-j}$, and $\omega=\pi W$ with a whole number $W$, of any length: the sine of
    $\pi W2^{-j}$ is positive if $W$ modulo $2^{j+1}$ lies strictly between 0 and $2^j$.
    """

    def member(self, labels: Bool[ArrayLike, "n"]) -> int:
        r"""The $W$ with which $2^{-j}$ has the label number $j$, $j=1,\dots,n$, and no zero of the sine is met."""
        wrong = "".join("0" if bool(label) else "1" for label in np.asarray(labels)[::-1])
        return 1 + 2 * int(wrong or "0", 2)

    def __call__(self, multiple: int, exponents: Int[ArrayLike, "n"]) -> Bool[np.ndarray, "n"]:
        r"""The labels of $2^{-j}$ for each of `exponents`, with $\omega=\pi$ times `multiple`."""
        inside = [(int(multiple) % 2 ** (j + 1), 2**j) for j in np.asarray(exponents).tolist()]
        return np.array([0 < rest < half for rest, half in inside])


Class: TypeAlias = Thresholds | Intervals | Rectangles | Halfspaces | FiniteClass | SineClass


@implements("B08.09")
def dichotomies(cls: Class, points: Float[ArrayLike, "..."]) -> Bool[np.ndarray, "k n"]:
    r"""All the ways in which functions of the class divide the `points`: one per row, each once, sorted.

    >>> dichotomies(Thresholds(), [0.3, 0.1]).astype(int).tolist()
    [[0, 0], [1, 0], [1, 1]]
    """
    if isinstance(cls, FiniteClass | SineClass):
        at = _places(points, cls)
        ways = cls.table[:, at] if isinstance(cls, FiniteClass) else _sine_ways(cls, at)
    elif isinstance(cls, Halfspaces):
        x = _coordinates(points, cls.d)
        with jax.ensure_compile_time_eval():
            ways = np.asarray(labelings(len(x)))[np.asarray(realisable(x, bias=cls.bias))] > 0
    elif isinstance(cls, Thresholds):
        x = _coordinates(points, 1)[:, 0]
        ways = x >= np.append(np.unique(x), np.inf)[:, None]
    elif isinstance(cls, Intervals | Rectangles):
        ways = _boxes(_coordinates(points, cls.d if isinstance(cls, Rectangles) else 1))
    else:
        raise TypeError(f"cls must be a class of functions that can be counted, got {type(cls).__name__}.")
    return np.unique(ways, axis=0)


@implements("B08.12")
def shatters(cls: Class, points: Float[ArrayLike, "..."]) -> bool:
    r"""Whether the class divides the `points` in all $2^n$ ways."""
    ways = dichotomies(cls, points)
    return len(ways) == 2 ** ways.shape[1]


@implements("B08.09")
def growth(cls: Class, n: int) -> int:
    r"""$S(n)$, the most ways in which the class divides $n$ points, over all placements of the points: exactly.

    Closed forms for lines and half-spaces. For rectangles all orders of the coordinates are tried, and for a finite
    class all sets of places; a random search would only give a lower bound, so that too large a number is refused.

    >>> [growth(Halfspaces(2), n) for n in (1, 2, 3, 4, 5)]
    [2, 4, 8, 14, 22]
    """
    n = whole("n", n)
    if isinstance(cls, Thresholds):
        return n + 1
    if isinstance(cls, Intervals) or (isinstance(cls, Rectangles) and cls.d == 1):
        return comb(n + 1, 2) + 1
    if isinstance(cls, Halfspaces):
        return cover_count(n, cls.d + cls.bias)
    if isinstance(cls, SineClass):
        return 2**n
    if isinstance(cls, Rectangles):
        tries = factorial(n) ** (cls.d - 1)
        _few(tries, f"orders of {n} points in {cls.d} dimensions")
        orders = product(permutations(range(n)), repeat=cls.d - 1)
        return max(len(np.unique(_boxes(np.array([range(n), *order], float).T), axis=0)) for order in orders)
    if isinstance(cls, FiniteClass):
        places = cls.table.shape[1]
        _few(comb(places, min(n, places)), f"sets of {n} places of {places}")
        # a place that is used twice adds nothing, so more points than places are no better than all of them
        sets = combinations(range(places), min(n, places))
        return max(len(np.unique(cls.table[:, each], axis=0)) for each in map(list, sets))
    raise TypeError(f"cls must be a class of functions that can be counted, got {type(cls).__name__}.")


def _few(tries, what):
    if tries > 10_000:
        raise ValueError(f"n must leave at most 10,000 {what} to try, got {tries:,}.")


def _coordinates(points, d):
    if not concrete(points):
        raise TypeError("points must be known numbers, not values traced by jit: they are counted one by one.")
    x = np.asarray(points)
    if x.dtype.kind not in "iuf" or not np.isfinite(x).all():
        raise ValueError(f"points must be finite real numbers, got an array of {x.dtype}.")
    x = x if x.dtype.kind == "f" else x.astype(float)
    x = x[:, None] if x.ndim == 1 and d == 1 else x
    if x.ndim != 2 or x.shape[1] != d:
        raise ValueError(f"points must have shape (n, {d}){' or (n,)' * (d == 1)}, got {x.shape}.")
    return x


def _places(points, cls):
    at = np.asarray(points)
    if at.ndim != 1 or at.dtype.kind not in "iu":
        raise ValueError(f"points must be whole numbers of shape (n,), got {at.dtype} of shape {at.shape}.")
    low, high = (0, cls.table.shape[1] - 1) if isinstance(cls, FiniteClass) else (1, np.inf)
    if at.size == 0 or at.min() < low or at.max() > high:
        raise ValueError(f"points must be from {low} to {high}, got {at.tolist()}.")
    return at


def _sine_ways(cls, exponents):
    n = int(exponents.max())
    if n > 16:
        raise ValueError(f"points must be exponents up to 16, since 2^n parameters are tried, got {n}.")
    return np.stack([cls(2 * w + 1, exponents) for w in range(2**n)])


def _boxes(x):
    """All restrictions of closed boxes to the points: the empty one, and those with ends at coordinates of points."""
    n, d = x.shape
    sides = []
    for column in x.T:
        values = np.unique(column)
        low, high = np.triu_indices(len(values))
        sides.append(np.unique((column >= values[low, None]) & (column <= values[high, None]), axis=0))
    if np.prod([float(len(s)) for s in sides]) > MOST:
        raise ValueError(f"points must be fewer: {n} points in {d} dimensions have more than {MOST:,} boxes.")
    ways = sides[0]
    for side in sides[1:]:
        ways = np.unique((ways[:, None] & side[None]).reshape(-1, n), axis=0)
    return np.concatenate([np.zeros((1, n), bool), ways])
