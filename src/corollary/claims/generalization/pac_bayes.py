"""PAC-Bayes: the moments of distances, all posteriors at once, and the forms of the bounds."""

from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import (
    Range,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    frequency_at_most,
    monotone,
    picture,
)
from corollary.foundations import kl, kl_inverse
from corollary.generalization import (
    catoni,
    finite_class,
    gibbs_posterior,
    log_moment,
    maurer_seeger,
    mcallester,
)


@claim(rows=("B09.06", "T05.42"), no_control="the moments are numbers; what they bound is checked by redrawing")
def moments_of_distances(key):
    r"""How large the moments are that PAC-Bayes bounds pay for.

    $J_\Delta(n)=\sup_m\sum_k\mathrm{Bin}(k;n,m)e^{n\Delta(m,k/n)}$: for $\Delta=(a-b)^2$ it rises to $\sqrt2$, for
    $2(a-b)^2$ it is at most $2\sqrt n$, and for $\mathrm{kl}(b\|a)$ it is the same $\xi(n)$ for every $m$, with
    $\sqrt n\le\xi(n)\le2\sqrt n$ for $n\ge8$. $E\,e^{2(n-1)\Delta_S^2}\le\sqrt n$, and $E\,e^{\frac n2\Delta_S^2}\le2$
    (5.10), indeed at most $(1-\frac14)^{-1/2}$.
    """
    n = np.array([10, 40, 160, 640])
    single = np.exp([log_moment(lambda a, b: (a - b) ** 2, j) for j in n])
    double = np.exp([log_moment("square", j) for j in n])
    xi = np.exp([log_moment("kl", j) for j in n])
    half = np.exp([log_moment(lambda a, b: (a - b) ** 2 / 2, j) for j in n])
    less = np.exp([log_moment(lambda a, b, j=j: 2 * (1 - 1 / j) * (a - b) ** 2, j) for j in n])
    yield at_most("moment of (a - b)²", single, np.sqrt(2), x=n, along="n")
    yield monotone("moment of (a - b)², rising", single, strict=True, x=n, along="n")
    yield at_most("moment of 2(a - b)²", double, 2 * np.sqrt(n), x=n, along="n")
    yield at_most("moment of 2(a - b)², against that of kl", double, xi, x=n, along="n")
    yield at_most("ξ(n), against 2√n", xi, 2 * np.sqrt(n), x=n, along="n")
    yield at_least("ξ(n), against √n", xi, np.sqrt(n), x=n, along="n")
    # SciPy's binomial law at a random mean, as the text writes the sum
    m, k = float(jax.random.uniform(key, (), minval=0.05, maxval=0.95)), np.arange(161)
    ratio = np.exp(scipy.special.rel_entr(k / 160, m) * 160 + scipy.special.rel_entr(1 - k / 160, 1 - m) * 160)
    yield equal("ξ(160) at a random mean", scipy.stats.binom.pmf(k, 160, m) @ ratio, xi[2])
    yield at_most("moment of 2(n - 1)/n (a - b)²", less, np.sqrt(n), x=n, along="n")
    yield at_most("moment of (a - b)²/2", half, np.sqrt(4 / 3), x=n, along="n")


def _drawn(key, n, risks, draws):
    """Training losses (draws, functions) of independent functions with these risks, by inverting their laws."""
    table = jnp.asarray(scipy.stats.binom.cdf(np.arange(n + 1), n, risks[:, None]))
    uniform = jax.random.uniform(key, (len(risks), draws))
    return jnp.minimum(jax.vmap(lambda row, u: jnp.searchsorted(row, u))(table, uniform), n).T / n


@claim(rows=("B09.07", "B09.08", "T05.36", "T05.40", "T05.42"), full={"draws": 20_000})
def all_posteriors_at_once(
    key,
    *,
    n: Annotated[int, Range(20, 1000)] = 100,
    functions: Annotated[int, Range(100, 2000)] = 400,
    draws: Annotated[int, Range(2000, 100_000)] = 2000,
):
    r"""With probability 1 - δ a PAC-Bayes bound holds for every posterior, also one that was chosen after the data.

    For a prior $P$ fixed before the sample, a jointly convex $\Delta$ and all $Q$ together,
    $\Delta(E_QR,E_QR_S)\le\frac1n(\mathrm{KL}(Q\|P)+\ln\frac{J_\Delta(n)}\delta)$ (Theorem 69). By the change of
    measure the largest left side less KL is $\ln E_Pe^{n\Delta(R,R_S)}$ at most, a number of the sample. For squares it
    is known exactly: $\sup_Q\{a(E_Q\Delta_S)^2-\mathrm{KL}\}
    =\sup_\lambda\{\ln E_Pe^{\lambda\Delta_S}-\frac{\lambda^2}{4a}\}$, which decides
    $\sqrt{\frac1{2(n-1)}(\mathrm{KL}+\ln\frac{2n}\delta)}$ (5.6.1),
    $\sqrt{\frac2n(\mathrm{KL}+\ln\frac2\delta)}$ (5.8) and
    $\sqrt{\frac2n(\mathrm{KL}+\ln\frac{2\sqrt n}\delta)}$ (Theorem 70), the last four times larger inside the root
    than need be. Here 400 functions with independent losses and known risks.
    """
    delta, risks = 0.1, np.linspace(0.3, 0.6, functions)
    prior_key, draw_key = jax.random.split(key)
    weights = np.asarray(jax.random.exponential(prior_key, (functions,)))
    prior = weights / weights.sum()
    scales = {"sharp": 2 * n, "classical": 2 * (n - 1), "simple": n / 2}
    slopes = np.concatenate([[0.0], np.geomspace(1.0, 8.0 * n, 40)])

    @jax.jit
    def measure(key, prior):
        losses = _drawn(key, n, risks, draws)
        gap = risks - losses
        square = jax.nn.logsumexp(2 * n * gap**2, -1, b=prior)
        tilted = jax.lax.map(lambda s: jax.nn.logsumexp(s * gap, -1, b=prior), slopes)

        # Gibbs posteriors, what they really lose, and what the bounds allow them
        def posterior(rate):
            q = gibbs_posterior(jnp.broadcast_to(prior, losses.shape), losses, jnp.full(draws, rate))
            inside, divergence = jnp.sum(q * losses, -1), kl(q, jnp.broadcast_to(prior, q.shape))
            return q @ risks, mcallester(n, divergence, delta, risk=jnp.clip(inside, 0, 1)).value

        return square, tilted, jnp.stack([jnp.stack(posterior(r)) for r in (5.0, 50.0, 2000.0)]), losses

    square, tilted, (lost, allowed), losses = (np.asarray(a) for a in _swap(measure(draw_key, prior)))
    supremum = {name: (tilted - slopes[:, None] ** 2 / (4 * a)).max(0) for name, a in scales.items()}
    moment = float(log_moment("square", n))
    yield at_most("supremum over all Q, against the moment of the prior", supremum["sharp"], square)
    yield frequency_at_most("Theorem 69 with 2(a - b)²", square > moment - np.log(delta), delta)
    yield frequency_at_most("Theorem 5.6.1", supremum["classical"] > np.log(2 * n / delta), delta)
    yield frequency_at_most("bound (5.8)", supremum["simple"] > np.log(2 / delta), delta)
    yield frequency_at_most("Theorem 70", supremum["simple"] > np.log(2 * np.sqrt(n) / delta), delta)
    yield frequency_at_most(
        "moment of the prior (5.10)", _moment(prior, n / 2 * (risks - losses) ** 2) > np.log(2 / delta), delta
    )
    # where the event of the theorem holds, it holds for posteriors that know the sample
    good = square <= moment - np.log(delta)
    yield at_most("expected loss of three Gibbs posteriors", lost[:, good], allowed[:, good])
    # the mean over samples is a sum over binomial laws; 2(a - b)² has its largest at a mean of its own
    k = np.arange(n + 1) / n
    law = scipy.stats.binom.pmf(np.arange(n + 1), n, risks[:, None])
    mean = prior @ np.sum(law * np.exp(2 * n * (risks[:, None] - k) ** 2), 1)
    yield at_most("mean over samples of the moment of the prior", mean, np.exp(moment))
    # all mass on the function with the largest gap: KL is 0
    after = 2 * n * (risks - losses).max(1) ** 2
    yield control(
        "the prior was fixed before the sample: here it is the worst posterior",
        frequency_at_most("Theorem 69 with 2(a - b)²", after > moment - np.log(delta), delta),
    )
    values = [{"value": float(v), "prior": "before the sample"} for v in square[:1000]]
    values += [{"value": float(v), "prior": "after the sample"} for v in after[:1000]]
    bars = alt.Chart(alt.Data(values=values)).mark_bar(opacity=0.6)
    bars = bars.encode(
        alt.X("value:Q", bin=alt.Bin(maxbins=40), title="logarithm of the moment of the prior"),
        alt.Y("count()", stack=None, title="samples"),
        alt.Color("prior:N", legend=alt.Legend(orient="bottom")),
    )
    line = alt.Chart(alt.Data(values=[{"x": moment - np.log(delta)}])).mark_rule(strokeDash=[5, 4]).encode(x="x:Q")
    yield picture("the number that decides for all posteriors", (bars + line).properties(width=320, height=190))


def _swap(measured):
    square, tilted, pairs, losses = measured
    return square, tilted, jnp.moveaxis(pairs, 1, 0), losses


def _moment(prior, phi):
    return scipy.special.logsumexp(phi, 1, b=prior)


@claim(rows=("T05.38", "T05.39"))
def point_masses(key, *, delta: Annotated[float, Range(0.001, 0.5)] = 0.05):
    r"""A prior and a posterior on single functions: the bound for one function, and the union bound up to a logarithm.

    For $P=Q$ on one function $\mathrm{KL}=0$, and Hoeffding's $\sqrt{\ln(1/\delta)/(2n)}$ is below
    $\sqrt{\ln(2n/\delta)/(2(n-1))}$ and fails with probability $\delta$ at most. For $P$ uniform on $N$ functions and
    $Q$ on one of them $\mathrm{KL}=\ln N$, and the bound is below the printed $2\sqrt{(\ln N+\ln(1/\delta))/n}$ exactly
    where $\ln(2n)\le(8\frac{n-1}n-1)\ln\frac N\delta$.
    """
    n = np.array([2, 5, 20, 100, 1000, 10_000])
    one = np.asarray(finite_class(n, 1, delta).value)
    yield at_most(
        "Hoeffding, against PAC-Bayes", one, mcallester(n, 0.0, delta, form="classical").value, x=n, along="n"
    )
    p = np.asarray(jax.random.uniform(key, (50,)))
    shares = np.arange(101) / 100
    law = scipy.stats.binom.pmf(np.arange(101), 100, p[:, None])
    fails = np.sum(law * (p[:, None] - shares > one[3] + 1e-12), 1)
    yield at_most("probability that Hoeffding fails, n = 100", fails, delta)
    sizes = np.array([1, 2, 8, 64, 4096])
    uniform = [float(kl(np.eye(size)[0], np.full(size, 1 / size))) for size in sizes]
    yield equal("KL of one function to the uniform law", uniform, np.log(sizes))
    grid, count = np.meshgrid(n, sizes)
    below = mcallester(grid, np.log(count), delta, form="classical").value
    below = np.asarray(below <= finite_class(grid, count, delta, form="printed").value)
    region = np.log(2 * grid) <= (8 * (grid - 1) / grid - 1) * np.log(count / delta)
    yield equal("where PAC-Bayes is the smaller one", below.astype(float), region.astype(float))
    # the function with the fewest errors of a thousand fair coins in place of one
    law = scipy.stats.binom.cdf(np.arange(101), 100, 0.5)
    least = 1 - (1 - law[np.flatnonzero(0.5 - shares > one[3] + 1e-12).max()]) ** 1000
    yield control("the function was fixed before the sample", at_most("probability that Hoeffding fails", least, delta))


@claim(rows=("B09.02", "B09.14"), no_control="identities between bounds, for all arguments")
def temperatures(key, *, functions: Size = 40, n: Size = 200):
    r"""The Gibbs posterior has the least of Catoni's bounds, and the best temperature gives the inverse of kl.

    For a prior $P$ and training losses, $Q\propto Pe^{-CnR_S}$ minimises
    $\frac{1-\exp(-CE_QR_S-\frac1n(\mathrm{KL}+\ln\frac1\delta))}{1-e^{-C}}$ over all $Q$; for one $Q$ the least over
    $C$ is $\mathrm{kl}^{-1}(E_QR_S,\frac1n(\mathrm{KL}+\ln\frac1\delta))$, which is below the bound with
    $\ln\frac{\xi(n)}\delta$ that holds for all posteriors at once.
    """
    prior_key, loss_key, other_key = jax.random.split(key, 3)

    @jax.jit
    def measure(prior_key, loss_key, other_key):
        weights = jax.random.exponential(prior_key, (functions,))
        prior = weights / weights.sum()
        losses = jax.random.uniform(loss_key, (functions,))
        other = jax.random.exponential(other_key, (500, functions)) ** 3
        other = other / other.sum(-1, keepdims=True)

        def bound(q, rate):
            return catoni(n, kl(q, prior), 0.05, inverse_temperature=rate, risk=jnp.sum(q * losses)).value

        gibbs = gibbs_posterior(prior, losses, 0.5 * n)
        rates = jnp.geomspace(0.01, 30.0, 3001)
        along = jax.vmap(lambda rate: bound(gibbs, rate))(rates)
        spent = kl(gibbs, prior)
        return bound(gibbs, 0.5), jax.vmap(lambda q: bound(q, 0.5))(other), along, spent, gibbs @ losses

    best, others, along, spent, risk = (np.asarray(a) for a in measure(prior_key, loss_key, other_key))
    yield at_least("bound of other posteriors", others, best)
    inverse = kl_inverse(risk, (spent - np.log(0.05)) / n)
    yield at_least("bound at every temperature", along, inverse)
    # the grid misses the best C by 1/375 of it at most, and the bound is flat there: its error is of second order
    yield equal("bound at the best temperature", along.min(), inverse, rtol=1e-5)
    yield at_most(
        "inverse of kl, against the bound for all posteriors", inverse, maurer_seeger(n, spent, 0.05, risk=risk).value
    )
