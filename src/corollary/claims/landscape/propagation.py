"""Vanishing and exploding signals and gradients, measured on networks (B section 6.2)."""

from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, at_least, at_most, claim, control, estimate, picture
from corollary.landscape import depth_factor, expected_gradient_norms, signal_propagation, xavier_variance
from corollary.nets import FullyConnected

GAINS = (0.5, 1.0, 2.0)


def _profile(values, depth):
    rows = [
        {"layer": k + 1, "gradient": float(np.sqrt(v)), "dσ²": f"{gain:g}"}
        for gain, line in zip(GAINS, np.asarray(values), strict=True)
        for k, v in enumerate(line)
    ]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            alt.X("layer:Q", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(domain=[1, depth])),
            alt.Y("gradient:Q", title="root mean square of the gradient norm", scale=alt.Scale(type="log")),
            alt.Color("dσ²:N", sort=[f"{g:g}" for g in GAINS], legend=alt.Legend(orient="bottom")),
        )
    )
    return picture("gradient norm by layer", chart.properties(width=300, height=200))


@claim(rows=("B06.21",))
def linear_layers(
    key, *, networks: Size = 320, width: Annotated[int, Range(16, 256)] = 48, depth: Annotated[int, Range(2, 12)] = 6
):
    r"""Through linear layers signals grow by the width times the variance, and gradients by the same on their way back.

    With independent weights of mean 0 and variance $\sigma^2$: $\mathbb E\|x^\ell\|^2=(d\sigma^2)^\ell\|x\|^2$ and, for
    a loss linear in the output, $\mathbb E\|\partial\,\mathrm{loss}/\partial x^\ell\|^2\propto(d\sigma^2)^{L-\ell}$.
    The gradients by the weights of the squared loss are those of `expected_gradient_norms`. All of them keep their size
    with depth at Xavier's $\sigma=1/\sqrt d$ only. Measured by running networks, for $d\sigma^2=\frac12,1,2$.
    """

    @jax.jit
    def measure(key):
        x = jnp.ones((1, width))

        def one(key, gain):
            normal = jax.random.normal(key, (depth, width, width))
            weights = normal * jnp.sqrt(gain * xavier_variance(width, width))
            layers = [FullyConnected.of(w) for w in weights]
            straight = signal_propagation(layers, lambda out, _: jnp.sum(out) / width**0.5, (x, x))
            by_square = signal_propagation(layers, "squared", (x, 2 * x))
            return straight.forward, straight.backward, by_square.gradient**2

        keys = jax.random.split(key, networks)
        return jax.vmap(lambda g: jax.vmap(lambda k: one(k, g))(keys))(jnp.array(GAINS))

    forward, backward, gradient = measure(key)
    steps = np.arange(1, depth + 1)
    x = np.ones(width)
    for gain, f, b, g in zip(GAINS, forward, backward, gradient, strict=True):
        growth = gain**steps
        yield estimate(f"mean square of the layers, dσ² = {gain:g}", f[:, 1:], growth, wrong=2 * growth)
        back = gain ** (depth - steps + 1.0)
        yield estimate(f"squared gradient by the layers, dσ² = {gain:g}", b[:, :-1], back, wrong=2 * back)
        exact = expected_gradient_norms(x, 2 * x, [width] * depth, gain / width)
        yield estimate(f"squared gradient by the weights, dσ² = {gain:g}", g, exact, wrong=2 * exact)
    factors = [float(depth_factor(f.mean(0))) for f in forward]
    # the mean over networks of a product of layers fluctuates by about (2 depth / (width networks))^(1/2) in all
    spread = 1 + 6 * (2 * depth / (width * networks)) ** 0.5
    yield at_most("factor per layer, Xavier", factors[1], spread)
    yield at_least("factor per layer, Xavier: not less", factors[1], 1 / spread)
    yield control("Xavier's variance: here twice as much", at_most("factor per layer", factors[2], spread))
    yield control("Xavier's variance: here half as much", at_least("factor per layer", factors[0], 1 / spread))
    yield _profile(gradient.mean(1), depth)


@claim(rows=("B06.21",))
def trainability(key, *, seeds: Size = 16, depth: Annotated[int, Range(6, 30)] = 12, steps: Size = 200):
    r"""A deep tanh network trains if its weights have Xavier's variance, and stands still if they are smaller.

    Full-batch gradient descent with one step size on the squared loss, the target being a smooth function of the
    input; weights of variance $g/d$ with $g=1$ and $g=\frac18$. The loss has lost at least half of its initial value in
    every run in the first case, and less than a hundredth in the second, where squared gradients shrink by the factor
    eight per layer: of the order $8^{-11}$ they take longer than these steps to grow. A network of two layers learns
    from the smaller weights too.
    """
    width, n = 20, 16

    @jax.jit
    def measure(keys):
        def one(key, gain, depth):
            w_key, x_key = jax.random.split(key)
            weights = jnp.sqrt(gain / width) * jax.random.normal(w_key, (depth, width, width))
            x = jax.random.normal(x_key, (n, width))
            y = jnp.sin(x)

            def loss(weights):
                out, _ = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w.T), None), x, weights)
                return jnp.mean(jnp.sum((out - y) ** 2, axis=1)) / 2

            def step(weights, _):
                value, slope = jax.value_and_grad(loss)(weights)
                return weights - 0.1 * slope, value

            last, values = jax.lax.scan(step, weights, None, length=steps)
            return loss(last) / values[0]

        deep = jax.vmap(lambda g: jax.vmap(lambda k: one(k, g, depth))(keys))(jnp.array([1.0, 0.125]))
        return *deep, jax.vmap(lambda k: one(k, 0.125, 2))(keys)

    good, small, shallow = measure(jax.random.split(key, seeds))
    yield at_most("loss at the end over the beginning, Xavier", good, 0.5)
    yield at_least("loss at the end over the beginning, an eighth of the variance", small, 0.99)
    yield control(
        f"{depth} layers: here two",
        at_least("loss at the end over the beginning, an eighth of the variance", shallow, 0.99),
    )
