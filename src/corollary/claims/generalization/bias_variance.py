"""Bias and variance, exactly: all samples of a noise with two values are enumerated."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import (
    Count,
    Positive,
    Size,
    at_least,
    claim,
    control,
    equal,
    estimate,
    monotone,
    picture,
    printed,
)
from corollary.foundations import FiniteLaw, ridge
from corollary.generalization import bias_variance, ols_variance, polynomial_fit
from corollary.linear import labelings

PENALTIES = np.array([0.0, 0.03, 0.1, 0.3, 1.0, 3.0])


def _fits(phi, truth, sigma, penalties):
    """The weights of ridge regression for every noise of n signs times σ, (penalties, 2^n, p), and the labels."""
    y = phi @ truth + sigma * labelings(phi.shape[0])
    return jax.vmap(lambda c: jax.vmap(lambda v: ridge(phi, v, c))(y))(penalties), y


def _instance(key, n, dim, points):
    """Features of the sample, the truth, and features and probabilities of a new point."""
    keys = jax.random.split(key, 4)
    phi, truth = jax.random.normal(keys[0], (n, dim)), jax.random.normal(keys[1], (dim,))
    return phi, truth, jax.random.normal(keys[2], (points, dim)), jax.random.dirichlet(keys[3], jnp.ones(points))


def _form(v, covariance):
    return jnp.einsum("...i,ij,...j->...", v, covariance, v)


@claim(rows=("B13.05", "M01.19"))
def decomposition(key, *, n: Size = 8, dim: Size = 4, points: Size = 6, sigma: Positive = 0.7):
    r"""What an estimator loses beyond the noise is its squared bias plus its variance.

    For $y=w_*\cdot\phi(x)+\epsilon$ and an estimator $\bar w$ from a sample that is independent of the new point,
    $\mathbb E[\mathcal R(\bar w)]-\sigma^2=\|\mathbb E\bar w-w_*\|_\Sigma^2+\mathbb E\|\bar w-\mathbb E\bar
    w\|_\Sigma^2$; pointwise, $\mathbb E(f(x)-\hat f(x))^2=(f(x)-\mathbb E\hat f(x))^2+\operatorname{Var}\hat f(x)$.
    For ridge regression a larger penalty has a smaller variance and, at the points of the sample, a larger bias, which
    is 0 without a penalty. On the sample itself the loss is less, by $\frac{2\sigma^2}n\operatorname{tr}H$ with the
    matrix $H$ that maps labels to predictions. (In the texts the estimate has the name of the minimiser of the true
    risk.)
    """

    @jax.jit
    def measure(key):
        phi, truth, new, probability = _instance(key, n, dim, points)
        w, y = _fits(phi, truth, sigma, PENALTIES)
        covariance = jnp.einsum("k,ki,kj->ij", probability, new, new)
        # a new point and its noise, of two values, with the labels
        labels = (new @ truth)[:, None] + sigma * jnp.array([1.0, -1.0])
        law = FiniteLaw(jnp.repeat(new, 2, 0), labels.ravel(), jnp.repeat(probability, 2) / 2)
        risk = jax.vmap(lambda v: law.expectation(lambda x, y: (y - v @ x) ** 2))
        mean = jnp.mean(w, 1)
        bias = _form(mean - truth, covariance)
        variance = jnp.mean(_form(w - mean[:, None], covariance), 1)
        predictions = jnp.einsum("csi,ki->csk", w, new)
        pointwise = jnp.mean((predictions - new @ truth) ** 2, 1)
        parts = (mean @ new.T - new @ truth) ** 2 + jnp.var(predictions, 1)
        design = phi.T @ phi / n
        on_sample = jnp.mean((y - jnp.einsum("csi,ki->csk", w, phi)) ** 2, (1, 2))
        at_design = sigma**2 + _form(mean - truth, design) + jnp.mean(_form(w - mean[:, None], design), 1)
        smoother = jax.vmap(lambda c: jnp.trace(phi @ jax.vmap(lambda e: ridge(phi, e, c), out_axes=1)(jnp.eye(n))))
        return {
            "risk": jnp.mean(jax.vmap(risk)(w), 1),
            "bias": bias,
            "variance": variance,
            "pointwise": (pointwise, parts),
            "bias at the sample": _form(mean - truth, design),
            "on the sample": on_sample,
            "at the sample": at_design,
            "trace": smoother(PENALTIES),
        }

    m = measure(key)
    yield equal("risk: noise, bias and variance", m["risk"], sigma**2 + m["bias"] + m["variance"], x=PENALTIES)
    yield equal("error at each point: bias and variance", *m["pointwise"])
    yield monotone("variance", m["variance"], "decreasing", strict=True, x=PENALTIES, along="penalty")
    yield monotone("bias at the sample", m["bias at the sample"], strict=True, x=PENALTIES, along="penalty")
    yield equal("bias without a penalty", m["bias"][0], 0.0, atol=1e-12)
    optimism = m["at the sample"] - m["on the sample"]
    yield equal("what the loss on the sample lacks", optimism, 2 * sigma**2 * m["trace"] / n)
    yield control(
        "a new point independent of the sample: here its points and labels again",
        equal("risk: noise, bias and variance", m["on the sample"], m["at the sample"]),
    )


@claim(
    rows=("B13.05", "B13.08"),
    erratum="The first lines of both proofs have each other's term: the spread of the estimator for its distance from "
    "the truth, and the bias for the spread.",
)
def swapped_terms(key, *, n: Size = 8, dim: Size = 4, points: Size = 6, sigma: Positive = 0.7, penalty: Positive = 0.3):
    r"""The excess risk is the variance of the estimator, and the variance of least squares is its bias.

    As printed, the proof of Theorem 80 starts from $\mathbb E[\mathcal R(\bar w)-\mathcal R^*]=\mathbb E\|\bar
    w-\mathbb E\bar w\|_\Sigma^2$, and that of Theorem 81 writes the variance of least squares as $\|\mathbb E\bar
    w-w_*\|_\Sigma^2$, which is 0. It is $\mathbb E\|\bar w-w_*\|_\Sigma^2$ in the first, $\mathbb E\|\bar w-\mathbb
    E\bar w\|_\Sigma^2= \frac{\sigma^2}n\operatorname{tr}(\Sigma\bar\Sigma^{-1})$ in the second.
    """

    @jax.jit
    def measure(key):
        phi, truth, new, probability = _instance(key, n, dim, points)
        w, _ = _fits(phi, truth, sigma, jnp.array([0.0, penalty]))
        covariance = jnp.einsum("k,ki,kj->ij", probability, new, new)
        mean = jnp.mean(w, 1)
        # the risk, from the predictions at the new points
        excess = jnp.mean(jnp.einsum("csi,ki->csk", w - truth, new) ** 2 @ probability, 1)
        spread = jnp.mean(_form(w - mean[:, None], covariance), 1)
        away = jnp.mean(_form(w - truth, covariance), 1)
        return excess, spread, away, _form(mean - truth, covariance), ols_variance(phi, covariance, sigma)

    excess, spread, away, bias, variance = measure(key)
    yield printed(equal("excess risk of ridge regression, as the spread", excess[1], spread[1]))
    yield equal("excess risk of ridge regression, as the distance from the truth", excess[1], away[1])
    yield printed(equal("variance of least squares, as the distance of the mean", bias[0], variance))
    yield equal("variance of least squares, as the spread", spread[0], variance)


@claim(rows=("B13.06",))
def brier_score(key, *, points: Size = 5, classes: Size = 3, runs: Count = 4000):
    r"""For vectors of probabilities the decomposition holds class by class, for the 0-1 loss it does not.

    With one-hot labels $e_Y\in\mathbb R^K$, $P(Y=k|x)=p_k(x)$, and predictions $\hat p$ from a sample that is
    independent of $(x,Y)$, $\mathbb E\|e_Y-\hat p(x)\|^2=\mathbb E(1-\|p(x)\|^2)+\mathbb E\|\mathbb E\hat
    p(x)-p(x)\|^2+ \mathbb E\|\hat p(x)-\mathbb E\hat p(x)\|^2$. The 0-1 loss of the most probable class is not the
    least error plus the error of the usual prediction plus the probability of another one: that can undo a bias.
    """
    labels = jnp.arange(classes**points)[:, None] // classes ** jnp.arange(points) % classes

    def smoothed(key):
        """The weight of the labels of all points in the prediction at each."""
        return jax.nn.softmax(2 * jnp.eye(points) + jax.random.normal(key, (points, points)))

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 3)
        p = jax.random.dirichlet(keys[0], jnp.ones(classes), (points,))
        at, weight = jax.random.dirichlet(keys[1], jnp.ones(points)), smoothed(keys[2])
        chance = jnp.prod(p[jnp.arange(points), labels], 1)  # of every sample, one label at each point
        predicted = jnp.einsum("kj,sjc->skc", weight, jnp.eye(classes)[labels])
        # over samples, new points and new labels
        brier = jnp.sum((jnp.eye(classes) - predicted[:, :, None]) ** 2, -1)
        risk = jnp.einsum("s,k,ky,sky->", chance, at, p, brier)
        mean = jnp.tensordot(chance, predicted, 1)
        noise = at @ (1 - jnp.sum(p**2, 1))
        bias = at @ jnp.sum((mean - p) ** 2, 1)
        variance = jnp.einsum("s,k,skc->", chance, at, (predicted - mean) ** 2)
        chosen = jax.nn.one_hot(jnp.argmax(predicted, -1), classes)
        usual = jax.nn.one_hot(jnp.argmax(jnp.tensordot(chance, chosen, 1), -1), classes)
        hit = jnp.einsum("s,k,kc,skc->", chance, at, p, chosen)
        least = at @ (1 - jnp.max(p, 1))
        missed = at @ (1 - jnp.sum(usual * jax.nn.one_hot(jnp.argmax(p, 1), classes), 1))
        other = jnp.einsum("s,k,skc->", chance, at, chosen * (1 - usual))
        return (risk, noise + bias + variance), (1 - hit, least + missed + other), p, weight, (mean, variance, at)

    brier, error, p, weight, (mean, variance, at) = measure(key)
    yield equal("Brier score: noise, bias and variance", *brier)
    yield control("squared loss: here the 0-1 loss", equal("error: least, of the usual prediction, other", *error))

    def draw(key):
        return jnp.arange(points), jax.random.categorical(key, jnp.log(p), axis=-1)

    def fit(data, key):
        one_hot = jnp.eye(classes)[data[1]]
        return lambda k: weight[k.astype(int)] @ one_hot

    sampled = bias_variance(
        fit, draw, jnp.arange(float(points)), truth=lambda k: p[k.astype(int)], runs=runs, loss="brier", key=key
    )
    # a mean of shares of labels, each within ½ / √runs of its expectation: six standard errors
    yield equal("mean prediction over drawn samples", sampled.mean, mean, rtol=0, atol=3 / runs**0.5)
    # the spread of a squared deviation is at most 2: a vector of probabilities is within √2 of another one
    yield equal("variance over drawn samples", at @ sampled.variance, variance, rtol=0, atol=6 / runs**0.5)


@claim(rows=("M01.20",))
def trade_off(key, *, n: Size = 25, highest: Size = 12, sigma: Positive = 0.3, runs: Count = 1500):
    r"""A larger model has a smaller bias and a larger variance, and a larger sample a smaller variance.

    Least squares with polynomials of degree $D$ for $\sin2\pi x$ at $n$ points has, at these points, a squared bias
    that does not rise with $D$ and the variance $\sigma^2\frac{D+1}n$; their sum is least at a degree between.
    """
    degrees = np.arange(highest + 1)
    sizes = (50, 100, 200, 400)

    @jax.jit
    def measure(key):
        x_key, noise_key, big_key, one_key = jax.random.split(key, 4)

        def deviations(x, f, noise, at):
            """The fit without noise, and mean squares of what noise adds at the points, for all degrees."""
            fit = lambda y: jax.vmap(lambda d: polynomial_fit(x, y, highest).truncated(d)(x))(at)  # noqa: E731
            clean = fit(f)
            return clean, jax.vmap(lambda e: jnp.mean((fit(f + e) - clean) ** 2, -1))(noise)

        x = jnp.sort(jax.random.uniform(x_key, (n,)))
        f = jnp.sin(2 * jnp.pi * x)
        clean, spread = deviations(x, f, sigma * jax.random.normal(noise_key, (runs, n)), degrees)
        larger = [
            deviations((jnp.arange(m) + 0.5) / m, jnp.zeros(m), sigma * jax.random.normal(k, (200, m)), np.array([9]))
            for m, k in zip(sizes, jax.random.split(big_key, len(sizes)), strict=True)
        ]
        shared = sigma * jax.random.normal(one_key, (200, 1)) * jnp.ones(n)
        one = deviations(x, f, shared, degrees)[1]
        return jnp.mean((clean - f) ** 2, 1), spread, jnp.concatenate([added for _, added in larger], 1), one

    bias, spread, larger, one = (np.asarray(v) for v in measure(key))
    # two rounding errors of a mean of squares below 1
    yield monotone("squared bias at the points", bias, "decreasing", atol=1e-15, x=degrees, along="degree")
    yield estimate("variance at the points", spread, sigma**2 * (degrees + 1) / n, wrong=sigma**2 * degrees / n)
    total = bias + spread.mean(0)
    inside = total[1:-1].min()
    yield at_least("excess at the least and the largest degree", total[[0, -1]], 1.2 * inside)
    more = sigma**2 * 10 / np.array(sizes)
    yield estimate("variance of degree 9 at 50, 100, 200 and 400 points", larger, more, wrong=2 * more)
    yield control(
        "noise independent from point to point: here one value for all",
        estimate("variance at the points", one, sigma**2 * (degrees + 1) / n, wrong=sigma**2),
    )
    rows = [
        {"degree": int(d), "value": float(v), "part": part}
        for part, values in (("squared bias", bias), ("variance", spread.mean(0)), ("sum", total))
        for d, v in zip(degrees, values, strict=True)
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_line(point=True)
    yield picture(
        "bias and variance against the degree",
        chart.encode(
            alt.X("degree:Q"), alt.Y("value:Q", scale=alt.Scale(type="log")), alt.Color("part:N", title=None)
        ).properties(width=300, height=190),
    )
