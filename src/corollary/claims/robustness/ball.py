"""The nearest point of a ball in three norms."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Size, at_most, claim, control, equal, printed
from corollary.robustness import Ball

#: The norms, and those that are dual to them.
DUAL = {1: np.inf, 2: 2, np.inf: 1}


@claim(rows=("B12.05", "T18.04"))
def projections(key, *, dim: Size = 12, points: Size = 200):
    r"""The nearest point of a ball: clip for the largest norm, shorten for the Euclidean, threshold for the sum.

    $P(x)$ is the point of the convex set $B=\{z:\|z-x_0\|_p\le r\}$ nearest to $x$ exactly if $\langle x-P,z-P\rangle
    \le0$ for all $z\in B$, that is $\langle x-P,P-x_0\rangle=r\|x-P\|_q$, $\frac1p+\frac1q=1$. With $v=x-x_0$ this is
    so for $P-x_0=\mathrm{clip}(v,-r,r)$ if $p=\infty$ ("clipping values of $\delta$ to lie within the range"); for
    $\min(1,r/\|v\|)v$ if $p=2$; for the entries $\mathrm{sign}(v_i)(|v_i|-\tau)_+$ with $\sum_i(|v_i|-\tau)_+=r$ if
    $p=1$ and $\|v\|_1>r$. A point of the ball stays where it is, and no two points come to lie farther apart. Onto a
    sphere, which is not convex, they may.
    """

    @jax.jit
    def draw(key):
        x_key, c_key, s_key = jax.random.split(key, 3)
        # some inside all balls, some outside all
        sizes = 10 ** jax.random.uniform(s_key, (points, 1), minval=-2.0, maxval=1.0)
        centre = jax.random.normal(c_key, (dim,))
        return centre, centre + sizes * jax.random.normal(x_key, (points, dim))

    # a program of its own: in one with the draw XLA may make a point twice, and round it differently
    @jax.jit
    def measure(centre, x):
        return {p: jax.vmap(lambda x, p=p: Ball(p, 1.0).project(x, centre))(x) for p in DUAL}

    centre, x = draw(key)
    centre, x, found = jax.tree.map(np.asarray, (centre, x, measure(centre, x)))
    between = np.linalg.norm(x[1:] - x[:-1], axis=1)
    for p, name in ((1, "sum"), (2, "Euclidean"), (np.inf, "largest")):
        end = found[p]
        inside = np.linalg.norm(x - centre, p, axis=1) <= 1
        left, way = x - end, end - centre
        yield equal(f"{name} norm: product of both parts of the way", np.sum(left * way, 1), _dual(left, p), atol=1e-11)
        yield at_most(f"{name} norm of what is left", np.linalg.norm(way, p, axis=1), 1.0)
        yield equal(f"{name} norm: inside", end[inside], x[inside], rtol=0, atol=0)
        yield at_most(f"{name} norm: distance of two", np.linalg.norm(end[1:] - end[:-1], axis=1), between)
    shift = x - centre
    sphere = shift / np.linalg.norm(shift, axis=1, keepdims=True)
    apart = np.linalg.norm(sphere[1:] - sphere[:-1], axis=1)
    yield control("the set is convex: here the sphere alone", at_most("distance of two", apart, between))


def _dual(left, p):
    return np.linalg.norm(left, DUAL[p], axis=1)


@claim(
    rows=("T18.04",),
    erratum="The formula moves points of the ball to its surface; it is the nearest point only for those outside.",
)
def printed_projection(key, *, dim: Size = 5, points: Size = 100):
    r"""The Euclidean projection is the centre plus the radius times the direction, for every point.

    As printed: "if norm is $\ell_2$, then $\mathrm{Proj}_{x_0+\Delta}(x)$ is simply
    $x_0+\Delta\frac{x-x_0}{|x-x_0|_2}$", where Proj is the closest point. For $x$ in the ball, as after a short step
    from $x_0$, the closest point is $x$. With $\min(1,\Delta/|x-x_0|_2)$ for the factor no point of the ball is closer,
    inside and outside.
    """

    @jax.jit
    def measure(key):
        x_key, c_key, s_key, z_key = jax.random.split(key, 4)
        centre, shift = jax.random.normal(c_key, (dim,)), jax.random.normal(x_key, (points, dim))
        shift = shift * 2 * jax.random.uniform(s_key, (points, 1)) / jnp.linalg.norm(shift, axis=1, keepdims=True)
        x = centre + shift
        ball = Ball(2, 1.0)
        others = jax.vmap(lambda k: ball.sample(centre, key=k))(jax.random.split(z_key, 500))
        # points of the ball near each x, its own place among them if that is one
        near = jnp.where(jnp.linalg.norm(shift, axis=1, keepdims=True) <= 1, x, others[:points])
        others = jnp.concatenate([others, near])
        closest = jnp.min(jnp.linalg.norm(x[:, None] - others, axis=-1), axis=1)
        on_sphere = centre + shift / jnp.linalg.norm(shift, axis=1, keepdims=True)
        right = jax.vmap(lambda x: ball.project(x, centre))(x)
        return jnp.linalg.norm(x - on_sphere, axis=1), jnp.linalg.norm(x - right, axis=1), closest

    as_printed, right, closest = measure(key)
    yield printed(at_most("distance to the printed point, inside and outside", as_printed, closest))
    yield at_most("distance with the factor at most 1", right, closest)
