"""Training by gradient flow and gradient descent, seen in the predictions: a kernel drives them."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.evidence import Range, Size, claim, control, equal, printed, rate
from corollary.kernels import (
    RandomFeatures,
    descent_predictions,
    empirical_ntk,
    flow_predictions,
    limit_predictions,
)
from corollary.optimization import Problem, gradient_descent, gradient_flow


def _tanh_network(theta, x, units):
    """One hidden layer with all parameters in one vector; the examples in rows."""
    dim = x.shape[1]
    w, v = theta[: units * dim].reshape(units, dim), theta[units * dim :]
    return jnp.tanh(x @ w.T) @ v / units**0.5


@claim(rows=("B07.05", "B07.08", "E09.07"))
def closed_form(key, *, n: Size = 6, features: Annotated[int, Range(2, 200)] = 30):
    r"""A linear model trained by gradient flow or descent has predictions in closed form, at all points and times.

    For $f(x,\theta)=\frac1{\sqrt p}\theta\cdot\phi(x)$ with loss $\frac12\|f(X)-y\|^2$ and $K=\frac1p\phi\cdot\phi$,
    $\dot f(x)=K(x,X)(y-f(X))$, hence $f_t(X)=y+e^{-Kt}(f_0(X)-y)$ and
    $f_t(x)=f_0(x)+K(x,X)K^{-1}(I-e^{-Kt})(y-f_0(X))\to f_0(x)+K(x,X)K^{-1}(y-f_0(X))$; the residual along an
    eigenvector decays with $e^{-\lambda_it}$. After $t$ steps of descent $(I-\eta K)^t$ stands for $e^{-Kt}$, stable
    for $\eta<2/\lambda_{\max}$. With fewer features than data $K^{-1}(I-e^{-Kt})$ is to be read as
    $t\varphi_1(-Kt)$, and in the limit as $K^+$. A model whose parameters enter otherwise has a kernel that changes.
    """
    times, counts = jnp.array([0.1, 1.0, 5.0, 20.0]), jnp.array([0, 1, 10, 100])

    @jax.jit
    def measure(key):
        x_key, y_key, w_key, t_key = jax.random.split(key, 4)
        x, new = jnp.split(jax.random.normal(x_key, (n + 5, 3)), [n])
        y, theta = jax.random.normal(y_key, (n,)), jax.random.normal(t_key, (features,))
        model = RandomFeatures.draw(3, features, jnp.tanh, weight_std=2.0, key=w_key)

        def one(kept):
            # with features switched off, the same program has a singular kernel
            on = (jnp.arange(features) < kept).astype(float)
            phi, away = model.features(x) * on, model.features(new) * on
            k, cross = phi @ phi.T, away @ phi.T
            both = {"cross": cross, "start": phi @ theta, "start_cross": away @ theta}
            problem = Problem(lambda t, phi, y: 0.5 * jnp.sum((phi @ t - y) ** 2), (phi, y), theta)
            path = gradient_flow(problem, times, substeps=300).theta
            values, vectors = jnp.linalg.eigh(k)
            step = 1.5 / values[-1]
            walk = gradient_descent(problem.gradient, theta, step, 100)[counts]
            end = theta + jnp.linalg.lstsq(phi, y - phi @ theta, rcond=1e-12)[0]
            speed = away @ -problem.gradient(theta)
            leap = gradient_descent(problem.gradient, theta, 2.1 / values[-1], 200)[-1]
            return {
                "flow": (path @ phi.T, path @ away.T),
                "flow formula": tuple(flow_predictions(k, y, times, **both)),
                "descent": (walk @ phi.T, walk @ away.T),
                "descent formula": tuple(descent_predictions(k, y, step, counts, **both)),
                "end": (phi @ end, away @ end),
                "end formula": tuple(limit_predictions(k, y, **both)),
                "speed": (speed, cross @ (y - phi @ theta)),
                "modes": (
                    ((path @ phi.T - y) @ vectors),
                    jnp.exp(-times[:, None] * values) * (vectors.T @ (phi @ theta - y)),
                ),
                "leap": (phi @ leap, limit_predictions(k, y, **both).train),
            }

        found = jax.lax.map(one, jnp.array([features, max(n // 2, 1)]))
        # a narrow network, all of which is trained
        narrow = Problem(
            lambda t, x, y: 0.5 * jnp.sum((_tanh_network(t, x, 4) - y) ** 2), (x, y), jax.random.normal(t_key, (16,))
        )
        moved = gradient_flow(narrow, times, substeps=300).theta
        k = empirical_ntk(Network(lambda t, x: _tanh_network(t, x, 4), narrow.start, batched=True), x)
        still = flow_predictions(k, y, times, start=_tanh_network(narrow.start, x, 4)).train
        return found, (jax.vmap(lambda t: _tanh_network(t, x, 4))(moved), still)

    found, network = measure(key)
    for i, case in enumerate(("", ", singular")):
        m = jax.tree.map(lambda a, i=i: a[i], found)
        # steps of at most 0.05 with eigenvalues of at most a few: the integrator is good to 1e-7
        yield equal(f"flow at the data{case}", m["flow"][0], m["flow formula"][0], rtol=1e-6, atol=1e-6)
        yield equal(f"flow elsewhere{case}", m["flow"][1], m["flow formula"][1], rtol=1e-6, atol=1e-6)
        yield equal(f"descent at the data{case}", m["descent"][0], m["descent formula"][0], atol=1e-10)
        yield equal(f"descent elsewhere{case}", m["descent"][1], m["descent formula"][1], atol=1e-10)
        yield equal(f"end, at the data{case}", m["end"][0], m["end formula"][0], rtol=1e-7, atol=1e-7)
        yield equal(f"end, elsewhere{case}", m["end"][1], m["end formula"][1], rtol=1e-7, atol=1e-7)
        yield equal(f"first movement elsewhere{case}", *m["speed"], atol=1e-12)
        yield equal(f"residual along eigenvectors{case}", *m["modes"], rtol=1e-5, atol=1e-6)
        yield control(f"a step below 2/λ: here 2.1/λ{case}", equal("end", *m["leap"], atol=1e-3))
    yield control(
        "a model linear in its parameters: here a narrow network",
        equal("flow at the data", network[0][-2:], network[1][-2:], rtol=0, atol=1e-3),
    )


@claim(rows=("B07.08",), erratum="(7.11) and (7.12) have K(x,X) in the exponent, where K(X,X) must stand.")
def printed_exponent(key, *, n: Size = 5, features: Annotated[int, Range(2, 200)] = 20):
    r"""The exponential of the kernel between new and old points drives the predictions at new points.

    As printed: $f(x,\theta_t)-f(x,\theta_0)=K(x,X)K(X,X)^{-1}(e^{-K(x,X)t}-I)(f(X,\theta_0)-y)$, "where $e^{-K(x,X)t}
    \in\mathbb R^{n\times n}$ is a matrix exponential". It means something only if there are as many new points as old
    ones, and is wrong then too; with $e^{-K(X,X)t}$ it is the movement.
    """
    time = 1.0

    @jax.jit
    def measure(key):
        x_key, y_key, w_key, t_key = jax.random.split(key, 4)
        x, new = jax.random.normal(x_key, (2, n, 3))
        y, theta = jax.random.normal(y_key, (n,)), jax.random.normal(t_key, (features + n,))
        model = RandomFeatures.draw(3, features + n, jnp.tanh, weight_std=2.0, key=w_key)
        phi, away = model.features(x), model.features(new)
        problem = Problem(lambda t, phi, y: 0.5 * jnp.sum((phi @ t - y) ** 2), (phi, y), theta)
        moved = away @ (gradient_flow(problem, jnp.array([time]), substeps=100).theta[0] - theta)

        def formula(exponent):
            gap = (jax.scipy.linalg.expm(-exponent * time) - jnp.eye(n)) @ (phi @ theta - y)
            return away @ phi.T @ jnp.linalg.solve(phi @ phi.T, gap)

        return moved, formula(phi @ phi.T), formula(away @ phi.T)

    moved, right, wrong = measure(key)
    yield equal("movement with K(X,X) in the exponent", moved, right, rtol=1e-6, atol=1e-6)
    yield printed(equal("movement with K(x,X) in the exponent", moved, wrong, rtol=1e-3, atol=1e-3))


@claim(rows=("E09.05", "E09.06"))
def kernel_drives_predictions(key, *, n: Size = 5, units: Annotated[int, Range(2, 64)] = 10):
    r"""Along the gradient flow of any model the tangent kernel of the moment moves the predictions.

    For $\ell=\frac12\|f[\theta](X)-y\|^2$ the flow, the limit of descent for small steps with an error of first order
    in the step, is $\dot\theta=\sum_i(y_i-f[\theta](x_i))\nabla f[\theta](x_i)$; then
    $\dot f(x)=\sum_ik[\theta_t](x,x_i)(y_i-f(x_i))$ at every $x$, at any width, and $\dot\ell=-\|\nabla\ell\|^2$. If
    some of the parameters are held, it is the kernel of the others.
    """
    moments, gap = np.linspace(0.1, 2.0, 12), 1e-3
    # five points about each moment: the difference quotient of fourth order
    stencil = gap * np.arange(-2, 3)
    times = jnp.asarray((moments[:, None] + stencil).ravel())
    levels = jnp.arange(4, 10)

    def network(theta, x):
        return _tanh_network(theta, x, units)

    @jax.jit
    def measure(key):
        x_key, y_key, t_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (n + 3, 3))
        y = jax.random.normal(y_key, (n,))
        problem = Problem(
            lambda t, x, y: 0.5 * jnp.sum((network(t, x) - y) ** 2), (x[:n], y), jax.random.normal(t_key, (4 * units,))
        )
        flow = gradient_flow(problem, times, substeps=20)
        values = jax.vmap(lambda t: network(t, x))(flow.theta).reshape(len(moments), 5, n + 3)
        weights = jnp.array([1.0, -8.0, 0.0, 8.0, -1.0]) / (12 * gap)
        speed = jnp.einsum("s,tsx->tx", weights, values)
        middle = flow.theta.reshape(len(moments), 5, -1)[:, 2]

        def predicted(theta):
            return empirical_ntk(Network(network, theta, batched=True), x, x[:n]) @ (y - network(theta, x[:n]))

        # the inner weights held, the outer ones along the gradient
        outer = jnp.arange(4 * units) >= 3 * units
        held = jax.vmap(lambda t: jax.jvp(lambda p: network(p, x), (t,), (-(outer * problem.gradient(t)),))[1])(middle)
        velocity = jax.vmap(lambda t: -problem.gradient(t))(middle)
        sums = jax.vmap(lambda t: (y - network(t, x[:n])) @ jax.jacrev(network)(t, x[:n]))(middle)

        def descended(level):
            steps = 2**level
            return jax.lax.fori_loop(0, steps, lambda _, t: t - problem.gradient(t) / steps, problem.start)

        at_one = gradient_flow(problem, jnp.array([1.0]), substeps=400).theta[0]
        apart = jnp.linalg.norm(jax.lax.map(descended, levels) - at_one, axis=1)
        first = problem(problem.start)
        return {
            "speed": (speed, jax.lax.map(predicted, middle)),
            "held": held,
            "velocity": (velocity, sums),
            "apart": apart,
            "dissipated": (first - flow.value, flow.dissipated),
        }

    m = measure(key)
    # the integrator takes steps of 0.01 and the quotient has an error of gap^4 times a fifth derivative
    yield equal("speed of the predictions, at data and new points", *m["speed"], rtol=1e-5, atol=1e-5)
    yield equal("velocity of the parameters", *m["velocity"], atol=1e-11)
    yield equal("loss lost and dissipated", *m["dissipated"], rtol=1e-6, atol=1e-8)
    yield rate(
        "descent's distance to the flow at t = 1",
        2.0 ** -np.asarray(levels),
        m["apart"],
        1.0,
        tolerance=0.15,
        along="step",
    )
    yield control(
        "all parameters follow the gradient: here the inner weights are held",
        equal("speed of the predictions", m["held"], m["speed"][1], rtol=0, atol=1e-3),
    )
