"""Loss and risk: soft targets, and what the minimiser of the empirical risk has of the expected one."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr
from scipy import stats

from corollary.evidence import (
    Count,
    Positive,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    picture,
    rate,
    same_law,
)
from corollary.foundations import Dataset, cross_entropy, kl, training_loss
from corollary.linear import squared_error, zero_one_loss
from corollary.optimization import erm_expected_risk, erm_training_risk, gaussian_risk


@claim(rows=("B05.01",))
def soft_targets(key, *, classes: Size = 6, pairs: Count = 5000):
    r"""The cross-entropy of a soft target is its entropy plus the divergence of the prediction, at least the entropy.

    For probability vectors $y,\nu$: $-\sum_jy_j\ln\nu_j=H(y)+\mathrm{KL}(y\|\nu)\ge H(y)$, with equality iff $\nu=y$,
    since $\mathrm{KL}\ge\frac12\|y-\nu\|_1^2$; for a target that is certain it is the log-loss $-\ln\nu_y$. (B
    only asks for $y\in[0,1]^m$; both must sum to 1.) The zero-one loss counts what the sign gets wrong and the
    squared one is $\|y-\nu\|^2$, here without the half.
    """

    @jax.jit
    def measure(key):
        y_key, p_key, x_key = jax.random.split(key, 3)
        y, p = (jax.random.dirichlet(k, jnp.ones(classes), (pairs,)) for k in (y_key, p_key))
        entropy = entr(y).sum(-1)
        near = y + 1e-3 * (p - y)
        sure = jnp.eye(classes)[jnp.arange(pairs) % classes]
        hard = cross_entropy(sure, p), -jnp.log(p[jnp.arange(pairs), jnp.arange(pairs) % classes])
        x = jax.random.normal(x_key, (pairs, 2))
        sign = jnp.where(x @ jnp.array([1.0, -2.0]) + 0.1 > 0, 1, -1)
        flipped = jnp.where(jnp.arange(pairs) < pairs // 10, -sign, sign)
        counted = zero_one_loss(jnp.array([1.0, -2.0, 0.1]), x, flipped)
        square = jax.vmap(squared_error)(y, p), jnp.sum(y**2 - 2 * y * p + p**2, axis=1)
        return {
            "soft": (cross_entropy(y, p), entropy, kl(y, p)),
            "self": cross_entropy(y, y),
            "near": cross_entropy(y, near) - entropy,
            "pinsker": 0.5 * jnp.sum(jnp.abs(p - y), axis=1) ** 2,
            "hard": hard,
            "square": square,
            "count": counted,
            # the functions cannot look at values inside a trace: this prediction sums to 1.5
            "loose": cross_entropy(y, 1.5 * p),
        }

    found = measure(key)
    soft, entropy, divergence = found["soft"]
    yield equal("cross-entropy less entropy: the divergence", soft - entropy, divergence, rtol=1e-12, atol=1e-12)
    yield at_least("cross-entropy", soft, entropy)
    yield equal("equality for the target itself", found["self"], entropy, rtol=1e-12)
    yield at_least("excess: half the squared l1 distance", soft - entropy, found["pinsker"], atol=1e-12)
    # a thousand times nearer the excess is a million times smaller, and its rounding still far below
    yield at_least("excess of a near prediction: the same", found["near"], 1e-6 * found["pinsker"], atol=1e-14)
    yield equal("certain target: the log-loss", *found["hard"], rtol=1e-12)
    yield equal("squared loss", *found["square"], rtol=1e-9, atol=1e-12)
    yield equal("zero-one loss: the share that is wrong", found["count"], (pairs // 10) / pairs, rtol=1e-12)
    yield control("a prediction that sums to 1.5", at_least("cross-entropy", found["loose"], entropy))


@claim(rows=("B05.02",))
def empirical_risk_minimiser(key, *, dim: Size = 5, runs: Count = 2000, sigma: Positive = 0.7):
    r"""The empirical risk is unbiased for a fixed model; for its own minimiser it is too low by a known amount.

    Linear regression on normal data, $y=\theta^*\cdot x+\sigma\xi$, loss $\frac12(y-\theta\cdot x)^2$. For fixed
    $\theta$, $\mathbb E\mathcal R_S(\theta)=\mathcal R(\theta)$ with standard deviation $\mathcal R(\theta)\sqrt{2/n}$.
    For the minimiser $\hat\theta$ of $\mathcal R_S$ always $\mathcal R_S(\hat\theta)\le\mathcal R_S(\theta^*)$ and
    $\mathcal R(\hat\theta)\ge\mathcal R(\theta^*)=\frac{\sigma^2}2$; on average $\mathbb E\mathcal
    R_S(\hat\theta)=\frac{\sigma^2}2(1-\frac dn)$ and $\mathbb E\mathcal R(\hat\theta)=\frac{\sigma^2}2(1+\frac
    d{n-d-1})$ for any covariance of the inputs; $\frac{2n}{\sigma^2}\mathcal R_S(\hat\theta)$ is $\chi^2_{n-d}$.
    """
    sizes = np.array([dim + 8, 2 * dim + 10, 10 * dim])
    powers = 2 ** np.arange(3, 9)

    @jax.jit
    def measure(key):
        a_key, t_key, f_key, s_key = jax.random.split(key, 4)
        mix = jax.random.normal(a_key, (dim, dim)) + 2 * jnp.eye(dim)
        truth, other = jax.random.normal(t_key, (2, dim))
        covariance = mix.T @ mix

        def loss(theta, x, y):
            return 0.5 * (y - x @ theta) ** 2

        def fixed(key):
            x_key, n_key = jax.random.split(key)
            x = jax.random.normal(x_key, (powers[-1], dim)) @ mix
            y = x @ truth + sigma * jax.random.normal(n_key, (powers[-1],))
            whole = training_loss(loss, other, Dataset(x, y))
            each = jax.vmap(lambda x, y: loss(other, x, y))(x, y)
            return whole, (jnp.cumsum(each) / jnp.arange(1, powers[-1] + 1))[powers - 1]

        def minimised(key, n, uneven):
            x_key, n_key = jax.random.split(key)
            used = jnp.arange(sizes[-1]) < n
            x = jax.random.normal(x_key, (sizes[-1], dim)) @ mix
            # as much noise on average, but more of it where the first coordinate is large
            size = jnp.where(uneven, jnp.abs(x[:, 0]) / jnp.sqrt(covariance[0, 0]), 1.0)
            y = x @ truth + sigma * size * jax.random.normal(n_key, (sizes[-1],))
            x, y = x * used[:, None], y * used
            found = jnp.linalg.solve(x.T @ x, x.T @ y)
            inside = [0.5 * jnp.sum((y - x @ theta) ** 2) / n for theta in (found, truth)]
            return jnp.stack([*inside, gaussian_risk(found, truth, sigma, covariance)])

        keys = jax.random.split(s_key, 4 * runs)
        n = jnp.repeat(jnp.asarray([*sizes, sizes[0]]), runs)
        rows = jax.vmap(minimised)(keys, n, jnp.arange(4 * runs) >= 3 * runs).reshape(4, runs, 3)
        whole, means = jax.vmap(fixed)(jax.random.split(f_key, runs))
        return whole, means, gaussian_risk(other, truth, sigma, covariance), rows

    whole, means, risk, rows = (np.asarray(a) for a in measure(key))
    inside, at_truth, outside = np.moveaxis(rows, -1, 0)
    yield estimate("fixed model: empirical risk", whole, float(risk), wrong=1.1 * float(risk))
    yield rate("fixed model: deviation of the empirical risk", powers, means.std(0), -0.5, tolerance=0.1, along="n")
    law, other = stats.chi2(powers[0]).cdf, stats.chi2(powers[0] + dim).cdf
    yield same_law("fixed model: law of the empirical risk", powers[0] * means[:, 0] / risk, law, wrong=other)
    yield at_most("minimiser: empirical risk, below that of the truth", inside[:3], at_truth[:3])
    yield at_least("minimiser: expected risk, above that of the truth", outside[:3], sigma**2 / 2)
    low = np.array([erm_training_risk(int(n), dim, sigma) for n in sizes])
    high = np.array([erm_expected_risk(int(n), dim, sigma) for n in sizes])
    best = sigma**2 / 2
    yield estimate("minimiser: empirical risk, three sizes", inside[:3].T, low, wrong=best)
    yield estimate("minimiser: expected risk, three sizes", outside[:3].T, high, wrong=best)
    degrees = sizes[0] - dim
    yield same_law(
        "minimiser: law of the empirical risk",
        2 * sizes[0] / sigma**2 * inside[0],
        stats.chi2(degrees).cdf,
        wrong=stats.chi2(sizes[0]).cdf,
    )
    yield control(
        "a model that was chosen by the same data",
        estimate("empirical less expected risk", (inside - outside)[0], 0.0, wrong=best),
    )
    yield control("noise that grows with an input", estimate("empirical risk", inside[3], low[0], wrong=best))
    yield _risks(sizes, inside[:3].mean(1), outside[:3].mean(1), dim, sigma)


def _risks(sizes, inside, outside, dim, sigma):
    grid = range(dim + 4, int(sizes[-1]) + 1)
    curves = [
        {"n": n, "risk": float(f(n, dim, sigma)), "of the minimiser": name}
        for name, f in (("empirical", erm_training_risk), ("expected", erm_expected_risk))
        for n in grid
    ]
    points = [
        {"n": int(n), "risk": float(v), "of the minimiser": name}
        for name, values in (("empirical", inside), ("expected", outside))
        for n, v in zip(sizes, values, strict=True)
    ]
    encoding = (
        alt.X("n:Q"),
        alt.Y("risk:Q"),
        alt.Color("of the minimiser:N", legend=alt.Legend(orient="bottom")),
    )
    lines = alt.Chart(alt.Data(values=curves)).mark_line(strokeWidth=1.5).encode(*encoding)
    dots = alt.Chart(alt.Data(values=points)).mark_point(filled=True, size=50).encode(*encoding)
    return picture(
        "risks of the minimiser against n, formula and runs", (lines + dots).properties(width=300, height=190)
    )
