r"""AdaGrad without knowledge of the smoothness: mean squared gradients along the path, from what was accumulated.

T (Theorems 2.5.4 and 2.5.5) prints $(\beta+M\log GT)$ and $(M+\beta\log GT)$ in these places, which are not scale-free
and fail for small gradients; here are the inequalities that the proofs give. `smoothness` is $\beta$ (elsewhere $L$)
and `gap` is $f(w_1)-f(w_{T+1})$, or a bound on it. The step has no factor: $\eta=1$.
"""

import jax
import jax.numpy as jnp

from corollary._validate import positive, real, within


def harmonic(total, first):
    r"""$\sum_{t\le T}\frac{a_t}{\sum_{i\le t}a_i}\le1+\ln\frac{\sum_{i\le T}a_i}{a_1}$, all $a_t\ge0$, $a_1>0$."""
    return 1 + jnp.log(positive("total", real("total", total)) / positive("first", real("first", first)))


def harmonic_offset(total, sigma):
    r"""$\sum_{t\le T}\frac{a_t}{\sigma^2+\sum_{i<t}a_i}\le\log_2\big(1+\frac{\sum_{i\le T}a_i}{\sigma^2}\big)$, if
    $0\le a_t\le\sigma^2$; at most $\log_2(1+T)$.
    """
    total, sigma = within("total", real("total", total), 0.0), positive("sigma", real("sigma", sigma))
    return jnp.log1p(total / sigma**2) / jnp.log(2.0)


def norm(smoothness, gap, first, total, T):
    r"""AdaGrad-norm, true gradients: $\frac1T\sum_t\|\nabla_t\|^2\le\frac{\sqrt{A_T}}T\big(f(w_1)-f(w_{T+1})+
    \frac\beta2(1+\ln\frac{A_T}{A_1})\big)$.

    $A_t=\sum_{i\le t}\|\nabla_i\|^2$; `first` is $A_1$ and `total` is $A_T$.
    """
    smoothness, gap = positive("smoothness", real("smoothness", smoothness)), real("gap", gap)
    T = within("T", real("T", T), 1.0)
    return jnp.sqrt(real("total", total)) / T * (gap + smoothness / 2 * harmonic(total, first))


def norm_in_advance(smoothness, gap, first, T):
    r"""The same without knowledge of the path: $\frac1T\sum_t\|\nabla_t\|^2\le\frac{s^2}T$ with a constant $s$.

    `gap` bounds $f(w_1)-\inf f$. `norm` says that $s=\sqrt{A_T}$ satisfies $s\le M+\frac\beta2(1+2\ln\frac s{s_1})$,
    and so is at most the larger solution of the equation, whatever $T$: the rate is $O(1/T)$.
    """
    smoothness, gap = positive("smoothness", real("smoothness", smoothness)), within("gap", real("gap", gap), 0.0)
    first, T = positive("first", real("first", first)), within("T", real("T", T), 1.0)
    constant = gap + smoothness / 2
    # ln u <= u/c + ln(c/e) with c = 2 beta/s_1 gives a start above the solution; from there Newton's method on a
    # convex function comes down to it without overshooting
    above = 2 * constant + 2 * smoothness * jnp.maximum(jnp.log(2 * smoothness / (jnp.e * jnp.sqrt(first))), 0)
    above = jnp.maximum(above, 2 * smoothness)

    def newton(_, s):
        excess = s - smoothness * jnp.log(s / jnp.sqrt(first)) - constant
        # where no solution is left (a gap too small to be true) the iteration stays where the derivative vanishes
        return jnp.maximum(s - excess / (1 - smoothness / s), smoothness * (1 + 1e-6))

    return jax.lax.fori_loop(0, 60, newton, above) ** 2 / T


def diagonal_weighted(smoothness, gap, sigma, totals):
    r"""AdaGrad by coordinate, $P_t$ from the past: $\mathbb E\sum_{t,i}\nabla_t(i)^2P_t(i)\le
    \mathbb E\big[f(w_1)-f(w_{T+1})+\frac\beta2\sum_i\log_2(1+\frac{\hat A_T(i)}{\sigma^2})\big]$.

    Unbiased gradients with $\hat\nabla_t(i)^2\le\sigma^2$; `totals` $\hat A_T(i)=\sum_{t\le T}\hat\nabla_t(i)^2$.
    At most $M+\frac{d\beta}2\log_2(1+T)$.
    """
    totals = real("totals", totals)
    smoothness = positive("smoothness", real("smoothness", smoothness))
    return real("gap", gap) + smoothness / 2 * harmonic_offset(totals, sigma).sum(-1)


def diagonal(smoothness, gap, sigma, past, T):
    r"""True gradients: $\frac1T\sum_t\|\nabla_t\|^2\le\frac1T\big(f(w_1)-f(w_{T+1})+\frac{d\beta}2\log_2(1+T)\big)
    \sum_j\sqrt{\sigma^2+A_{T-1}(j)}$.

    `past` is $A_{T-1}(j)=\sum_{i<T}\nabla_i(j)^2$, of shape (..., d).
    """
    past, T = within("past", real("past", past), 0.0), within("T", real("T", T), 1.0)
    smoothness, sigma = positive("smoothness", real("smoothness", smoothness)), positive("sigma", real("sigma", sigma))
    budget = real("gap", gap) + past.shape[-1] * smoothness / 2 * jnp.log1p(T) / jnp.log(2.0)
    return budget * jnp.sqrt(sigma**2 + past).sum(-1) / T
