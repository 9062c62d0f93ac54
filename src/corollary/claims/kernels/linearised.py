"""Networks replaced by their first-order expansion: how good it is, what fits it best, how it trains."""

from typing import Annotated

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from corollary import Network
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.kernels import (
    Activation,
    Architecture,
    Dense,
    empirical_ntk,
    fit_linearised,
    linearise,
    linearised_predictions,
    train_linearised,
)
from corollary.optimization import Problem, gradient_descent, gradient_flow

Width = Annotated[int, Range(4, 512)]


def _network(width, activation="erf"):
    return Architecture([Dense(width, bias_std=0.5), Activation(activation), Dense(1, bias_std=0.5)])


def _data(key, n, others=0):
    x_key, y_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n + others, 3))
    return x[:n], x[n:], jax.random.normal(y_key, (n, 1))


@claim(rows=("E09.01", "B07.14"))
def second_order(key, *, width: Width = 16, n: Size = 6):
    r"""A network differs from its linearisation by the square of the distance to the start, and shares its kernel.

    $h[\theta](x)=f[\theta_0](x)+\langle\nabla_\theta f[\theta_0](x),\theta-\theta_0\rangle$ has
    $|f[\theta](x)-h[\theta](x)|=O(\|\theta-\theta_0\|^2)$ for smooth activations; it is $f$ itself where $f$ is linear
    in what moves, such as the last layer, or the first one under ReLU until a unit changes its sign. Its kernel is
    $\hat\Theta_0$ at every $\theta$. At the kink of a ReLU the difference is of first order.
    """
    sizes = 2.0 ** -jnp.arange(2, 12)

    @jax.jit
    def measure(key):
        data_key, p_key, v_key = jax.random.split(key, 3)
        x, _, _ = _data(data_key, n)
        net, rectified = _network(width), _network(width, "relu")
        params = net.init((3,), key=p_key, dtype=x.dtype).params
        away = net.init((3,), key=v_key, dtype=x.dtype).params
        last = (jax.tree.map(jnp.zeros_like, away[0]), *away[1:])
        first = (away[0], *jax.tree.map(jnp.zeros_like, away[1:]))

        def gap(net, params, move, size, x):
            start = Network(net.apply, params, batched=True)
            new = start.with_params(jax.tree.map(lambda p, m: p + size * m, params, move))
            return jnp.abs(new.on_batch(x) - jax.vmap(linearise(start, new))(x)).max()

        def curve(net, params, move, x, sizes):
            return jax.vmap(lambda s: gap(net, params, move, s, x))(sizes)

        # how far the first layer may move before a unit changes its sign
        before, change = rectified.layers[0].apply(params[0], x), rectified.layers[0].apply(away[0], x)
        reach = jnp.min(jnp.abs(before / change))
        # all units of the first layer put on their kink at the first example
        kink = {**params[0], "bias": params[0]["bias"] - before[0] / 0.5}
        start = Network(net.apply, params, batched=True)
        elsewhere = start.with_params(jax.tree.map(lambda p, m: p + m, params, away))
        return {
            "smooth": curve(net, params, away, x, sizes),
            "last": curve(net, params, last, x, sizes),
            "relu": curve(rectified, params, first, x, reach * jnp.array([0.1, 0.5, 0.9])),
            "kink": curve(rectified, (kink, *params[1:]), first, x[:1], sizes),
            "kernels": tuple(empirical_ntk(linearise(start, at), x) for at in (start, elsewhere)),
            "network's": empirical_ntk(elsewhere, x),
        }

    m = measure(key)
    yield rate("distance of network and linearisation", sizes[2:], m["smooth"][2:], 2.0, tolerance=0.1, along="move")
    yield equal("only the last layer moves", m["last"], 0.0, atol=1e-12)
    yield equal("first layer under ReLU, before a sign changes", m["relu"], 0.0, atol=1e-12)
    yield equal("kernel of the linearisation, elsewhere and at the start", *m["kernels"], rtol=1e-12)
    yield control("a smooth activation: here ReLU at its kink", rate("distance", sizes, m["kink"], 2.0, tolerance=0.1))
    yield control(
        "a model linear in its parameters: here the network itself",
        equal("elsewhere", m["network's"], m["kernels"][0], rtol=1e-3),
    )


@claim(rows=("E09.03", "E09.04", "E09.07", "B07.14"))
def fit_and_training(key, *, width: Width = 24, n: Annotated[int, Range(2, 12)] = 4):
    r"""The linearised network is trained in closed form, and ends at the exact fit nearest to its start.

    Let $\Phi$ have the rows $\nabla f[\theta_0](x_i)$ and $K=\Phi\Phi^\top$ be invertible.
    $\beta^\star=\Phi^\top K^{-1}(y-f)$ has loss 0, is the shortest such $\beta$, and the limit of descent from 0; from
    $\beta_0$ the limit is $\beta^\star+(I-\Phi^\top K^{-1}\Phi)\beta_0$. It predicts
    $h^\star(x)=f[\theta_0](x)+k(x)^\top K^{-1}(y-f)$, and at time $t$ of the gradient flow
    $f_0(x)+k(x)^\top K^{-1}(I-e^{-Kt})(y-f)$. The network itself, trained for as long, is elsewhere unless it is wide.
    """
    times = jnp.array([0.1, 0.5, 2.0])
    net = _network(width)

    @jax.jit
    def measure(key):
        data_key, p_key, b_key = jax.random.split(key, 3)
        x, new, y = _data(data_key, n, 5)
        start = net.init((3,), key=p_key, dtype=x.dtype)
        flat, back = ravel_pytree(start.params)

        def linear(params, x):
            return jax.vmap(linearise(start, start.with_params(params)))(x)

        phi = jax.jacrev(lambda t: net.apply(back(t), x)[:, 0])(flat)
        values = jnp.linalg.eigvalsh(phi @ phi.T)
        fitted = fit_linearised(start, (x, y)).params
        beta = ravel_pytree(fitted)[0] - flat

        def loss(theta, model):
            return 0.5 * jnp.sum((model(back(theta), x) - y) ** 2)

        # descent with the best constant step, from the start and from elsewhere
        elsewhere = flat + jax.random.normal(b_key, flat.shape)
        slope = jax.grad(lambda t: loss(t, linear))
        walk = jax.vmap(lambda s: gradient_descent(slope, s, 2 / (values[0] + values[-1]), 2000)[-1])
        ends = walk(jnp.stack([flat, elsewhere]))
        inside = jnp.linalg.qr(phi.T)[0]
        rest = elsewhere - flat
        flows = [
            gradient_flow(Problem(lambda t, m=m: loss(t, m), (), flat), times, substeps=150).theta
            for m in (linear, net.apply)
        ]
        both = jnp.concatenate([x, new])
        closed = linearised_predictions(start, (x, y), times, new)
        return {
            "loss": loss(flat + beta, linear),
            "pinv": (beta, jnp.linalg.pinv(phi) @ (y - start.on_batch(x))[:, 0]),
            "descent": (ends[0] - flat, beta),
            "elsewhere": (ends[1] - flat, beta + rest - inside @ (inside.T @ rest)),
            "shorter": (jnp.linalg.norm(ends[1] - flat), jnp.linalg.norm(beta)),
            "left": ((values[-1] - values[0]) / (values[-1] + values[0])) ** 2000,
            "limit": (linear(fitted, both), linearised_predictions(start, (x, y), [1e9 / values[-1]], new)),
            "flow": jax.vmap(lambda t: linear(back(t), both))(flows[0]),
            "network": jax.vmap(lambda t: net.apply(back(t), both))(flows[1]),
            "closed": jnp.concatenate(closed, 1),
            "parameters": (ravel_pytree(train_linearised(start, (x, y), times[1]))[0], flows[0][1]),
            "condition": values[-1] / values[0],
        }

    m = measure(key)
    condition = float(m["condition"])
    error = 1e-13 * condition
    yield at_most("loss of the fit", m["loss"], error**2 + 1e-24)
    yield equal("the fit and the pseudo-inverse", *m["pinv"], rtol=1e-7, atol=10 * error)
    left = 10 * float(m["left"])
    yield equal("where descent from the start ends", *m["descent"], atol=10 * error + left)
    yield equal("where descent from elsewhere ends", *m["elsewhere"], atol=10 * error + 10 * left)
    yield at_least("distance to the start from there", *m["shorter"])
    end, late = m["limit"]
    yield equal("predictions of the fit", end, jnp.concatenate(late, 1)[0], rtol=1e-6, atol=1e-6)
    # the classical Runge-Kutta method errs by at most (λh)^4 / 326 of a mode; h is 0.01 and λ twenty or so
    yield equal("flow of the linearised network", m["flow"], m["closed"], rtol=1e-5, atol=1e-5)
    yield equal("its parameters", *m["parameters"], rtol=1e-5, atol=1e-5)
    yield control(
        "a model linear in its parameters: here the network itself",
        equal("flow", m["network"], m["closed"], rtol=1e-3, atol=1e-3),
    )
    yield control(
        "descent starts at β = 0: here elsewhere", equal("its end", m["elsewhere"][0], m["descent"][1], atol=1e-2)
    )


@claim(
    rows=("E09.03",),
    erratum="With more parameters than data there are infinitely many solutions; the formula gives the shortest.",
)
def unique_solution(key, *, width: Width = 16, n: Annotated[int, Range(2, 12)] = 4):
    r"""Least squares has one solution for the linearised network.

    As printed: for $\frac12\|f+\Phi\beta-y\|^2$ "we get the following unique solution",
    $\beta^\star=\Phi^\top K^{-1}(y-f)$, $K=\Phi\Phi^\top$ invertible. Adding anything from the kernel of $\Phi$ gives
    another with the same loss; $\beta^\star$ is the shortest of them.
    """
    net = _network(width)

    @jax.jit
    def measure(key):
        data_key, p_key, b_key = jax.random.split(key, 3)
        x, _, y = _data(data_key, n)
        start = net.init((3,), key=p_key, dtype=x.dtype)
        flat, back = ravel_pytree(start.params)
        phi = jax.jacrev(lambda t: net.apply(back(t), x)[:, 0])(flat)
        rows = jnp.linalg.qr(phi.T)[0]
        move = jax.random.normal(b_key, flat.shape)
        best = ravel_pytree(fit_linearised(start, (x, y)))[0] - flat
        other = best + move - rows @ (rows.T @ move)
        residual = start.on_batch(x)[:, 0] - y[:, 0]
        both = jnp.stack([best, other])
        return jnp.sum((residual + both @ phi.T) ** 2, 1), other, best

    losses, other, best = measure(key)
    yield at_most("loss of the formula and of another solution", losses, 1e-16)
    yield printed(equal("the other solution is that of the formula", other, best, atol=1e-6))
    yield at_least("length of the other solution", jnp.linalg.norm(other), jnp.linalg.norm(best))


@claim(
    rows=("E09.04",),
    erratum="The initial value f(x) at θ0 is missing from the prediction; without it the labels are not met.",
)
def missing_start(key, *, width: Width = 16, n: Annotated[int, Range(2, 12)] = 4):
    r"""The linearised network predicts the kernel regression of the residuals alone.

    As printed: "we make predictions by" $h^\star(x)=k(x)^\top K^{-1}(y-f)$. At the data this is $y-f$ and not $y$:
    right only for networks that are zero at the start. With $f[\theta_0](x)$ in front it is the linearised network at
    its fit, everywhere.
    """
    net = _network(width)

    @jax.jit
    def measure(key):
        data_key, p_key = jax.random.split(key)
        x, new, y = _data(data_key, n, 5)
        start = net.init((3,), key=p_key, dtype=x.dtype)
        everywhere = jnp.concatenate([x, new])
        k = empirical_ntk(start, everywhere, x)
        regression = k @ jnp.linalg.solve(k[:n], y - start.on_batch(x))
        fitted = jax.vmap(linearise(start, fit_linearised(start, (x, y))))(everywhere)
        return regression, start.on_batch(everywhere), fitted, y

    regression, start, fitted, y = measure(key)
    yield equal("the fitted network meets the labels", fitted[:n], y, atol=1e-8)
    yield printed(equal("predictions without the start", regression, fitted, atol=1e-3))
    yield equal("predictions with the start", start + regression, fitted, rtol=1e-6, atol=1e-6)
