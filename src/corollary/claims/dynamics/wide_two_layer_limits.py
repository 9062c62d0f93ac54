"""Trained wide networks against kernel regression, their linearisation, and the law of an ensemble."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.claims.kernels._wide import unit_rows
from corollary.dynamics import draw_signed, wide_descent
from corollary.dynamics.shallow import draw_shallow, tangent_parts
from corollary.dynamics.shallow_limit import limit_kernel, start_covariance
from corollary.evidence import (
    Count,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    printed,
    rate,
)
from corollary.kernels import descent_predictions, empirical_ntk, first_layer_ntk, limit_predictions, ntk, trained_law

WIDTHS = 2 * np.round(12 * 2 ** (np.arange(9) / 2)).astype(int)  # 24 to 384


def _typical(a):
    """Geometric mean over networks, the first axis."""
    return np.exp(np.log(np.asarray(a)).mean(0))


def _rms(a):
    """Root mean square over networks, the first axis."""
    return np.sqrt((np.asarray(a) ** 2).mean(0))


def _trained(key, n, tests, dim, nets, steps, step):
    """Networks of signs of all widths: how far the trained outputs at test points are from four predictions.

    With the limit kernel, with the network's own; with the limit kernel and without the outputs at the start, at the
    test points or at all.
    """

    @jax.jit
    def measure(key):
        x_key, y_key, key = jax.random.split(key, 3)
        x, y = unit_rows(x_key, (n + tests, dim)), jax.random.normal(y_key, (n,))
        limit = first_layer_ntk(x, x[:n], activation="tanh")

        def run(key, width, paired):
            # an odd activation: the outputs of a start have no common part, whose size would vary most between networks
            options = {"activation": "tanh", "width": width}
            plain, pairs = (
                draw_signed(int(WIDTHS[-1]), dim, key=key, antisymmetric=a, **options) for a in (False, True)
            )
            net = jax.tree.map(lambda a, b: jnp.where(paired, b, a), plain, pairs)
            (end,), _ = wide_descent(net, x[:n], y, step, np.array([steps]), observe=lambda now: now(x))
            return net(x), tangent_parts(net, x, x[:n])[1], end

        keys, paired = jax.random.split(key, (2 * nets, len(WIDTHS))), jnp.arange(2 * nets) >= nets
        over_widths = jax.vmap(run, (0, 0, None))
        start, own, end = jax.vmap(over_widths, (0, None, 0))(keys, jnp.asarray(WIDTHS, float), paired)

        def predicted(k, start):
            out = descent_predictions(
                k[:n], y, step, np.array([steps]), cross=k[n:], start=start[:n], start_cross=start[n:]
            )
            return out.test[0]

        def distance(prediction):
            # in units of what there was to learn, in which networks differ less
            return jnp.linalg.norm(end[..., n:] - prediction, axis=-1) / jnp.linalg.norm(start[..., :n] - y, axis=-1)

        each = jax.vmap(jax.vmap(lambda s: predicted(limit, s)))(start)
        # one program has one batched decomposition; the other one goes through a loop
        flat = jax.lax.map(lambda a: predicted(*a), (own.reshape(-1, n + tests, n), start.reshape(-1, n + tests)))
        elsewhere = jax.vmap(jax.vmap(lambda s: predicted(limit, s.at[n:].set(0.0))))(start)
        left_out = distance(elsewhere), distance(predicted(limit, jnp.zeros(n + tests)))
        return distance(each), distance(flat.reshape(each.shape)), left_out, jnp.abs(start[nets:]).max()

    return measure(key)


@claim(rows=("T09.06", "E09.12"))
def kernel_regression(key, *, n: Size = 6, tests: Size = 20, dim: Size = 8, nets: Count = 40, steps: Count = 30):
    r"""A wide network, trained, predicts what regression with its limit kernel predicts.

    $H(t)\approx H(0)\to H^*$ as the width $m$ grows, so that training by gradient descent ends at
    $f_\infty(x)=f_0(x)+k(x)^\top(H^*)^{-1}(y-u(0))$, and is at $f_0(x)+k(x)^\top(H^*)^{-1}(I-(I-\eta
    H^*)^t)(y-u(0))$ after $t$ steps. The distance falls as $m^{-1/2}$, the fluctuation of $H(0)$; with the
    network's own $H(0)$ in the place of $H^*$ it falls faster. Pairs of units of opposite signs start at zero, and
    then it is kernel regression itself. Network of signs (tanh), first layer trained.
    """
    limit, own, (_, labels), start = _trained(key, n, tests, dim, nets, steps, 0.25)
    # Slopes of geometric means over 40 networks, whose distances vary by a half or so: the interval is about ±0.1, and
    # the narrowest networks bend the line by as much; the tolerance is half of the way from -1/2 to no rate at all
    yield rate("distance, start included", WIDTHS, _typical(limit[:nets]), -0.5, tolerance=0.25, along="width")
    yield rate(
        "distance, the network's own kernel",
        WIDTHS,
        _typical(own[:nets]),
        -0.5,
        tolerance=0.1,
        side="at most",
        along="width",
    )
    yield at_most("own kernel against limit kernel, widest", _typical(own[:nets])[-1], _typical(limit[:nets])[-1])
    yield equal("pairs of opposite signs: outputs at the start", start, 0.0)
    yield rate(
        "pairs: distance from kernel regression", WIDTHS, _typical(labels[nets:]), -0.5, tolerance=0.25, along="width"
    )
    yield control(
        "outputs that start at zero: here without pairs",
        rate("distance from kernel regression", WIDTHS, _typical(labels[:nets]), -0.5, tolerance=0.25, along="width"),
    )


@claim(
    rows=("T09.06", "E09.12"),
    erratum="T's (9.6) and E's formula leave out the outputs before training, which are of order one at every width.",
)
def regression_without_the_start(
    key, *, n: Size = 4, tests: Size = 20, dim: Size = 12, nets: Count = 24, steps: Count = 150
):
    r"""As printed: the wide network, trained, is k(x) times the inverse of H* times y, or times y - u(0).

    T (9.6): "the final classifier is described as" $k(x)^\top(H^*)^{-1}y$. E: "the solution to NTK learning can be
    expressed as" $f_\infty(x)=k_\infty(x)^\top K_\infty^{-1}(y-f)$. For the network of T's 9.2, $u_i(0)$ has the
    variance $\mathbb E\sigma(g)^2$ at every width, and $f_0(x)-k(x)^\top(H^*)^{-1}u(0)$, or $f_0(x)$, stays in the
    prediction whatever the width: the distance does not fall. That from $f_0(x)+k(x)^\top(H^*)^{-1}(y-u(0))$ does.
    """
    # few points in many dimensions: no eigenvalue of H* is small, and after 150 steps of size 1 nothing is left to
    # learn
    limit, _, (residuals, labels), _ = _trained(key, n, tests, dim, nets, steps, 1.0)
    fits = {"tolerance": 0.25, "along": "width"}  # as in `kernel_regression`
    for name, away in (("T (9.6)", labels), ("E", residuals)):
        yield printed(rate(f"distance from the formula of {name}", WIDTHS, _typical(away[:nets]), -0.5, **fits))
    yield rate("distance, start included", WIDTHS, _typical(limit[:nets]), -0.5, **fits)


@claim(rows=("T09.12",))
def eigenbasis(key, *, n: Size = 6, dim: Size = 10, nets: Count = 40, steps: Count = 60):
    r"""Each eigenvector of the kernel is learned at its own rate, and all of them if no two inputs are parallel.

    $H^*=\sum_i\lambda_iv_iv_i^\top$ and $\dot u=-H^*(u-y)$: $v_i\cdot(u(t)-y)=e^{-\lambda_it}v_i\cdot(u(0)-y)$,
    with $(1-\eta\lambda_i)^t$ for gradient descent, so that the loss falls as $e^{-2\lambda_{\min}t}$ or faster.
    $\lambda_{\min}>0$ for unit vectors of which no two are equal (ReLU; opposite ones are allowed). The residuals
    of a wide network follow within $O(m^{-1/2})$, and its loss falls at half of the rate at least. Two equal inputs
    with different labels are never both fitted.
    """
    step, few = 0.5, 8
    k = np.arange(0, steps + 1, 5)
    # all widths on the one set of points, and a few of the widest on that with two equal ones
    widths = np.concatenate([np.tile(WIDTHS, nets), np.full(few, WIDTHS[-1])]).astype(float)
    repeated = np.arange(len(widths)) >= nets * len(WIDTHS)

    @jax.jit
    def measure(key):
        x_key, y_key, key = jax.random.split(key, 3)
        x = unit_rows(x_key, (n, dim))
        y = jax.random.normal(y_key, (n,)).at[:2].set(jnp.array([1.0, -1.0]))
        twice, opposite = x.at[1].set(x[0]), x.at[1].set(-x[0])
        values, vectors = jnp.linalg.eigh(jnp.stack([first_layer_ntk(a) for a in (x, twice, opposite)]))

        def run(key, width, repeated):
            net = draw_signed(int(WIDTHS[-1]), dim, key=key, activation="relu", width=width)
            outputs, _ = wide_descent(net, jnp.where(repeated, twice, x), y, step, k)
            return (outputs - y) @ vectors[0]

        left = jax.vmap(run)(jax.random.split(key, len(widths)), jnp.asarray(widths), jnp.asarray(repeated))
        return values, left

    values, left = measure(key)
    left, twice = left[: nets * len(WIDTHS)].reshape(nets, len(WIDTHS), len(k), n), left[nets * len(WIDTHS) :]
    first = left[:, :, :1]
    predicted = (1 - step * values[0]) ** k[:, None] * first
    away = jnp.linalg.norm(left - predicted, axis=(2, 3)) / jnp.linalg.norm(first, axis=(2, 3))
    # 40 networks give the interval ±0.1; in narrow ones there is a part of order 1/m, so that it falls faster at first.
    # The tolerance is half of the way from -1/2 to no rate at all.
    yield rate(
        "distance of the residuals",
        WIDTHS,
        _rms(away),
        -0.5,
        tolerance=0.25,
        side="at most",
        fit=0.9,
        along="width",
    )
    loss = jnp.sum(left[:, -1] ** 2, -1)  # of the widest
    half = loss[:, :1] * (1 - step * values[0, 0] / 2) ** (2 * k)
    yield at_most("loss, half of the smallest rate", loss[:, 1:], half[:, 1:], x=k[1:], along="step")
    flow = jnp.exp(-step * k[:, None] * values[0])
    # (1 - x)^k against e^(-xk): apart by kx²/2 e^(-xk) and smaller terms, at most 0.27 x
    yield at_most(
        "descent against the flow", jnp.abs((1 - step * values[0]) ** k[:, None] - flow), 0.28 * step * values[0]
    )
    yield at_least("loss where equal inputs have the labels 1 and -1", jnp.sum(twice**2, -1), 2.0, x=k, along="step")
    yield at_least("smallest eigenvalue, all inputs different", values[0, 0], 1e-6)
    yield at_least("smallest eigenvalue, two opposite", values[2, 0], 1e-6)
    yield control("no two inputs are equal: here two are", at_least("smallest eigenvalue", values[1, 0], 1e-6))


def _masked(params, x, width, power):
    """A tanh network of two hidden layers, over the roots of the fan-ins, of which the first `width` units count."""
    first, second, last = params
    present = jnp.arange(last.shape[0]) < width
    h = jnp.tanh(x @ first / x.shape[1] ** 0.5) * present
    h = jnp.tanh(h @ second / width**0.5) * present
    return h @ last * width**-power


@claim(rows=("B07.15", "B07.19"))
def linearisation_gap(key, *, n: Size = 6, tests: Size = 4, dim: Size = 3, nets: Count = 56, steps: Count = 10):
    r"""A network of two hidden layers stays near its linearisation all along training, the nearer the wider it is.

    tanh, weights from $\mathcal N(0,1)$ over the root of the fan-in, all trained by gradient descent of a step
    below $2/\lambda_{\max}$: $\sup_{t,x}|f^{lin}(x,\theta_t)-f(x,\theta_t)|=O(m^{-1/2})$ in the width $m$ (Lee et
    al. 2019; B writes $P^{-1/2}$ with the number $P\sim m^2$ of parameters, which is also what is seen: nearly
    $1/m$). The tangent kernel moves by as much, and $f$ follows $\dot f=-\Theta(x,X)(f-y)$ with the limit $\Theta$
    within $O(m^{-1/2})$. With $\frac1m$ at the output, trained as fast, the gap stays.
    """
    widths = np.array([8, 13, 20, 32, 50, 80, 128])
    most, others = int(widths[-1]), 40  # networks with 1/m

    @jax.jit
    def measure(key):
        x_key, y_key, key = jax.random.split(key, 3)
        x, y = unit_rows(x_key, (n + tests, dim)) * dim**0.5, jax.random.normal(y_key, (n,))
        theta = ntk(x, x[:n], depth=2, activation="tanh", weight_std=1.0)
        step = 1 / jnp.trace(theta[:n])

        def run(key, width, power):
            keys = jax.random.split(key, 3)
            shapes = (dim, most), (most, most), (most,)
            params = [jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)]
            f = lambda p: _masked(p, x, width, power)  # noqa: E731
            # for the average over units, the rate that moves the outputs as fast
            scale = width ** (2 * power - 1)
            slope = jax.grad(lambda p: jnp.sum((f(p)[:n] - y) ** 2) / 2)

            def go(p, _):
                p = jax.tree.map(lambda a, g: a - step * scale * g, p, slope(p))
                return p, f(p)

            end, path = jax.lax.scan(go, params, None, length=steps)
            before = scale * empirical_ntk(
                Network(lambda p, z: _masked(p, z, width, power), params, batched=True), x, x[:n]
            )
            after = scale * empirical_ntk(Network(lambda p, z: _masked(p, z, width, power), end, batched=True), x[:n])
            change = jnp.linalg.norm(after - before[:n]) / jnp.linalg.norm(before[:n])
            return path, f(params), before, change

        powers = jnp.where(jnp.arange(nets + others) < nets, 0.5, 1.0)
        path, start, own, change = jax.vmap(jax.vmap(run, (0, 0, None)), (0, None, 0))(
            jax.random.split(key, (nets + others, len(widths))), jnp.asarray(widths, float), powers
        )

        def gap(k, path, start):
            out = descent_predictions(
                k[:n], y, step, np.arange(1, steps + 1), cross=k[n:], start=start[:n], start_cross=start[n:]
            )
            return jnp.abs(path - jnp.concatenate(out, 1)).max() / jnp.linalg.norm(start[:n] - y)

        gaps = jax.vmap(jax.vmap(gap))(own, path, start)
        # a limit of which there is one: its decomposition is not batched
        limits = jax.vmap(jax.vmap(lambda *a: gap(theta, *a)))(path, start)
        return gaps, limits, change

    gaps, limits, change = measure(key)
    # Root mean squares over 56 networks: a few modes of the kernel make most of a gap, so that its size is that of two
    # or three normal numbers, and these are known best by their squares; the interval is about ±0.1. The rate to the
    # limit is bent by the narrowest networks; its tolerance is half of the way from -1/2 to no rate at all.
    for name, values, tolerance in (
        ("distance from the linearisation", gaps, 0.05),
        ("change of the tangent kernel", change, 0.05),
        ("distance from the limit equation", limits, 0.25),
    ):
        yield rate(name, widths, _rms(values[:nets]), -0.5, tolerance=tolerance, side="at most", fit=0.9, along="width")
    # with 1/m a few networks have gaps many times those of the others: geometric means are not made by them alone
    yield control(
        "1/√m at the output: here 1/m",
        rate("distance", widths, _typical(gaps[nets:]), -0.5, tolerance=0.05, side="at most", fit=0.0, along="width"),
    )


@claim(rows=("B07.19",))
def ensemble(key, *, nets: Count = 400, width: Size = 200, steps: Count = 20):
    r"""Trained networks over many initialisations have the mean of kernel regression and a covariance of both kernels.

    One hidden layer (erf), both layers trained. With $A_t=\Theta(\cdot,X)\Theta^{-1}(I-e^{-t\Theta})$, the outputs
    at time $t$ have mean $A_ty$ and covariance $(I-A_t)\Sigma(I-A_t)^\top$ as the width grows, $\Theta$ the tangent
    kernel and $\Sigma$ the covariance before training; at $t\to\infty$ the mean is $\Theta(x,X)\Theta^{-1}y$. Networks
    that start at zero all end near the mean.
    """
    # inputs long enough for the kernel to tell them apart
    x = np.array([[1.5, 0.0], [-0.4, 1.6], [-1.0, -1.3], [0.7, 0.9], [0.2, -1.2]])
    n, step = 3, 0.05
    y = np.array([1.0, -0.7, 0.4])

    @jax.jit
    def measure(key):
        def run(key):
            net = draw_shallow(width, 2, key=key, outer="normal", activation="erf")
            (end,), _ = wide_descent(
                net, x[:n], y, step, np.array([steps]), outer=True, observe=lambda now: now(jnp.asarray(x))
            )
            # the same network less its outputs at the start, which then are zero
            (centred,), _ = wide_descent(
                net, x[:n], y + net(x[:n]), step, np.array([steps]), outer=True, observe=lambda now: now(x) - net(x)
            )
            return end, centred

        return jax.vmap(run)(jax.random.split(key, nets))

    outputs, centred = map(np.asarray, measure(key))
    theta, sigma = limit_kernel(x, activation="erf"), start_covariance(x, activation="erf")
    law = trained_law(theta, sigma, y, step * steps)
    mean, covariance = np.asarray(law.mean), np.asarray(law.covariance)
    # networks of width m differ from their limit by O(1/m), those of the interval by O(1/√nets)
    yield estimate("mean", outputs, mean, wrong=mean + 1.0)
    spread, variance = (outputs - mean) ** 2, covariance.diagonal()
    yield estimate("variance", spread, variance, wrong=3 * variance)
    product = (outputs[:, 3] - mean[3]) * (outputs[:, 4] - mean[4])
    apart = float(np.sqrt(variance[3] * variance[4]))
    yield estimate("covariance of two test points", product, covariance[3, 4], wrong=covariance[3, 4] + apart)
    end = limit_predictions(theta[:n, :n], y, cross=theta[n:, :n])
    yield equal("mean of the limit law for long times", trained_law(theta, sigma, y).mean[n:], end.test)
    yield control(
        "networks as they are drawn: here less their outputs at the start",
        estimate("variance", (centred - mean) ** 2, variance, wrong=-1.0),
    )
