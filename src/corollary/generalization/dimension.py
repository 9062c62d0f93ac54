r"""The VC dimension with its certificates, counts that follow from it, and the bounds that they give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from corollary._show import shown
from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements
from corollary.foundations import FiniteLaw
from corollary.generalization.bound import INDEPENDENT, Bound, confidence, risk_of, spent
from corollary.generalization.classes import (
    Class,
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    SineClass,
    Thresholds,
    dichotomies,
)

PREMISES = (INDEPENDENT, "the loss is 0 or 1", "the class was chosen before the sample was seen")


class VC(NamedTuple):
    """A VC dimension: `points` that are shattered, their number `lower`, and the `upper` end, equal where known."""

    lower: float
    points: np.ndarray
    upper: float

    __repr__ = shown


@implements("B08.12", "B08.13")
def vc_dimension(cls: Class) -> VC:
    r"""The largest number of points that the class shatters, with such points as the certificate.

    Thresholds 1, intervals 2, boxes $2d$, half-spaces $d+1$ ($d$ without bias), each with the points of its proof; a
    finite class by trying all sets of places, at most $\log_2$ of its size. The sine class has no largest number.

    >>> vc_dimension(Halfspaces(2)).lower
    3
    """
    if isinstance(cls, Thresholds | Intervals):
        points = np.arange(1.0 + isinstance(cls, Intervals))
    elif isinstance(cls, Rectangles):
        points = np.concatenate([np.eye(cls.d), -np.eye(cls.d)])
    elif isinstance(cls, Halfspaces):
        points = np.concatenate([np.zeros((int(cls.bias), cls.d)), np.eye(cls.d)])
    elif isinstance(cls, SineClass):
        return VC(math.inf, np.arange(1, 9), math.inf)
    elif isinstance(cls, FiniteClass):
        points = _largest_shattered(cls.table)
    else:
        raise TypeError(f"cls must be a class of functions that can be counted, got {type(cls).__name__}.")
    return VC(len(points), points, len(points))


def _largest_shattered(table):
    functions, places = table.shape
    best: tuple[int, ...] = ()
    # a set is shattered only if its subsets are: each is grown from those of one place less
    level = {()}
    while level:
        best = min(level)
        tried = {(*old, new) for old in level for new in range(old[-1] + 1 if old else 0, places)}
        size = len(best) + 1
        level = {s for s in tried if 2**size <= functions and len(np.unique(table[:, s], axis=0)) == 2**size}
    return np.array(best, int)


@implements("B08.13")
def radon_labelling(points: Float[ArrayLike, "n d"]) -> Bool[Array, "n"]:
    r"""A labelling of $n\ge d+2$ points of $\mathbb R^d$ that no half-space makes: the signs of an affine dependence.

    If $\sum_i\alpha_ix_i=0$ and $\sum_i\alpha_i=0$, the points with $\alpha_i>0$ and the others have convex hulls that
    meet, and a function $w\cdot x+b$ cannot be positive on one and negative on the other.
    """
    points = real("points", points, "n d")
    n, d = points.shape
    if n < d + 2:
        raise ValueError(f"points must be at least {d + 2} in {d} dimensions, got {n}: fewer may be shattered.")
    _, _, rows = jnp.linalg.svd(jnp.concatenate([points, jnp.ones((n, 1), points.dtype)], 1).T, full_matrices=True)
    return rows[-1] > 0


@implements("B08.14")
def sauer(n: int, h: int) -> int:
    r"""$\sum_{i=0}^h\binom ni$: the most ways in which a class of VC dimension $h$ divides $n$ points, exactly.

    $2^n$ for $n\le h$, and at most $(en/h)^h$ for $n\ge h\ge1$.
    """
    n, h = whole("n", n, 0), whole("h", h, 0)
    return sum(math.comb(n, i) for i in range(min(n, h) + 1))


class VCEntropy(NamedTuple):
    """The mean of the logarithm of the number of dichotomies, and the logarithm of its mean (annealed)."""

    mean_log: float
    log_mean: float

    __repr__ = shown


@implements("B08.06")
def vc_entropy(cls: Class, samples: Float[ArrayLike, "..."]) -> VCEntropy:
    r"""$E\ln|\mathcal F_S|$ and $\ln E|\mathcal F_S|$ over `samples` (repetitions, n, ...), in nats.

    In this order, and both at most $\ln S(n)$: the growth function looks at the worst points, this at usual ones.
    """
    samples = np.asarray(samples)
    if samples.ndim < 2:
        raise ValueError(f"samples must have shape (repetitions, n, ...), got {samples.shape}.")
    counts = np.array([len(dichotomies(cls, points)) for points in samples], float)
    return VCEntropy(float(np.log(counts).mean()), float(np.log(counts.mean())))


@implements("B08.16")
def relu_vc_upper(widths: Sequence[int]) -> float:
    r"""An upper bound of the VC dimension of ReLU networks of these `widths`, inputs and the one output included.

    $L+\big(\sum_iW_i\big)\log_2(4eR\log_2(2eR))$ with $R=\sum_iik_i$, for $k_i$ units in layer $i$ and $W_i$ weights
    and biases up to it (Bartlett, Harvey, Liaw and Mehrabian): of the order of $WL\log W$.
    """
    widths = [whole("widths", width) for width in widths]
    if len(widths) < 2:
        raise ValueError(f"widths must hold inputs and outputs at least, got {len(widths)} number.")
    weights = np.cumsum([(a + 1) * b for a, b in pairwise(widths)])
    total = sum(i * k for i, k in enumerate(widths[1:], 1))
    return len(widths) - 1 + float(weights.sum()) * math.log2(4 * math.e * total * math.log2(2 * math.e * total))


@implements("B08.11", "B08.15")
def vc(
    n: int,
    delta: Float[ArrayLike, "..."],
    *,
    growth: Callable[[int], int] | None = None,
    dimension: float | None = None,
    risk: Float[ArrayLike, "..."] = 0.0,
    form: str = "sharp",
) -> Bound:
    r"""For all functions of the class, $R\le R_S+2\sqrt{\frac2n(\ln S(2n)+\ln\frac2\delta)}$, for a loss of 0 or 1.

    `growth` is a function of the number of points, $S$ or a bound of it; or `dimension` is the VC dimension $h$, with
    $h\ln\frac{2en}h$ for $\ln S(2n)$ if $2n\ge h$, and $2n\ln2$ otherwise. `form="printed"` has $h(\ln(2n)+1)$ there.

    >>> round(float(vc(200, 0.05, growth=lambda m: m + 1).value), 3)
    0.622
    """
    n, delta, risk = whole("n", n), confidence(delta), risk_of(risk)
    one_of("form", form, ("sharp", "printed"))
    if (growth is None) == (dimension is None):
        raise ValueError("vc needs one of growth and dimension.")
    if growth is not None:
        nats = math.log(growth(2 * n))  # of an integer of any length
    else:
        h = float(within("dimension", np.asarray(dimension, float), 0.0))
        nats = h * (math.log(2 * n) + 1) if form == "printed" else _log_sauer(2 * n, h)
    return spent(
        risk,
        lambda total: risk + 2 * jnp.sqrt(2 * total / float(n)),  # whole numbers of 32 bits end at 2^31
        delta,
        {"capacity of the class": nats, "confidence": jnp.log(2 / delta)},
        PREMISES,
    )


def _log_sauer(n, h):
    if h == 0:
        return 0.0
    return n * math.log(2) if n < h else h * (math.log(n / h) + 1)


@implements("B08.11")
def largest_gap(cls: Class, sample: Int[ArrayLike, "... n"], law: FiniteLaw) -> Float[Array, "..."]:
    r"""$\sup_f(R(f)-R_S(f))$ over the class, exactly, for the 0-1 loss and a law on finitely many points.

    `sample` holds numbers of rows of the law, as `law.samples` gives them, and may be many samples. The labels of the
    law are 0 and 1. Of the class only its restrictions to the points of the law matter, and they are listed.
    """
    if not isinstance(law, FiniteLaw):
        raise TypeError(f"law must be a FiniteLaw, got {type(law).__name__}.")
    sample = jnp.asarray(sample)
    points = np.asarray(law.x)
    wrong = jnp.asarray(dichotomies(cls, points) != (np.asarray(law.y) == 1), law.probability.dtype)
    counts = jax.nn.one_hot(sample, len(points), dtype=wrong.dtype).mean(-2)
    return jnp.max((law.probability - counts) @ wrong.T, -1)
