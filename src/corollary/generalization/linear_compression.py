r"""Linear classifiers with a margin in few numbers: coordinates kept at random, and random projections."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.generalization.compression import (
    MOST_LEVELS,
    Description,
    float_nats,
    log_binomial,
    on_grid,
    whole_number_nats,
)


class Sparse(NamedTuple):
    """Weights `w` of which most are 0, and their `description`."""

    w: Array
    description: Description

    __repr__ = shown


class Projected(NamedTuple):
    """The weights `w` that `numbers`, as many as were asked for, and the helper string make; their `description`."""

    w: Array
    numbers: Array
    description: Description

    __repr__ = shown


@implements("T05.27", "T05.28")
def sparsify(w: Float[ArrayLike, "d"], margin: Scalar, *, key: PRNGKeyArray) -> Sparse:
    r"""Keep coordinate $i$ as $w_i/p_i$ with probability $p_i=\min(1,8w_i^2/\gamma^2)$, and 0 otherwise.

    For $\gamma$ = `margin` and $\|w\|=1$ no more than $8/\gamma^2$ are expected to stay. For a point $u$ of length 1
    that does not depend on the coins, $E\,\hat w\cdot u=w\cdot u$ and the variance
    $\sum_iu_i^2w_i^2(1/p_i-1)\le\gamma^2/8$: with probability $7/8$ it is moved by less than $\gamma$. Coordinates with
    $w_i^2\ge\gamma^2/8$ stay as they are. The coins may be looked at, the choice is paid.

    >>> float(sparsify(jnp.ones(400) / 20, 0.5, key=key).description.parameters) < 60
    True
    """
    w, margin = real("w", w, "d"), positive("margin", real("margin", margin, ""))
    chance = keep_probabilities(w, margin)
    stays = jax.random.uniform(key, w.shape, w.dtype) < chance
    kept = jnp.sum(stays, dtype=w.dtype)
    nats = {
        "values": kept * float_nats(w),
        "mask": log_binomial(float(w.size), kept),
        "how many are kept": whole_number_nats(kept + 1),
    }
    sparse = jnp.where(stays, w / jnp.where(chance > 0, chance, 1), 0)
    return Sparse(sparse, Description(kept, nats))


@implements("T05.27", "T05.28")
def keep_probabilities(w: Float[ArrayLike, "d"], margin: Scalar) -> Float[Array, "d"]:
    r"""$\min(1,8w_i^2/\gamma^2)$, with which `sparsify` keeps each coordinate."""
    w, margin = real("w", w, "d"), positive("margin", real("margin", margin, ""))
    return jnp.minimum(1, 8 * w**2 / margin**2)


@implements("T05.25", "T05.29")
def project(w: Float[ArrayLike, "d"], size: int, *, key: PRNGKeyArray, levels: int | None = None) -> Projected:
    r"""$\hat w=M^\top(Mw)$ from the $k$ = `size` numbers $Mw$; entries of $M$ are independent and $\mathcal N(0,1/k)$.

    $M$ is the helper string: it comes from `key`, which must have been drawn without looking at the data, and costs
    nothing. For fixed $w$ and $u$ of length 1, $\hat w\cdot u$ has mean $w\cdot u$ and variance
    $(1+(w\cdot u)^2)/k$. With `levels` the $k$ numbers are rounded to as many values, equally spaced up to the largest
    modulus; without they are paid as they are stored.

    >>> project(jnp.ones(100) / 10, 20, key=key, levels=16).numbers.shape
    (20,)
    """
    w, size = real("w", w, "d"), whole("size", size)
    helper = jax.random.normal(key, (size, w.size), w.dtype) * size**-0.5
    numbers = helper @ w
    nats = {"values": size * float_nats(w), "size": whole_number_nats(size)}
    if levels is not None:
        levels = whole("levels", levels, 2, MOST_LEVELS)
        numbers = on_grid(numbers, levels)
        nats["values"] = size * float(np.log(levels))
        nats |= {"scale": float_nats(w), "levels": whole_number_nats(levels)}
    nats = {name: jnp.asarray(value, w.dtype) for name, value in nats.items()}
    return Projected(numbers @ helper, numbers, Description(jnp.asarray(float(size), w.dtype), nats))
