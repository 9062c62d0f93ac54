r"""Gradient descent with a constant step $\eta$ on an $L$-smooth function."""

import jax.numpy as jnp

from corollary._validate import positive, real, within


def convex(L, distance, k, *, step=None):
    r"""Convex, $\eta\le1/L$: $f(\theta_k)-f^*\le\frac{\|\theta_0-\theta^*\|^2}{2\eta k}$ (B Theorem 37, M Lemma 17.11).

    $\eta=1/L$ unless given.
    """
    step, k = _step(step, L, 1.0), within("k", real("k", k), 1.0)
    return positive("distance", real("distance", distance)) ** 2 / (2 * step * k)


def convex_tight(L, distance, k, *, step=None):
    r"""The best possible constant, convex, $\eta\le1/L$:
    $f(\theta_k)-f^*\le\frac{L\|\theta_0-\theta^*\|^2}{4\eta Lk+2}$, attained by `huber` with the threshold
    $\frac{\|\theta_0-\theta^*\|}{2\eta Lk+1}$.

    $\frac{L\|\theta_0-\theta^*\|^2}{4k+2}$ at $\eta=1/L$, the default (Drori and Teboulle).
    """
    step, L, k = _step(step, L, 1.0), real("L", L), within("k", real("k", k), 0.0)
    return L * real("distance", distance) ** 2 / (4 * step * L * k + 2)


def strongly_convex_squared_distance(L, mu, distance, k, *, step=None):
    r"""$\mu$-strongly convex, $\eta\le1/L$: $\|\theta_k-\theta^*\|^2\le(1-\eta\mu)^k\|\theta_0-\theta^*\|^2$ (B
    Theorem 34).
    """
    mu, step = within("mu", real("mu", mu), 0.0), _step(step, L, 1.0)
    return (1 - step * mu) ** real("k", k) * real("distance", distance) ** 2


def cocoercive_squared_distance(L, mu, distance, k, *, step=None):
    r"""$\mu$-strongly convex, $\eta\le\frac2{L+\mu}$ (the default):
    $\|\theta_k-\theta^*\|^2\le\lambda^k\|\theta_0-\theta^*\|^2$.

    $\lambda=1-\eta\frac{2\mu L}{L+\mu}$, which is $(\frac{\kappa-1}{\kappa+1})^2$ at the default (M Lemmas 17.13,
    17.14).
    """
    L, mu = positive("L", real("L", L)), within("mu", real("mu", mu), 0.0)
    step = 2 / (L + mu) if step is None else positive("step", real("step", step))
    return (1 - step * 2 * mu * L / (L + mu)) ** real("k", k) * real("distance", distance) ** 2


def strongly_convex_tight(L, mu, first, k, *, step=None):
    r"""The best possible factor, $\mu$-strongly convex, $\eta<2/L$: $\max\{(1-\eta\mu)^2,(1-\eta L)^2\}^k$ times what
    it was, for $\|\theta_k-\theta^*\|^2$, $\|\nabla f(\theta_k)\|^2$ and $f(\theta_k)-f^*$ alike.

    `first` is that at the start, $\eta=1/L$ unless given. Attained along an extreme eigenvector of a quadratic (Taylor,
    Hendrickx and Glineur); at $\eta\le\frac2{L+\mu}$ the factor is the square of the one in B Theorem 34.
    """
    L, mu = positive("L", real("L", L)), within("mu", real("mu", mu), 0.0)
    step = _step(step, L, 2.0) if step is not None else 1 / L
    factor = jnp.maximum((1 - step * mu) ** 2, (1 - step * L) ** 2)
    return factor ** within("k", real("k", k), 0.0) * within("first", real("first", first), 0.0)


def polyak_lojasiewicz(L, mu, gap, k, *, step=None):
    r"""$\mu$-PL, $\eta\le1/L$: $f(\theta_k)-f^*\le(1-2\mu\eta(1-\frac{\eta L}2))^k(f(\theta_0)-f^*)$ (B Theorem 40, E
    Lemma 3.4).

    At $\eta=1/L$, the default, the factor is $1-\mu/L$.
    """
    mu = within("mu", real("mu", mu), 0.0)
    step = _step(step, L, 1.0)
    return (1 - 2 * mu * step * (1 - step * real("L", L) / 2)) ** real("k", k) * real("gap", gap)


def stationary(L, gap, k, *, step=None):
    r"""Bounded below, $\eta\le1/L$: $\min_{i\le k}\|\nabla f(\theta_i)\|^2\le\frac{2(f(\theta_0)-f^*)}{\eta(k+1)}$ (B
    Theorem 38).
    """
    step = _step(step, L, 1.0)
    return 2 * real("gap", gap) / (step * (real("k", k) + 1))


def stationary_tight(L, gap, n, *, step=None):
    r"""The best possible constant for $\eta\le1/L$:
    $\min_{i\le n}\|\nabla f(\theta_i)\|^2\le\frac{4L(f(\theta_0)-f^*)}{\eta L(4-\eta L)n+2}$, attained by `washboard`.

    At $\eta=1/L$, the default, $\frac{4L(f(\theta_0)-f^*)}{3n+2}$ (Abbaszadehpeivasti, de Klerk and Zamani).
    """
    step, L = _step(step, L, 1.0), real("L", L)
    gap, n = within("gap", real("gap", gap), 0.0), within("n", real("n", n), 0.0)
    return 4 * L * gap / (step * L * (4 - step * L) * n + 2)


def stationary_sum(L, drop, *, step=None):
    r"""$\sum_{i<k}\|\nabla f(\theta_i)\|^2\le\frac{f(\theta_0)-f(\theta_k)}{\eta(1-\eta L/2)}$ for $\eta<2/L$: the
    sum that the others come from, with `drop` $=f(\theta_0)-f(\theta_k)$.

    At $\eta=1/L$, the default, $2L$ times the drop. If $|f|\le M/2$ the drop is at most $M$: the mean square over $T$
    steps is at most $2ML/T$, where T (Theorem 2.5.1) has $4ML/T$.
    """
    step = _step(step, L, 2.0) if step is not None else 1 / positive("L", real("L", L))
    return within("drop", real("drop", drop), 0.0) / (step * (1 - step * real("L", L) / 2))


def steps_to_stationary(L, gap, epsilon):
    r"""$\lceil2L(f(\theta_0)-f^*)/\epsilon^2\rceil$ steps with $\eta=1/L$ after which some iterate had
    $\|\nabla f\|\le\epsilon$ (E Lemma 3.2).
    """
    L, epsilon = positive("L", real("L", L)), positive("epsilon", real("epsilon", epsilon))
    return jnp.ceil(2 * L * within("gap", real("gap", gap), 0.0) / epsilon**2)


def squared_gradient(L, gap):
    r"""$\|\nabla f(\theta)\|^2\le2L(f(\theta)-f^*)$ for every $L$-smooth $f$, convex or not (B Lemma 36, M Exercise
    17.5).
    """
    return 2 * positive("L", real("L", L)) * within("gap", real("gap", gap), 0.0)


def one_step_excess(before, after, *, step):
    r"""Convex, $\eta\le1/L$: $f(\theta_{k+1})-f^*\le\frac{\|\theta_k-\theta^*\|^2-\|\theta_{k+1}-\theta^*\|^2}{2\eta}$
    with the two distances (M Lemma 17.9).
    """
    before, after = real("before", before), real("after", after)
    return (before**2 - after**2) / (2 * positive("step", real("step", step)))


def expansion_remainder(L, gradient_norm, step):
    r"""$|f(\theta_{k+1})-f(\theta_k)+\eta_k\|\nabla f(\theta_k)\|^2|\le\frac L2\eta_k^2\|\nabla f(\theta_k)\|^2$, any
    step (M 17.3, where the half is left out).
    """
    L, step = positive("L", real("L", L)), positive("step", real("step", step))
    return L / 2 * jnp.square(step * real("gradient_norm", gradient_norm))


def decrease(L, gradient_norm, *, step=None):
    r"""The descent lemma: $f(\theta_{k+1})-f(\theta_k)\le-\eta(1-\frac{\eta L}2)\|\nabla f(\theta_k)\|^2$, any
    $\eta>0$ ($1/L$ unless given).
    """
    L = positive("L", real("L", L))
    step = 1 / L if step is None else positive("step", real("step", step))
    return -step * (1 - step * L / 2) * jnp.square(real("gradient_norm", gradient_norm))


def _step(step, L, limit):
    """The step, at most `limit / L`: beyond that the theorem promises nothing."""
    L = positive("L", real("L", L))
    if step is None:
        return limit / L
    step = positive("step", real("step", step))
    within("step times L", step * L, 0.0, limit * (1 + 1e-9), open="low")
    return step
