"""Dichotomies that are counted one by one, against the growth functions of their classes."""

from itertools import product
from typing import Annotated

import jax
import numpy as np

from corollary.evidence import Range, Size, at_most, claim, control, equal, printed
from corollary.generalization import (
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    SineClass,
    Thresholds,
    dichotomies,
    growth,
    vc_entropy,
)


@claim(rows=("B08.09", "B08.12"))
def counted_dichotomies(key, *, n: Annotated[int, Range(3, 7)] = 5):
    r"""How many ways a class divides n points is at most its growth function, and random points attain it.

    $S(n)=\sup|\mathcal F_{z_1\dots z_n}|\le2^n$: $n+1$ for thresholds, $\binom{n+1}2+1$ for intervals,
    $2\sum_{i\le d}\binom{n-1}i$ for half-spaces of $\mathbb R^d$, $2^n$ for the signs of $\sin\omega x$. Half-spaces
    are counted by deciding for every labelling whether it is linear; points on a line have fewer dichotomies.
    """
    line_key, plane_key = jax.random.split(key)
    line, plane = jax.random.normal(line_key, (n,)), np.asarray(jax.random.normal(plane_key, (n, 2)))
    counts = [len(dichotomies(Thresholds(), line)), len(dichotomies(Intervals(), line))]
    yield equal("thresholds and intervals", counts, [growth(Thresholds(), n), growth(Intervals(), n)])
    yield equal("half-planes", len(dichotomies(Halfspaces(2), plane)), growth(Halfspaces(2), n))
    yield at_most("rectangles in the plane", len(dichotomies(Rectangles(2), plane)), growth(Rectangles(2), n))
    yield equal("signs of a sine at powers of ½", len(dichotomies(SineClass(), np.arange(1, n + 1))), 2**n)
    points = np.stack([plane[:, 0], 2 * plane[:, 0] + 1], 1)
    yield control(
        "the points are in general position: here on a line",
        equal("half-planes", len(dichotomies(Halfspaces(2), points)), growth(Halfspaces(2), n)),
    )


@claim(
    rows=("B08.10",),
    erratum="Half-planes are said to fall short of all labellings past 4 points: they do so at 4 points.",
)
def four_points(key):
    r"""Half-planes divide up to four points in all ways, and not more than four.

    As the text puts it after $2^1,2^2,2^3$ for 1, 2 and 3 points. Four points are divided in 14 ways of 16 at most: the
    two that are missing put opposite corners together, or the point inside a triangle apart from its corners.
    """
    points = np.asarray(jax.random.normal(key, (4, 2)))
    square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    few = [len(dichotomies(Halfspaces(2), points[:n])) for n in (1, 2, 3)]
    four = [len(dichotomies(Halfspaces(2), each)) for each in (points, square)]
    yield equal("ways to divide 1, 2 and 3 points", few, [2, 4, 8])
    yield equal("ways to divide four random points, and a square", four, [14, 14])
    made = {tuple(way) for way in dichotomies(Halfspaces(2), square).tolist()}
    missing = [way for way in product([False, True], repeat=4) if way not in made]
    yield equal("the two that are missing of the square", np.array(missing, float), [[0, 1, 1, 0], [1, 0, 0, 1]])
    yield printed(equal("ways to divide four points", four, [16, 16]))


@claim(rows=("B08.06",))
def entropy_below_growth(key, *, places: Size = 8, n: Annotated[int, Range(2, 10)] = 6, samples: Size = 200):
    r"""The VC entropy of usual points is at most the logarithm of the growth function, which looks at the worst.

    $E\ln|\mathcal F_S|\le\ln E|\mathcal F_S|\le\ln S(n)$. With a continuous law all three agree for intervals; with
    points that repeat, or with few functions, the inequalities are strict.
    """
    same_key, normal_key, table_key = jax.random.split(key, 3)
    repeated = np.asarray(jax.random.randint(same_key, (samples, n), 0, places))
    usual = np.asarray(jax.random.normal(normal_key, (samples, n)))
    few = FiniteClass(np.asarray(jax.random.bernoulli(table_key, 0.5, (12, places))))
    found = [vc_entropy(Intervals(), repeated.astype(float)), vc_entropy(few, repeated)]
    top = np.log([growth(Intervals(), n), growth(few, n)])
    inner, outer = np.array(found).T
    yield at_most("mean logarithm, against the logarithm of the mean", inner, outer)
    yield at_most("logarithm of the mean, against growth", outer, top)
    yield equal("intervals and a continuous law: both", vc_entropy(Intervals(), usual), top[0])
    yield control("the law is continuous: here points repeat", equal("intervals", inner[0], top[0]))
