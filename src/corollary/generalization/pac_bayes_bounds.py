r"""PAC-Bayes: what holds for all posteriors at once, with the price of each in bits of the prior.

$P$ is a law on the functions of a class that was fixed before the sample, $Q$ any law that may depend on it, and a
function is drawn afresh from $Q$ for each prediction. `risk` is $E_Q\hat L$ and `kl` is $\mathrm{KL}(Q\|P)$. All of it
rests on one line: $E_Q\varphi\le\mathrm{KL}(Q\|P)+\ln E_Pe^\varphi$, with equality at $Q\propto Pe^\varphi$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, xlog1py, xlogy
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._validate import concrete, one_of, positive, real, whole, within
from corollary.catalog import implements
from corollary.foundations import kl as relative_entropy
from corollary.foundations import kl_bernoulli, kl_inverse
from corollary.generalization.bound import INDEPENDENT, RANGE, Bound, confidence, risk_of, spent

#: beyond so many examples sums over all of them are not formed term by term
SUMMED = 2**20
PREMISES = (INDEPENDENT, RANGE, "the prior was fixed before the sample was seen")

#: Distances of the expected loss $a$ and the training loss $b$ that have a name.
DISTANCES: dict[str, Callable] = {
    "kl": lambda a, b: kl_bernoulli(b, a),
    "square": lambda a, b: 2 * (a - b) ** 2,
}


class ChangeOfMeasure(NamedTuple):
    r"""What `donsker_varadhan` returns.

    `value` is $E_Q\varphi-\mathrm{KL}(Q\|P)$, `supremum` is $\ln E_Pe^\varphi$, `gap` their difference, which is
    $\mathrm{KL}(Q\|Q^*)$, and `maximiser` is $Q^*\propto Pe^\varphi$.
    """

    value: jax.Array
    supremum: jax.Array
    gap: jax.Array
    maximiser: jax.Array

    __repr__ = shown


@implements("B09.04", "T05.41", "B09.03", "T05.35")
def donsker_varadhan(
    posterior: Float[ArrayLike, "... h"], prior: Float[ArrayLike, "... h"], phi: Float[ArrayLike, "... h"]
) -> ChangeOfMeasure:
    r"""$E_Q\varphi-\mathrm{KL}(Q\|P)\le\ln E_Pe^\varphi$ for laws on finitely many functions, over the last axis.

    A `posterior` with mass where the `prior` has none has an infinite KL, and the value $-\infty$.
    """
    dims = {}
    posterior, prior = real("posterior", posterior, "... h", dims), real("prior", prior, "... h", dims)
    phi = real("phi", phi, "... h", dims)
    _laws(posterior=posterior, prior=prior)
    value = jnp.sum(posterior * phi, -1) - relative_entropy(posterior, prior)
    supremum = jax.nn.logsumexp(phi, -1, b=prior)
    return ChangeOfMeasure(value, supremum, supremum - value, _tilted(prior, phi))


@implements("B09.02")
def gibbs_posterior(
    prior: Float[ArrayLike, "... h"], losses: Float[ArrayLike, "... h"], inverse_temperature: Float[ArrayLike, "..."]
) -> Float[Array, "... h"]:
    r"""$Q\propto P\,e^{-\beta\hat L}$ with $\beta$ = `inverse_temperature`, over the last axis.

    Of all laws it has the least $\beta E_Q\hat L+\mathrm{KL}(Q\|P)$. `losses` has one training loss per function.
    $\beta=0$ is the prior, $\beta\to\infty$ the minimisers of the training loss alone.
    """
    dims = {}
    prior, losses = real("prior", prior, "... h", dims), real("losses", losses, "... h", dims)
    _laws(prior=prior)
    beta = within("inverse_temperature", real("inverse_temperature", inverse_temperature), 0.0)
    return _tilted(prior, -losses * beta[..., None])


@implements("B09.06")
def log_moment(distance: str | Callable, n: int) -> Float[Array, ""]:
    r"""$\ln J_\Delta(n)$ with $J_\Delta(n)=\sup_{0\le m\le1}\sum_k\binom nkm^k(1-m)^{n-k}e^{n\Delta(m,k/n)}$.

    `distance` is $\Delta(a,b)$ of the expected loss $a$ and the training loss $b$: a function, or a name. `"kl"` is
    $\mathrm{kl}(b\|a)$, whose sum is the same for every $m$ and at most $2\sqrt n$; `"square"` is $2(a-b)^2$, whose
    supremum lies below that one by Pinsker's inequality.
    """
    n, gap = whole("n", n), _distance(distance)
    # n is static, so the number can be had now, in the precision that sums of numbers of the order of n need
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        value = _log_xi(n) if distance == "kl" else float(_log_supremum(gap, n))
    return jnp.asarray(value, jnp.result_type(float))


@implements("B09.07")
def general_pac_bayes(
    distance: str | Callable,
    n: int,
    kl: Float[ArrayLike, "..."],
    delta: Float[ArrayLike, "..."],
    *,
    risk: Float[ArrayLike, "..."] = 0.0,
) -> Bound:
    r"""For all $Q$: the last $a$ with $\Delta(a,E_Q\hat L)\le\frac1n(\mathrm{KL}(Q\|P)+\ln\frac{J_\Delta(n)}\delta)$.

    $\Delta$ must be jointly convex and must not fall in $a$ above the training loss; the largest $a$ up to 1 is found
    by halving.
    """
    risk, kl, delta = _arguments(risk, kl, delta)
    gap = _distance(distance)
    moment = log_moment(distance, n)

    def furthest(nats):
        level, start = jnp.broadcast_arrays(nats / n, risk)

        def halve(_, ends):
            low, high = ends
            middle = (low + high) / 2
            inside = gap(middle, start) <= level
            return jnp.where(inside, middle, low), jnp.where(inside, high, middle)

        low, _ = jax.lax.fori_loop(0, jnp.finfo(start.dtype).nmant + 4, halve, (start, jnp.ones_like(start)))
        return jnp.where(gap(jnp.ones_like(start), start) <= level, 1.0, low)

    return spent(risk, furthest, delta, {"distance to the prior": kl, **_surety(moment, delta)}, PREMISES)


@implements("B09.08", "T05.36", "T05.40")
def mcallester(
    n: Float[ArrayLike, "..."],
    kl: Float[ArrayLike, "..."],
    delta: Float[ArrayLike, "..."],
    *,
    risk: Float[ArrayLike, "..."] = 0.0,
    form: str = "sharp",
) -> Bound:
    r"""$E_QL\le E_Q\hat L+\sqrt{\frac1{2n}(\mathrm{KL}(Q\|P)+\ln\frac{2\sqrt n}\delta)}$ for all $Q$.

    Other forms of the root:
    - `"printed"`: $\sqrt{\frac2n(\mathrm{KL}+\ln\frac{2\sqrt n}\delta)}$, twice the sharp one;
    - `"classical"`: $\sqrt{\frac1{2(n-1)}(\mathrm{KL}+\ln\frac{2n}\delta)}$, $n\ge2$, above the sharp one;
    - `"simple"`: $\sqrt{\frac2n(\mathrm{KL}+\ln\frac2\delta)}$, below it only if $n>(2e^{\mathrm{KL}}/\delta)^6$.

    >>> round(float(mcallester(55_000, 5144.0, 0.025, risk=0.028, form="printed").value), 3)
    0.461
    """
    risk, kl, delta = _arguments(risk, kl, delta)
    one_of("form", form, ("sharp", "printed", "classical", "simple"))
    n = within("n", real("n", n), 2.0 if form == "classical" else 1.0)
    scale, moment = {
        "sharp": (1 / (2 * n), jnp.log(4 * n) / 2),
        "printed": (2 / n, jnp.log(4 * n) / 2),
        "classical": (1 / (2 * (n - 1)), jnp.log(2 * n)),
        "simple": (2 / n, jnp.log(2.0)),
    }[form]
    budget = {"distance to the prior": kl, **_surety(moment, delta)}
    return spent(risk, lambda nats: risk + jnp.sqrt(scale * nats), delta, budget, PREMISES)


@implements("B09.14")
def maurer_seeger(
    n: int,
    kl: Float[ArrayLike, "..."],
    delta: Float[ArrayLike, "..."],
    *,
    risk: Float[ArrayLike, "..."] = 0.0,
    form: str = "sharp",
) -> Bound:
    r"""For all $Q$: the last $a$ with $\mathrm{kl}(E_Q\hat L\|a)\le\frac1n(\mathrm{KL}(Q\|P)+\ln\frac{\xi(n)}\delta)$.

    $\xi(n)$ = `exp(log_moment("kl", n))` lies between $\sqrt n$ and $2\sqrt n$, both for $n\ge8$. `form="printed"` is
    what the printed table of certificates rests on: $\frac1{n-1}(\mathrm{KL}+\ln\frac n\delta)$.

    >>> round(float(maurer_seeger(55_000, 5144.0, 0.025, risk=0.028, form="printed").value), 3)
    0.161
    """
    risk, kl, delta = _arguments(risk, kl, delta)
    one_of("form", form, ("sharp", "printed"))
    n = whole("n", n, 2)
    scale, moment = (1 / n, log_moment("kl", n)) if form == "sharp" else (1 / (n - 1), jnp.log(1.0 * n))
    budget = {"distance to the prior": kl, **_surety(moment, delta)}
    return spent(risk, lambda nats: kl_inverse(risk, scale * nats), delta, budget, PREMISES)


def catoni(
    n: Float[ArrayLike, "..."],
    kl: Float[ArrayLike, "..."],
    delta: Float[ArrayLike, "..."],
    *,
    inverse_temperature: Float[ArrayLike, "..."],
    risk: Float[ArrayLike, "..."] = 0.0,
) -> Bound:
    r"""$E_QL\le\frac{1-\exp(-CE_Q\hat L-\frac1n(\mathrm{KL}(Q\|P)+\ln\frac1\delta))}{1-e^{-C}}$ for all $Q$.

    $C>0$ is the `inverse_temperature`, fixed before the sample. It is Theorem 69 with
    $\Delta(a,b)=-\ln(1-(1-e^{-C})a)-Cb$, for which $J=1$; the least over $C$ is `kl_inverse` with the same budget. Of
    all posteriors the Gibbs posterior with the inverse temperature $Cn$ has the least bound.
    """
    risk, kl, delta = _arguments(risk, kl, delta)
    n = within("n", real("n", n), 1.0)
    rate = positive("inverse_temperature", real("inverse_temperature", inverse_temperature))
    start = -jnp.expm1(-rate * risk) / -jnp.expm1(-rate) - risk  # what Jensen's inequality costs, with nothing else
    made = spent(
        risk + start,
        lambda nats: -jnp.expm1(-rate * risk - nats / n) / -jnp.expm1(-rate),
        delta,
        {"distance to the prior": kl, "confidence": -jnp.log(delta)},
        (*PREMISES, "the inverse temperature was fixed before the sample"),
    )
    terms = {**made.terms, "training error": risk}
    return Bound(made.value, delta, {**terms, "inverse temperature": start}, made.premises)


def _arguments(risk, kl, delta):
    return risk_of(risk), within("kl", real("kl", kl, finite=False), 0.0), confidence(delta)


def _laws(**given):
    for name, law in given.items():
        within(name, law, 0.0, 1.0)
        slack = 8 * law.shape[-1] * float(jnp.finfo(law.dtype).eps)
        if concrete(law) and (abs((sums := np.asarray(law).sum(-1)) - 1) > slack).any():
            raise ValueError(f"{name} must sum to 1 over its last axis, got sums {sums}.")


def _surety(moment, delta):
    return {"all posteriors at once": moment, "confidence": -jnp.log(delta)}


def _tilted(prior, phi):
    with_mass = jnp.where(prior > 0, phi, -jnp.inf)
    weight = prior * jnp.exp(with_mass - jnp.max(with_mass, -1, keepdims=True))
    return weight / jnp.sum(weight, -1, keepdims=True)


def _distance(distance):
    if callable(distance):
        return distance
    return DISTANCES[one_of("distance", distance, tuple(DISTANCES))]


def _log_xi(n):
    """The logarithm of the sum over k of binom(n, k) (k/n)^k (1 - k/n)^(n - k): the mean m has cancelled."""
    if n > SUMMED:  # Ramanujan's Q(n) and 1, by its expansion: what is left out, of the order n^(-3/2), is rounding
        root = math.sqrt(math.pi * n / 2)
        return math.log(root + 2 / 3 + math.pi / (24 * root) - 4 / (135 * n))
    from scipy import special  # on NumPy arrays: there is nothing to compile, whatever n

    k = np.arange(n + 1.0)
    choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return float(special.logsumexp(choose + special.xlogy(k, k / n) + special.xlog1py(n - k, -k / n)))


def _log_binomial(n, m):
    k = np.arange(n + 1)
    choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return choose + xlogy(k, m) + xlog1py(n - k, -m)


@partial(jax.jit, static_argnums=(0, 1))
def _log_moments(distance, n, m):
    """The logarithm of the sum over k at each of `m`."""
    shares = np.arange(n + 1) / n
    return jax.vmap(lambda each: jax.nn.logsumexp(_log_binomial(n, each) + n * distance(each, shares)))(m)


def _log_supremum(distance, n):
    def largest(points):
        values = np.concatenate([np.asarray(_log_moments(distance, n, jnp.asarray(p))) for p in points])
        return points.ravel()[values.argmax()], values.max()

    # the sums vary with m on the scale of a standard deviation, 1/(2√n), which 1,056 points resolve up to n = 10⁵
    best, top = largest(np.linspace(0.0, 1.0, 1056).reshape(32, 33))
    for finer in 16.0 ** np.arange(6):  # near a maximum the error is squared
        best, top = largest(np.clip(best + np.linspace(-1.0, 1.0, 33) / (1055 * finer), 0.0, 1.0)[None])
    return top
