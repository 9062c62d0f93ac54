r"""What the order of the examples does to SGD, exactly, on the line: independent draws against reshuffled epochs."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import one_of, positive, real, whole, within
from corollary.catalog import implements


@implements("M18.06")
def epoch_variance(
    step: Float[ArrayLike, "..."], n: int, sampling: str = "reshuffle", *, variance: Float[ArrayLike, "..."] = 1.0
) -> Array:
    r"""The stationary variance of SGD on $f_i=\frac12(\theta-a_i)^2$, $i=1,\dots,n$, at the ends of epochs.

    `variance` is $s^2=\frac1n\sum(a_i-\bar a)^2$ and `step` $0<\eta<2$. An epoch leads from $\theta$ to $q^n\theta+\eta
    \sum_jq^{n-1-j}a_{\pi(j)}$ with $q=1-\eta$. Independent draws (`"with"`) have $\frac{\eta s^2}{2-\eta}$. In a
    permutation (`"reshuffle"`) two examples are correlated by $-\frac1{n-1}$: with $w_j=q^j$ it is
    $\frac{\eta^2s^2}{1-q^{2n}}\frac n{n-1}\big(\sum w_j^2-\frac1n(\sum w_j)^2\big)$, for small $\eta n$ about
    $\frac{n(n+1)}{24}\eta^3s^2$, two powers of the step less.
    """
    step = within("step", real("step", step), 0.0, 2.0, open="both")
    n, sampling = whole("n", n, 2), one_of("sampling", sampling, ("with", "reshuffle"))
    variance = positive("variance", real("variance", variance))
    if sampling == "with":
        return step * variance / (2 - step)
    j = jnp.arange(n)
    q = (1 - step)[..., None]
    # a sum of squares of differences from the mean weight: no cancellation for short steps
    weights = jnp.where(j == 0, 1.0, q**j)
    away = jnp.sum((weights - weights.mean(-1, keepdims=True)) ** 2, axis=-1)
    return step**2 * variance * n / (n - 1) * away / (1 - (1 - step) ** (2 * n))
