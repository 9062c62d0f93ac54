"""Matrix Bernstein, against exact laws: all signs enumerated, and diagonal sums whose largest entry is known."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import Range, Size, at_most, claim, control
from corollary.foundations import (
    matrix_bernstein,
    matrix_bernstein_mean,
    matrix_variance,
)


def _largest_of(d, k):
    """Of d independent sums of k signs: the values 0..k, and P{largest absolute value >= value}, for each d."""
    v = np.arange(k + 1)
    inside = np.clip(1 - 2 * scipy.stats.binom.sf(np.ceil((k + v) / 2) - 1, k, 0.5), 0, 1)
    with np.errstate(divide="ignore"):
        return v, -np.expm1(np.multiply.outer(d, np.log(inside)))


@claim(rows=("T01.13",), full={"m": 16, "laws": 20})
def matrix_bernstein_inequality(
    key, *, m: Annotated[int, Range(2, 16)] = 10, laws: Size = 5, k: Annotated[int, Range(20, 10_000)] = 100
):
    r"""The norm of a sum of independent random matrices: root of the variance times the log of the dimension.

    Independent $X_i\in\mathbb R^{n_1\times n_2}$ with $E[X_i]=0$ and spectral norm $\|X_i\|\le M$; $Z=\sum X_i$,
    $V=\max\{\|\sum E[X_iX_i^\top]\|,\|\sum E[X_i^\top X_i]\|\}$. Then
    $$E\|Z\|\le\sqrt{2V\ln(n_1+n_2)}+\tfrac M3\ln(n_1+n_2),\qquad
    P\{\|Z\|\ge t\}\le(n_1+n_2)\exp\Big(-\frac{t^2/2}{V+Mt/3}\Big).$$
    Signs on the diagonal come closest: there $\|Z\|$ is the largest of $d$ independent sums, which grows with $\ln d$,
    so the logarithm is needed. Independence is needed too.
    """
    shape = (4, 6)
    matrices = jax.random.normal(key, (laws, m, *shape)) * jnp.exp(
        jax.random.normal(jax.random.fold_in(key, 1), (laws, m, 1, 1))
    )

    @jax.jit
    def measure(a):
        signs = 1.0 - 2 * (jnp.arange(2**m)[:, None] >> jnp.arange(m) & 1)
        z = jnp.einsum("sm,mij->sij", signs, a)
        norms = jnp.sqrt(jnp.linalg.eigvalsh(z @ z.mT)[:, -1])
        size = jnp.sqrt(jnp.linalg.eigvalsh(a @ a.mT)[:, -1])
        t = jnp.linspace(0.02, 1.0, 50) * norms.max()
        variance, bound = matrix_variance(a), size.max()
        tail = jnp.mean(norms[:, None] >= t, 0)
        mean = jnp.stack([norms.mean(), matrix_bernstein_mean(variance, bound, shape)])
        return mean, tail, matrix_bernstein(t, variance, bound, shape)

    mean, tail, bound = jax.vmap(measure)(matrices)
    yield at_most("mean norm over all signs, random matrices", mean[:, 0], mean[:, 1])
    yield at_most(
        "tail over all signs, random matrices", tail, bound, x=np.linspace(0.02, 1, 50), along="t over its max"
    )
    # on the diagonal: d entries, each a sum of k signs, so that V = k and M = 1
    d = 10 ** np.arange(0, 7)
    v, tail = _largest_of(d, k)
    mean = tail[:, 1:].sum(1)
    bounds = np.array([matrix_bernstein_mean(float(k), 1.0, (int(j), int(j))) for j in d])
    yield at_most(f"mean of the largest of d sums of {k} signs", mean, bounds, x=np.log10(d), along="log10 of d")
    seen = (v > 0) & (tail[3] > 1e-290)
    yield at_most(
        "tail of the largest of 1000 sums",
        tail[3, seen],
        matrix_bernstein(v[seen].astype(float), float(k), 1.0, (1000, 1000)),
        x=v[seen],
        along="t",
    )
    seen = (v > 0) & (tail[0] > 1e-290)
    yield at_most(
        f"1 × 1 matrices: both tails of a sum of {k} signs",
        tail[0, seen],
        matrix_bernstein(v[seen].astype(float), float(k), 1.0, (1, 1)),
        x=v[seen],
        along="t",
    )
    same = jnp.broadcast_to(jnp.eye(4), (200, 4, 4))
    yield control(
        "all 200 matrices carry the same sign",
        at_most(
            "mean norm",
            jnp.linalg.norm(same.sum(0), 2),
            matrix_bernstein_mean(matrix_variance(same), 1.0, (4, 4)),
        ),
    )
