"""Uniform convergence of thresholds: the law of the largest gap between error and training error."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import Range, claim, control, frequency_at_most, same_law
from corollary.generalization import vc

DELTA = 0.05


@claim(rows=("T05.19",), full={"draws": 20_000})
def uniform_convergence_of_thresholds(
    key, *, n: Annotated[int, Range(20, 2000)] = 60, draws: Annotated[int, Range(2000, 100_000)] = 2000
):
    r"""Uniform convergence: the error is near the training error for all functions of the class at once.

    $|L(h)-\hat L_S(h)|\le\epsilon$ for all $h$ with probability $1-\delta$. For the thresholds $h_t(x)=\mathbf 1[x\ge
    t]$ on uniform $x$ with the label 0 the largest gap $\sup_t|1-t-\frac1n\#\{x_i\ge t\}|$ is the distance of
    Kolmogorov and Smirnov, whose law is known: the least $\epsilon$ is its quantile, far below that of the VC bound.
    All subsets that one can choose after looking at the sample do not converge uniformly.
    """

    @jax.jit
    def measure(key):
        x_key, row_key = jax.random.split(key)
        x = jnp.sort(jax.random.uniform(x_key, (draws, n)), 1)
        # just at a point, and just above it: the gap is largest at one of these
        at = (n - jnp.arange(n)) / n
        gaps = jnp.max(jnp.maximum(jnp.abs(1 - x - at), jnp.abs(1 - x - at + 1 / n)), 1)
        # of 100 n equally likely points the set of those that the sample does not have: no training error
        rows = jax.random.randint(row_key, (draws, n), 0, 100 * n)
        seen = jax.lax.map(lambda r: jnp.zeros(100 * n, bool).at[r].set(True), rows, batch_size=100)
        return gaps, 1 - jnp.mean(seen, 1)

    (gaps, missed), law = map(np.asarray, measure(key)), scipy.stats.kstwo(n)
    # the law that one threshold would have: the deviation of a fair share of n coins
    one = scipy.stats.norm(scale=0.5 / np.sqrt(n))
    yield same_law("largest gap", gaps, law.cdf, wrong=lambda g: one.cdf(g) - one.cdf(-g))
    yield frequency_at_most("largest gap beyond its quantile", gaps > law.ppf(1 - DELTA), DELTA)
    yield frequency_at_most("largest gap beyond the VC bound", gaps > float(vc(n, DELTA, dimension=1).value), DELTA)
    yield control(
        "the class is thresholds: here all sets",
        frequency_at_most("largest gap beyond the quantile", missed > law.ppf(1 - DELTA), DELTA),
    )
