"""Bernstein's inequality for variables with moments, and the deviation of chi-square variables, against exact laws."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import Count, Positive, Size, at_most, claim, control, equal, printed, same_law
from corollary.foundations import (
    bernstein_moments,
    bernstein_moments_deviation,
    chi_square_deviation,
    half_line,
)

DELTA = 10.0 ** -np.linspace(0.5, 9, 18)


def _laplace_tail(k, t):
    """P of a sum of k standard Laplace variables above t > 0: the difference of two Gamma(k) variables."""
    g, weights = half_line(800)
    with np.errstate(divide="ignore"):
        density = np.exp((k - 1) * np.log(g) - g - scipy.special.gammaln(k))
    return (weights * density) @ scipy.special.gammaincc(k, t + g[:, None])


@claim(rows=("B12.15",))
def bernstein_with_moments(key, *, b: Positive = 1.0):
    r"""A sum of independent variables whose moments grow no faster than factorials is seldom large.

    Let $X_1,\dots,X_k$ be independent with mean 0 and $E|X_j|^q\le\frac{q!}2\sigma^2c^{q-2}$ for all whole $q\ge2$.
    Then $E e^{\lambda X_j}\le\exp\frac{\sigma^2\lambda^2}{2(1-\lambda c)}$ for $0\le\lambda<\frac1c$, and with
    probability at least $1-\gamma$, $\sum X_j\le\sqrt{2\sigma^2k\ln(1/\gamma)}+c\ln(1/\gamma)$: the best that
    Chernoff's method makes of the first bound. The Laplace law of scale $b$ meets the condition with equality for every
    $q$ ($\sigma^2=2b^2$, $c=b$), exponential variables less their mean with $\sigma^2=c=1$. A Student variable with
    three degrees of freedom has no fourth moment, and its tail exceeds the bound whatever $c$ is.
    """
    # moments by quadrature; the integrands are smooth and fall exponentially: 400 nodes leave rounding only
    z, weights = half_line(400)
    log = np.log(weights / b) - z / b  # of the density of |X|, with the weights
    q = np.arange(2, 13)
    moments = np.exp(log[:, None] + q * np.log(z[:, None])).sum(0)
    allowed = scipy.special.factorial(q) / 2 * (2 * b**2) * b ** (q - 2.0)
    yield equal("moments of the Laplace law: the condition with equality", moments, allowed, x=q, along="order q")
    share = np.linspace(0.02, 0.9, 45)
    mgf = sum(np.exp(log[:, None] + sign * z[:, None] * share / b).sum(0) / 2 for sign in (-1, 1))
    bound = np.exp(2 * b**2 * (share / b) ** 2 / (2 * (1 - share)))
    yield at_most("moment generating function of the Laplace law", mgf, bound, x=share, along="λ times c")
    k = np.array([1, 10, 100])
    t = np.asarray(bernstein_moments_deviation(DELTA, 2.0 * b**2 * k[:, None], b))
    tail = np.stack([_laplace_tail(n, row / b) for n, row in zip(k, t, strict=True)])
    across = {"x": -np.log10(DELTA), "along": "-log10 of γ"}
    yield at_most("tail of 1, 10, 100 Laplace variables", tail, np.tile(DELTA, (3, 1)), **across)
    gamma = scipy.stats.gamma.sf(k[:, None] + bernstein_moments_deviation(DELTA, 1.0 * k[:, None], 1.0), k[:, None])
    yield at_most("tail of exponential variables", gamma, np.tile(DELTA, (3, 1)), **across)
    # Chernoff's exponent on a grid of λ: flat at its minimum, so that the grid misses it by its step squared
    lam = (np.arange(200_000) + 0.5) / 200_000 / b
    some = np.array([1.0, 10.0, 40.0]) * b
    exponents = [np.max(lam * s - 10 * lam**2 * b**2 / (1 - lam * b)) for s in some]
    yield equal("best exponent over λ", -np.log(bernstein_moments(some, 20 * b**2, b)), exponents, rtol=1e-7)
    spread = np.sqrt(3.0)  # the standard deviation of the Student law
    student = scipy.stats.t.sf(bernstein_moments_deviation(DELTA, spread**2, 1.0), 3)
    yield control(
        "moments of every order: a Student variable of three degrees has two",
        at_most("tail of one variable", student, DELTA, **across),
    )


def _outside(k, t):
    """P that a chi-square variable of k degrees is further than t from k."""
    return scipy.stats.chi2.sf(k + t, k) + scipy.stats.chi2.cdf(k - t, k)


@claim(rows=("B12.16",))
def chi_square_concentration(key, *, draws: Count = 20_000, degrees: Size = 6):
    r"""The sum of k squared standard normal variables is within a multiple of the root of k of its mean.

    $\sum_{j\le k}X_j^2$ has the chi-square law with $k$ degrees of freedom, mean $k$ and variance $2k$. With
    probability at least $1-\gamma$ it is within $2\sqrt{kL}+2L$ of $k$, $L=\ln(2/\gamma)$, which is at most
    $4\sqrt{kL}$ where $k\ge L$. The variables must be independent: $k$ times one square strays further.
    """
    squares = jax.jit(lambda key: jnp.sum(jax.random.normal(key, (draws, degrees)) ** 2, 1))(key)
    law, wrong = scipy.stats.chi2(degrees), scipy.stats.chi2(degrees + 1)
    yield same_law("sum of squares", squares, law.cdf, wrong=wrong.cdf)
    # moments from the density as printed, by quadrature
    x, weights = half_line(400)
    degree = np.array([1, 2, 5, 30])[:, None]
    density = np.exp((degree / 2 - 1) * np.log(x) - x / 2 - degree / 2 * np.log(2) - scipy.special.gammaln(degree / 2))
    first, second = (density * x**p @ weights for p in (1, 2))
    yield equal("mean of the density", first, degree[:, 0], x=degree[:, 0], along="degrees k")
    yield equal("variance of the density", second - first**2, 2 * degree[:, 0], x=degree[:, 0], along="degrees k")
    k = np.arange(1, 201)[:, None]
    bound = np.broadcast_to(DELTA, (200, DELTA.size))
    anywhere = _outside(k, np.asarray(chi_square_deviation(DELTA, 1.0 * k)))
    yield at_most("probability outside 2√(kL) + 2L", anywhere, bound)
    many = k >= np.log(2 / DELTA)
    rows = [(d, k[some, 0]) for d, some in zip(DELTA, many.T, strict=True)]
    root = [_outside(degree, np.asarray(chi_square_deviation(d, 1.0 * degree, "root"))) for d, degree in rows]
    yield at_most("probability outside 4√(kL), k at least L", np.concatenate(root), bound.T[many.T])
    t = np.asarray(chi_square_deviation(DELTA, 50.0))
    one = scipy.stats.chi2.sf(1 + t / 50, 1) + scipy.stats.chi2.cdf(1 - t / 50, 1)
    yield control(
        "independence: here fifty times the same variable",
        at_most("probability outside", one, DELTA, x=-np.log10(DELTA), along="-log10 of γ"),
    )


@claim(
    rows=("B12.16",),
    erratum="The condition k ≥ ln(2/γ) is missing: for few degrees and a small γ the deviation is larger.",
)
def chi_square_deviation_for_every_k(key):
    r"""The sum of k squared normal variables is within 4√(k ln(2/γ)) of k with probability 1 - γ, for every k and γ.

    As printed (Lemma 77), without a condition on $k$. For $k=1$ and $\gamma=10^{-6}$ the probability outside is
    $5.6\cdot10^{-5}$. For $k\ge\ln(2/\gamma)$ the statement is true.
    """
    k, delta = np.arange(1, 41)[:, None], 10.0 ** -np.arange(1, 10)
    level = np.log(2 / delta)
    outside, bound = _outside(k, 4 * np.sqrt(k * level)), np.broadcast_to(delta, (40, 9))
    yield equal("probability outside, k = 1 and γ = 1e-6", outside[0, 5], 5.6e-5, rtol=1e-2)
    yield printed(at_most("probability outside, every k", outside, bound))
    many = k >= level
    yield at_most("probability outside, k at least ln(2/γ)", outside[many], bound[many])
