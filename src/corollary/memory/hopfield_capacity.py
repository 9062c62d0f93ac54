r"""How much a Hopfield network holds: laws of the cross-talk between random patterns, at finite size and in the limit.

$s$ patterns of $n$ independent uniform signs, Hebbian weights, load $\alpha=s/n$. With zero diagonal
$n\,x_{t,i}H_i=(n-1)+S$ where $S=\sum_{r\ne t}\sum_{j\ne i}x_{t,i}x_{r,i}x_{r,j}x_{t,j}$ is *exactly* a sum of
$(s-1)(n-1)$ independent signs, because given $x_t$ and the $x_{r,i}$ the $x_{r,j}$ are still free. With the diagonal
kept $n-1$ becomes $n+s-1$.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, erf, erfc, gammaln, log_ndtr, ndtr
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


class CapacityTransition(NamedTuple):
    r"""A fit of $P(\text{kept})=\Phi(a+\kappa\sqrt n(\alpha_c-\alpha))$: where all sizes meet, and how steeply."""

    load: jax.Array
    slope: jax.Array
    offset: jax.Array

    __repr__ = shown


@implements("E01.30")
def crosstalk_variance(n: Float[ArrayLike, "..."], s: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\frac{(s-1)(n-1)}{n^2}$, the exact variance of $C^0_{t,i}$; it tends to the load $s/n$."""
    n, s = within("n", real("n", n), 1.0), within("s", real("s", s), 1.0)
    return (s - 1) * (n - 1) / n**2


@implements("E01.31")
def flip_probability_limit(load: Float[ArrayLike, "..."], *, zero_diagonal: bool = True) -> Float[Array, "..."]:
    r"""The limit of `flip_probability` at a fixed load.

    $\frac12\operatorname{erfc}\frac1{\sqrt{2\alpha}}=\frac12(1-\operatorname{erf}\sqrt{n/2s})$; with the diagonal kept
    $\frac12\operatorname{erfc}\frac{1+\alpha}{\sqrt{2\alpha}}$.
    """
    load = positive("load", real("load", load))
    return 0.5 * erfc((1.0 if zero_diagonal else 1 + load) / jnp.sqrt(2 * load))


@implements("E01.31")
def flip_probability(
    n: Float[ArrayLike, "..."], s: Float[ArrayLike, "..."], *, zero_diagonal: bool = True
) -> Float[Array, "..."]:
    r"""The exact probability that a given unit of a given pattern is unstable, ties included.

    $P(S<-a)+\frac12P(S=-a)$ for the sum $S$ of $N=(s-1)(n-1)$ signs and $a=n-1$ (or $n+s-1$): a unit at a tie goes to
    $+1$, which is wrong for half of the patterns.
    """
    n, s = within("n", real("n", n), 2.0), within("s", real("s", s), 1.0)
    trials, margin = (s - 1) * (n - 1), (n - 1 if zero_diagonal else n + s - 1)
    ups = (trials - margin) / 2  # the number of +1 among the signs at which the field vanishes
    some = ups >= 0
    count = jnp.floor(jnp.where(some, ups, 0.0))
    # P(B <= count) of a fair binomial is a regularised incomplete beta function
    below = betainc(jnp.maximum(trials - count, 1.0), count + 1, 0.5)
    tie = jnp.where(
        count == ups,
        jnp.exp(gammaln(trials + 1) - gammaln(count + 1) - gammaln(trials - count + 1) - trials * np.log(2)),
        0.0,
    )
    exact = jnp.where(some, below - tie / 2, 0.0)
    # of more signs the incomplete beta function loses digits, and the normal law is off by a relative 1e-6 only: ties
    # counted half leave no lattice error of first order
    return jnp.where(trials > 1e7, ndtr(-margin / jnp.sqrt(jnp.maximum(trials, 1.0))), exact)


@implements("E01.33")
def pattern_capacity(n: Float[ArrayLike, "..."], *, base: float = 2.0) -> Float[Array, "..."]:
    r"""$\frac n{2\log n}$ with the logarithm to this `base`: 2 as the notes print it, $e$ as the limit allows."""
    n, base = within("n", real("n", n), 2.0), within("base", base, 1.0, open="low")
    return n * np.log(base) / (2 * jnp.log(n))


@implements("E01.32")
def critical_load(grid: int = 100_000) -> tuple[Float[Array, ""], Float[Array, ""]]:
    r"""The largest load with a retrieval state, by the replica-symmetric theory at zero temperature: 0.1379.

    A state of overlap $\operatorname{erf}(y)$ exists where
    $\sqrt{2\alpha}=\frac{\operatorname{erf}y}{y}-\frac2{\sqrt\pi}e^{-y^2}$; the right side has one maximum.
    Returns the load and the overlap there, 0.967.
    """
    y = jnp.linspace(1e-3, 6.0, whole("grid", grid, 2))
    loads = _load(y)
    best = jnp.argmax(loads)
    return loads[best], erf(y[best])


@implements("E01.32")
def replica_overlap(load: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""The overlap with a stored pattern at which the network rests below the critical load: $\operatorname{erf}(y)$.

    The larger solution $y$ of $\sqrt{2\alpha}=\frac{\operatorname{erf}y}{y}-\frac2{\sqrt\pi}e^{-y^2}$, by bisection;
    not a number above the critical load, where there is none.
    """
    load = positive("load", real("load", load))
    peak = 1.5110  # of _load; beyond it the load falls with y
    low, high = jnp.full_like(load, peak), 1 / jnp.sqrt(2 * load) + peak  # erf y / y < 1/y: the root lies below

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        left = _load(middle) > load
        return jnp.where(left, middle, low), jnp.where(left, high, middle)

    low, high = jax.lax.fori_loop(0, 60, halve, (low, high))
    return jnp.where(_load(jnp.asarray(peak, load.dtype)) >= load, erf((low + high) / 2), jnp.nan)


@implements("E01.32")
def fit_transition(
    n: Float[ArrayLike, "m"], loads: Float[ArrayLike, "m"], kept: Float[ArrayLike, "m"], trials: Float[ArrayLike, "m"]
) -> CapacityTransition:
    r"""Where the chance to stay at a pattern stops depending on the size: maximum likelihood over all sizes together.

    `kept` of `trials` runs stayed near their pattern in networks of `n` units at these `loads` (all of one shape). The
    model is $\Phi(a+\kappa\sqrt n(\alpha_c-\alpha))$: the effective noise of a network fluctuates by $n^{-1/2}$, and at
    $\alpha_c$ every size keeps the same share $\Phi(a)$ of the patterns.
    """
    dims = {}
    n, loads = positive("n", real("n", n, "m", dims)), positive("loads", real("loads", loads, "m", dims))
    kept, trials = real("kept", kept, "m", dims), real("trials", trials, "m", dims)
    root = jnp.sqrt(n)
    design = jnp.stack([jnp.ones_like(root), root, -root * (loads - 0.14) * 10], axis=1)  # scaled for the solver

    def loss(beta):
        z = design @ beta
        return -jnp.sum(kept * log_ndtr(z) + (trials - kept) * log_ndtr(-z)) / jnp.sum(trials)

    def newton(_, beta):
        slope, curvature = jax.grad(loss)(beta), jax.hessian(loss)(beta)
        step = jnp.linalg.solve(curvature + 1e-12 * jnp.eye(3, dtype=beta.dtype), slope)
        return beta - step * jnp.minimum(1.0, 1.0 / jnp.linalg.norm(step))

    beta = jax.lax.fori_loop(0, 50, newton, jnp.array([1.0, 0.0, 0.1], design.dtype))
    return CapacityTransition(0.14 + beta[1] / (10 * beta[2]), 10 * beta[2], beta[0])


def _load(y):
    return 0.5 * jnp.maximum(erf(y) / y - 2 / np.sqrt(np.pi) * jnp.exp(-(y**2)), 0.0) ** 2
