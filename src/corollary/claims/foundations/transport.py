"""Transport of mass: its dual, its distances, and what they see that other divergences do not."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from corollary.evidence import Size, at_least, at_most, claim, control, equal, monotone
from corollary.foundations import jensen_shannon, kantorovich, total_variation, wasserstein


def _area(a, b):
    """The area between the distribution functions of two samples (pairs, n), by counting below every end."""
    ends = np.sort(np.concatenate([a, b], 1), 1)
    below_a, below_b = ((s[:, None] <= ends[:, :-1, None]).mean(2) for s in (a, b))
    return np.sum(np.diff(ends) * np.abs(below_a - below_b), 1)


def _lipschitz_supremum(p, q, cost):
    """The largest difference of means of functions that differ by the cost at most between any two points.

    SciPy's linear programming, on the values of f at the points of both laws; f of the first point is 0.
    """
    n = cost.shape[0]
    i, j = np.nonzero(~np.eye(n, dtype=bool))
    rows = np.zeros((i.size, n))
    rows[np.arange(i.size), i], rows[np.arange(i.size), j] = 1.0, -1.0
    bounds = [(0, 0)] + [(None, None)] * (n - 1)
    return -scipy.optimize.linprog(q - p, A_ub=rows, b_ub=cost[i, j], bounds=bounds).fun


@claim(rows=("M15.28", "M15.02", "T16.04"), full={"n": 30})
def kantorovich_rubinstein(key, *, n: Size = 10, pairs: Size = 6):
    r"""The least cost of moving one law to another is the largest difference of means of functions of slope 1.

    For laws $\mu,\nu$ on finitely many points of the plane, $W_1(\mu,\nu)=\min_\gamma\mathbb E_\gamma\|X-Y\|=
    \sup\{\mathbb E_\mu f-\mathbb E_\nu f:|f(x)-f(y)|\le\|x-y\|\}$. The minimum is that of `kantorovich`, the supremum a
    linear programme over the values of $f$. Its potentials give a function that attains it, $f(x)=\min_j\|x-y_j\|-v_j$,
    and mass only moves where $f(x)-f(y)=\|x-y\|$. The cost must be a distance: with squared distances functions with
    $|f(x)-f(y)|\le\|x-y\|^2$ reach less than the least cost.
    """

    @jax.jit
    def measure(key):
        x_key, p_key, q_key = jax.random.split(key, 3)
        points = jax.random.normal(x_key, (pairs, 2 * n, 2))
        p = jax.random.dirichlet(p_key, jnp.ones(n), (pairs,))
        q = jax.random.dirichlet(q_key, jnp.ones(n), (pairs,))
        square = jnp.sum((points[:, :, None] - points[:, None]) ** 2, -1)
        distance = jnp.sqrt(square)

        def one(p, q, cost):
            found = kantorovich(p, q, cost[:n, n:])
            f = jnp.min(cost[:, n:] - found.potentials[1], 1)
            slopes = jnp.abs(f[:, None] - f) / jnp.where(cost > 0, cost, jnp.inf)
            tight = jnp.where(found.plan > 0, cost[:n, n:] - (f[:n, None] - f[n:]), 0)
            return found.value, f[:n] @ p - f[n:] @ q, slopes.max(), tight, found.gap(cost[:n, n:])

        return p, q, distance, square, jax.vmap(one)(p, q, distance), jax.vmap(one)(p, q, square)[0]

    p, q, distance, square, (value, reached, slope, tight, gap), squared = measure(key)
    p, q, distance, square = (np.asarray(a) for a in (p, q, distance, square))
    laws = np.concatenate([p, 0 * p], 1), np.concatenate([0 * q, q], 1)
    supremum = [_lipschitz_supremum(a, b, c) for a, b, c in zip(*laws, distance, strict=True)]
    # SciPy's solver stops at 1e-7 of the constraints; on 20 points it ends at a vertex, exact to rounding
    yield equal("least cost against the largest difference of means", value, supremum, rtol=1e-8)
    yield equal("difference of means of the function from the potentials", reached, value, rtol=1e-12)
    yield at_most("slope of that function", slope, 1.0, rtol=1e-12)
    yield equal("mass moves where the function falls by the distance", tight, 0.0, atol=1e-13)
    yield equal("least cost less the value of the dual", gap, 0.0, atol=1e-13)
    less = [_lipschitz_supremum(a, b, c) for a, b, c in zip(*laws, square, strict=True)]
    yield control(
        "the cost is a distance: here its square",
        equal("least cost against the largest difference of means", squared, less, rtol=1e-8),
    )


@claim(rows=("M15.02", "T16.05", "T16.04"), full={"triples": 400})
def wasserstein_distances(key, *, triples: Size = 60, n: Size = 6):
    r"""The Wasserstein distances of all orders are metrics, grow with the order, and on the line come from sorting.

    For laws of finite moments, $W_r$ is symmetric, satisfies $W_r(\mu,\rho)\le W_r(\mu,\nu)+W_r(\nu,\rho)$, is 0 for
    equal laws only, and $W_r\le W_s$ for $r\le s\le\infty$. On the line $W_1=\int|F-G|$. Measured in the plane by the
    best assignment of samples, on the line by sorting. A law that is moved on attains the triangle. It needs the
    root: $W_2^2$ violates it.
    """
    orders = (1, 2, 4, np.inf)

    @jax.jit
    def measure(key):
        x, y, z = jax.random.normal(key, (3, triples, n, 2))

        def sides(x, y, z):
            """Distances of all orders (..., orders, pairs) for the pairs xy, yz, xz, yx and xx."""
            pairs = jnp.stack([x, y, x, y, x], 1), jnp.stack([y, z, z, x, x], 1)
            flat = tuple(a.reshape(-1, n, 2) for a in pairs)
            each = jax.lax.map(lambda pair: jnp.stack([wasserstein(*pair, order=r) for r in orders]), flat)
            return jnp.swapaxes(each.reshape(-1, 5, len(orders)), 1, 2)

        # the last triple is one law that is moved on twice
        line = x[..., 0], y[..., 0]
        y, z = jnp.concatenate([y, x[:1] + 1]), jnp.concatenate([z, x[:1] + 2])
        return sides(jnp.concatenate([x, x[:1]]), y, z), line, jax.vmap(wasserstein)(*line)

    sides, line, sorted_ = measure(key)
    xy, yz, xz, yx, xx = jnp.moveaxis(sides, -1, 0)
    yield at_most("the direct way against the way round", xz, xy + yz, rtol=1e-12)
    yield equal("symmetry", yx, xy, rtol=1e-12)
    yield equal("distance of a law to itself", xx, 0.0, atol=1e-15)
    yield monotone("distance by order 1, 2, 4, ∞", xy, atol=1e-12)
    yield equal(
        "sorting against the area between distribution functions", sorted_, _area(*map(np.asarray, line)), rtol=1e-12
    )
    half, rest, whole = xy[-1], yz[-1], xz[-1]
    yield equal("a law that is moved on twice: both ways are as long", whole, half + rest, rtol=1e-12)
    yield control(
        "the root is taken: here squares of order 2",
        at_most("the direct way against the way round", whole[1] ** 2, half[1] ** 2 + rest[1] ** 2),
    )


@claim(rows=("M15.02",), no_control="a comparison of distances on one family of laws; each must behave differently")
def laws_that_do_not_meet(key, *, n: Size = 64):
    r"""Between laws that share no outcome transport still tells how far; entropies and variation are constant.

    Uniform laws on $n$ points of $[0,1)$ and on the same points moved by $\theta$: $W_r=|\theta|$ for every order. If
    $\theta$ is no multiple of $\frac1n$ the laws share no point: then the Jensen-Shannon divergence is $\ln2$ and the
    total variation 1, however small $\theta$ is.
    """
    theta = jnp.array([1e-3, 1e-2, 0.1, 0.3, 1.7]) + jax.random.uniform(key, maxval=1e-4)

    @jax.jit
    def measure(theta):
        grid = jnp.arange(n) / n
        moved = jnp.array([[wasserstein(grid, grid + t, order=r) for r in (1, 2, np.inf)] for t in theta])
        apart = jnp.repeat(jnp.array([[1.0, 0.0], [0.0, 1.0]]) / n, n, axis=1)  # masses on the points of both
        return moved, jensen_shannon(*apart), total_variation(*apart)

    moved, entropy, variation = measure(theta)
    yield equal("transport of orders 1, 2, ∞", moved.T, jnp.stack([theta] * 3), rtol=1e-10, x=theta, along="shift")
    yield equal("Jensen-Shannon divergence", entropy, np.log(2), rtol=1e-14)
    yield equal("total variation", variation, 1.0, rtol=1e-14)
    yield at_least("variation over transport at the least shift", variation / moved[0], 500.0)
