"""The relative entropy of two coins: its inverse, and what sort of distance it is not."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import Size, at_least, at_most, claim, control, equal, printed
from corollary.foundations import kl, kl_bernoulli, kl_inverse


@claim(rows=("B09.14",))
def coins_and_the_inverse(key, *, n: Size = 60):
    r"""The inverse of kl bounds the mean of a coin from its share, better than Pinsker's inequality.

    $\mathrm{kl}^{-1}(q,c)=\sup\{p\ge q:\mathrm{kl}(q\|p)\le c\}$. For $n$ independent examples with a loss of 0 or 1
    the risk lies above $\mathrm{kl}^{-1}(R_S,\ln(1/\delta)/n)$ with probability $\delta$ at most, and
    $\mathrm{kl}^{-1}(q,c)\le q+\sqrt{c/2}$. The probabilities are those of the binomial law.
    """
    q_key, c_key, p_key = jax.random.split(key, 3)
    q = jax.random.uniform(q_key, (300,), minval=0.01, maxval=0.95)
    c = jnp.exp(jax.random.uniform(c_key, (300,), minval=-9.0, maxval=1.0))
    p = np.append(np.asarray(jax.random.uniform(p_key, (40,))), [0.5, 1.0 - 0.05 ** (1 / n)])
    upper, lower = kl_inverse(q, c), kl_inverse(q, c, side="lower")
    # p near 0 or 1 by a distance h carries the error eps/h into kl; a round trip within 1e-9 leaves room for h = 1e-6
    inside = np.asarray((upper < 1 - 1e-6) & (lower > 1e-6))
    yield equal("kl at the upper end", kl_bernoulli(q, upper)[inside], c[inside])
    yield equal("kl at the lower end", kl_bernoulli(q, lower)[inside], c[inside])
    yield at_most("upper end, against Pinsker", upper, q + jnp.sqrt(c / 2))
    shares = np.arange(n + 1) / n
    ends = np.asarray(kl_inverse(shares, np.log(20) / n))
    # a mean that is the end but for rounding is not above it
    fails = [float(scipy.stats.binom.pmf(np.arange(n + 1), n, mean)[ends < mean - 1e-12].sum()) for mean in p]
    yield at_most("probability that the mean lies above", fails, 0.05)
    # n copies of one coin: the share is 0 or 1, and 0 has the probability 1 - p
    copies = [(1 - mean) * (ends[0] < mean) for mean in p]
    yield control("the n examples are one and the same", at_most("probability that the mean lies above", copies, 0.05))


@claim(rows=("B09.03",), erratum="KL is called a metric: it is not symmetric, and violates the triangle inequality.")
def relative_entropy_as_a_metric(key, *, atoms: Size = 5, laws: Size = 200):
    r"""The relative entropy is a metric on laws.

    As printed. It is zero or more and zero only for equal laws; but it is not symmetric, and of three laws on a line
    the way over the middle one is shorter than the direct one. It is at least twice the squared distance in total
    variation, which is a metric.
    """
    draws = jax.random.exponential(key, (3, laws, atoms))
    p, q, r = draws / draws.sum(-1, keepdims=True)
    middle = (p + r) / 2
    forth, back = np.asarray(kl(p, q)), np.asarray(kl(q, p))
    variation = np.asarray(jnp.sum(jnp.abs(p - q), -1) / 2)
    yield at_least("relative entropy, against total variation", forth, 2 * variation**2)
    yield equal("relative entropy of a law to itself", kl(p, p), 0.0)
    yield printed(equal("both ways", forth, back))
    yield printed(at_most("direct way, against the way over the middle", kl(p, r), kl(p, middle) + kl(middle, r)))
