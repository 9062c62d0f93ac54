"""Intervals of confidence: where a probability lies after so many trials."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import concrete, real, within
from corollary.catalog import implements


@implements("M03.03")
def wilson_interval(
    successes: Float[ArrayLike, "..."], trials: Float[ArrayLike, "..."], level: Scalar = 0.95
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Wilson's score interval for a binomial probability; [0, 1] when nothing was tried.

    >>> [round(float(end), 3) for end in wilson_interval(8, 10)]
    [0.49, 0.943]
    """
    trials = within("trials", real("trials", trials), 0.0)
    successes = within("successes", real("successes", successes), 0.0)
    if concrete(successes) and concrete(trials) and (np.asarray(successes) > np.asarray(trials)).any():
        raise ValueError(f"successes must not exceed trials, got {successes} out of {trials}.")
    z = ndtri(0.5 + 0.5 * within("level", real("level", level, ""), 0.0, 1.0, open="both"))
    # With trials n and successes s, the roots of (s/n - p)^2 n = z^2 p (1 - p).
    middle = (successes + z * z / 2) / (trials + z * z)
    spread = successes * (trials - successes) / jnp.maximum(trials, 1) + z * z / 4
    half = z * jnp.sqrt(spread) / (trials + z * z)
    return jnp.clip(middle - half, 0, 1), jnp.clip(middle + half, 0, 1)
