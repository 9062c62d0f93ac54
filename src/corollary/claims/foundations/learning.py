"""Training loss and expected loss: when one estimates the other, and when it does not."""

from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Positive, Range, Size, at_least, at_most, claim, control, equal, estimate, picture, rate
from corollary.foundations import (
    Dataset,
    FiniteLaw,
    binary_cross_entropy,
    expected_loss,
    generalisation_gap,
    point_loss,
    ridge,
    training_loss,
)
from corollary.linear import squared_error


@claim(rows=("T01.01",))
def training_loss_is_unbiased(
    key, *, hypotheses: Annotated[int, Range(2, 1000)] = 12, size: Annotated[int, Range(2, 8)] = 5
):
    r"""The training loss of a fixed hypothesis is unbiased; that of the empirical risk minimiser is too small.

    Over samples $S$ of $n$ independent draws from a law on four points, $E_S[\hat L(h)]=L(h)$ and
    $\mathrm{Var}_S[\hat L(h)]=\mathrm{Var}[\ell]/n$ for every fixed $h$. For $\hat h=\arg\min\hat L$, which depends on
    the sample, $E_S[\hat L(\hat h)]\le\min_hL(h)\le E_S[L(\hat h)]$. All samples are enumerated.
    """

    @jax.jit
    def measure(key):
        loss_key, mass_key = jax.random.split(key)
        table = jax.random.uniform(loss_key, (hypotheses, 4))
        mass = jax.random.exponential(mass_key, (4,))
        law = FiniteLaw(jnp.arange(4), jnp.zeros(4), mass / mass.sum())

        def loss(h, x, y):
            return table[h, x]

        rows, probability = law.samples(size)
        every = jnp.arange(hypotheses)
        truth = jax.vmap(lambda h: expected_loss(loss, h, law))(every)
        square = jax.vmap(lambda h: law.expectation(lambda x, y: loss(h, x, y) ** 2))(every)

        def of_size(n):
            # the first n draws of a sample are a sample of size n
            used = (jnp.arange(size) < n) / n
            risks = jnp.einsum("hsi,i->hs", table[:, rows], used)
            best = jnp.argmin(risks, 0)
            mean = risks @ probability
            spread = (risks - mean[:, None]) ** 2 @ probability
            return mean, spread, jnp.min(risks, 0) @ probability, truth[best] @ probability

        return truth, square - truth**2, jax.vmap(of_size)(jnp.arange(1, size + 1))

    truth, variance, (mean, spread, optimistic, honest) = (jax.tree.map(np.asarray, m) for m in measure(key))
    n = np.arange(1, size + 1)
    yield equal(
        "mean training loss of each hypothesis", mean.T, np.broadcast_to(truth[:, None], mean.T.shape), rtol=1e-12
    )
    yield equal("variance of the training loss", spread.T, variance[:, None] / n, x=n, along="n")
    yield at_most("mean training loss of the minimiser, below the best loss", optimistic, truth.min(), x=n, along="n")
    yield at_least("mean expected loss of the minimiser, above the best loss", honest, truth.min(), x=n, along="n")
    yield control(
        "the minimiser depends on the sample",
        equal("mean training loss of the minimiser against its mean expected loss", optimistic, honest, x=n, along="n"),
    )


@claim(rows=("M00.02", "M01.04"), full={"repetitions": 1000, "doublings": 16})
def average_loss_converges(
    key,
    *,
    repetitions: Annotated[int, Range(200, 10_000)] = 256,
    doublings: Annotated[int, Range(9, 18)] = 13,
    slope: Positive = 0.7,
):
    r"""The average loss over M datapoints is off the population loss by the order one over the root of M.

    $\Lambda(\theta)=E_{\mathcal D}[\lambda_{(x,y)}(\theta)]$ with independent datapoints and a fixed $\theta$:
    $E|\Lambda-\Lambda_{pop}|^2=\mathrm{Var}[\lambda]/M$. Here $Y=2X+\xi$ with independent standard normal $X$,
    $\xi$, the model $\theta x$ and the squared error, so that $\Lambda_{pop}=(2-\theta)^2+1$ and
    $\mathrm{Var}[\lambda]=2\Lambda_{pop}^2$. The data are a multiset: order does not matter, multiplicity does.
    """
    loss = point_loss(lambda theta, x: theta * x, squared_error)
    population = (2 - slope) ** 2 + 1
    sizes = 2 ** np.arange(5, doublings + 1)

    @jax.jit
    def measure(key):
        x_key, noise_key, permutation_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (repetitions, 2**doublings))
        y = 2 * x + jax.random.normal(noise_key, x.shape)
        same = jnp.broadcast_to(x[:, :1], x.shape), jnp.broadcast_to(y[:, :1], x.shape)

        def averages(x, y):
            losses = jax.vmap(jax.vmap(lambda a, b: loss(slope, a, b)))(x, y)
            return jnp.cumsum(losses, 1)[:, sizes - 1] / sizes

        def error(x, y):
            return jnp.sqrt(jnp.mean((averages(x, y) - population) ** 2, 0))

        x0, y0 = x[0, :100], y[0, :100]
        order = jax.random.permutation(permutation_key, 100)
        twice = jnp.concatenate([x0, x0]), jnp.concatenate([y0, y0])
        once_more = jnp.concatenate([x0, x0[:1]]), jnp.concatenate([y0, y0[:1]])
        sets = [(x0, y0), (x0[order], y0[order]), twice, once_more]
        values = jnp.stack([training_loss(loss, slope, Dataset(a, b)) for a, b in sets])
        return error(x, y), error(*same), values, averages(x, y)[:, -1], averages(x, y)[:, 0]

    errors, stuck, values, last, first = (np.asarray(a) for a in measure(key))
    # the root mean square over R runs is known to 1/√(2R), about 4 percent, over a range of five and more in ln M
    yield rate("error of the average loss, root mean square", sizes, errors, -0.5, tolerance=0.1, along="M")
    # the two ends of the range of sizes; half and twice the variance would be noticed
    square = np.stack([(first - population) ** 2 * sizes[0], (last - population) ** 2 * sizes[-1]], 1)
    variance = 2 * population**2
    yield estimate("M times the squared error, smallest and largest M", square, variance, wrong=2 * variance)
    yield equal("loss after a permutation, and with every point twice", values[1:3], values[0], rtol=1e-13)
    yield control("one point counted twice is another multiset", equal("loss", values[3], values[0], rtol=1e-13))
    yield control(
        "the datapoints of a run are one and the same",
        rate("error of the average loss", sizes, stuck, -0.5, tolerance=0.1, along="M"),
    )


@claim(rows=("M01.04",))
def error_functions(key, *, points: Size = 200):
    r"""An error function is zero exactly when the prediction is right.

    $\ell_y(y')\ge0$ with equality iff $y=y'$: so for the squared error, and for the cross-entropy of a label 0 or 1
    (there in the limit of a certain prediction). Between probabilities the cross-entropy of $y$ with itself is the
    entropy of $y$, not zero; taking it away mends that.
    """
    y_key, p_key = jax.random.split(key)
    y = jax.random.normal(y_key, (points, 2))
    soft, p = jax.random.uniform(p_key, (2, points), minval=0.05, maxval=0.95)

    @jax.jit
    def measure(y, soft, p):
        square = jax.vmap(squared_error)
        hard = (soft > 0.5).astype(float)
        own = binary_cross_entropy(soft, soft)
        return square(y, y[::-1]), square(y, y), binary_cross_entropy(hard, p), binary_cross_entropy(hard, hard), own

    wrong, right, hard, certain, own = measure(y, soft, p)
    # the points in reverse order are other points, so the error is positive; 1e-12 is far above rounding
    yield at_least("squared error of another label", wrong, 1e-12)
    yield equal("squared error of the label itself", right, 0.0, atol=0)
    yield at_least("cross-entropy of an uncertain prediction", hard, -np.log(0.95), rtol=1e-12)
    yield equal("cross-entropy of a certain and right prediction", certain, 0.0, atol=0)
    yield control("the label is itself uncertain", equal("cross-entropy with itself", own, 0.0))


@claim(rows=("M01.16",), full={"repetitions": 4000})
def train_and_test_error(
    key,
    *,
    n: Annotated[int, Range(20, 200)] = 40,
    repetitions: Annotated[int, Range(200, 100_000)] = 300,
    sigma: Positive = 0.5,
):
    r"""Least squares with d features: the training error falls below the noise, the test error rises above it.

    $y=w\cdot x+\sigma\xi$ with normal $x\in\mathbb R^d$ and $\xi$, fitted by least squares to $n>d+1$ datapoints. Then
    $E[\text{train}]=\sigma^2(1-\frac dn)$, $E[\text{test}]=\sigma^2(1+\frac d{n-d-1})$ on fresh datapoints, and the
    generalisation gap is their difference.
    """
    d = np.unique(np.linspace(1, n // 2, 5).astype(int))
    widest = int(d[-1])
    loss = point_loss(lambda theta, x: theta @ x, squared_error)

    @jax.jit
    def measure(key):
        def run(key):
            x_key, noise_key = jax.random.split(key)
            w, x, fresh = jnp.split(jax.random.normal(x_key, (2 * n + 1, widest)), [1, n + 1])
            noise, other = sigma * jax.random.normal(noise_key, (2, n))

            def with_features(used):
                # features that are left out are columns of zeros: least squares gives them no weight
                seen, truth = x * used, w[0] * used
                train = Dataset(seen, seen @ truth + noise)
                test = Dataset(fresh * used, (fresh * used) @ truth + other)
                theta = ridge(train.x, train.y)
                errors = training_loss(loss, theta, train), training_loss(loss, theta, test)
                return *errors, generalisation_gap(loss, theta, train, test)

            return jax.vmap(with_features)(jnp.arange(widest) < d[:, None])

        return jax.vmap(run)(jax.random.split(key, repetitions))

    train, test, gap = (np.asarray(a) for a in measure(key))
    low, high = sigma**2 * (1 - d / n), sigma**2 * (1 + d / (n - d - 1))
    # of one run the training error scatters by σ² √(2/n): 300 runs tell the last entries from σ² well
    yield estimate("training error, many features", train[:, 2:], low[2:], wrong=sigma**2)
    yield estimate("test error, many features", test[:, 2:], high[2:], wrong=sigma**2)
    yield estimate("generalisation gap", gap[:, 2:], (high - low)[2:], wrong=0.0)
    yield control("tested on the training data", estimate("test error", train[:, 2:], high[2:], wrong=0.0))
    curves = {"training error": (train, low), "test error": (test, high)}
    rows = [
        {"d": int(k), "error": float(v), "series": name, "kind": kind}
        for name, (runs, formula) in curves.items()
        for kind, values in (("measured", runs.mean(0)), ("formula", formula))
        for k, v in zip(d, values, strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        alt.X("d:Q", title="number of features d"),
        alt.Y("error:Q", title=None),
        alt.Color("series:N", legend=alt.Legend(title=None, orient="bottom")),
    )
    points = base.transform_filter("datum.kind == 'measured'").mark_point(filled=True, size=50)
    dashes = alt.StrokeDash(
        "kind:N",
        scale=alt.Scale(domain=["formula"], range=[[5, 4]]),
        legend=alt.Legend(title=None, orient="bottom", symbolSize=300),
    )
    lines = base.transform_filter("datum.kind == 'formula'").mark_line().encode(dashes)
    yield picture("training and test error against d", (lines + points).properties(width=300, height=190))
