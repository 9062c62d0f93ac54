"""Normalised layers: what they fix, what they no longer see, and what the size of the batch does to them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_least, claim, control, equal, estimate, printed
from corollary.nets import tanh, train
from corollary.nets.normalisation import (
    NormalisedMLP,
    batch_normalise,
    layer_normalise_jacobian,
)
from corollary.network import BatchLoss


def _layer(weight, x):
    return x @ weight.T


@claim(rows=("B10.28", "B10.29"), full={"width": 256})
def batch_normalisation(key, *, batch: Size = 32, width: Size = 24, depth: Count = 50, runs: Count = 40):
    r"""Batch normalisation fixes mean and variance, and makes a layer blind to the scale of its weights.

    $\tilde z=(z-\mu)/\sqrt{\delta+v}$ has mean 0 and variance $\frac v{v+\delta}$ over the batch. For $\delta=0$, any
    shift $b$ and $c>0$, $BN(cWx+b)=BN(Wx)$; hence every row of $W$ is orthogonal to the gradient of any loss by it, and
    the gradient at $cW$ is $\frac1c$ times the one at $W$. (So no step along it ever shortens a row.) A stack of layers
    of Gaussian weights of variance $c^2/d$ changes $\ln\|h\|^2$ by $\ln c^2+\psi(\frac d2)-\ln\frac d2$ a layer on
    average; normalised, every layer has variance 1.
    """
    from scipy.special import digamma

    gain = 0.8
    delta = 0.3

    def loss(weight, x, target, factor=1.0, delta=0.0):
        return jnp.mean(jnp.tanh(batch_normalise(_layer(factor * weight, x), eps=delta).values * target))

    @jax.jit
    def measure(key):
        x_key, w_key, t_key, b_key, deep_key = jax.random.split(key, 5)
        x, weight = jax.random.normal(x_key, (batch, width)), jax.random.normal(w_key, (width, width))
        target, shift = jax.random.normal(t_key, (batch, width)), jax.random.normal(b_key, (width,))
        z = _layer(weight, x)
        normalise = lambda z, delta=0.0: batch_normalise(z, eps=delta).values  # noqa: E731
        soft = batch_normalise(z, eps=delta)
        slope = jax.grad(loss)
        grads = [slope(weight, x, target), slope(3 * weight, x, target), slope(weight, x, target, 1.0, 10.0)]
        layer, norm = eqx.nn.make_with_state(eqx.nn.BatchNorm)(width, "batch", eps=delta, mode="batch")
        equinox, _ = jax.vmap(layer, in_axes=(0, None), out_axes=(0, None), axis_name="batch")(z, norm)

        def stack(key):
            def advance(carry, key):
                plain, normalised = carry
                w = gain / jnp.sqrt(width) * jax.random.normal(key, (width, width))
                h = normalise(_layer(w, normalised))
                return (w @ plain, jax.nn.relu(h)), (h.var(0).mean(), jnp.log(jnp.sum((w @ plain) ** 2)))

            start = jnp.ones(width) / jnp.sqrt(width), x
            return jax.lax.scan(advance, start, jax.random.split(key, depth))[1]

        variances, logs = jax.vmap(stack)(jax.random.split(deep_key, runs))
        return {
            "mean": soft.values.mean(0),
            "variance": (soft.values.var(0), z.var(0) / (z.var(0) + delta)),
            "equinox": (equinox, soft.values),
            "rescaled": (normalise(3 * z + shift), normalise(z)),
            "negative": (normalise(-z), normalise(z)),
            "soft": (normalise(3 * z, 10.0), normalise(z, 10.0)),
            "along": [jnp.sum(g * weight, 1) / jnp.linalg.norm(g, axis=1) for g in grads],
            "inverse": (grads[1], grads[0] / 3),
            "variances": variances,
            "per layer": logs[:, -1] / depth,
        }

    found = measure(key)
    yield equal("mean over the batch", found["mean"], 0.0, along="feature")
    yield equal("variance over the batch, delta 0.3", *found["variance"], along="feature")
    yield equal("the layer of Equinox", found["equinox"][0].ravel(), found["equinox"][1].ravel())
    yield equal("weights times 3, inputs shifted", found["rescaled"][0].ravel(), found["rescaled"][1].ravel())
    yield equal("gradient along its own row", found["along"][0], 0.0, atol=1e-10, along="unit")
    yield equal("gradient at 3W, against a third", found["inverse"][0].ravel(), found["inverse"][1].ravel())
    yield equal("variance in every normalised layer", found["variances"], 1.0, along="layer")
    predicted = np.log(gain**2) + digamma(width / 2) - np.log(width / 2)
    yield estimate("log of the squared norm a layer, not normalised", found["per layer"], predicted, wrong=0.0)
    yield control(
        "the factor is positive: here -1", equal("outputs", found["negative"][0].ravel(), found["negative"][1].ravel())
    )
    yield control("delta is 0: here 10", equal("weights times 3", found["soft"][0].ravel(), found["soft"][1].ravel()))
    yield control(
        "delta is 0: here 10", equal("gradient along its own row", found["along"][2], 0.0, atol=1e-10, along="unit")
    )


@claim(
    rows=("B10.29",),
    erratum="B says that the normalised values have unit variance, with a positive delta under the root.",
)
def printed_unit_variance(key, *, batch: Size = 16):
    r"""As printed: with a positive delta the normalised values of a batch have unit variance.

    $\tilde z=(z-\mu)/\sqrt{\delta+v}$ "has zero mean and unit variance" (B, 10.3.1). It has the variance
    $\frac v{v+\delta}<1$, which is next to nothing for a feature that hardly varies.
    """
    z = jax.random.normal(key, (batch, 3)) * jnp.array([1.0, 0.01, 0.001])
    found, delta = batch_normalise(z).values.var(0), 1e-5
    yield equal("variance over the batch, corrected", found, z.var(0) / (z.var(0) + delta), along="feature")
    yield printed(equal("variance over the batch, as printed", found, 1.0, along="feature"))


@claim(rows=("B10.30",))
def layer_normalisation(key, *, size: Size = 7, batch: Size = 5):
    r"""Layer normalisation treats each example for itself and sees neither its mean nor its scale.

    $LN(z)=\frac{z-\mu}\sigma$ over the $m$ features of one example has mean 0 and variance $\frac v{v+\delta}$, does
    not depend on the rest of the batch, and works on a batch of one. For $\delta=0$ and $c>0$,
    $LN(cz+b\mathbf 1)=LN(z)$: its Jacobian $\frac1\sigma(I-\frac1m\mathbf 1\mathbf 1^\top-\frac1m\tilde z\tilde
    z^\top)$ is a projection divided by $\sigma$, takes $\mathbf 1$ and $z$ to 0, and has rank $m-2$.
    """

    @jax.jit
    def measure(key):
        z_key, other_key = jax.random.split(key)
        z = jax.random.normal(z_key, (batch, size))
        company = z.at[1:].set(10 * jax.random.normal(other_key, (batch - 1, size)))
        sharp, soft = (eqx.nn.LayerNorm(size, eps=eps) for eps in (0.0, 0.5))
        slope = jax.jacobian(sharp)(z[0])
        scale = jnp.std(z[0])
        return {
            "moments": (jax.vmap(soft)(z).mean(1), jax.vmap(soft)(z).var(1), z.var(1) / (z.var(1) + 0.5)),
            "alone": (jax.vmap(sharp)(company)[0], jax.vmap(sharp)(z)[0], jax.vmap(sharp)(z[:1])[0]),
            "batch": (batch_normalise(company).values[0], batch_normalise(z).values[0]),
            "affine": (sharp(3 * z[0] + 5), sharp(z[0]), soft(3 * z[0]), soft(z[0])),
            "slope": (slope, layer_normalise_jacobian(z[0], eps=0.0)),
            "null": (slope @ jnp.ones(size), slope @ z[0], jax.jacobian(soft)(z[0]) @ z[0]),
            "spectrum": jnp.linalg.eigvalsh(slope) * scale,
        }

    found = measure(key)
    mean, variance, predicted = found["moments"]
    yield equal("mean of each example", mean, 0.0, along="example")
    yield equal("variance of each example, delta 0.5", variance, predicted, along="example")
    together, same, single = found["alone"]
    yield equal("in other company", together, same, rtol=1e-14, atol=1e-14, along="feature")
    yield equal("in a batch of one", single, same, rtol=1e-14, atol=1e-14, along="feature")
    yield control(
        "each example is normalised for itself: here over the batch",
        equal("in other company", *found["batch"], along="feature"),
    )
    yield equal("scaled and shifted", *found["affine"][:2], along="feature")
    yield control("delta is 0: here 0.5", equal("scaled", *found["affine"][2:], along="feature"))
    yield equal("Jacobian", found["slope"][0].ravel(), found["slope"][1].ravel())
    yield equal("Jacobian times the ones and times z", jnp.stack(found["null"][:2]), 0.0, atol=1e-11, along="feature")
    spectrum = np.r_[0.0, 0.0, np.ones(size - 2)]
    yield equal("eigenvalues of the Jacobian times sigma", found["spectrum"], spectrum, atol=1e-10, along="rank")
    yield control("delta is 0: here 0.5", equal("Jacobian times z", found["null"][2], 0.0, atol=1e-11, along="feature"))


@claim(rows=("B10.31",), full={"steps": 1000})
def batch_size_and_normalisation(key, *, runs: Count = 24, steps: Count = 100, samples: Count = 2000):
    r"""Batch normalisation depends on the size of the batch, layer normalisation does not.

    The mean of a batch of $B$ examples of variance $v$ has variance $v/B$: the spread of the statistics falls as
    $B^{-1/2}$. In a batch of two, $\tilde z=\pm1$ for $\delta=0$: of all values only their order is left. Networks that
    are trained on the same examples in the same steps, normalised in groups of 2 instead of 128, therefore fit worse
    (judged with the statistics of all training data). Layer normalisation takes each example for itself.
    """
    from scipy import stats

    sizes = (2, 8, 32, 128)

    def loss(model, x, y, group):
        out = jax.vmap(lambda part: model.batch(part)[0][:, 0])(x.reshape(-1, group, 2))
        return jnp.mean(optax.sigmoid_binary_cross_entropy(out.ravel(), y))

    objectives = {g: BatchLoss(lambda model, data, g=g: loss(model, *data, g)) for g in (2, 128)}
    optimiser = optax.adam(0.02)

    @jax.jit
    def measure(key):
        spread_key, train_key, z_key = jax.random.split(key, 3)
        draws = jax.random.normal(spread_key, (sizes[-1] * samples,)).reshape(sizes[-1], samples)
        spread = [batch_normalise(draws[:b]).moments.mean ** 2 for b in sizes]
        pairs = batch_normalise(jax.random.normal(z_key, (2, 50)), eps=0.0).values

        def one(key):
            x_key, model_key = jax.random.split(key)
            x, test = jnp.split(jax.random.normal(x_key, (512, 2)), [128])
            label = lambda x: (jnp.sum(x**2, 1) > 1.4).astype(x.dtype)  # noqa: E731
            model = NormalisedMLP((2, 16, 1), tanh, key=model_key)

            def trained(group):
                fitted = train(model, objectives[group], (x, label(x)), optimiser, steps=steps)
                statistics = fitted.network.batch(x)[1]
                out = jax.vmap(lambda a: fitted.network(a, statistics)[0])(test)
                return jnp.mean((out > 0) == (label(test) > 0.5), dtype=x.dtype)

            return trained(2), trained(128)

        return spread, pairs, jax.vmap(one)(jax.random.split(train_key, runs))

    spread, pairs, (small, large) = measure(key)
    for size, squares in zip(sizes, spread, strict=True):
        yield estimate(f"squared mean of a batch of {size}", squares, 1 / size, wrong=2 / size)
    yield equal("size of the values in a batch of two", jnp.abs(pairs).ravel(), 1.0, along="feature")
    gain = large - small
    # Student's lower end at the level 1e-6 of the mean over the runs
    half = stats.t.isf(1e-6, runs - 1) * float(jnp.std(gain, ddof=1)) / np.sqrt(runs)
    yield at_least("test accuracy, groups of 128 over groups of 2, lower end", float(gain.mean()) - half, 0.0)


@claim(rows=("B10.68", "B10.69", "B10.70"))
def what_rescaling_gives_back(key, *, batch: Size = 12, width: Size = 6):
    r"""Scale and shift give back what normalisation took, for one batch and not for another.

    In $z=\gamma\odot\frac{h-\mu(\mathcal B)}{\sigma(\mathcal B)}+\theta$ the choice $\gamma=\sigma(\mathcal B)$,
    $\theta=\mu(\mathcal B)$ is the layer without normalisation on $\mathcal B$, and on no other batch: the functions
    are the same, but scale and location have become parameters of their own, and $W\to10W$ changes nothing. Without
    $\gamma$ and $\theta$, $w^{(2)}\phi(w^{(1)}x)$ becomes
    $w^{(2)}\phi(\mathrm{sign}(w^{(1)})\frac{x-\mu_x}{\sigma_x})$: the slope inside $\phi$ is lost, and
    $\tanh 3x$ is out of reach. With the unbiased $\sigma$ of problem 2 the outputs are $\sqrt{(B-1)/B}$ of those of
    section 10.3.1.
    """
    options = {"unbiased": True, "eps": 0.0}

    @jax.jit
    def measure(key):
        x_key, other_key, w_key, s_key = jax.random.split(key, 4)
        x, other = jax.random.normal(x_key, (batch, 3)), 2 * jax.random.normal(other_key, (batch, 3)) + 1
        normalised = NormalisedMLP((3, width, 1), tanh, key=w_key, **options)
        plain = NormalisedMLP((3, width, 1), tanh, key=w_key, kind="none", rescale=False)
        moments = normalised.batch(x)[1][0]
        fields = lambda m: (m.scales[0], m.shifts[0])  # noqa: E731
        restored = eqx.tree_at(fields, normalised, (jnp.sqrt(moments.variance), moments.mean))
        louder = lambda m: eqx.tree_at(lambda m: m.weights[0], m, 10 * m.weights[0])  # noqa: E731

        narrow = NormalisedMLP((1, 1, 1), tanh, key=s_key, rescale=False, **options)
        points = jax.random.normal(s_key, (batch, 1)) + 0.5
        weigh = lambda m, w, v=1.0: eqx.tree_at(  # noqa: E731
            lambda m: m.weights, m, (w * jnp.ones((1, 1)), v * jnp.ones((1, 1)))
        )
        slopes = jax.vmap(lambda w: weigh(narrow, w).batch(points)[0][:, 0])(jnp.array([0.1, 1.0, 10.0, -10.0]))
        target = jnp.tanh(3 * points[:, 0])
        best = jnp.dot(slopes[1], target) / jnp.dot(slopes[1], slopes[1])
        wide = weigh(NormalisedMLP((1, 1, 1), tanh, key=s_key, **options), 1.0)
        mean, std = points.mean(), jnp.std(points, ddof=1)
        fitted = eqx.tree_at(fields, wide, (3 * std[None], 3 * mean[None])).batch(points)[0][:, 0]
        halved = eqx.tree_at(fields, wide, (std[None], mean[None])).batch(points)[0][:, 0]
        h = x @ normalised.weights[0].T
        ratio = [batch_normalise(h, eps=0.0, unbiased=u).values for u in (True, False)]
        standard = (points[:, 0] - mean) / std
        return {
            "restored": (restored.batch(x)[0], plain.batch(x)[0]),
            "other": (restored.batch(other)[0], plain.batch(other)[0]),
            "louder": (louder(restored).batch(x)[0], restored.batch(x)[0]),
            "plain louder": (louder(plain).batch(x)[0], plain.batch(x)[0]),
            "slopes": (slopes, jnp.array([1, 1, 1, -1])[:, None] * jnp.tanh(standard)),
            "misfit": jnp.max(jnp.abs(best * slopes[1] - target)),
            "fitted": (fitted, target),
            "halved": (halved, target),
            "ratio": (ratio[0], np.sqrt((batch - 1) / batch) * ratio[1]),
        }

    found = {k: v if k == "misfit" else [a.ravel() for a in v] for k, v in measure(key).items()}
    yield equal("scale and shift of the batch restore the layer", *found["restored"], along="example")
    yield control(
        "scale and shift are those of the batch: here of another",
        equal("same scale and shift", *found["other"], along="example"),
    )
    yield equal("weights times 10, normalised", *found["louder"], along="example")
    yield control(
        "the layer is normalised: here not", equal("weights times 10", *found["plain louder"], along="example")
    )
    yield equal("inner weights 0.1, 1, 10, -10 without rescaling", *found["slopes"])
    yield equal("tanh 3x with scale and shift", *found["fitted"], along="example")
    yield control(
        "the scale is three standard deviations: here one", equal("tanh 3x", *found["halved"], along="example")
    )
    # the best multiple of tanh of the standardised points: misfit of some 0.1, as for slopes 1 and 3 it must be
    yield at_least("tanh 3x without: largest misfit of the best fit", found["misfit"], 0.02)
    yield equal("unbiased over biased", *found["ratio"])
