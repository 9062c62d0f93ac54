"""Scaling laws: what more data changes, how compute is split, and what looks like emergence."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Positive, at_least, at_most, claim, control, equal, rate
from corollary.language import CHINCHILLA, ScalingLaw, chinchilla_loss, compute_optimal, fit_scaling_law


@claim(rows=("T15.10", "T15.12"))
def loss_and_excess_of_more_data(key, *, noise: Positive = 1e-3):
    r"""Ten times the data change the loss by a few percent and the excess over its floor by a constant factor.

    For $L=A+BN^{-0.34}+CD^{-0.28}$ with $A=1.61$, $B=406.4$, $C=410.7$ and large $N$, going from $10^{11}$ to $10^{12}$
    tokens lowers the loss from 1.95 to 1.79, by 8 percent, and its part $CD^{-0.28}$ from 0.3416 to 0.1793, by the
    factor $10^{0.28}=1.905$; ten times the size divide the other part by 2.188. Fitted to noisy losses of a grid of
    runs, the exponents come out within 0.01. The best split of $6ND$ operations has $N$ growing with the power
    $0.28/0.62$ of them.
    """
    data = np.array([1e11, 1e12])
    huge = 1e30  # parameters whose own term is below 1e-7
    loss = np.asarray(chinchilla_loss(huge, data))
    part = loss - CHINCHILLA.constant
    yield equal("loss at 1e11 and 1e12 tokens", loss, [1.95, 1.79], rtol=0, atol=0.005)
    yield equal("the part of the data", part, [0.3416, 0.1793], rtol=0, atol=5e-5)
    # printed with three digits; the term of the size adds 3e-8
    yield equal("how often it falls with ten times the data", part[0] / part[1], 1.905, rtol=0, atol=6e-4)
    sizes = np.asarray(chinchilla_loss(np.array([1e9, 1e10]), 1e30)) - CHINCHILLA.constant
    yield equal("how often the part of the size falls", sizes[0] / sizes[1], 2.188, rtol=0, atol=6e-4)
    yield equal("change of the loss, in percent", 100 * (1 - loss[1] / loss[0]), 8.3, rtol=0, atol=0.1)
    n, d = (a.ravel() for a in np.meshgrid(10.0 ** np.arange(7, 11.1, 0.5), 10.0 ** np.arange(8, 12.6, 0.5)))

    @jax.jit
    def fitted(key):
        return jnp.stack(fit_scaling_law(n, d, chinchilla_loss(n, d) + noise * jax.random.normal(key, n.shape)))

    found = fitted(key)
    # noise of 0.001 on 90 losses whose terms span 0.1 to 3: exponents are known to about 0.001
    yield equal("exponents fitted to noisy losses", found[jnp.array([2, 4])], [0.34, 0.28], rtol=0, atol=0.01)
    yield equal("the fitted constant", found[0], CHINCHILLA.constant, rtol=0, atol=0.03)
    compute = 10.0 ** np.arange(18, 26)
    best = compute_optimal(compute)
    yield rate("size of the best split", compute, best.size, 0.28 / 0.62, tolerance=1e-6, along="operations")
    shifts = np.exp(np.linspace(-0.5, 0.5, 101))[:, None]
    others = chinchilla_loss(best.size * shifts, best.tokens / shifts)
    yield at_least("losses of other splits", others, np.broadcast_to(best.loss, others.shape))
    yield control(
        "the terms have the exponents of the law: here equal ones",
        rate(
            "size of the best split",
            compute,
            compute_optimal(compute, ScalingLaw(1.61, 406.4, 0.3, 410.7, 0.3)).size,
            0.28 / 0.62,
            tolerance=1e-6,
        ),
    )


@claim(rows=("T15.11",))
def emergence_depends_on_the_metric(key):
    r"""Smooth progress per token looks sudden where many tokens must all be right.

    Tokens are wrong with probability $\epsilon=s^{-1/2}$ at scale $s$, and a task of $m$ tokens is solved with
    probability $(1-\epsilon)^m$, which answers drawn token by token confirm. The scale of even odds grows as $m^2$: on
    an axis up to $10^6$, the task of 100 tokens shows next to nothing over the first half of the decades.
    """
    lengths = np.array([1, 5, 20, 100])
    scale = 10.0 ** np.arange(0.5, 6.1, 0.5)
    draws = 4000

    @jax.jit
    def drawn(key):
        right = jax.random.uniform(key, (draws, int(lengths[-1]))) > (scale**-0.5)[:, None, None]
        return jnp.stack([jnp.mean(jnp.all(right[..., :m], -1), -1) for m in lengths.tolist()])

    found, solved = np.asarray(drawn(key)), (1 - scale**-0.5) ** lengths[:, None]
    # five standard errors of 4,000 draws
    yield equal("share of tasks solved", found, solved, rtol=0, atol=5 * 0.5 / draws**0.5, x=scale, along="scale")
    at = lambda share: (1 - share ** (1 / lengths)) ** -2  # noqa: E731
    late = at(0.5)[1:] / lengths[1:] ** 2
    # (1 - 2^(-1/m))^-2 = (m/ln 2)² (1 + O(1/m))
    yield equal("scale of even odds over m²", late, 1 / np.log(2) ** 2, rtol=0.15)
    half = found[:, scale < 10**3.01].max(1)
    # at scale 1000 it is 0.9684^100 = 0.040; the rest are five standard errors of the draws
    yield at_most("success with 100 tokens in the first half", half[-1], 0.06)
    yield control("many tokens must be right: here one", at_most("success with one token there", half[0], 0.06))
