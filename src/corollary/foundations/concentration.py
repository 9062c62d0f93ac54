r"""Tail bounds: how far a random variable, or a sum of independent ones, strays from its mean.

Every function takes the premises of its inequality as arguments and returns the bound as stated, elementwise over
arrays that broadcast. A bound above 1 is returned as it is: it is true and says nothing. Each bound comes with its
inverse where one is of use: `..._deviation(delta, ...)` is the deviation that is exceeded with probability at most
`delta`. Independence, which no argument can carry, is the caller's to know.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.special import rel_entr
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import one_of, positive, real, whole, within
from corollary.catalog import implements
from corollary.foundations._laws import together

#: The root of $(1+\delta)\ln(1+\delta)-\delta=\delta^2/3$: up to here the constant 3 of Chernoff's upper tail is right.
CHERNOFF_RANGE = 1.81696053553651


@implements("T01.06")
def markov(mean: Float[ArrayLike, "..."], t: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$P\{X\ge t\}\le E[X]/t$ for $X\ge0$ and $t>0$ (Markov). Attained by the law on $\{0,t\}$."""
    mean, t = within("mean", real("mean", mean), 0.0), positive("t", real("t", t))
    together(mean=mean, t=t)
    return mean / t


@implements("T01.07")
def chebyshev(variance: Float[ArrayLike, "..."], t: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$P\{|X-E[X]|\ge t\}\le\mathrm{Var}[X]/t^2$ for $t>0$ (Chebyshev); $X$ may take any sign.

    Attained by the law on $\{-t,0,t\}$ with masses $p/2,1-p,p/2$.
    """
    variance, t = within("variance", real("variance", variance), 0.0), positive("t", real("t", t))
    together(variance=variance, t=t)
    return variance / t**2


@implements("T01.09")
def chernoff_upper(
    mu: Float[ArrayLike, "..."], delta: Float[ArrayLike, "..."], form: str = "exact"
) -> Float[Array, "..."]:
    r"""A bound of $P\{X\ge(1+\delta)\mu\}$ for a sum $X$ of independent 0-1 variables with mean $\mu$.

    `form` chooses the exponent:
    - `"exact"`: $\mu\{(1+\delta)\ln(1+\delta)-\delta\}$, the best that depends on $\mu$ alone;
    - `"universal"`: $\mu\delta^2/(2+\delta)$, simple and right for every $\delta>0$;
    - `"third"`: $\mu\delta^2/3$, the usual one; right for $0<\delta\le1.8169\ldots$ (`CHERNOFF_RANGE`) only.
    """
    one_of("form", form, ("exact", "universal", "third"))
    mu, delta = within("mu", real("mu", mu), 0.0), real("delta", delta)
    within("delta", delta, 0.0, CHERNOFF_RANGE if form == "third" else jnp.inf, open="low")
    together(mu=mu, delta=delta)
    if form == "exact":
        return jnp.exp(-mu * ((1 + delta) * jnp.log1p(delta) - delta))
    return jnp.exp(-mu * delta**2 / (3.0 if form == "third" else 2 + delta))


@implements("T01.09")
def chernoff_lower(
    mu: Float[ArrayLike, "..."], delta: Float[ArrayLike, "..."], form: str = "exact"
) -> Float[Array, "..."]:
    r"""A bound of $P\{X\le(1-\delta)\mu\}$ for a sum $X$ of independent 0-1 variables with mean $\mu$, $0<\delta<1$.

    `form` chooses the exponent: `"exact"`: $\mu\{(1-\delta)\ln(1-\delta)+\delta\}$, or `"half"`: $\mu\delta^2/2$.
    """
    one_of("form", form, ("exact", "half"))
    mu, delta = within("mu", real("mu", mu), 0.0), within("delta", real("delta", delta), 0.0, 1.0, open="both")
    together(mu=mu, delta=delta)
    if form == "exact":
        return jnp.exp(-mu * ((1 - delta) * jnp.log1p(-delta) + delta))
    return jnp.exp(-mu * delta**2 / 2)


def binomial_tail(
    q: Float[ArrayLike, "..."], p: Float[ArrayLike, "..."], n: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$e^{-n\,H(q,p)}$, $H(q,p)=q\ln\frac qp+(1-q)\ln\frac{1-q}{1-p}$: bounds the mean of $n$ independent variables.

    They take values in $[0,1]$ and $p$ is the mean of their means. For $q\ge p$ it bounds $P\{\bar X\ge q\}$, for
    $q\le p$ it bounds $P\{\bar X\le q\}$. The exponent is the true rate: Chernoff's method gives no better one, and
    Hoeffding's $2(q-p)^2$ (Pinsker) is never larger.
    """
    q, p = within("q", real("q", q), 0.0, 1.0), within("p", real("p", p), 0.0, 1.0)
    n = within("n", real("n", n), 1.0)
    together(q=q, p=p, n=n)
    return jnp.exp(-n * (rel_entr(q, p) + rel_entr(1 - q, 1 - p)))


@implements("T01.10")
def hoeffding(t: Float[ArrayLike, "..."], widths: Float[ArrayLike, "... n"], sides: int = 2) -> Float[Array, "..."]:
    r"""$P\{|X-E[X]|\ge t\}\le2\exp\big(-2t^2/\sum_i(b_i-a_i)^2\big)$ for independent $X_i\in[a_i,b_i]$, $X=\sum X_i$.

    `widths` holds the $b_i-a_i$ along its last axis. `sides=1` bounds $P\{X-E[X]\ge t\}$, without the factor 2.
    """
    t, square, sides = positive("t", real("t", t)), _squares(widths), whole("sides", sides, 1, 2)
    together(t=t, widths=square)
    return sides * jnp.exp(-2 * t**2 / square)


def hoeffding_deviation(
    delta: Float[ArrayLike, "..."], widths: Float[ArrayLike, "... n"], sides: int = 2
) -> Float[Array, "..."]:
    r"""The $t$ at which `hoeffding` is `delta`: $\sqrt{\frac12\ln(2/\delta)\sum_i(b_i-a_i)^2}$."""
    delta, square, sides = _confidence(delta), _squares(widths), whole("sides", sides, 1, 2)
    together(delta=delta, widths=square)
    return jnp.sqrt(jnp.log(sides / delta) * square / 2)


@implements("T01.14")
def average_tail(
    epsilon: Float[ArrayLike, "..."], m: Float[ArrayLike, "..."], width: Float[ArrayLike, "..."], sides: int = 2
) -> Float[Array, "..."]:
    r"""$P\{|\bar y-E[\bar y]|\ge\epsilon\}\le2\exp(-2m\epsilon^2/w^2)$, $\bar y$ an average of $m$ independent ones.

    Each variable takes values in an interval of length $w$, the `width`.
    For values in $[-1,1]$ that is $2e^{-\epsilon^2m/2}$; for losses in $[0,1]$ it is $2e^{-2\epsilon^2m}$.
    """
    epsilon, m = positive("epsilon", real("epsilon", epsilon)), within("m", real("m", m), 1.0)
    width, sides = positive("width", real("width", width)), whole("sides", sides, 1, 2)
    together(epsilon=epsilon, m=m, width=width)
    return sides * jnp.exp(-2 * m * (epsilon / width) ** 2)


def average_deviation(
    delta: Float[ArrayLike, "..."], m: Float[ArrayLike, "..."], width: Float[ArrayLike, "..."], sides: int = 2
) -> Float[Array, "..."]:
    r"""The $\epsilon$ at which `average_tail` is `delta`: $w\sqrt{\ln(2/\delta)/(2m)}$."""
    delta, m = _confidence(delta), within("m", real("m", m), 1.0)
    width, sides = positive("width", real("width", width)), whole("sides", sides, 1, 2)
    together(delta=delta, m=m, width=width)
    return width * jnp.sqrt(jnp.log(sides / delta) / (2 * m))


def samples_needed(
    epsilon: Float[ArrayLike, "..."], delta: Float[ArrayLike, "..."], width: Float[ArrayLike, "..."], sides: int = 2
) -> Float[Array, "..."]:
    r"""The least $m$ at which `average_tail` is at most `delta`: $\lceil w^2\ln(2/\delta)/(2\epsilon^2)\rceil$.

    >>> int(samples_needed(0.1, 0.05, 1.0))
    185
    """
    epsilon, delta = positive("epsilon", real("epsilon", epsilon)), _confidence(delta)
    width, sides = positive("width", real("width", width)), whole("sides", sides, 1, 2)
    together(epsilon=epsilon, delta=delta, width=width)
    return jnp.maximum(jnp.ceil(jnp.log(sides / delta) * (width / epsilon) ** 2 / 2), 1)


@implements("T01.11")
def bernstein(
    t: Float[ArrayLike, "..."], variance: Float[ArrayLike, "..."], bound: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$P\{\sum X_i>t\}\le\exp\Big(-\frac{t^2/2}{V+Mt/3}\Big)$ for independent $X_i$ of mean 0 with $|X_i|\le M$.

    `variance` is $V=\sum E[X_i^2]$, `bound` is $M$ ($X_i\le M$ is enough). Near the mean it is the tail of a normal
    law of that variance; `hoeffding` only knows the range.
    """
    t, variance, bound = positive("t", real("t", t)), _variance(variance), _bound(bound)
    together(t=t, variance=variance, bound=bound)
    return jnp.exp(-(t**2) / 2 / (variance + bound * t / 3))


def bernstein_deviation(
    delta: Float[ArrayLike, "..."], variance: Float[ArrayLike, "..."], bound: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""The $t$ at which `bernstein` is `delta`: $\frac{LM}3+\sqrt{(\frac{LM}3)^2+2LV}$ with $L=\ln(1/\delta)$."""
    delta, variance, bound = _confidence(delta), _variance(variance), _bound(bound)
    together(delta=delta, variance=variance, bound=bound)
    linear = -jnp.log(delta) * bound / 3
    return linear + jnp.sqrt(linear**2 - 2 * jnp.log(delta) * variance)


@implements("B12.15")
def bernstein_moments(
    t: Float[ArrayLike, "..."], variance: Float[ArrayLike, "..."], growth: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$P\{\sum X_i\ge t\}\le\exp\big(-\frac V{c^2}h(\frac{ct}V)\big)$, $h(u)=1+u-\sqrt{1+2u}$.

    The $X_i$ are independent of mean 0 with $E|X_i|^q\le\frac{q!}2\sigma_i^2c^{q-2}$ for all whole $q\ge2$; `variance`
    is $V=\sum\sigma_i^2$, `growth` is $c$. Variables with $|X_i|\le M$ have $c=M/3$; those of the Laplace law with
    scale $b$ have $\sigma^2=2b^2$ and $c=b$ with equality for every $q$.
    """
    t, variance, growth = positive("t", real("t", t)), positive("variance", _variance(variance)), _growth(growth)
    together(t=t, variance=variance, growth=growth)
    u = growth * t / variance
    # h(u) without the difference of numbers that are nearly equal
    return jnp.exp(-variance / growth**2 * u**2 / (1 + u + jnp.sqrt(1 + 2 * u)))


def bernstein_moments_deviation(
    delta: Float[ArrayLike, "..."], variance: Float[ArrayLike, "..."], growth: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""The $t$ at which `bernstein_moments` is `delta`: $\sqrt{2VL}+cL$ with $L=\ln(1/\delta)$."""
    delta, variance, growth = _confidence(delta), _variance(variance), _growth(growth)
    together(delta=delta, variance=variance, growth=growth)
    return jnp.sqrt(-2 * jnp.log(delta) * variance) - growth * jnp.log(delta)


@implements("B12.16")
def chi_square_deviation(
    delta: Float[ArrayLike, "..."], degrees: Float[ArrayLike, "..."], form: str = "any"
) -> Float[Array, "..."]:
    r"""The $t$ with $P\{|\sum_{j\le k}X_j^2-k|>t\}\le\delta$ for independent standard normal $X_j$, $k$ `degrees`.

    With $L=\ln(2/\delta)$, `form` chooses:
    - `"any"`: $2\sqrt{kL}+2L$, right for every $k$ (Laurent and Massart);
    - `"root"`: $4\sqrt{kL}$, never smaller where it is right, which is for $k\ge L$ only.
    """
    one_of("form", form, ("any", "root"))
    delta, degrees = _confidence(delta), within("degrees", real("degrees", degrees), 1.0)
    together(delta=delta, degrees=degrees)
    level = jnp.log(2 / delta)
    if form == "root":
        within("degrees over log(2/delta)", degrees / level, 1.0)
        return 4 * jnp.sqrt(degrees * level)
    return 2 * jnp.sqrt(degrees * level) + 2 * level


def _squares(widths):
    return jnp.sum(within("widths", real("widths", widths, "... n"), 0.0) ** 2, axis=-1)


def _confidence(delta):
    return within("delta", real("delta", delta), 0.0, 1.0, open="both")


def _variance(variance):
    return within("variance", real("variance", variance), 0.0)


def _bound(bound):
    return positive("bound", real("bound", bound))


def _growth(growth):
    return positive("growth", real("growth", growth))
