r"""Stochastic gradient descent on an $L$-smooth function, unbiased gradients $g$.

The noise enters in one of two ways: as a bound $\sigma^2$ on the second moment, $\mathbb E\|g\|^2\le\sigma^2$ (B, T
call it a variance bound), or as $\mathbb E\|g\|^2\le\kappa_1+\kappa_2\|\nabla f\|^2$ with $\kappa_2\ge1$ (M; a
variance bound $\gamma^2$ is $\kappa_1=\gamma^2$, $\kappa_2=1$).
"""

import jax.numpy as jnp

from corollary._validate import positive, real, within
from corollary.catalog import implements


def expected_change(L, gradient_norm, second_moment, *, step):
    r"""One step, $\mathbb E[f(\theta_{k+1})-f(\theta_k)]\le\eta(\frac{L\eta}2\mathbb E\|g\|^2-\|\nabla
    f(\theta_k)\|^2)$ (M Lemma 18.3).

    With $\mathbb E\|g\|^2=\kappa_1+\kappa_2\|\nabla f\|^2$ it is M Lemma 18.5.
    """
    L, step = positive("L", real("L", L)), positive("step", real("step", step))
    second_moment = within("second_moment", real("second_moment", second_moment), 0.0)
    return step * (L * step / 2 * second_moment - real("gradient_norm", gradient_norm) ** 2)


def strongly_convex(L, mu, gap, k, *, kappa1, kappa2=1.0, step=None):
    r"""$\mu$-strongly convex, $\eta\le\frac1{L\kappa_2}$ (the default):
    $\mathbb Ef(\theta_k)-f^*\le F+(1-\eta\mu)^k(f(\theta_0)-f^*-F)$.

    $F=\frac{\eta L\kappa_1}{2\mu}$ is the floor (M Lemma 18.6, which prints the left side one step later).
    """
    mu, kappa1 = positive("mu", real("mu", mu)), within("kappa1", real("kappa1", kappa1), 0.0)
    step = _step(step, L, kappa2)
    floor = step * real("L", L) * kappa1 / (2 * mu)
    return floor + (1 - step * mu) ** within("k", real("k", k), 0.0) * (real("gap", gap) - floor)


def strongly_convex_decreasing(L, mu, gap, k, *, kappa1, c0, c1, kappa2=1.0):
    r"""$\eta_k=\frac{C_0}{C_1+k}$, $\mu C_0>1$, $\eta_1\le\frac1{L\kappa_2}$: $\mathbb
    Ef(\theta_k)-f^*\le\frac\tau{C_1+k}$, $k\ge1$.

    $\tau=\max\{\frac{C_0^2L\kappa_1}{2(\mu C_0-1)},(C_1+1)(f(\theta_1)-f^*)\}$; the start is $\theta_1$ (M Lemma 18.7).
    """
    mu, c0, c1 = (positive(name, real(name, value)) for name, value in (("mu", mu), ("c0", c0), ("c1", c1)))
    within("mu times c0", mu * c0, 1.0, open="low")
    _step(c0 / (c1 + 1), L, kappa2)
    tau = jnp.maximum(c0**2 * real("L", L) * real("kappa1", kappa1) / (2 * (mu * c0 - 1)), (c1 + 1) * real("gap", gap))
    return tau / (c1 + within("k", real("k", k), 1.0))


def nonconvex(L, sigma, gap, k, *, step=None):
    r"""$\mathbb E\|g\|^2\le\sigma^2$, any $\eta$:
    $\frac1K\sum_{s<K}\mathbb E\|\nabla f(\theta_s)\|^2\le\frac{f(\theta_0)-f^*}{\eta K}+\frac{L\eta\sigma^2}2$.

    At the best $\eta=\sqrt{2(f(\theta_0)-f^*)/(L\sigma^2K)}$ (the default) it is
    $\sigma\sqrt{2L(f(\theta_0)-f^*)/K}$ (B Theorem 41); T Theorem 2.5.2 has
    $\eta=\sqrt{(f(\theta_0)-f^*)/(L\sigma^2K)}$, prints the factor 2 and proves $\frac32$.
    """
    L, gap, k = positive("L", real("L", L)), within("gap", real("gap", gap), 0.0), within("k", real("k", k), 1.0)
    sigma = positive("sigma", real("sigma", sigma))
    step = nonconvex_step(L, sigma, gap, k) if step is None else positive("step", real("step", step))
    return gap / (step * k) + L * step * sigma**2 / 2


def nonconvex_step(L, sigma, gap, k):
    r"""The step that makes `nonconvex` least: $\sqrt{2(f(\theta_0)-f^*)/(L\sigma^2K)}$."""
    L, sigma = positive("L", real("L", L)), positive("sigma", real("sigma", sigma))
    return jnp.sqrt(2 * positive("gap", real("gap", gap)) / (L * sigma**2 * within("k", real("k", k), 1.0)))


def nonconvex_variance(L, gap, k, *, kappa1, kappa2=1.0, step=None):
    r"""$\eta\le\frac1{L\kappa_2}$ (the default): $\frac1K\sum_{s<K}\mathbb E\|\nabla f(\theta_s)\|^2\le\eta
    L\kappa_1+\frac{2(f(\theta_0)-f^*)}{\eta K}$.

    M Lemma 18.8; T Problem 2.5.3 with a batch is $\kappa_1=\gamma_1^2/B$, $\kappa_2=1$.
    """
    step, kappa1 = _step(step, L, kappa2), within("kappa1", real("kappa1", kappa1), 0.0)
    return step * real("L", L) * kappa1 + 2 * real("gap", gap) / (step * within("k", real("k", k), 1.0))


def weighted_sum(L, gap, steps, *, kappa1, kappa2=1.0):
    r"""All $\eta_m\le\frac1{L\kappa_2}$: $\sum_{m\le k}\eta_m\mathbb E\|\nabla f(\theta_m)\|^2\le2(f(\theta_1)-f^*)
    +L\kappa_1\sum_{m\le k}\eta_m^2$ for each $k$ (M Lemma 18.9); `steps` are the $\eta_m$.
    """
    steps = _step(real("steps", steps, "k"), L, kappa2)
    return 2 * real("gap", gap) + real("L", L) * real("kappa1", kappa1) * jnp.cumsum(steps**2)


@implements("B05.31")
def iterations(L, sigma, gap, accuracy):
    r"""Steps after which `nonconvex` promises $\mathbb E\|\nabla f\|^2\le\epsilon$:
    $\frac{2L(f(\theta_0)-f^*)\sigma^2}{\epsilon^2}$.

    Each is one gradient of one example; gradient descent promises the same after $\frac{2L(f(\theta_0)-f^*)}\epsilon$
    steps of $n$ of them: SGD is the cheaper one for $n>\sigma^2/\epsilon$.
    """
    L, sigma, gap = (positive(name, real(name, v)) for name, v in (("L", L), ("sigma", sigma), ("gap", gap)))
    return 2 * L * gap * sigma**2 / positive("accuracy", real("accuracy", accuracy)) ** 2


@implements("T02.28")
def batch_iterations(L, variance, gap, accuracy, batch_size):
    r"""Steps after which a batch of $B$ reaches $\frac1K\sum\mathbb E\|\nabla f\|^2\le\epsilon^2$, and the step size
    (T Problem 2.5.3).

    $\eta=\min\{\frac1L,\frac{B\epsilon^2}{2L\gamma_1^2}\}$ and $K=\frac{4(f(\theta_0)-f^*)}{\eta\epsilon^2}$, which is
    $O(\frac{1}{\epsilon^2}+\frac{\gamma_1^2}{B\epsilon^4})$.
    """
    L, variance, gap = (positive(n, real(n, v)) for n, v in (("L", L), ("variance", variance), ("gap", gap)))
    accuracy, batch_size = (
        positive("accuracy", real("accuracy", accuracy)),
        within("batch_size", real("batch_size", batch_size), 1.0),
    )
    step = jnp.minimum(1 / L, batch_size * accuracy**2 / (2 * L * variance))
    return 4 * gap / (step * accuracy**2), step


def _step(step, L, kappa2):
    r"""The step, at most $1/(L\kappa_2)$."""
    L, kappa2 = positive("L", real("L", L)), within("kappa2", real("kappa2", kappa2), 1.0)
    if step is None:
        return 1 / (L * kappa2)
    step = positive("step", real("step", step))
    within("step times L times kappa2", step * L * kappa2, 0.0, 1 + 1e-9, open="low")
    return step
