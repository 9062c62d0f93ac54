"""The VC bound: on thresholds by redrawing, and for a class of one parameter that shatters everything."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.generalization._sines import gap_of_a_sine
from corollary.evidence import Count, Range, at_least, at_most, claim, control, frequency_at_most
from corollary.foundations import FiniteLaw
from corollary.generalization import Intervals, Thresholds, growth, largest_gap, sauer, vc

DELTA = 0.05


@claim(rows=("B08.11", "B08.15"), full={"draws": 20_000})
def vc_bound(key, *, n: Annotated[int, Range(20, 2000)] = 200, draws: Annotated[Count, Range(2000, 10**6)] = 2000):
    r"""A class that divides few points in all ways has training errors that are close to the truth for all functions.

    With probability $1-\delta$, $R(f)\le R_S(f)+2\sqrt{\frac2n(\ln S(2n)+\ln\frac2\delta)}$ for all $f$ (Theorem 60),
    and with $h(\ln(2n)+1)$ for $\ln S(2n)$, $h$ the VC dimension, a little more. For thresholds on $[0,1]$ the largest
    gap is the one-sided statistic of Kolmogorov; for intervals on twelve places it is found by listing them. The signs
    of $\sin\omega x$ have one parameter and no VC dimension: the bound with $h=1$ breaks on them.
    """
    uniform_key, place_key, sine_key = jax.random.split(key, 3)
    law = FiniteLaw(jnp.arange(12.0), jnp.arange(12) % 2, jnp.full(12, 1 / 12))

    @jax.jit
    def measure(uniform_key, place_key):
        x = jnp.sort(jax.random.uniform(uniform_key, (draws, n)), -1)
        # the loss of a threshold is 1 below it: the gap is largest just before a point
        kolmogorov = jnp.max(x - jnp.arange(n) / n, -1)
        return kolmogorov, largest_gap(Intervals(), jax.random.randint(place_key, (draws, n), 0, 12), law)

    line, places = (np.asarray(a) for a in measure(uniform_key, place_key))
    bound = float(vc(n, DELTA, growth=lambda m: growth(Thresholds(), m)).value)
    yield frequency_at_most("largest gap of thresholds beyond the bound", line > bound, DELTA)
    wider = float(vc(n, DELTA, growth=lambda m: growth(Intervals(), m)).value)
    yield frequency_at_most("largest gap of intervals beyond the bound", places > wider, DELTA)
    sizes = np.array([50, 200, 1000, 5000])
    exact, sums, sharp, loose = (
        np.array([float(vc(int(m), DELTA, **{**given}).value) for m in sizes])
        for given in (
            {"growth": lambda m: growth(Intervals(), m)},
            {"growth": lambda m: sauer(m, 2)},
            {"dimension": 2},
            {"dimension": 2, "form": "printed"},
        )
    )
    yield at_most("growth function, against the sum of binomials", exact, sums, x=sizes, along="n")
    yield at_most("sum of binomials, against the dimension", sums, sharp, x=sizes, along="n")
    yield at_most("dimension, against its printed form", sharp, loose, x=sizes, along="n")
    tightness = np.quantile(line, 1 - DELTA) / bound
    # the bound is of the order of √(ln n / n), the gap of √(1/n): 0.14 at n = 200
    yield at_least("share of the bound that is used", tightness, 0.05)
    gap = gap_of_a_sine(sine_key, 200, 4000)
    yield control(
        "the VC dimension is h: here one parameter and none",
        at_most("largest gap of a sine", gap, vc(200, DELTA, dimension=1).value),
    )
