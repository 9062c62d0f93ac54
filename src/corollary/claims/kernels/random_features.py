"""Random features: the kernel they approach, and the laws of the model before and after training."""

from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import (
    Range,
    Size,
    at_most,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    picture,
    printed,
    rate,
    same_law,
)
from corollary.kernels import (
    ArcCosineKernel,
    FeatureKernel,
    GaussianKernel,
    GaussianProcess,
    LaplaceKernel,
    RandomFeatures,
    fourier_error_bound,
    fourier_features,
    fourier_uniform_bound,
    gram,
    nngp,
    ntk,
    trained_law,
)

Draws = Annotated[int, Range(1000, 200_000)]


@claim(rows=("B07.07",), full={"draws": 20_000})
def many_features(key, *, dim: Size = 3, draws: Draws = 2000):
    r"""The kernel of random features is right on average for any number of them, and off by its root.

    $K_p(x,x')=\frac1p\sum_{i\le p}\varphi(w_i\cdot x)\varphi(w_i\cdot x')$ has the mean
    $\mathbb E\varphi(w\cdot x)\varphi(w\cdot x')$, and an error that falls as $p^{-1/2}$. For
    $w\sim\mathcal N(0,I)$ and ReLU the mean is half the arc-cosine kernel; for $\sqrt2\cos(w\cdot x+b)$ with $b$
    uniform, $e^{-\|x-x'\|^2/2}$. Those are off by $\epsilon$ with probability at most $2e^{-p\epsilon^2/8}$; with
    pairs of a cosine and a sine it is $2e^{-p\epsilon^2/4}$, and somewhere in a set of diameter $\ell$ at most what
    `fourier_uniform_bound` says. For two points that coincide pairs are never off.
    """
    counts = 2 ** np.arange(4, 10)
    most = int(counts[-1])

    @jax.jit
    def measure(key):
        x_key, w_key = jax.random.split(key)
        x, y = jax.random.normal(x_key, (2, dim)) / dim**0.5

        def one(key):
            models = (
                RandomFeatures.draw(dim, most, key=key),
                fourier_features(dim, most, key=key),
                fourier_features(dim, most, paired=True, key=key),
            )
            # products of single features: their running means are the kernels of all smaller numbers
            products = [most * f.features(x[None])[0] * f.features(y[None])[0] for f in models]
            means = [jnp.cumsum(q)[counts - 1] / counts for q in products]
            return jnp.stack(means), models[2].kernel(x[None])[0, 0], products[0][0]

        found, same, single = jax.lax.map(one, jax.random.split(w_key, draws), batch_size=100)
        limits = gram(ArcCosineKernel(), x[None], y[None])[0, 0] / 2, gram(GaussianKernel(), x[None], y[None])[0, 0]
        # at the worst of many pairs of points of a square of diameter 2
        side = jnp.linspace(-1, 1, 12) / 2**0.5
        grid = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)
        exact = gram(GaussianKernel(), grid)

        def uniform(key):
            return jnp.abs(fourier_features(2, 6000, paired=True, key=key).kernel(grid) - exact).max()

        errors = jax.lax.map(uniform, jax.random.split(key, 20))
        return found, same, single, jnp.stack([limits[0], limits[1], limits[1]]), errors

    found, same, single, limits, uniform = measure(key)
    names = ("ReLU", "cosine with a phase", "cosine and sine")
    for i, name in enumerate(names):
        yield estimate(f"{name}: mean kernel of 16 features", found[:, i, 0], limits[i], wrong=limits[i] + 0.15)
        spread = jnp.sqrt(jnp.mean((found[:, i] - limits[i]) ** 2, 0))
        # the root of a mean of `draws` squares is known to 1 / sqrt(2 draws), 2 % or so, of itself
        yield rate(f"{name}: error", counts, spread, -0.5, tolerance=0.1, along="features")
    for i, (paired, error) in enumerate(((False, 0.5), (True, 0.36)), 1):
        p = int(counts[2])
        events = jnp.abs(found[:, i, 2] - limits[i]) >= error
        bound = float(fourier_error_bound(p, error, paired=paired))
        yield frequency_at_most(f"{names[i]}: off by {error} with {p} features", events, bound)
    # so unlikely that twenty sets of features together should not show it once in a thousand runs
    chance = float(fourier_uniform_bound(6000, 0.3, 2, 2.0))
    yield at_most("chance of an error of 0.3 anywhere, by the bound", 20 * chance, 1e-3)
    yield at_most("largest error anywhere, 6000 features", uniform, 0.3)
    yield equal("cosine and sine: kernel of a point with itself", same, 1.0)
    alone = jnp.sqrt(jnp.mean((single - limits[0]) ** 2)) * jnp.ones(len(counts))
    yield control("independent features: here all the same", rate("error", counts, alone, -0.5, tolerance=0.1))


@claim(rows=("B07.09",))
def gaussian_process(key, *, draws: Draws = 10_000):
    r"""Values of a Gaussian process are jointly normal, correlated as the kernel says, and as smooth as it is.

    For $f\sim GP(0,K)$, $\mathrm{Cov}(f(s),f(t))=K(s,t)$; the values on part of a grid have the law of values drawn on
    that part alone; $\mathbb E(f(s)-f(t))^2=2(1-K(s,t))$, which for $K=e^{-(s-t)^2/2}$ falls as the square of the
    distance: close inputs have almost equal values. For $e^{-|s-t|}$ it falls as the distance itself, and paths are
    rough.
    """
    grid = jnp.concatenate([jnp.zeros(1), 2.0 ** -jnp.arange(6, -2, -1.0)])

    @jax.jit
    def measure(key):
        smooth_key, rough_key, part_key = jax.random.split(key, 3)
        smooth, rough = GaussianProcess(GaussianKernel()), GaussianProcess(LaplaceKernel())
        whole, part = smooth.sample(grid, draws, key=smooth_key), smooth.sample(grid[-3:], draws, key=part_key)
        line = jnp.linspace(0, 5, 60)
        paths = jnp.stack([g.sample(line, 4, key=key) for g in (smooth, rough)])
        return whole, rough.sample(grid, draws, key=rough_key), part, (line, paths)

    whole, rough, part, (line, paths) = measure(key)
    kernel = np.exp(-((grid[:, None] - grid) ** 2) / 2)
    products = whole[:, 0, None] * whole
    yield estimate("mean", whole, 0.0, wrong=0.2)
    yield estimate("covariance with the value at 0", products, kernel[0], wrong=kernel[0] + 0.3)
    from scipy import stats

    yield same_law("f(2), from the whole grid", whole[:, -1], stats.norm.cdf, wrong=stats.norm(scale=1.2).cdf)
    total, alone = whole[:, -3:].sum(1), part.sum(1)
    yield same_law("sum of three values, whole grid and those alone", total, alone, wrong=1.2 * np.asarray(alone))
    gaps = np.asarray(grid[1:])
    square = jnp.mean((whole[:, 1:] - whole[:, :1]) ** 2, 0)
    # 2(1 - K) is d²(1 - d²/4 + …): up to d = 1/4 it bends by 1.5 % at most, a few thousandths of the slope, and the
    # sampling errors of all distances are nearly the same
    yield rate("squared increments", gaps[:5], square[:5], 2.0, tolerance=0.05, along="distance")
    jagged = jnp.mean((rough[:, 1:] - rough[:, :1]) ** 2, 0)
    increments, expected = (rough[:, 1:] - rough[:, :1]) ** 2, 2 * (1 - np.exp(-gaps))
    yield estimate("squared increments, rough", increments, expected, wrong=1.3 * expected)
    yield control(
        "the kernel exp(-(s - t)²/2): here exp(-|s - t|)",
        rate("squared increments", gaps[:5], jagged[:5], 2.0, tolerance=0.05),
    )
    rows = [
        {"t": float(t), "f(t)": float(v), "path": i, "kernel": name}
        for name, group in zip(("exp(-d²/2)", "exp(-d)"), paths, strict=True)
        for i, path in enumerate(group)
        for t, v in zip(line, path, strict=True)
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=1)
    chart = chart.encode(
        alt.X("t:Q"), alt.Y("f(t):Q"), alt.Color("path:N", legend=None), alt.Column("kernel:N", title=None)
    )
    yield picture("paths of two priors", chart.properties(width=240, height=160))


@claim(rows=("B07.10",))
def law_at_the_start(key, *, features: Annotated[int, Range(6, 100)] = 12, draws: Draws = 20_000):
    r"""With fixed features and normal weights the model is a Gaussian process, whatever the number of features.

    For $\theta_0\sim\mathcal N(0,I)$ and given $w$, $f(\cdot,\theta_0)=\frac1{\sqrt p}\theta_0\cdot\phi$ is centred
    normal with covariance $K(x,x')=\frac1p\phi(x)\cdot\phi(x')$, exactly. Over random $w$ too it is not: for ReLU
    features the kurtosis is $3+15/p$. Nor is it for other laws of $\theta_0$.
    """
    counts = jnp.array([2, 4, 8, 16])

    @jax.jit
    def measure(key):
        x_key, w_key, t_key, u_key, many_key = jax.random.split(key, 5)
        x = jax.random.normal(x_key, (5, 3))
        model = RandomFeatures.draw(3, features, jnp.tanh, key=w_key)
        theta = jax.random.normal(t_key, (draws, features))
        f = theta @ model.features(x).T
        k = model.kernel(x)
        distance = jnp.sum(jnp.linalg.solve(k, f.T).T * f, 1)
        # a uniform weight of variance 1 on one feature
        flat = jax.random.uniform(u_key, (draws,), minval=-(3**0.5), maxval=3**0.5)
        # ReLU features of a unit vector are rectified normals; their squares, averaged over the first p
        squares = jnp.maximum(jax.random.normal(many_key, (draws, 16)), 0) ** 2
        variance = jnp.cumsum(squares, 1)[:, counts - 1] / counts
        mixed = jnp.sqrt(variance[:, 0]) * theta[:, 0] * 2**0.5
        return f, k, distance, flat, 3 * variance**2 / 0.25, mixed

    f, k, distance, flat, fourth, mixed = measure(key)
    from scipy import stats

    size = np.sqrt(np.outer(np.diagonal(k), np.diagonal(k)))
    yield estimate("mean", f, 0.0, wrong=0.3 * np.sqrt(np.diagonal(k)))
    yield estimate("covariance", f[:, :, None] * f[:, None], k, wrong=np.asarray(k) + 0.3 * size)
    wrong = stats.chi2(6).cdf
    yield same_law("squared distance in the metric of K", distance, stats.chi2(5).cdf, wrong=wrong)
    yield estimate("kurtosis over random ReLU features too", fourth, 3 + 15 / np.asarray(counts), wrong=3.0)
    normal, other = stats.norm.cdf, stats.norm(scale=1.5).cdf
    yield control("normal weights: here one that is uniform", same_law("normal", flat, normal, wrong=other))
    yield control("fixed features: here two of ReLU, drawn anew", same_law("normal", mixed, normal, wrong=other))


@claim(
    rows=("B07.10",),
    erratum="θ·φ(x) has the variance p K(x,x); the factor 1/sqrt(p) of the model was dropped.",
)
def unscaled_start(key, *, features: Annotated[int, Range(2, 100)] = 10, draws: Draws = 2000):
    r"""The unscaled product of normal weights and features has the variance K(x,x).

    As printed, Theorem 55: "$f(x,\theta_0)=\theta_0^\top\phi(x)$ is also Gaussian with" variance $K(x,x)$, where
    $K=\frac1p\langle\phi,\phi\rangle$ and the model was defined as $\frac1{\sqrt p}\theta^\top\phi$. Without the factor
    the variance is $pK(x,x)$.
    """
    model = RandomFeatures.draw(3, features, jnp.tanh, key=key)
    phi = model.features(jnp.ones((1, 3)))[0] * features**0.5
    f = jax.random.normal(jax.random.fold_in(key, 1), (draws, features)) @ phi
    kernel = float(phi @ phi) / features
    yield estimate("variance, with the factor p", f**2, features * kernel, wrong=kernel)
    yield printed(estimate("variance", f**2, kernel, wrong=features * kernel))


@claim(rows=("B07.11",))
def law_after_training(key, *, features: Annotated[int, Range(12, 200)] = 40, draws: Draws = 4000):
    r"""Random features trained from normal weights end at a draw from the posterior of a Gaussian process.

    At the end of the gradient flow $f(x,\theta_\infty)$ is normal with mean $K(x,X)K(X,X)^{-1}y$ and covariance
    $K(x,x')-K(x,X)K(X,X)^{-1}K(X,x')$: that of $GP(0,K)$ given $f(X)=y$. At the data it is $y$. From $\theta_0=0$ the
    mean is the same and there is no variance; where covariance and kernel differ, as in wide networks of which all
    layers are trained, so does the law.
    """
    n = 4

    @jax.jit
    def measure(key):
        x_key, y_key, w_key, t_key = jax.random.split(key, 4)
        x, new = jnp.split(jax.random.normal(x_key, (n + 3, 3)), [n])
        y = jax.random.normal(y_key, (n,))
        model = RandomFeatures.draw(3, features, jnp.tanh, weight_std=2.0, key=w_key)
        phi = model.features(x)
        theta = jax.random.normal(t_key, (draws, features))

        def trained(theta):
            # the flow moves within the rows of φ only, and stops where the labels are met
            return theta + jnp.linalg.lstsq(phi, y - phi @ theta)[0]

        before, large = theta @ model.features(new).T, jax.lax.map(trained, 2 * theta, batch_size=draws)
        theta = jax.lax.map(trained, theta, batch_size=draws)
        every = jnp.concatenate([x, new])
        kernel = FeatureKernel(lambda p: model.features(p[None])[0])
        posterior = GaussianProcess(kernel).condition(x, y, new)
        joint = model.kernel(every)
        law, other = trained_law(joint, joint, y), trained_law(joint, 4 * joint, y)
        return {
            "new": theta @ model.features(new).T,
            "before": before,
            "large": large @ model.features(new).T,
            "data": (theta @ phi.T, jnp.broadcast_to(y, (draws, n))),
            "posterior": posterior,
            "law": (law.mean[n:], law.covariance[n:, n:]),
            "other": other.covariance[n:, n:],
            "zero": jnp.var(model.features(new) @ trained(jnp.zeros(features)) + jnp.zeros((2, 1)), 0),
        }

    m = measure(key)
    mean, covariance = m["posterior"]
    yield equal("law of training and posterior: mean", m["law"][0], mean, rtol=1e-6, atol=1e-6)
    yield equal("law of training and posterior: covariance", m["law"][1], covariance, rtol=1e-6, atol=1e-6)
    deviation = np.sqrt(np.diagonal(covariance))
    yield estimate("mean of the trained models", m["new"], mean, wrong=np.asarray(mean) + 0.3 * deviation)
    off = m["new"] - mean
    products = off[:, :, None] * off[:, None]
    wrong = np.asarray(covariance) + 0.4 * np.outer(deviation, deviation)
    yield estimate("covariance of the trained models", products, covariance, wrong=wrong)
    yield equal("trained models at the data", *m["data"], atol=1e-8)
    variance = np.diagonal(covariance)
    large, other = (m["large"] - mean) ** 2, np.diagonal(m["other"])
    yield estimate("variance, from weights twice as large", large, other, wrong=variance)
    yield control("normal weights at the start: here zero", equal("variance", m["zero"], variance, rtol=0.1))
    yield control("trained to the end: here not at all", estimate("variance", m["before"] ** 2, variance, wrong=0.0))
    yield control(
        "weights from N(0, I) at the start: here twice as large", estimate("variance", large, variance, wrong=0.0)
    )


@claim(
    rows=("B07.11",),
    erratum="The second block of the shift must be y, not 0: training ends with the labels met.",
)
def printed_shift(key, *, features: Annotated[int, Range(12, 200)] = 30):
    r"""At the end of training the model is zero at the data.

    As the proof prints it: $f(X,\theta_\infty)=0\cdot f(x,\theta_0)+0\cdot f(X,\theta_0)+0$. At the end of training the
    labels are met: the last zero must be $y$.
    """

    @jax.jit
    def measure(key):
        x_key, y_key, w_key, t_key = jax.random.split(key, 4)
        x, y = jax.random.normal(x_key, (4, 3)), jax.random.normal(y_key, (4,))
        phi = RandomFeatures.draw(3, features, jnp.tanh, weight_std=2.0, key=w_key).features(x)
        theta = jax.random.normal(t_key, (features,))
        return phi @ (theta + jnp.linalg.lstsq(phi, y - phi @ theta)[0]), y

    end, y = measure(key)
    yield equal("trained model at the data: the labels", end, y, atol=1e-9)
    yield printed(equal("trained model at the data: zero", end, 0.0, atol=1e-3))


@claim(rows=("B07.12",), full={"models": 2000})
def ensemble(key, *, models: Annotated[int, Range(200, 10_000)] = 250, steps: Annotated[int, Range(200, 5000)] = 200):
    r"""Wide networks trained from different starts scatter about the kernel regression as the two kernels say.

    Networks with one hidden layer of ReLU in the tangent parametrisation, all layers trained by descent on four points.
    Each ends near $f_0(x)+\Theta(x,X)\Theta(X,X)^{-1}(y-f_0(X))$, within a distance that falls as the root of the
    width; so their mean is near $\Theta(x,X)\Theta(X,X)^{-1}y$ and their variance near that of `trained_law` of
    $\Theta$ and $\Sigma$. Networks of which the last layer alone is trained do not come near
    it: they end near $f_0(x)+\Sigma(x,X)\Sigma(X,X)^{-1}(y-f_0(X))$.
    """
    widths, bias_std, n = (40, 57, 80, 113, 160, 226, 320), 0.5, 4
    most = widths[-1]
    angles, y = np.array([-2.6, -2.2, 0.4, 0.8]), np.array([0.6, 0.4, -0.3, -0.5])
    circle = np.linspace(-np.pi, np.pi, 25)
    points = np.concatenate([angles, circle])
    x = np.stack([np.cos(points), np.sin(points)], 1)

    def network(params, x, inside, width):
        hidden = jnp.maximum(x @ params["w"].T + bias_std * params["b"], 0)
        return (2 / width) ** 0.5 * hidden @ (inside * params["v"]) + bias_std * params["c"]

    def train(key, width, step, first):
        # a network within the widest one, so that all widths are one program
        inside = (jnp.arange(most) < width).astype(float)
        shapes = {"w": (most, 2), "b": (most,), "v": (most,), "c": ()}
        keys = dict(zip(shapes, jax.random.split(key, 4), strict=True))
        params = {name: jax.random.normal(keys[name], shape) for name, shape in shapes.items()}

        def loss(params):
            return 0.5 * jnp.sum((network(params, x[:n], inside, width) - y) ** 2)

        # `first` 0 holds the first layer
        steps_of = {"w": first * step, "b": first * step, "v": step, "c": step}

        def advance(_, params):
            return jax.tree.map(lambda p, g, s: p - s * g, params, jax.grad(loss)(params), steps_of)

        end = jax.lax.fori_loop(0, steps, advance, params)
        return network(params, x, inside, width), network(end, x, inside, width)

    @jax.jit
    def measure(key):
        # weight_std sqrt(2) and two inputs: the first layer has unit weights, the second sqrt(2 / width)
        tangent, covariance = (k(jnp.asarray(x), depth=1, bias_std=bias_std) for k in (ntk, nngp))
        # three quarters of what is stable; the slowest part keeps 0.93 a step
        step = 1.5 / jnp.linalg.eigvalsh(tangent[:n, :n])[-1]
        keys = jax.random.split(key, models)

        def trained(keys, first):
            each = lambda m: jax.vmap(lambda k: train(k, m, step, first))(keys)  # noqa: E731
            return jax.lax.map(each, jnp.asarray(widths, float))

        def distance(starts, ends):
            reach = jnp.linalg.solve(tangent[:n, :n], tangent[:n]).T
            predicted = starts + (y - starts[..., :n]) @ reach.T
            # the median, which a network that does not train at this step cannot move much
            return jnp.median(jnp.sqrt(jnp.mean((ends - predicted) ** 2, -1)), 1)

        both, last = trained(keys, 1.0), trained(keys[: 2 * models // 5], 0.0)
        law = trained_law(tangent, covariance, y)
        return both[1], law, jnp.diagonal(covariance), distance(*both), distance(*last)

    ends, law, prior, apart, last_layer = measure(key)
    yield picture("trained networks and their law", _ensemble_chart(circle, ends[-1][:12, n:], law, angles, y))
    # From 40 units on the line is straight. Medians of 250 networks give the slope to 0.04, and Student's interval of
    # seven points is three times that: twice the first and once the second.
    yield rate("distance to the kernel's prediction", widths, apart, -0.5, tolerance=0.2, along="width")
    wide = np.asarray(ends[-1])
    yield at_most("error at the data, widest, median", np.median(np.abs(wide[:, :n] - y), 0), 1e-3)
    middle, variance = np.asarray(law.mean[n:]), np.diagonal(law.covariance)[n:]
    # away from the data, where the error of first order in 1/width is small against the scatter
    away = np.flatnonzero(variance > 0.1)
    seen, far = away[np.argmax(np.abs(middle[away]))], away[np.argmax(variance[away])]
    yield estimate("mean where it is largest, widest", wide[:, n + seen], middle[seen], wrong=0.0)
    squares = (wide[:, n + far] - middle[far]) ** 2
    yield estimate("variance where it is largest, widest", squares, variance[far], wrong=float(prior[n + far]))
    yield control(
        "all layers are trained: here the last one alone",
        rate("distance to the kernel's prediction", widths, last_layer, -0.5, tolerance=0.2, along="width"),
    )


def _ensemble_chart(circle, paths, law, angles, y):
    n = len(y)
    mean, deviation = np.asarray(law.mean[n:]), np.sqrt(np.maximum(np.diagonal(law.covariance)[n:], 0))
    band = [
        {"angle": float(a), "low": float(m - 2 * s), "high": float(m + 2 * s), "f": float(m)}
        for a, m, s in zip(circle, mean, deviation, strict=True)
    ]
    lines = [
        {"angle": float(a), "f": float(v), "model": i}
        for i, p in enumerate(paths)
        for a, v in zip(circle, p, strict=True)
    ]
    dots = [{"angle": float(a), "f": float(v)} for a, v in zip(angles, y, strict=True)]
    across = alt.X("angle:Q")
    return alt.layer(
        alt.Chart(alt.Data(values=band))
        .mark_area(opacity=0.2)
        .encode(across, alt.Y("low:Q", title="f"), alt.Y2("high:Q")),
        alt.Chart(alt.Data(values=lines))
        .mark_line(strokeWidth=0.7, opacity=0.7, color="#8e6bbf")
        .encode(across, alt.Y("f:Q"), alt.Detail("model:N")),
        alt.Chart(alt.Data(values=band)).mark_line(strokeWidth=2.5).encode(across, alt.Y("f:Q")),
        alt.Chart(alt.Data(values=dots)).mark_point(filled=True, size=70, color="black").encode(across, alt.Y("f:Q")),
    ).properties(width=380, height=220)
