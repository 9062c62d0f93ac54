"""The exercises of chapter 13 of M on recurrences: derivatives by weights and first states, and where maps end."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_most, claim, control, equal, monotone
from corollary.nets import identity, logistic, tanh
from corollary.nets.recurrent import Elman, Plant, Recurrent, iterate_map, unroll


@claim(rows=("M13.50", "M13.51", "M13.52"))
def first_state(key, *, steps: Count = 20, runs: Size = 50):
    r"""Derivatives by the first state and by the weights are products that can be written down.

    Exercise 13.4: $H_t=w_hH_{t-1}$, $Z_t=w_zH_t$ from $H_{-1}=1$ have $Z_3=w_zw_h^4$, $\partial_{w_z}Z_3=w_h^4$,
    $\partial_{w_h}Z_3=4w_zw_h^3$. Exercise 13.5: for $H_t=\tanh(wH_{t-1}+vX_t+b)$ from $H_{-1}=h_0$,
    $\partial H_t/\partial h_0=w^{t+1}\prod_{s\le t}(1-H_s^2)$, at most $|w|^{t+1}$. Exercise 13.6: for
    $Z_{t+1}=a\sigma(bZ_t+cX_t)$ with $a=b=\frac12$, $0<\partial Z_T/\partial Z_t\le16^{-(T-t)}$, since
    $\sigma'\le\frac14$; with $c=0$ and $b\to0$ the bound, $(\frac{ab}4)^{T-t}$ for any $a,b>0$, is approached.
    """
    time = np.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        draws = jax.random.normal(key, (runs, steps + 4))
        small = 10.0 ** -jnp.arange(1, 6)

        def linear(weights):
            return Elman.of(weights[0], 1.0, None, weights[1], None, identity)(jnp.zeros((4, 1)), jnp.ones(1))[3, 0]

        def bent(draw):
            w, v, b, h = 2 * draw[0], draw[1], draw[2], draw[3:4]
            states = lambda h: Elman.of(w, v, b, 1.0, None).run(draw[4:, None], h).states[:, 0]  # noqa: E731
            return jax.jacfwd(states)(h)[:, 0], states(h), w

        def vanishing(a, b, c, draw):
            plant = Recurrent(Plant(lambda z, x: a * logistic(b * z + c * x), jnp.zeros(1)), lambda z: z)
            states = lambda z: plant.run(draw[4:, None], z).states[:, 0]  # noqa: E731
            return jax.jacfwd(states)(draw[3:4])[:, 0]

        four = jax.vmap(lambda d: (linear(d[:2]), jax.grad(linear)(d[:2])))(draws)
        six = jax.vmap(lambda d: vanishing(0.5, 0.5, d[0], d))(draws)
        limit = jax.vmap(lambda b: vanishing(0.5, b, 0.0, draws[0])[:3])(small)
        steep = jax.vmap(lambda d: vanishing(1.0, 1.0, d[0], d))(draws)
        return draws, four, jax.vmap(bent)(draws), six, limit, small, steep

    draws, (z3, by_weights), (by_start, states, w), six, limit, small, steep = jax.device_get(measure(key))
    wh, wz = draws[:, 0], draws[:, 1]
    yield equal("13.4: third output", z3, wz * wh**4, rtol=1e-12)
    yield equal("13.4: its derivatives", by_weights, np.stack([4 * wz * wh**3, wh**4], 1), rtol=1e-12)
    product = w[:, None] ** time * np.cumprod(1 - states**2, axis=1)
    # 1 - H^2 of a saturated state has lost digits: absolute rounding, multiplied by the rest
    scale = np.abs(w[:, None]) ** time
    yield equal("13.5: derivative by the first state", by_start / scale, product / scale, rtol=1e-9, atol=1e-13)
    yield at_most("13.5: its size", np.abs(by_start), scale, along="time")
    yield at_most("13.6: derivative by the first state", six, 16.0**-time, along="time")
    yield at_most("13.6: it is positive", -six, 0.0)
    reached = limit / (0.125 * small[:, None]) ** time[:3]
    # the first state is a normal number, the others are at most 1/2: the slopes are 1/4 up to (bz)^2/16
    yield equal("13.6: share of the bound, b = 10^-5", reached[-1], 1.0, rtol=0, atol=1e-8)
    yield monotone("13.6: what is missing from it, b falling", 1 - reached[:3, 2], "decreasing", strict=True)
    yield control(
        "a and b are one half: here one",
        at_most("13.6: derivative by the first state", steep, 16.0**-time, along="time"),
    )


@claim(rows=("M13.47",))
def scalar_maps(key, *, steps: Count = 20000):
    r"""One unit without input ends in a fixed point or a cycle, by the slope there.

    Exercise 13.1. $Z_n=\tanh(\theta Z_{n-1})$, $|\theta|<1$: $|Z_n|\le|\theta|^n|Z_0|\to0$. $Z_n=S(\theta Z_{n-1})$: to
    the solution of $z=S(\theta z)$ for $\theta>\theta_c$ and to a cycle of two below, where
    $\theta_c=-5.8696$ is where the slope $\theta z(1-z)$ is $-1$: there $-\theta z=1+W(e^{-1})$ with Lambert's $W$.
    $Z_n=\sin(\theta Z_{n-1})$: to 0 for $|\theta|\le1$, at $\theta=1$ only like $\sqrt{3/n}$; to the solution of
    $z=\sin(\theta z)$ with the sign of $Z_0$ for $1<\theta<2.2618=-1/\cos u$, $u+\tan u=0$; to the cycle
    $\pm z$ just below $-1$; and above 2.2618 to a cycle of two.
    """
    from scipy.optimize import brentq
    from scipy.special import lambertw

    inner = 1 + float(lambertw(np.exp(-1)).real)
    at_slope = 1 / (1 + np.exp(inner))
    threshold = -inner / at_slope
    u = brentq(lambda u: u + np.tan(u), 1.7, 2.5)
    doubling = -1 / np.cos(u)
    solve = lambda f, low, high: brentq(lambda z: z - f(z), low, high, xtol=1e-14)  # noqa: E731
    above, below = threshold + 0.07, threshold - 0.08
    thetas = np.array([above, below, 1.5, -1.1, doubling - 0.05, doubling + 0.05, 1.0])
    kinds = np.array([0, 0, 1, 1, 1, 1, 1])

    @jax.jit
    def measure(key):
        starts = jax.random.uniform(key, (7,), minval=0.3, maxval=1.2)
        sine = lambda z: jnp.sin(thetas * z)  # noqa: E731
        last = iterate_map(lambda z: jnp.where(kinds == 0, logistic(thetas * z), sine(z)), starts, steps, keep=4)
        mirrored = iterate_map(sine, -starts, 2000)[-1]
        shrinking = jnp.array([0.9, -0.5])
        path = iterate_map(lambda z: jnp.tanh(shrinking * z), jnp.ones(2), 60, keep=60)
        slow = unroll(Elman.of(-0.5, 0.0, None, 1.0, None, tanh).cell, jnp.zeros((60, 1)), jnp.ones(1))[:, 0]
        return last, mirrored, path, slow

    last, mirrored, path, slow = jax.device_get(measure(key))
    n = np.arange(1, 61)
    yield at_most("tanh: size", np.abs(path.T), np.array([[0.9], [0.5]]) ** n, along="n")
    yield equal("tanh: the same as a recurrent unit", path[:, 1], slow, rtol=1e-12, atol=1e-300)
    sigmoid = lambda t: lambda z: 1 / (1 + np.exp(-t * z))  # noqa: E731
    sine = lambda t: lambda z: np.sin(t * z)  # noqa: E731
    # next to the threshold the slope is 0.98: the limit is reached to rounding after 20,000 steps
    yield equal("threshold of S", threshold, -5.8696, rtol=0, atol=5e-5)
    yield equal("S above the threshold", last[:, 0], solve(sigmoid(float(above)), 0.0, 1.0), rtol=1e-10)
    swing = np.abs(last[1:, :] - last[:-1, :])
    yield equal("S below it: back after two steps", last[2:, 1], last[:2, 1], rtol=1e-10)
    # at rest up to the rounding of the fixed point
    rest = 1e-10
    yield at_most("S above it, sine below its doubling: step of the last states", swing[:, [0, 2, 4]], rest)
    yield control("θ is above the threshold: here below", at_most("S: step of the last states", swing[:, 1], rest))
    found = last[:, 2], mirrored[2], last[:, 4]
    fixed = solve(sine(1.5), 0.1, 3.0), solve(sine(float(doubling) - 0.05), 0.1, 3.0)
    yield equal("sine, θ = 1.5", found[0], fixed[0], rtol=1e-10)
    yield equal("sine, θ = 1.5, from the other side", found[1], -fixed[0], rtol=1e-10)
    other = solve(sine(1.1), 0.1, 3.0)
    yield equal("sine, θ = -1.1: a cycle of ±z", np.abs(last[:, 3]), other, rtol=1e-10)
    yield equal("which changes its sign", last[1:, 3], -last[:-1, 3], rtol=1e-10)
    yield equal("doubling of sine", doubling, 2.2618, rtol=0, atol=5e-5)
    yield equal("sine below the doubling", found[2], fixed[1], rtol=1e-10)
    yield equal("sine above it: back after two steps", last[2:, 5], last[:2, 5], rtol=1e-10)
    yield control("θ is below the doubling: here above", at_most("sine: step of the last states", swing[:, 5], rest))
    # 1/Z^2 = n/3 + O(log n)
    yield equal("sine, θ = 1: Z times the root of n", last[-1, 6] * np.sqrt(steps), 3**0.5, rtol=0.01)
