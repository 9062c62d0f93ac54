r"""The gradient flow $\dot\theta=-\nabla f(\theta)$: no step size, and so no smoothness among the premises."""

import jax.numpy as jnp

from corollary._validate import positive, real, within


def convex(distance, t):
    r"""Convex: $f(\theta(t))-f^*\le\frac{\|\theta_0-\theta^*\|^2}{2t}$ (M Exercise 17.3 asks for $\frac1t$)."""
    return real("distance", distance) ** 2 / (2 * positive("t", real("t", t)))


def polyak_lojasiewicz(mu, gap, t):
    r"""$\mu$-PL: $f(\theta(t))-f^*\le e^{-2\mu t}(f(\theta_0)-f^*)$, attained by $\frac\mu2\|\theta\|^2$."""
    mu = positive("mu", real("mu", mu))
    return jnp.exp(-2 * mu * within("t", real("t", t), 0.0)) * real("gap", gap)


def euler_error(L, speed, step, t):
    r"""$L$-smooth: gradient descent with step $\eta$ is within $\frac{\eta V}2(e^{Lt}-1)$ of the flow up to time $t$,
    $V$ a bound of the gradient along it.
    """
    L, t = positive("L", real("L", L)), within("t", real("t", t), 0.0)
    return real("step", step) * real("speed", speed) / 2 * jnp.expm1(L * t)
