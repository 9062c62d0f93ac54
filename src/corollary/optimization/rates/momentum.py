r"""Momentum: heavy ball, Nesterov's acceleration, and MaSS for stochastic gradients.

M (Remarks 17.17, 17.18), T (section 2.3) and E (section 3.3) print no constant; those here are the standard ones.
"""

import jax.numpy as jnp

from corollary._validate import positive, real, within


def heavy_ball_quadratic_distance(L, mu, distance, k):
    r"""Quadratics with spectrum in $[\mu,L]$, Polyak's parameters (M Remark 17.17):
    $\|\theta_k-\theta^*\|\le(1+(1+r)k)\,r^k\|\theta_0-\theta^*\|$ with $r=\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$.

    Attained along the eigenvector of $L$; the linear factor comes from the double root. On quadratics only.
    """
    L, mu = _constants(L, mu)
    k, r = real("k", k), (jnp.sqrt(L) - jnp.sqrt(mu)) / (jnp.sqrt(L) + jnp.sqrt(mu))
    return (1 + (1 + r) * k) * r**k * real("distance", distance)


def heavy_ball_average(L, distance, k, *, step, momentum):
    r"""Convex, $\eta\le(1-\rho)/L$: the mean of $f(\theta_0)-f^*,\dots,f(\theta_{k-1})-f^*$,
    and so the excess at their mean, is at most
    $\frac{\|\theta_0-\theta^*\|^2}{2k}\bigl(\frac{1-\rho}\eta+\frac{L\rho}{1-\rho}\bigr)$.

    No better than gradient descent in $k$: with fixed parameters the heavy ball does not accelerate.
    """
    L, k = positive("L", real("L", L)), within("k", real("k", k), 1.0)
    rho = within("momentum", real("momentum", momentum), 0.0, 1.0, open="high")
    step = positive("step", real("step", step))
    within("step times L over 1 - momentum", step * L / (1 - rho), 0.0, 1 + 1e-9, open="low")
    return real("distance", distance) ** 2 / (2 * k) * ((1 - rho) / step + L * rho / (1 - rho))


def heavy_ball_strongly_convex(L, mu, gap, k, *, step):
    r"""$\mu$-strongly convex, $\eta\le1/L$, $\rho=\sqrt{(1-\eta\mu)(1-\eta L)}$:
    $f(\theta_k)-f^*\le(1-\eta\mu)^k(f(\theta_0)-f^*)$. The factor is that of gradient descent, not $1-\sqrt{\mu/L}$.
    """
    L, mu = _constants(L, mu)
    step = positive("step", real("step", step))
    within("step times L", step * L, 0.0, 1 + 1e-9, open="low")
    return (1 - step * mu) ** real("k", k) * real("gap", gap)


def nesterov_convex(L, distance, k):
    r"""Convex, $\eta=1/L$, either schedule: $f(\theta_k)-f^*\le\frac{2L\|\theta_0-\theta^*\|^2}{(k+1)^2}$."""
    L, k = positive("L", real("L", L)), within("k", real("k", k), 1.0)
    return 2 * L * real("distance", distance) ** 2 / (k + 1) ** 2


def nesterov_convex_tight(L, distance, k):
    r"""The best possible constant for the schedule $\frac{k-1}{k+2}$: $\frac{2L\|\theta_0-\theta^*\|^2}{k^2+5k+6}$.

    Found by performance estimation and not proved for all $k$; attained by the Huber function with threshold
    $\frac R{2S+1}$, where $S$ is how far a unit force drives the method in $k$ steps of length one.
    """
    L, k = positive("L", real("L", L)), within("k", real("k", k), 1.0)
    return 2 * L * real("distance", distance) ** 2 / (k**2 + 5 * k + 6)


def nesterov_strongly_convex(L, mu, gap, distance, k):
    r"""$\mu$-strongly convex, $\eta=1/L$, $\rho=\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$:
    $f(\theta_k)-f^*\le(1-\sqrt{\mu/L})^k(f(\theta_0)-f^*+\frac\mu2\|\theta_0-\theta^*\|^2)$.
    """
    L, mu = _constants(L, mu)
    start = real("gap", gap) + mu / 2 * real("distance", distance) ** 2
    return (1 - jnp.sqrt(mu / L)) ** real("k", k) * start


def nesterov_quadratic_distance(L, mu, distance, k):
    r"""Quadratics with spectrum in $[\mu,L]$, $\eta=1/L$, $\rho=\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$ (M Remark 17.18):
    $\|\theta_k-\theta^*\|\le(1+k\sqrt{\mu/L})(1-\sqrt{\mu/L})^k\|\theta_0-\theta^*\|$, attained along the
    eigenvector of $\mu$.
    """
    L, mu = _constants(L, mu)
    k, root = real("k", k), jnp.sqrt(mu / L)
    return (1 + k * root) * (1 - root) ** k * real("distance", distance)


def mass(condition, statistical_condition, potential, k):
    r"""Least squares that some $\theta^*$ fits exactly, MaSS with the parameters of `mass_parameters`:
    $\mathbb EV_k\le\bigl(1-\frac1{\sqrt{\kappa\tilde\kappa}}\bigr)^kV_0$.

    $\kappa=L_1/\mu$ and $\tilde\kappa$ are as there; `potential` is $V_0$, with
    $V=\|v-\theta^*\|^2_{H^{-1}}+\frac1\mu\|\theta-\theta^*\|^2$.
    """
    kappa = within("condition", real("condition", condition), 1.0)
    kappa_tilde = within("statistical_condition", real("statistical_condition", statistical_condition), 1.0)
    return (1 - 1 / jnp.sqrt(kappa * kappa_tilde)) ** real("k", k) * real("potential", potential)


def _constants(L, mu):
    L, mu = positive("L", real("L", L)), positive("mu", real("mu", mu))
    within("mu over L", mu / L, 0.0, 1 + 1e-9, open="low")
    return L, mu
