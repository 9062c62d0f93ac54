"""The top eigenvector as a landscape: all critical points, and directions of improvement."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal
from corollary.landscape import (
    critical_points,
    direction_of_improvement,
    factor_critical_points,
    factor_forms,
    factor_gradient,
    factor_hessian,
    improvement_ratio,
    rank_one_plane,
    top_eigenvector,
)


def _matrix(key, spectrum):
    axes = jnp.linalg.qr(jax.random.normal(key, (spectrum.size, spectrum.size)))[0]
    return (axes * spectrum) @ axes.T


@claim(rows=("T06.21",), no_control="a model; a matrix without a positive eigenvalue is among the checks")
def descent_finds_the_top_eigenvector(key, *, dim: Size = 30, runs: Size = 40, steps: Count = 400):
    r"""Gradient descent on the distance to rank one finds the top eigenvector from every random start.

    For symmetric $M$ with $\lambda_1>\lambda_2\ge\dots$ and $\lambda_1>0$, the global minima of
    $f(x)=\frac14\|M-xx^\top\|_F^2$ are $\pm\sqrt{\lambda_1}v_1$, of value $\frac14\sum_{i>1}\lambda_i^2$, the
    best distance of rank one; there is no other local minimum. If no eigenvalue is positive the minimum is at
    0.
    """
    spectrum = jnp.concatenate([jnp.array([1.0]), jnp.linspace(0.6, 0.0, dim - 1)])

    @jax.jit
    def measure(key):
        m_key, s_key = jax.random.split(key)
        matrix = _matrix(m_key, spectrum)
        begin = jax.random.normal(s_key, (runs, dim)) / jnp.sqrt(dim)

        def ends(matrix):
            problem = top_eigenvector(matrix)
            step = jax.vmap(lambda x: x - problem.gradient(x) / 6)
            x = jax.lax.scan(lambda x, _: (step(x), None), begin, length=steps)[0]
            return x, jax.vmap(problem)(x), problem.minimum, problem.minimiser

        u, s, vt = jnp.linalg.svd(matrix)
        best = 0.25 * jnp.sum((matrix - s[0] * jnp.outer(u[:, 0], vt[0])) ** 2)
        return ends(matrix), best, ends(-matrix - 0.1 * jnp.eye(dim))[0]

    (x, values, minimum, minimiser), best, nothing = measure(key)
    # the slowest direction shrinks by 1 - 0.4 / 6 a step: 1e-12 after 400, and the value's error is its square
    yield equal("cosine with the top eigenvector", jnp.abs(x @ minimiser) / jnp.linalg.norm(x, axis=1), 1.0, rtol=1e-10)
    yield equal("squared length: the top eigenvalue", jnp.sum(x**2, 1), 1.0, rtol=1e-8)
    yield equal("value: a quarter of the other squared eigenvalues", values, minimum, rtol=1e-10)
    yield equal("value: the best distance of rank one", minimum, best, rtol=1e-10)
    yield equal("no positive eigenvalue: all ends at 0", jnp.linalg.norm(nothing, axis=1), 0.0, atol=1e-2)


@claim(rows=("T06.22",))
def derivatives(key, *, dim: Size = 6, points: Size = 200):
    r"""Gradient and Hessian of the distance to rank one, as vectors and as inner products of matrices.

    $\nabla f=(xx^\top-M)x$ and $\nabla^2f=\|x\|^2I+2xx^\top-M$, for symmetric $M$. Along $\delta$ they are
    $-\frac12\langle M-xx^\top,x\delta^\top+\delta x^\top\rangle$ and $\frac12\|x\delta^\top+\delta
    x^\top\|_F^2-\langle M-xx^\top,\delta\delta^\top\rangle$. Measured: $f$ on five points of a line is a
    polynomial of degree four, of which differences give both exactly.
    """

    @jax.jit
    def measure(key):
        m_key, x_key, d_key = jax.random.split(key, 3)
        root = jax.random.normal(m_key, (dim, dim))
        x, delta = jax.random.normal(x_key, (points, dim)), jax.random.normal(d_key, (points, dim))

        def one(matrix, x, delta):
            symmetric = (matrix + matrix.T) / 2
            value = lambda t: 0.25 * jnp.sum((matrix - jnp.outer(x + t * delta, x + t * delta)) ** 2)  # noqa: E731
            a, b, c, d, e = (value(t) for t in (-2.0, -1.0, 0.0, 1.0, 2.0))
            measured = jnp.stack([(a - 8 * b + 8 * d - e) / 12, (-a + 16 * b - 30 * c + 16 * d - e) / 12])
            vector = jnp.stack([factor_gradient(matrix, x) @ delta, delta @ factor_hessian(matrix, x) @ delta])
            return measured, vector, jnp.stack(factor_forms(symmetric, x, delta))

        both = jax.vmap(one, in_axes=(None, 0, 0))
        return both(root @ root.T, x, delta), both(root, x, delta)

    (measured, vector, matrix), (bent, wrong, _) = measure(key)
    scale = float(jnp.abs(measured).max())
    # the five values are up to 1e2 times larger than their differences
    yield equal("slope and curvature: differences against vectors", measured, vector, rtol=1e-9, atol=1e-11 * scale)
    yield equal("slope and curvature: vectors against inner products", vector, matrix, rtol=1e-9, atol=1e-12 * scale)
    yield control(
        "a symmetric matrix: here another", equal("slope and curvature", bent, wrong, rtol=1e-9, atol=1e-11 * scale)
    )


@claim(rows=("T06.23",))
def all_critical_points(key, *, dim: Size = 5, starts: Size = 600):
    r"""The critical points are 0 and the scaled eigenvectors; all but the top pair are strict saddles.

    For distinct $\lambda_1>\dots>\lambda_d>0$ the critical points of $\frac14\|M-xx^\top\|_F^2$ are 0 and
    $\pm\sqrt{\lambda_i}v_i$, $2d+1$ in all. At $\pm\sqrt{\lambda_i}v_i$ exactly $i-1$ eigenvalues of the
    Hessian are negative, at 0 all $d$; along $v_1$ the curvature is $\lambda_i-\lambda_1$, at 0 $-\lambda_1$.
    Measured by Newton's method from random starts. Where $\lambda_2=\lambda_3$ there is a circle of critical
    points, saddles still; where $\lambda_1=\lambda_2$ a circle of minima.
    """
    spectrum = jnp.linspace(dim, 1.0, dim)

    @jax.jit
    def measure(key):
        m_key, s_key, r_key = jax.random.split(key, 3)
        # at all distances from 0, which is a critical point with a small basin
        begin = jax.random.normal(s_key, (starts, dim)) * jax.random.uniform(r_key, (starts, 1), maxval=1.5)

        def search(spectrum):
            matrix = _matrix(m_key, spectrum)
            problem = top_eigenvector(matrix)
            found = critical_points(problem, begin, steps=60, tolerance=1e-6)
            spectra = jax.lax.map(lambda x: jnp.linalg.eigvalsh(problem.hessian(x)), found.points)
            top = jnp.linalg.eigh(matrix)[1][:, -1]
            along = jax.vmap(lambda x: top @ problem.hessian(x) @ top)(found.points)
            return found, (spectra < -1e-6).sum(1), along, matrix

        # one program for the three spectra, one after the other: their decompositions must not run side by side
        three = jnp.stack([spectrum, spectrum.at[2].set(spectrum[1]), spectrum.at[1].set(spectrum[0])])
        found, index, along, matrix = jax.lax.map(search, three)
        return found, index, along, factor_critical_points(matrix[0])

    found, index, along, known = measure(key)
    first, converged = np.asarray(found.first), np.asarray(found.converged)
    points = np.asarray(found.points)
    yield equal("number of critical points found", first[0].sum(), 2 * dim + 1)
    apart = np.linalg.norm(points[0][converged[0]][:, None] - np.asarray(known.points), axis=-1)
    yield equal("distance of every point found to the nearest predicted", apart.min(1), 0.0, atol=1e-6)
    which = apart.argmin(1)
    yield equal("negative eigenvalues", np.asarray(index)[0][converged[0]], np.asarray(known.index)[which])
    yield equal(
        "curvature along the top eigenvector",
        np.asarray(along)[0][converged[0]],
        np.asarray(known.curvature)[which],
        rtol=1e-6,
        atol=1e-9,
    )
    saddles = np.asarray(along)[1][converged[1] & (np.asarray(index)[1] > 0)]
    yield at_most("a double second eigenvalue: saddles still", saddles, -0.5)
    yield control(
        "distinct eigenvalues: here the second is double",
        equal("number of critical points", first[1].sum(), 2 * dim + 1),
    )
    minima = first[2] & (np.asarray(index)[2] == 0)
    yield control("distinct eigenvalues: here the top one is double", equal("number of minima", minima.sum(), 2))


@claim(rows=("T06.25", "T06.24"))
def no_direction_means_optimal(key, *, grid: Size = 801, dim: Size = 20):
    r"""If neither the point nor the target is a direction of improvement, the point is the target.

    $f(x)=\frac14\|zz^\top-xx^\top\|_F^2$, $\|z\|=1$. With $a=\langle x,z\rangle$, $r=\|x\|$: $\langle\nabla
    f,x\rangle=r^4-a^2$, $\langle\nabla f,z\rangle=a(r^2-1)$, $z^\top\nabla^2fz=r^2+2a^2-1$. Where the first
    two vanish and the third is not negative, $r^2\ge\frac13$, so $a^2=r^4\ge\frac19$, so $r=1$ and $f(x)=0$.
    With $t$ in place of 0 in all conditions the points that pass close in on $\pm z$ as $t\to0$:
    $f\le\sqrt2\,t$, and $\min\|x\mp z\|^2\le\frac{2f}{\sqrt2-1}$, so that the distance is of the order of
    $\sqrt t$. Without the curvature $x=0$ passes too.
    """
    axis = jnp.linspace(-2.0, 2.0, grid)
    t = 2.0 ** -jnp.arange(2, 8)

    @jax.jit
    def measure(key):
        a, b = jnp.meshgrid(axis, axis[grid // 2 :])
        p = rank_one_plane(a, b)
        distance = jnp.minimum(jnp.hypot(a - 1, b), jnp.hypot(a + 1, b))

        def worst(t):
            level = (jnp.abs(p.slope_x) <= t) & (jnp.abs(p.slope_z) <= t)
            passes = level & (p.curvature_z >= -t)
            top = lambda values, where: jnp.where(where, values, 0).max()  # noqa: E731
            return top(p.value, passes), top(distance, passes), top(p.value, level)

        # the same numbers in many dimensions, from the function itself
        z_key, x_key = jax.random.split(key)
        z = jax.random.normal(z_key, (dim,))
        z = z / jnp.linalg.norm(z)
        f = top_eigenvector(jnp.outer(z, z))
        x = jax.random.normal(x_key, (100, dim)) / jnp.sqrt(dim)
        along = jax.vmap(lambda x: (direction_of_improvement(f, x, x), direction_of_improvement(f, x, z)))(x)
        line = rank_one_plane(x @ z, jnp.sqrt(jnp.maximum(jnp.sum(x**2, 1) - (x @ z) ** 2, 0)))
        space = jnp.stack([jax.vmap(f)(x), along[0].slope, along[1].slope, along[0].curvature, along[1].curvature])
        flat = jnp.stack([line.value, jnp.abs(line.slope_x), jnp.abs(line.slope_z), line.curvature_x, line.curvature_z])
        return jax.lax.map(worst, t), space, flat

    (value, distance, without), space, flat = measure(key)
    yield equal("value, slopes and curvatures in 20 dimensions against the plane", space, flat, rtol=1e-9, atol=1e-12)
    yield at_most("largest value that passes", value, jnp.sqrt(2.0) * t, x=t, along="t")
    bound = jnp.sqrt(2 * jnp.sqrt(2.0) * t / (jnp.sqrt(2.0) - 1))
    yield at_most("largest distance that passes", distance, bound, x=t, along="t")
    # to first order about z = (1, 0) the slopes are 2(a-1) + 2b² and 2(a-1) + b²: both stay within t up to b² = 2t.
    # The grid moves them by its width, b too, and the next order is t relative
    width, small = 4.0 / (grid - 1), t[2:4]
    error = float((width / small + 2 * width / jnp.sqrt(2 * small) + small).max())
    yield equal("largest value that passes, small t", value[2:4], small, rtol=error, x=small, along="t")
    yield control(
        "no curvature below -t along the target: here any",
        at_most("largest value that passes", without, jnp.sqrt(2.0) * t, x=t),
    )


@claim(rows=("T06.26",))
def robust_constant(key, *, grid: Size = 1201, dim: Size = 50, samples: Size = 4000):
    r"""If neither direction improves much, the point is nearly optimal, with the constant 0.7.

    $f(x)=\frac14\|zz^\top-xx^\top\|_F^2$, $\|z\|=1$. For every $\tau<1$: if neither $x$ nor $z$ is a
    $(c\tau,\frac14)$-direction of improvement, then $f(x)\le\tau$. The text has some $c>0$. The best is the
    least of $\frac{\max(|\langle\nabla f,x\rangle|/\|x\|,|\langle\nabla f,z\rangle|)}{\min(f,1)}$ over the
    points without curvature below $-\frac14$ along both; a search puts it at $c=\frac1{\sqrt2}$, attained at
    $\langle x,z\rangle=\frac1{2\sqrt2}$, $\|x\|^2=\frac12$, where $f=\frac14$, both slopes are
    $\frac1{4\sqrt2}$ and the curvature along $z$ is exactly $-\frac14$.
    """
    a, b = 1 / (2 * np.sqrt(2)), np.sqrt(3 / 8)

    @jax.jit
    def measure(key):
        line = jnp.linspace(0.0, 3.0, grid)
        ratios = jax.vmap(lambda a: improvement_ratio(a, line).min())(line)
        near = improvement_ratio(a + 1e-3 * jnp.linspace(-1, 1, 201)[:, None], b + 1e-3 * jnp.linspace(-1, 1, 201))
        p = rank_one_plane(a, b)
        here = jnp.stack([p.value, jnp.abs(p.slope_x), jnp.abs(p.slope_z), p.curvature_z])
        z_key, x_key, r_key = jax.random.split(key, 3)
        z = jax.random.normal(z_key, (dim,))
        z = z / jnp.linalg.norm(z)
        noise = jax.random.normal(x_key, (samples, dim)) / jnp.sqrt(dim)
        t = jax.random.uniform(r_key, (2, samples, 1), maxval=1.5)
        x = t[0] * z + t[1] * noise
        f = top_eigenvector(jnp.outer(z, z))

        def slack(x, c):
            """f(x) - tau for the least tau at which neither x nor z improves; negative where the lemma holds."""
            one, two = direction_of_improvement(f, x, x), direction_of_improvement(f, x, z)
            straight = (one.curvature >= -0.25) & (two.curvature >= -0.25)
            tau = jnp.maximum(one.slope, two.slope) / c
            return jnp.where(straight & (tau < 1), f(x) - tau, -1.0), straight & (tau < 1)

        worst = jax.vmap(lambda x: slack(x, 0.7))(x)
        sharp = a * z + b * (noise[0] - (noise[0] @ z) * z) / jnp.linalg.norm(noise[0] - (noise[0] @ z) * z)
        # a little longer, so that the curvature is above -1/4 in rounding too
        edge = slack(1.0001 * sharp, 0.7)[0]
        gentle = improvement_ratio(line[:, None], line[None, ::8], 0.5).min()
        return ratios.min(), near.min(), here, worst, edge, gentle

    least, near, here, (worst, counted), edge, gentle = measure(key)
    # on a grid of 1/400 a corner of two smooth functions with slopes below 3 is met to 3/400
    yield at_least("least ratio on the plane", least, 1 / np.sqrt(2))
    yield at_most("least ratio on the plane, from above", least, 1 / np.sqrt(2) + 3 * 3.0 / (grid - 1))
    yield equal("least ratio about the attaining point", near, 1 / np.sqrt(2), rtol=1e-4)
    exact = np.array([1 / 4, 1 / (4 * np.sqrt(2)), 1 / (4 * np.sqrt(2)), -1 / 4])
    yield equal("value, slopes and curvature there", here, exact)
    yield at_least("random points in 50 dimensions to which the lemma speaks", counted.sum(), 100)
    yield at_most("value above tau at random points, c = 0.7", worst, 0.0)
    yield at_most("value above tau at the attaining point, c = 0.7", edge, 0.0)
    yield control("no curvature below -1/4: here down to -1/2", at_least("least ratio", gentle, 1 / np.sqrt(2)))
