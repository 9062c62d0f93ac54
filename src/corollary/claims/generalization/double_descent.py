"""Least squares from fewer features than points to many more: exact laws, and what happens at the threshold."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

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
    monotone,
    picture,
    rate,
    same_law,
)
from corollary.generalization import first_features_fit, least_squares_risk, ols_variance
from corollary.kernels import RandomFeatures
from corollary.linear import descent_from_zero, labelings, min_norm_interpolant


@claim(rows=("B13.07", "B13.08"))
def variance_of_least_squares(key, *, n: Size = 10, p: Size = 4, sigma: Positive = 0.6, draws: Count = 3000):
    r"""The variance of least squares is the noise times the trace of the covariance over the empirical one.

    For $y=\Phi w_*+\epsilon$ with $\mathbb E\epsilon=0$, $\mathbb E\epsilon\epsilon^\top=\sigma^2I$ and $\Phi$ (n, p)
    of rank $p\le n$, $\bar w=\frac1n\bar\Sigma^{-1}\Phi^\top y$, $\bar\Sigma=\frac1n\Phi^\top\Phi$, solves the normal
    equations and has $\mathbb E_\epsilon\|\bar
    w-w_*\|_\Sigma^2=\frac{\sigma^2}n\operatorname{tr}(\Sigma\bar\Sigma^{-1})$. For Gaussian features of covariance
    $\Sigma$ its mean over $\Phi$ is $\sigma^2\frac p{n-p-1}$ if $p\le n-2$. The noise must be of equal variance and
    uncorrelated. (The text needs $p\le n$ without saying so, and stacks the features in columns.)
    """
    many, few = 40, (5, 20)

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 6)
        phi, truth = jax.random.normal(keys[0], (n, p)), jax.random.normal(keys[1], (p,))
        root = jax.random.normal(keys[2], (p, p))
        covariance = root @ root.T
        signs = sigma * labelings(n)
        uneven = jnp.sqrt(2 * jax.random.uniform(keys[3], (n,)))
        pairs = jnp.concatenate([signs[:, : n // 2]] * 2, 1)  # each noise twice

        def mean_square(noise):
            y = phi @ truth + noise
            w = jax.vmap(lambda v: first_features_fit(phi, v, p))(y)
            normal = (y - w @ phi.T) @ phi
            return jnp.mean(jnp.einsum("si,ij,sj->s", w - truth, covariance, w - truth)), normal

        found, normal = mean_square(signs)
        others = jnp.stack([mean_square(signs * uneven)[0], mean_square(pairs)[0]])
        w = first_features_fit(phi, phi @ truth + signs[0], p)
        gaussian = lambda k, q: ols_variance(jax.random.normal(k, (many, q)), jnp.eye(q), 1.0)  # noqa: E731
        traces = [
            jax.lax.map(lambda k, q=q: gaussian(k, q), jax.random.split(k, draws))
            for q, k in zip(few, keys[4:], strict=True)
        ]
        closed = jnp.linalg.solve(phi.T @ phi / n, phi.T @ (phi @ truth + signs[0])) / n
        return found, normal, others, ols_variance(phi, covariance, sigma), (w, closed), jnp.stack(traces, 1)

    found, normal, others, predicted, (w, closed), traces = measure(key)
    yield equal("least squares, from the formula", w, closed, atol=1e-10)
    yield equal("normal equations", normal, 0.0, atol=1e-10)
    yield equal("mean squared distance over all noises", found, predicted)
    law = np.array([q / (many - q - 1) for q in few])
    yield estimate("mean over Gaussian features", traces, law, wrong=np.array(few) / many)
    yield control("noise of equal variance: here up to √2", equal("mean squared distance", others[0], predicted))
    yield control("uncorrelated noise: here each value twice", equal("mean squared distance", others[1], predicted))


@claim(rows=("B13.09",), full={"draws": 20_000})
def exact_law(key, *, n: Size = 32, d: Size = 128, sigma: Positive = 0.5, draws: Count = 1200):
    r"""The risk of least squares on the first features is known exactly on both sides of the threshold.

    $x\sim\mathcal N(0,I_d)$, $y=w_*\cdot x+\epsilon$, $d=128$, $n=32$, and least squares of least norm on the first
    $p$ features. The features left out are a bias and act as noise as well. The risk is $C(1+\frac p{n-p-1})$ for
    $p\le n-2$ and $A(1-\frac np)+C(1+\frac n{p-n-1})$ for $p\ge n+2$, with $A=\sum_{j\le p}w_{*j}^2$,
    $C=\sum_{j>p}w_{*j}^2+\sigma^2$; squared bias and variance are those of `least_squares_risk`. At $p=n$ there is no
    mean: that of $N$ draws grows like $N$.
    """
    sizes = np.array([4, 8, 16, 20, 44, 48, 64, 128])
    middle = sizes[2:4]  # enough features to tell what all have in common
    blocks = 2 ** np.arange(2, 9)
    every = np.array([p for p in range(1, d + 1) if abs(p - n) > 1])

    @jax.jit
    def measure(key):
        w_key, key, peak_key = jax.random.split(key, 3)
        truth = jax.random.normal(w_key, (d,)) / d**0.5

        def sample(key, features):
            x_key, e_key = jax.random.split(key)
            return jax.random.normal(x_key, (n, features)), jax.random.normal(e_key, (n,))

        def one(key):
            x, noise = sample(key, d)
            # one size after the other: two batches of factorisations never wait for each other
            return jax.lax.map(lambda p: first_features_fit(x, x @ truth + sigma * noise, p), jnp.asarray(sizes))

        def at_threshold(key):
            x, noise = sample(key, n)
            # the features left out are normal and independent: noise
            unseen = jnp.sqrt(jnp.sum(truth[n:] ** 2) + sigma**2)
            return jnp.sum((jnp.linalg.solve(x, x @ truth[:n] + unseen * noise) - truth[:n]) ** 2)

        def correlated(key):
            x, noise = sample(key, d + 1)
            x = jnp.sqrt(0.5) * (x[:, 1:] + x[:, :1])  # every two features have the correlation ½
            w = jax.lax.map(lambda p: first_features_fit(x, x @ truth + sigma * noise, p), jnp.asarray(middle)) - truth
            return (jnp.sum(w**2, -1) + jnp.sum(w, -1) ** 2) / 2 + sigma**2

        away = jax.lax.map(one, jax.random.split(key, draws), batch_size=200) - truth
        peak = jax.lax.map(at_threshold, jax.random.split(peak_key, 40 * 2**8), batch_size=512)
        half = draws // 2
        return (
            jnp.sum(away**2, -1) + sigma**2,
            jnp.sum(away[:half] * away[half : 2 * half], -1),
            least_squares_risk(n, sizes, truth, sigma),
            jnp.stack([jnp.median(peak.reshape(-1, b).mean(1)) for b in blocks]),
            least_squares_risk(n, every, truth, sigma),
            jax.lax.map(correlated, jax.random.split(peak_key, 400), batch_size=200),
        )

    risk, product, law, peak, curve, other = measure(key)
    yield estimate("risk", risk, law.risk, wrong=law.bias + sigma**2)
    # independent estimators have uncorrelated errors: the mean of their product is the squared bias
    yield estimate("squared bias, from pairs of samples", product, law.bias, wrong=law.bias + law.variance)
    # 40 blocks of the largest size, spread over decades: their median is off by a factor 1.4
    yield rate("median of the mean of N draws at p = n", blocks, peak, 1.0, tolerance=0.5, along="N")
    yield control(
        "uncorrelated features: here of correlation ½",
        estimate("risk", other, law.risk[2:4], wrong=law.bias[2:4] + sigma**2),
    )
    rows = [
        {"p": int(p), "value": float(v), "part": name}
        for name in curve._fields
        for p, v in zip(every, getattr(curve, name), strict=True)
    ]
    rows += [{"p": int(p), "value": float(v), "part": "drawn"} for p, v in zip(sizes, risk.mean(0), strict=True)]
    axes = alt.X("p:Q"), alt.Y("value:Q", scale=alt.Scale(type="log")), alt.Color("part:N", title=None)
    lines = alt.Chart(alt.Data(values=[r for r in rows if r["part"] != "drawn"])).mark_line().encode(*axes)
    dots = alt.Chart(alt.Data(values=[r for r in rows if r["part"] == "drawn"])).mark_point(filled=True).encode(*axes)
    yield picture("risk against the number of features", alt.layer(lines, dots).properties(width=300, height=190))


@claim(rows=("B13.10",))
def ill_conditioning(key, *, n: Size = 600, square: Size = 40, draws: Count = 1000):
    r"""The empirical covariance is badly conditioned where there are as many features as points.

    For Gaussian features the least non-zero singular value of $\Phi/\sqrt n$ is near $|1-\sqrt{p/n}|$ if $p\ne n$. At
    $p=n$ it is of the order $1/n$: $n^2$ times its square has a law near $1-e^{-x/2-\sqrt x}$. So
    $\frac1n\operatorname{tr}\bar\Sigma^{-1}$, the variance of least squares, blows up there, unless there is a penalty.
    """
    ratios = np.array([0.25, 0.5, 2.0, 4.0])
    counts = [square // 4, square // 2, 3 * square // 4, 9 * square // 10, square]

    def values(key, p, m):
        """The squared singular values of Φ/√m, from the smaller Gram matrix, in increasing order."""
        x = jax.random.normal(key, (m, p)) if p <= m else jax.random.normal(key, (p, m))
        return jnp.linalg.eigvalsh(x.T @ x / m)

    @jax.jit
    def edges(key):
        keys = jax.random.split(key, len(ratios))
        found = [values(k, round(r * n), n)[0] for k, r in zip(keys, ratios, strict=True)]
        return jnp.sqrt(jnp.maximum(jnp.stack(found), 0))

    @jax.jit
    def at_threshold(keys):
        return jax.lax.map(lambda k: values(k, square, square), keys)

    @jax.jit
    def traces(keys):
        one = lambda k: jnp.stack([jnp.sum(1 / values(k, p, square)) / square for p in counts])  # noqa: E731
        return jax.lax.map(one, keys)

    first, second = jax.random.split(key)
    low, high = np.sqrt(n * np.minimum(ratios, 1)), np.sqrt(n * np.maximum(ratios, 1))
    # the least eigenvalue is (√n - √p)² less a Tracy-Widom variable, of mean -1.2 and deviation 1.3, times this scale
    scale = (high - low) * (1 / low - 1 / high) ** (1 / 3)
    allowed = 9 * scale / (2 * (high - low)) / n**0.5
    away = np.abs(edges(first) - np.abs(1 - np.sqrt(ratios)))
    yield at_most("least singular value, distance from |1 - √(p/n)|", away, allowed, x=ratios, along="p / n")
    squares = np.maximum(at_threshold(jax.random.split(first, draws)), 1e-300)
    # from a determinant, with the rounding of a sum of squares of size 4: far below the typical 1/n² = 6e-4
    yield same_law(
        "n² times the least eigenvalue at p = n",
        square**2 * squares[:, 0],
        lambda x: 1 - np.exp(-x / 2 - np.sqrt(x)),
        wrong=lambda x: 1 - np.exp(-x / 2),
    )
    medians = np.median(traces(jax.random.split(second, draws // 5)), 0)
    yield monotone("median variance", medians, strict=True, x=np.array(counts) / square, along="p / n")
    growth = medians[-1] / medians[1]
    yield at_least("median variance at p = n over that at n/2", growth, 10.0)
    # with a penalty λ the variance is the sum of s/(s + λ)² over the eigenvalues
    ridged = np.median((squares / (squares + 0.1) ** 2).sum(1)) / square
    yield control(
        "no penalty: here 0.1", at_least("median variance at p = n over that at n/2", ridged / medians[1], 10.0)
    )


@claim(rows=("B13.11",))
def descent_finds_least_squares(key, *, n: Size = 40, steps: Count = 200):
    r"""Gradient descent from 0 tends to the least squares solution of least norm, slowly at the threshold.

    With the step $\eta=1/\sigma_{\max}^2$ on $\frac12\|\Phi w-y\|^2$ it is after $t$ steps at
    $\sum_i\frac{1-(1-\eta\sigma_i^2)^t}{\sigma_i}(u_i\cdot y)v_i$, and within $(1-\eta\sigma_{\min}^2)^t\|\bar w\|$ of
    $\bar w=\Phi^+y$, $\sigma_{\min}$ the least singular value that is not 0. At $p=n$ that is next to nothing, and a
    number of steps that suffices away from it does not; stopped early, the risk there is less than that of least
    squares.
    """
    counts = (n // 4, n, 4 * n)
    times = np.array([1, 10, 50, steps])

    @jax.jit
    def measure(key):
        def one(key, p):
            x_key, w_key, e_key = jax.random.split(key, 3)
            phi, truth = jax.random.normal(x_key, (n, p)), jax.random.normal(w_key, (p,)) / p**0.5
            y = phi @ truth + 0.5 * jax.random.normal(e_key, (n,))
            s = jnp.linalg.svd(phi, compute_uv=False)
            eta = 1 / s[0] ** 2

            def step(w, _):
                w = w - eta * phi.T @ (phi @ w - y)
                return w, w

            _, path = jax.lax.scan(step, jnp.zeros(p), length=steps)
            least = min_norm_interpolant(phi, y)
            away = jnp.linalg.norm(path[times - 1] - least, axis=1)
            bound = (1 - eta * s[-1] ** 2) ** times * jnp.linalg.norm(least)
            risk = jnp.sum((jnp.stack([path[19], least]) - truth) ** 2, 1)
            return path[times - 1] - descent_from_zero(phi, y, eta, times), away, bound, least, risk

        return [one(jax.random.fold_in(key, p), p) for p in counts]

    found = measure(key)
    off = np.concatenate([np.asarray(each[0]).ravel() for each in found])
    # 200 steps whose rounding errors contract, of weights up to some hundreds
    yield equal("iterates and the formula", off, 0.0, atol=1e-10)
    away, bound = (np.stack([each[i] for each in found]) for i in (1, 2))
    yield at_most("distance from least squares", away, bound, atol=1e-9)
    norms = np.array([jnp.linalg.norm(each[3]) for each in found])
    apart = away[:, -1] / norms
    yield at_most("relative distance at the end, p = n/4 and 4n", apart[[0, 2]], 1e-3)
    early, late = found[1][4]
    yield at_most("excess risk at p = n after 20 steps, against that of least squares", early, late)
    yield control("p is not n: here it is", at_most("relative distance at the end", apart[1], 1e-3))


@claim(rows=("B13.02", "M01.21"))
def random_features(key, *, n: Size = 60, dim: Size = 8, draws: Count = 12):
    r"""Test risk falls, rises to a peak at as many features as points, and falls again below its first minimum.

    Least squares of least norm on $N$ random ReLU features, for $n$ points in $\mathbb R^8$ with a linear truth and
    noise of deviation 0.1. The training error is zero from $N=n$ on; the median test risk is largest at $N=n$, and
    with 32 times as many features it is below all values for $N<n$ (which depends on the noise and the truth). With
    the best of a few penalties there is no peak.
    """
    counts = np.array([4, 8, 16, 30, 45, 54, 60, 66, 75, 90, 120, 240, 480, 960, 1920]) * n // 60
    most, tests = int(counts[-1]), 500
    penalties = 10.0 ** np.arange(-6, 1)

    @jax.jit
    def measure(keys):
        def one(key):
            keys = jax.random.split(key, 4)
            x, w = jax.random.normal(keys[0], (n + tests, dim)), jax.random.normal(keys[1], (dim,)) / dim**0.5
            y = x @ w + 0.1 * jax.random.normal(keys[2], (n + tests,))
            phi = RandomFeatures.draw(dim, most, bias_std=1.0, key=keys[3]).features(x)

            def at(p):
                theta = first_features_fit(phi[:n], y[:n], p)
                off = phi @ theta - y
                used = phi * (jnp.arange(most) < p) * jnp.sqrt(most / p)
                values, vectors = jnp.linalg.eigh(used[:n] @ used[:n].T / n)
                project = used[n:] @ (used[:n].T @ vectors) / n
                ridged = (project / (values + penalties[:, None, None])) @ (vectors.T @ y[:n]) - y[n:]
                return jnp.mean(off[:n] ** 2), jnp.mean(off[n:] ** 2), jnp.mean(ridged**2, -1)

            return jax.lax.map(at, jnp.asarray(counts))

        return jax.lax.map(one, keys)

    train, test, ridged = (np.asarray(v) for v in measure(jax.random.split(key, draws)))
    median, best = np.median(test, 0), np.median(ridged, 0).min(1)
    # residuals of labels of size 1 after systems of condition up to 1e5
    yield equal("training error from N = n on", train[:, counts >= n], 0.0, atol=1e-16)
    yield equal("features at the peak, over n", counts[median.argmax()] / n, 1.0, rtol=0.1)
    yield at_least("median test risk at the peak over that at 32 n", median.max() / median[-1], 10.0)
    yield at_most("median test risk at 32 n against the least for N < n", median[-1], median[counts < n].min())
    yield control(
        "no penalty: here the best of seven",
        at_least("median test risk at N = n over that at 32 n", best[counts == n] / best[-1], 10.0),
    )
    rows = [
        {"N / n": float(c / n), "median risk": float(max(v, 1e-3)), "on": name}
        for name, values in (("test", median), ("test, best penalty", best))
        for c, v in zip(counts, values, strict=True)
    ]
    log = alt.Scale(type="log")
    chart = alt.Chart(alt.Data(values=rows)).mark_line(point=True)
    yield picture(
        "double descent",
        chart.encode(
            alt.X("N / n:Q", scale=log), alt.Y("median risk:Q", scale=log), alt.Color("on:N", title=None)
        ).properties(width=300, height=190),
    )
