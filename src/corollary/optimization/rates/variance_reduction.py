r"""Control variates on $\frac1n\sum_if_i$, every $f_i$ convex and $L$-smooth, the mean $\mu$-strongly convex.

M (section 18.4.2) names the methods without a formula; these are the theorems of their authors.
"""

import jax.numpy as jnp

from corollary._validate import positive, real, within


def svrg_factor(L, mu, *, step, inner):
    r"""SVRG with random snapshots, $\eta<\frac1{2L}$: the factor
    $\frac1{\mu\eta(1-2L\eta)m}+\frac{2L\eta}{1-2L\eta}$ of the expected excess value per epoch of $m$ steps.

    A promise only where it is below 1.
    """
    L, mu = positive("L", real("L", L)), positive("mu", real("mu", mu))
    step, inner = positive("step", real("step", step)), within("inner", real("inner", inner), 1.0)
    within("step times 2L", 2 * L * step, 0.0, 1.0, open="both")
    rest = 1 - 2 * L * step
    return 1 / (mu * step * rest * inner) + 2 * L * step / rest


def sag(L, mu, n, gap, distance, noise, k):
    r"""SAG with $\eta=\frac1{16L}$ and a table of zeros:
    $\mathbb Ef(\theta_k)-f^*\le\bigl(1-\min\{\frac\mu{16L},\frac1{8n}\}\bigr)^k
    \bigl(f(\theta_0)-f^*+\frac{4L}n\|\theta_0-\theta^*\|^2+\frac{\sigma^2}{16L}\bigr)$.

    `noise` is $\sigma^2=\frac1n\sum_i\|\nabla f_i(\theta^*)\|^2$.
    """
    L, mu = positive("L", real("L", L)), positive("mu", real("mu", mu))
    n, noise = within("n", real("n", n), 1.0), within("noise", real("noise", noise), 0.0)
    start = real("gap", gap) + 4 * L / n * real("distance", distance) ** 2 + noise / (16 * L)
    return (1 - jnp.minimum(mu / (16 * L), 1 / (8 * n))) ** real("k", k) * start
