"""Finding a signal: correlation with a known reference, and the network that learns the reference."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, estimate
from corollary.nets.convolutional import (
    REFERENCE,
    REFERENCE_CHANNELS,
    KnownSignalDetector,
    OneFilterCNN,
    PearsonDetector,
    area_under_curve,
    cross_correlate,
    locate,
    maximum_gradient,
    one_filter_gradient,
    pearson_decomposition,
    signal_data,
    sliding_pearson,
)


@claim(rows=("M14.02", "M14.04"))
def pearson_correlation(key, *, signals: Count = 20):
    r"""Pearson's sliding correlation is the plain one, weighted and shifted by the window's mean and deviation.

    $\ell_n=w_n(\mathbf R\star\mathbf X)_n-b_n$ with $w_n=\frac{1/N'}{\mathrm{sd}(\mathbf R)\mathrm{sd}(\mathbf X_n)}$,
    $b_n=\frac{\bar R\bar X_n}{\mathrm{sd}(\mathbf R)\mathrm{sd}(\mathbf X_n)}$; $|\ell_n|\le1$, with $\ell_n=1$ exactly
    if the window is $a\mathbf R+b$, $a>0$, and $-1$ if $a<0$. Among windows of one mean and one deviation both have
    their maximum at the same place; among others they need not.
    """

    @jax.jit
    def measure(key):
        draws = jax.random.normal(key, (signals, 40))
        x, (a, b) = draws[:, :25], draws[0, 25:27]
        ell = jax.vmap(lambda x: sliding_pearson(REFERENCE, x))(x)
        plain = jax.vmap(lambda x: cross_correlate(REFERENCE, x))(x)
        weight, offset = jax.vmap(lambda x: pearson_decomposition(REFERENCE, x))(x)
        copy = jnp.exp(a) * REFERENCE + b
        copies = jnp.stack([copy, -copy, copy.at[2].add(0.1)])
        # every window of a periodic signal holds the same numbers
        periodic = jnp.tile(draws[:, 30:37], (1, 3))
        places = [
            jax.vmap(lambda x, f=f: jnp.argmax(f(REFERENCE, x)[:7]))(periodic)
            for f in (sliding_pearson, cross_correlate)
        ]
        return ell, weight * plain - offset, jax.vmap(lambda x: sliding_pearson(REFERENCE, x)[0])(copies), places

    ell, decomposed, copies, places = measure(key)
    yield equal("decomposition of all windows", decomposed.ravel(), ell.ravel(), atol=1e-11)
    yield at_most("size", jnp.abs(ell).ravel(), 1.0)
    yield equal("a scaled and shifted copy, and its negative", copies[:2], [1.0, -1.0])
    yield control("one entry off by 0.1", equal("a scaled and shifted copy", copies[2], 1.0))
    yield equal("place of the maximum, windows of one mean and deviation", places[0], places[1], rtol=0, atol=0)
    # a faint copy of the reference, and then a loud constant
    mixed = jnp.concatenate([0.1 * REFERENCE, jnp.array([0.3, 0.2]), 50 + 0.1 * jnp.arange(7.0) % 0.3])
    both = [float(jnp.argmax(f(REFERENCE, mixed))) for f in (sliding_pearson, cross_correlate)]
    yield control("windows of other means", equal("place of the maximum", both[0], both[1]))


@claim(rows=("M14.01", "M14.03", "M14.07"), full={"n": 20000})
def known_signal(key, *, n: Size = 1000):
    r"""The largest correlation with the reference tells whether it is there; Pearson's throws the scale away.

    A reference of $N'=7$ entries is written, with noise of deviation $\frac12$, into half of the signals of $N=25$
    entries of background noise of deviation 3 or 5. The detector $S(w\max_n(\mathbf R\star\mathbf X)_n+b)$, fitted by
    logistic regression, is right more often than the best threshold on Pearson's $\max_n\ell_n$. Its loss is convex in
    $(w,b)$, with gradient $(S-y)(M,1)$ and second derivative $S(1-S)(M,1)^\top(M,1)$, $M=\max_n(\mathbf R\star\mathbf
    X)_n$.
    """

    @jax.jit
    def measure(key):
        wb = jnp.array([0.02, -3.0])

        def loss(wb, x, y):
            return -jnp.log(jnp.abs(1 - y - KnownSignalDetector(REFERENCE, *wb)(x)))

        def judged(key, background):
            x, y, _ = signal_data(2 * n, key=key, background=background)
            pearson, known = PearsonDetector().fit(x[:n], y[:n]), KnownSignalDetector().fit(x[:n], y[:n])
            right = [jnp.mean((jax.vmap(d)(x[n:]) > 0.5) == (y[n:] > 0), dtype=x.dtype) for d in (pearson, known)]
            area = area_under_curve(jax.vmap(pearson.score)(x), y)
            x, y, fixed = x[:20], y[:20], KnownSignalDetector(REFERENCE, *wb)
            derivatives = jax.vmap(lambda x, y: (jax.grad(loss)(wb, x, y), jax.hessian(loss)(wb, x, y)))(x, y)
            written = jax.vmap(lambda x, y: (fixed.gradient(x, y), fixed.feature(x), fixed(x)))(x, y)
            return jnp.stack(right), area, derivatives, written

        return jax.lax.map(lambda case: judged(*case), (jax.random.split(key), jnp.array([3.0, 5.0])))

    right, area, (slopes, bends), (written, features, s) = measure(key)
    # five standard deviations of a share of n is 0.08 where the share is a half, and 0.02 near 0.98
    yield at_least("area under the curve of Pearson's detector, background 3", area[0], 0.9)
    yield at_least("accuracy of the correlation detector, background 3 and 5", right[:, 1], jnp.array([0.97, 0.94]))
    yield at_least("and of Pearson's below it", right[:, 1] - right[:, 0], 0.02)
    yield equal("gradient by automatic differentiation", slopes.ravel(), written.ravel(), atol=1e-10)
    square = jnp.stack([features**2, features, features, jnp.ones_like(features)], axis=-1)
    convex = (s * (1 - s))[..., None] * square
    yield equal("second derivative: positive times a square", bends.ravel(), convex.ravel(), rtol=1e-7, atol=1e-9)


@claim(rows=("M14.08", "M14.10"), full={"runs": 32})
def learned_reference(key, *, runs: Count = 6, n: Size = 400, epochs: Count = 8):
    r"""A network with one filter learns the reference signal, and can lock onto a pattern that is everywhere.

    $S(w\max_n(\mathbf r\star\mathbf X)_n+b)$ has the gradient $(S-y)(wX_{n^*},\dots,wX_{n^*+N'-1},M,1)$ with $n^*$ the
    place of the maximum: the filter moves along what it matches best. Trained by stochastic gradient descent on 400
    signals it points along the reference (cosine near 1), and detects it, in most runs. Scaling
    $(\mathbf r,w)\to(c\mathbf r,w/c)$, $c>0$, changes nothing. It can lock onto a wrong pattern: if the filter matches
    one best that *all* signals hold,
    the feature is constant, and with $b=\ln\frac{\bar y}{1-\bar y}-wM$ the gradient of the average loss is exactly 0
    (that of a single signal is not).
    """
    decoy = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0])

    @jax.jit
    def measure(key):
        gradient_key, *keys = jax.random.split(key, runs + 1)
        x, y, _ = signal_data(50, key=gradient_key)
        model = OneFilterCNN(7, key=gradient_key)
        by_hand = jax.vmap(lambda x, y: one_filter_gradient(model, x, y)[:3])(x, y)
        by_jax = jax.vmap(lambda x, y: jax.grad(lambda m: m.loss(x, y))(model))(x, y)
        scaled = eqx.tree_at(lambda m: (m.filter, m.weight), model, (3 * model.filter, model.weight / 3))

        # all signals begin with a loud pattern, which the filter is; the bias is the best for a constant feature
        held = jnp.concatenate([jnp.broadcast_to(30 * decoy, (50, 7)), x], axis=1)
        odds = jnp.log(y.mean() / (1 - y.mean()))

        def settled(filter):
            feature = jnp.max(cross_correlate(filter, held[0]))
            locked = eqx.tree_at(lambda m: (m.filter, m.bias), model, (filter, odds - model.weight * feature))
            slope = jax.grad(lambda m: jnp.mean(jax.vmap(m.loss)(held, y)))(locked)
            return jnp.append(slope.filter, jnp.stack([slope.weight, slope.bias]))

        def one(key):
            data_key, model_key, order_key = jax.random.split(key, 3)
            x, y, _ = signal_data(2 * n, key=data_key)
            model = OneFilterCNN(7, key=model_key).fit(x[:n], y[:n], key=order_key, epochs=epochs)
            cosine = model.filter @ REFERENCE / jnp.linalg.norm(model.filter) / jnp.linalg.norm(REFERENCE)
            return cosine, jnp.mean((jax.vmap(model)(x[n:]) > 0.5) == (y[n:] > 0), dtype=x.dtype)

        stuck = jax.vmap(settled)(jnp.stack([0.1 * decoy, 0.1 * REFERENCE]))
        return by_hand, by_jax, jax.vmap(scaled)(x), jax.vmap(model)(x), stuck, jax.lax.map(one, jnp.stack(keys))

    by_hand, by_jax, scaled, plain, stuck, (cosine, right) = measure(key)
    yield equal("filter's gradient by automatic differentiation", by_jax.filter.ravel(), by_hand[0].ravel())
    yield equal("weight's and bias's", jnp.stack([by_jax.weight, by_jax.bias]), jnp.stack(by_hand[1:]))
    yield equal("filter times 3, weight over 3", scaled, plain, along="signal")
    yield at_least("cosine of filter and reference, median run", jnp.median(cosine), 0.95)
    yield at_least("share of new signals that are judged right, median run", jnp.median(right), 0.93)
    yield equal("locked: gradient of the average loss", stuck[0], 0.0, along="parameter")
    yield control("not locked", equal("gradient of the average loss", stuck[1], 0.0, along="parameter"))


@claim(rows=("M14.09", "M14.11", "M14.23"))
def maximum_and_relu(key, *, samples: Count = 4000):
    r"""The derivative of a maximum picks the largest entry; after a ReLU nothing may be left to pick.

    $\partial M/\partial x_n=\mathbf 1_{\{n=\arg\max\}}$ where the largest entry is unique; at $(-1,7,7)$ the one-sided
    derivatives by the last entry are 0 and 1. $M(\mathrm{ReLU}(x))=\max(0,\max_nx_n)$, and where all correlations are
    negative the filter's gradient is exactly 0. On white noise of $N'+1$ entries that has probability
    $\frac14+\frac{\arcsin\rho}{2\pi}$ with $\rho=\sum_jr_jr_{j+1}/\|\mathbf r\|^2$ for a filter $\mathbf r$. Of
    $m(\mathbf R)=\max_n(\mathbf R\star X)_n$, $X=(1.2,2.3,0,-1)$, at $\mathbf R=(1,2)$, where it is $5.8$, the gradient
    is $(1.2,2.3)$ (exercise 14.2).
    """

    @jax.jit
    def measure(key):
        x_key, r_key = jax.random.split(key)
        x = jax.random.normal(x_key, (samples, 8))
        model = OneFilterCNN(7, key=r_key, relu=True)
        eps = 1e-6
        differences = (jnp.max(x[0] + eps * jnp.eye(8), axis=1) - jnp.max(x[0] - eps * jnp.eye(8), axis=1)) / (2 * eps)
        tie = lambda e: jnp.maximum(7.0, 7.0 + e)  # noqa: E731
        slopes = jax.vmap(lambda x: jax.grad(lambda m: m.loss(x, 1))(model).filter)(x)
        correlations = jax.vmap(lambda x: cross_correlate(model.filter, x))(x)
        r = model.filter
        exercise = lambda r: _feature(r, jnp.array([1.2, 2.3, 0.0, -1.0]))  # noqa: E731
        return {
            "slope": (maximum_gradient(x[0]).gradient, differences),
            "sides": jnp.stack([(tie(0.0) - tie(-eps)) / eps, (tie(eps) - tie(0.0)) / eps]),
            "feature": (jax.vmap(model.feature)(x), jnp.maximum(correlations.max(1), 0)),
            "norms": jnp.abs(slopes).max(1),
            "dead": correlations.max(1) < 0,
            "rho": jnp.sum(r[1:] * r[:-1]) / jnp.sum(r**2),
            "exercise": jax.value_and_grad(exercise)(jnp.array([1.0, 2.0])),
        }

    found = measure(key)
    # half of the rounding of two numbers near 1, over the step
    yield equal("derivative by central differences", *found["slope"], atol=1e-9, along="entry")
    yield equal("one-sided derivatives at a tie", found["sides"], [0.0, 1.0], atol=1e-8)
    yield equal("maximum after the ReLU", *found["feature"], along="signal")
    dead = np.asarray(found["dead"])
    yield equal("filter's gradient where all correlations are negative", found["norms"][dead], 0.0, rtol=0, atol=0)
    yield control("some correlation positive", equal("filter's gradient", found["norms"][~dead], 0.0, rtol=0, atol=0))
    predicted = 0.25 + np.arcsin(float(found["rho"])) / (2 * np.pi)
    yield estimate("share of signals without a gradient", dead.astype(float), predicted, wrong=predicted + 0.1)
    value, slope = found["exercise"]
    yield equal("exercise 14.2: value and gradient", jnp.append(slope, value), [1.2, 2.3, 5.8])


def _feature(filter, x):
    """The feature of the one-filter network as a function of its filter."""
    return eqx.tree_at(lambda m: m.filter, OneFilterCNN(filter.shape[0], key=jax.random.key(0)), filter).feature(x)


@claim(rows=("M14.13",))
def two_channels(key, *, n: Size = 1500, noise: Positive = 6.0):
    r"""Two channels locate a signal better than either of them.

    $\arg\max_n\sum_k|(\mathbf r\star\mathbf X)_{k,n}|$ with the reference of two channels in white noise: wrong less
    often than with the first channel alone, and less often than with the second alone.
    """

    @jax.jit
    def measure(key):
        place_key, noise_key = jax.random.split(key)
        start = jax.random.randint(place_key, (n,), 0, 19)
        x = noise * jax.random.normal(noise_key, (n * 2 * 25,)).reshape(n, 2, 25)
        offset = jnp.arange(25) - start[:, None, None]
        copies = jnp.take_along_axis(
            jnp.broadcast_to(REFERENCE_CHANNELS, (n, 2, 7)), jnp.clip(offset, 0, 6) + jnp.zeros((n, 2, 25), int), axis=2
        )
        x = x + jnp.where((offset >= 0) & (offset < 7), copies, 0.0)
        wrong = lambda r, x: jax.vmap(lambda x: locate(r, x))(x) != start  # noqa: E731
        return jnp.stack(
            [
                wrong(REFERENCE_CHANNELS[:1], x[:, :1]),
                wrong(REFERENCE_CHANNELS[1:], x[:, 1:]),
                wrong(REFERENCE_CHANNELS, x),
            ]
        )

    first, second, both = np.asarray(measure(key), float)
    quantile = stats.norm.isf(1e-6)
    for name, alone in (("first", first), ("second", second)):
        gain = alone - both
        half = quantile * gain.std(ddof=1) / np.sqrt(n)
        yield at_least(f"share wrong: {name} channel over both, lower end", gain.mean() - half, 0.0)
    yield at_least("share wrong with one channel: the task is hard", np.array([first.mean(), second.mean()]), 0.1)
