"""Beyond rank one: the direction to the nearest minimiser, rank r, and some entries only."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, picture
from corollary.landscape import (
    direction_of_improvement,
    procrustes,
    symmetric_completion,
    symmetric_factorization,
)


@claim(rows=("T06.27",))
def nearest_minimiser(key, *, dim: Size = 10, rank: Size = 3, runs: Size = 40, steps: Count = 400):
    r"""The way to the nearest minimiser is a direction of improvement, for rank one and for rank r.

    $f(X)=\frac14\|ZZ^\top-XX^\top\|_F^2$, and $\Delta=X-ZR$ with the orthogonal $R$ that brings $ZR$ nearest
    to $X$ (for rank one $x\mp z$). Then
    $\nabla^2f[\Delta,\Delta]=\frac12\|\Delta\Delta^\top\|_F^2-6f+4\langle\nabla f,\Delta\rangle$ and
    $\|\Delta\Delta^\top\|_F^2\le8f$, attained for rank one by $x\perp z$ of the same length. So at a critical
    point the curvature along the way is at most $-2f$: there is no spurious second-order stationary point,
    and descent from random starts reaches the minimum. Without the rotation, $\Delta=X-Z$, the second fails.
    """

    @jax.jit
    def measure(key):
        z_key, x_key, s_key = jax.random.split(key, 3)
        z = jax.random.normal(z_key, (dim, rank))
        z = jnp.linalg.qr(z)[0] * jnp.linspace(1.0, 0.7, rank)
        f = symmetric_factorization(z @ z.T, z)
        scale = jnp.exp(jax.random.uniform(s_key, (200, 1, 1), minval=-2.0, maxval=0.5))
        x = scale * jax.random.normal(x_key, (200, dim, rank)) / jnp.sqrt(dim)

        def along(x):
            d = x - z @ procrustes(x, z)
            slope, found = jnp.sum(f.gradient(x) * d), direction_of_improvement(f, x, d)
            return f(x), slope, found.curvature * jnp.sum(d**2), jnp.sum((d @ d.T) ** 2)

        # critical points: some of the columns of Z, which are orthogonal, and zero for the others
        kept = (jnp.arange(2**rank - 1)[:, None] >> jnp.arange(rank)) & 1
        saddles = z * kept[:, None, :]
        found = jax.lax.map(along, jnp.concatenate([x, saddles]))
        steepest = jax.vmap(lambda x: jnp.abs(f.gradient(x)).max())(saddles).max()
        plain = jax.vmap(lambda x: (jnp.sum(((x - z) @ (x - z).T) ** 2), 8 * f(x)))(jnp.concatenate([x, -z[None]]))
        one, two = z[:, 0], z[:, 1] / jnp.linalg.norm(z[:, 1])
        square = symmetric_factorization(jnp.outer(one, one), one[:, None])(two[:, None])
        descend = jax.vmap(lambda x: x - 0.2 * f.gradient(x))
        ends = jax.lax.scan(lambda x, _: (descend(x), None), x[:runs], length=steps)[0]
        return found, steepest, plain, (jnp.sum((two - one) ** 2) ** 2, 8 * square), jax.vmap(f)(ends)

    (value, slope, curvature, quartic), steepest, plain, attained, ends = measure(key)
    scale = jnp.maximum(1.0, value)
    yield equal("curvature along the way: identity", curvature / scale, (0.5 * quartic - 6 * value + 4 * slope) / scale)
    yield at_most("fourth powers of the way", quartic, 8 * value)
    yield equal("rank one, orthogonal and as long: attained", *attained)
    yield equal("critical points that are not minima: the gradient", steepest, 0.0, atol=1e-12)
    yield at_most("critical points that are not minima: curvature along the way", curvature[200:], -2 * value[200:])
    # the slowest direction shrinks by 1 - 0.2 * 0.49 a step, after some 50 steps to leave 0; values are squares
    yield at_most("value where descent ends", ends, 1e-10)
    yield control("the rotation of Z that is nearest: here Z itself", at_most("fourth powers of the way", *plain))


@claim(rows=("T06.27",), no_control="an experiment; too few entries, where it fails, are among the checks")
def completion(key, *, dim: Size = 40, runs: Size = 10, steps: Count = 600):
    r"""From half the entries of a matrix of rank one, descent finds all of it.

    Minimise $\frac1{4p}\sum_{(i,j)\in\Omega}(zz^\top-xx^\top)_{ij}^2+\lambda\sum_i(|x_i|-\alpha)_+^4$, each
    entry observed with probability $p$ (the pair with its mirror image), from random starts. The argument
    with directions of improvement survives the loss of entries, if there are enough and no coordinate of $z$
    is too large. With less than about $\frac{2\ln d}d$ of the entries rows remain unseen and nothing can find
    them.
    """
    shares = jnp.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.8])

    @jax.jit
    def measure(key):
        def one(key, share):
            z_key, o_key, s_key = jax.random.split(key, 3)
            # coordinates of size one up to a sign: no row is hidden in few entries
            z = jnp.where(jax.random.bernoulli(z_key, shape=(dim, 1)), 1.0, -1.0) / jnp.sqrt(dim)
            upper = jnp.triu(jax.random.bernoulli(o_key, share, (dim, dim)).astype(float))
            observed = upper + jnp.triu(upper, 1).T
            begin = jax.random.normal(s_key, (dim, 1)) / dim
            problem = symmetric_completion(z @ z.T, observed, begin, level=2.0 / jnp.sqrt(dim), penalty=float(dim))
            # the curvature grows with the fullest row, measured against an average one
            step = 0.2 * observed.mean() * dim / jnp.maximum(observed.sum(0).max(), 1)
            x = jax.lax.scan(lambda x, _: (x - step * problem.gradient(x), None), begin, length=steps)[0]
            return jnp.linalg.norm(x @ x.T - z @ z.T)

        keys = jax.random.split(key, runs)
        return jax.lax.map(lambda p: jax.vmap(lambda k: one(k, p))(keys), shares)

    errors = measure(key)
    yield at_most("relative error, half of the entries and more", errors[-2:], 1e-3)
    yield at_least("relative error, one entry in fifty", errors[0], 0.1)
    rows = [
        {"share": float(p), "error": float(max(e, 1e-16))}
        for p, row in zip(shares, np.asarray(errors), strict=True)
        for e in row
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_circle(opacity=0.5)
    yield picture(
        "recovery against the share of entries observed",
        chart.encode(
            alt.X("share:Q", title="share observed"),
            alt.Y("error:Q", scale=alt.Scale(type="log"), title="relative error"),
        ).properties(width=300, height=190),
    )
