"""Methods that pass through noisy data, as there are more of them."""

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
    picture,
    rate,
)
from corollary.generalization import (
    Planted,
    broken_line,
    interpolating_polynomial,
    nadaraya_watson,
    nearest_neighbour,
    overfitting,
    singular_kernel,
)


def _wave(x):
    return jnp.sin(2 * jnp.pi * x)


def _inside(key):
    """An input away from the ends, where a smoother has neighbours on both sides."""
    return jax.random.uniform(key, minval=0.15, maxval=0.85)


def _average(data, key):
    return nadaraya_watson(*data, singular_kernel(0.4, 0.5 * data[0].shape[0] ** -0.2))


def _line(data, key):
    return broken_line(*data)


def _neighbour(data, key):
    return nearest_neighbour(*data)


def _polynomial(data, key):
    return interpolating_polynomial(*data)


@claim(rows=("B13.14", "B13.16"))
def three_kinds(key, *, sigma: Positive = 0.5, runs: Count = 60, n: Size = 300):
    r"""Fitting noise exactly can be harmless, cost a fixed price, or ruin everything.

    Let $y=\sin2\pi x+\epsilon$ at $n$ uniform points, with noise of variance $\sigma^2$. As $n$ grows, the excess risk
    of a method that passes through all points tends to 0 (benign: averages with a singular kernel), to a constant
    (tempered: $\frac23\sigma^2$ for the broken line through the points, because $\int_0^1t^2+(1-t)^2dt=\frac23$, and
    $\sigma^2$ for the nearest neighbour), or to infinity (catastrophic: the polynomial of degree $n-1$).
    """
    law = Planted(_wave, jax.random.uniform, sigma)
    keys = jax.random.split(key, 5)

    def draw(key, n):
        return law.sample(n, key=key)

    sizes = (100, 300, 900, 2700)
    common = {"truth": _wave, "inputs": _inside, "runs": runs, "tests": 200}
    benign = overfitting(_average, draw, sizes, key=keys[0], **common)
    line = overfitting(_line, draw, sizes, key=keys[1], **common)
    neighbour = overfitting(_neighbour, draw, sizes, key=keys[2], **common)
    wild = overfitting(_polynomial, draw, (8, 12, 16, 24, 32), key=keys[3], **common)

    def price(f, x, t):
        """The mean square of a function between the first and the last point, from places `t` in every gap."""
        at = x[:-1, None] + jnp.diff(x)[:, None] * t
        return jnp.diff(x) @ jnp.mean(jax.vmap(jax.vmap(f))(at) ** 2, 1) / (x[-1] - x[0])

    @jax.jit
    def prices_of_noise(keys):
        def one(key):
            x_key, noise_key = jax.random.split(key)
            x, noise = jnp.sort(jax.random.uniform(x_key, (n,))), jax.random.normal(noise_key, (n,))
            middle = lambda k: (jnp.arange(k) + 0.5) / k  # noqa: E731
            pairs = noise[jnp.arange(n) // 2]
            lines = [price(broken_line(x, e), x, middle(8)) for e in (noise, pairs)]
            return *lines, price(nearest_neighbour(x, noise), x, middle(2))

        return jax.lax.map(one, keys)

    broken, paired, nearest = prices_of_noise(jax.random.split(keys[4], 2 * runs))
    # eight midpoints of (ε + t(ε' - ε))² miss its mean by (ε' - ε)² / 768: 1/384 of the noise, on average
    yield estimate("price of the broken line, over the noise", broken + 1 / 384, 2 / 3, wrong=1.0)
    yield estimate("price of the nearest neighbour, over the noise", nearest, 1.0, wrong=2 / 3)
    yield control(
        "noise independent from point to point: here one value for two neighbours",
        estimate("price of the broken line, over the noise", paired, 2 / 3, wrong=1.0),
    )
    yield at_most("slope of the average, upper end", benign.interval[1], -0.1)
    tempered = np.array([line.interval, neighbour.interval])
    yield at_most("slopes of line and neighbour, both ends", np.abs(tempered), 0.1)
    yield at_least("slope of the polynomial, lower end", wild.interval[0], 2.0)
    through = np.concatenate([found.train for found in (benign, line, neighbour)])
    yield equal("residuals on the training data", through, 0.0, atol=1e-20)
    found = {"average": benign, "broken line": line, "nearest neighbour": neighbour, "polynomial": wild}
    rows = [
        {"n": int(n), "excess risk": float(v), "method": f"{name}: {each.kind}"}
        for name, each in found.items()
        for n, v in zip(each.sizes, each.excess, strict=True)
    ]
    log = alt.Scale(type="log")
    chart = alt.Chart(alt.Data(values=rows)).mark_line(point=True)
    yield picture(
        "excess risk against the number of points",
        chart.encode(
            alt.X("n:Q", scale=log), alt.Y("excess risk:Q", scale=log), alt.Color("method:N", title=None)
        ).properties(width=300, height=190),
    )


@claim(rows=("B13.15",))
def singular_average(key, *, sigma: Positive = 0.5, runs: Count = 10, tests: Count = 100):
    r"""An average with weights that are infinite at 0 passes through the data and is as good as one that does not.

    $\hat f(x)=\sum_iK(x-x_i)y_i/\sum_iK(x-x_i)$ with $K(u)=|u|^{-a}$ for $|u|\le h$: $\hat f(x_i)=y_i$. In one
    dimension with $a<\frac12$ and $h\propto n^{-1/5}$ its excess risk inside the interval decays like $n^{-4/5}$ for a
    twice differentiable truth, the rate of averages that do not interpolate.
    """
    sizes = (400, 800, 1600, 3200, 6400)

    @jax.jit
    def residuals(key):
        x, y = Planted(_wave, jax.random.uniform, sigma).sample(50, key=key)
        flat = nadaraya_watson(x, y, lambda r: (r <= 0.1).astype(r.dtype))
        return jax.vmap(_average((x, y), key))(x) - y, jax.vmap(flat)(x) - y

    def excess(key, n):
        """The mean over the noise, given the points: the squared bias, and σ² times the squares of the weights."""

        def one(key):
            x_key, new_key = jax.random.split(key)
            x, new = jax.random.uniform(x_key, (n,)), jax.vmap(_inside)(jax.random.split(new_key, tests))
            predict = lambda t, y: _average((x, y), None)(t)  # noqa: E731
            clean, weights = jax.vmap(jax.value_and_grad(predict, 1), (0, None))(new, _wave(x))
            return jnp.mean((clean - _wave(new)) ** 2 + sigma**2 * jnp.sum(weights**2, 1))

        return jnp.mean(jax.lax.map(one, jax.random.split(key, runs)))

    single, flat = residuals(key)
    yield equal("residuals at the data", single, 0.0)
    yield control(
        "a kernel that is infinite at 0: here constant on its width", equal("residuals at the data", flat, 0.0)
    )
    measured = [jax.jit(excess, static_argnums=1)(k, n) for k, n in zip(jax.random.split(key, 5), sizes, strict=True)]
    # a thousand places, of which some hundred are independent, have a mean within 5 %; what h⁴ leaves out is (2πh)²/20
    # of it, 3 % at the smallest size: together 0.05 in the slope
    yield rate("excess risk", sizes, jnp.stack(measured), -0.8, tolerance=0.15, along="n")
