"""What critical points are, what derivatives tell of them, and which landscapes are easy."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, monotone, rate
from corollary.landscape import (
    critical_points,
    direction_of_improvement,
    inertia,
    nearby,
    second_order_stationary,
    spurious,
)
from corollary.optimization import (
    Problem,
    chord_gap,
    classify_critical_point,
    least_squares,
    minimize,
    tangent_gap,
)


@claim(rows=("T06.01",))
def convex_minima_are_connected(key, *, dim: Size = 6, pairs: Size = 300, steps: Count = 400):
    r"""A convex function has a convex set of minima and no other critical points.

    For convex $f$, $f(\alpha w+(1-\alpha)w')\le\alpha f(w)+(1-\alpha)f(w')$ and $f(w')\ge f(w)+\langle\nabla
    f(w),w'-w\rangle$. By the first, all points between two global minima are global minima; by the second,
    every critical point is one. Least squares with fewer equations than unknowns shows both: descent from any
    two starts ends at different points of one value, and the value is the same all the way between them.
    """

    @jax.jit
    def measure(key):
        a_key, b_key, x_key, y_key, s_key = jax.random.split(key, 5)
        # singular values from 1 to 1/2, so that 400 steps of 1/L leave rounding only
        rows = (
            jnp.linalg.qr(jax.random.normal(a_key, (dim, dim)))[0][: dim // 2] * jnp.linspace(1, 0.5, dim // 2)[:, None]
        )
        flat = least_squares(rows, jax.random.normal(b_key, (dim // 2,)))
        data = jax.random.normal(x_key, (30, dim))
        classes = lambda w: jax.nn.softplus(-data @ w).mean()  # noqa: E731
        x, y = jax.random.normal(y_key, (2, pairs, dim))
        weights = jnp.linspace(0.0, 1.0, 21)

        def violations(f):
            chords = jax.vmap(lambda u, v: jax.vmap(lambda a: chord_gap(f, u, v, a))(weights))(x, y)
            return jnp.stack([-chords.min(), -jax.vmap(lambda u, v: tangent_gap(f, u, v))(x, y).min()])

        wells = lambda w: jnp.sum(w**4 - w**2)  # noqa: E731
        network = lambda w: (w[0] * jnp.tanh(w[1]) + w[2] * jnp.tanh(w[3]) - 1) ** 2  # noqa: E731

        def ends(f, step):
            begin = jax.random.uniform(s_key, (50, dim), minval=-1.5, maxval=1.5)
            descend = jax.vmap(lambda w: w - step * jax.grad(f)(w))
            return jax.lax.scan(lambda w, _: (descend(w), None), begin, length=steps)[0]

        bottom = ends(flat, 1 / flat.L)
        wrong = ends(wells, 0.05)

        def between(f, a, b):
            return jax.vmap(lambda t: jax.vmap(lambda u, v: f((1 - t) * u + t * v))(a, b))(weights)

        return (
            jnp.stack([violations(flat), violations(classes)]),
            jnp.stack([violations(wells), violations(network)]),
            between(flat, bottom[:-1], bottom[1:]) - flat.minimum,
            jnp.linalg.norm(bottom[1:] - bottom[:-1], axis=1),
            between(wells, wrong[:-1], wrong[1:]) + dim / 4,
            jax.vmap(wells)(wrong) + dim / 4,
        )

    convex, other, level, apart, hill, values = measure(key)
    # values up to 1e2 are known to 1e-14
    yield at_most("convex: largest violation of chord and tangent", convex, 0.0, atol=1e-12)
    yield equal("rank-deficient least squares: value between any two ends", level, 0.0, atol=1e-12)
    yield at_least("rank-deficient least squares: the ends are different points", apart, 1e-2)
    yield control(
        "convex functions: here wells and a network", at_most("violation of chord and tangent", other, 0.0, atol=1e-12)
    )
    yield equal("wells: all ends are global minima too", values, 0.0, atol=1e-10)
    yield control("a convex function: here wells", equal("value between any two ends", hill, 0.0, atol=1e-12))


@claim(rows=("T06.05", "T06.04", "B06.01"))
def second_order_conditions(key, *, dim: Size = 4, count: Size = 400):
    r"""At a critical point a definite Hessian means a minimum or a maximum, one of both signs a saddle.

    Let $\nabla f(w)=0$. If $\nabla^2f(w)\succ0$, $w$ is a local minimum; if $\prec0$, a local maximum; if it
    has eigenvalues of both signs, a saddle: there are lower and higher points in every ball. Otherwise it
    decides nothing: $w^4$, $-w^4$ and $w^3$ have at 0 the same derivatives up to the second and are minimum,
    maximum and saddle; the monkey saddle $w_1^3-3w_1w_2^2$ has none at all. Measured: random quadratics plus
    cubics, with every number of negative eigenvalues, against the values around them. (B's Definition 24 asks of a
    saddle that the Hessian have both signs. Then $w^3$, the monkey saddle, and 0 in the loss $(w_1w_2w_3-1)^2$ of a
    linear network are neither minimum, maximum nor saddle; what B says of linear networks needs the wider word, see
    `deep_linear.printed_saddles`.)
    """

    @jax.jit
    def measure(key):
        def one(key, index):
            s_key, q_key, c_key, n_key = jax.random.split(key, 4)
            signs = jnp.where(jnp.arange(dim) < index, -1.0, 1.0)
            axes = jnp.linalg.qr(jax.random.normal(q_key, (dim, dim)))[0]
            hessian = (axes * signs * jax.random.uniform(s_key, (dim,), minval=0.3, maxval=2.0)) @ axes.T
            cubic = jax.random.normal(c_key, (dim, dim, dim))

            def f(w):
                return 0.5 * w @ hessian @ w + jnp.einsum("ijk,i,j,k", cubic, w, w, w)

            # within r the cubic is at most 8 r of 0.15 in the worst direction: its norm is below 8 for dim 4
            around = nearby(f, jnp.zeros(dim), key=n_key, radii=jnp.array([1e-3, 2e-3, 5e-3]), samples=64)
            verdict = classify_critical_point(f, jnp.zeros(dim))
            told = jnp.stack([verdict.minimum, verdict.maximum, verdict.saddle])
            return told, jnp.stack([around.minimum, around.maximum, around.saddle])

        index = jnp.arange(count) % (dim + 1)
        told, seen = jax.lax.map(lambda a: one(*a), (jax.random.split(key, count), index))

        def degenerate(f, size):
            verdict, around = classify_critical_point(f, jnp.zeros(size)), nearby(f, jnp.zeros(size), key=key)
            seen = jnp.stack([around.minimum, around.maximum, around.saddle])
            return verdict.inconclusive, verdict.second_order, inertia(jax.hessian(f)(jnp.zeros(size))).zero, seen

        gallery = [
            degenerate(lambda w: w[0] ** 4, 1),
            degenerate(lambda w: -(w[0] ** 4), 1),
            degenerate(lambda w: w[0] ** 3, 1),
            degenerate(lambda w: w[0] ** 3 - 3 * w[0] * w[1] ** 2, 2),
            degenerate(lambda w: (jnp.prod(w) - 1) ** 2, 3),
        ]
        return told, seen, index, jax.tree.map(lambda *rows: jnp.stack(rows), *gallery)

    told, seen, index, (undecided, passes, nullity, kind) = measure(key)
    predicted = jnp.stack([index == 0, index == dim, (index > 0) & (index < dim)], axis=1)
    yield equal("minimum, maximum, saddle: what the values around say", seen, predicted)
    yield equal("minimum, maximum, saddle: what the Hessian says", told, predicted)
    yield equal("fourth power, its negative, third power, monkey saddle, linear network: undecided", undecided, 1)
    yield equal("their nullity", nullity, jnp.array([1, 1, 1, 2, 3]))
    truth = jnp.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]])
    yield equal("what the values around these say", kind, truth)
    yield control("a definite Hessian: here a semidefinite one", equal("taken for a minimum", passes, kind[:, 0]))


@claim(rows=("T06.02", "T06.03"), no_control="quantities; the tilt that removes the second well is among the checks")
def spurious_minimum(key, *, starts: Size = 400, steps: Count = 400):
    r"""A tilted double well has a spurious minimum, and descent ends there exactly from its side of the hill.

    $f(w)=w^4-4w^2+w$ has three critical points, the roots of $4w^3-8w+1$: the global minimum, a local maximum
    $m$ and a local minimum of higher value. Gradient descent with a step below $1/\max|f''|$ keeps the order
    of points, so that it ends at the spurious one exactly from $w>m$: it succeeds as often as it starts in
    the other basin. With a tilt of 9 in place of 1 there is one critical point only.
    """
    roots = np.sort(np.roots([4.0, 0.0, -8.0, 1.0]))

    @jax.jit
    def measure(key):
        f = lambda w, tilt=1.0: w**4 - 4 * w**2 + tilt * w  # noqa: E731
        begin = jax.random.uniform(key, (starts,), minval=-2.0, maxval=2.0)
        found = critical_points(f, begin[:40])
        minima = found.first & (jax.vmap(jax.grad(jax.grad(f)))(found.points) > 0)
        steep = critical_points(lambda w: f(w, 9.0), begin[:40], steps=120)
        # |f''| is at most 12 * 4 - 8 = 40 on [-2, 2], and descent does not leave it
        ends = jax.vmap(lambda s: minimize(Problem(f, (), s), optax.sgd(1 / 40), steps=steps, start=s).theta[-1])(begin)
        return begin, found, spurious(jax.vmap(f)(found.points), minima), minima, ends, steep

    begin, found, false, minima, ends, steep = measure(key)
    yield equal("critical points", jnp.sort(found.points[found.first]), roots, rtol=1e-9)
    yield equal("local minima", jnp.sort(found.points[minima]), roots[[0, 2]], rtol=1e-9)
    yield equal("the spurious one", found.points[false], roots[2], rtol=1e-9)
    # a start within rounding of the hill stays there for longer than the run; it moves by 1.2 a step in the ratio
    clear = np.abs(np.asarray(begin) - roots[1]) > 1e-3
    yield equal(
        "where descent ends", ends[clear], np.where(np.asarray(begin)[clear] > roots[1], roots[2], roots[0]), rtol=1e-8
    )
    yield equal("critical points with a tilt of 9", steep.first.sum(), 1)


@claim(rows=("T06.06",), no_control="an experiment; the convex bound that fails is among the checks")
def flat_region(key, *, distances: Size = 8):
    r"""In a flat region a small gradient says nothing of the value, and descent takes exponentially long.

    $f(w)=-e^{-\|w\|^2/2}$ has one critical point, a minimum, and at distance $r$ a gradient of length
    $re^{-r^2/2}$ where $f-f^*=1-e^{-r^2/2}$: for every $\epsilon$ there are points with $\|\nabla
    f\|<\epsilon$ and $f-f^*>\frac12$. For a convex function $f-f^*\le\|\nabla f\|\|w-w^*\|$. Gradient flow
    needs the time $\int_1^re^{s^2/2}\frac{ds}s=\frac12(\mathrm{Ei}(\frac{r^2}2)-\mathrm{Ei}(\frac12))$ from
    distance $r$ to distance 1.
    """
    from scipy.special import expi

    r = jnp.linspace(1.5, 4.0, distances)
    eta = 0.01

    @jax.jit
    def measure(key):
        f = lambda w: -jnp.exp(-jnp.sum(w**2) / 2)  # noqa: E731
        angle = jax.random.uniform(key, (distances,), maxval=2 * jnp.pi)
        begin = r[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], 1)
        slopes = jax.vmap(jax.grad(f))(begin)

        def descend(w):
            state = jax.lax.while_loop(
                lambda s: jnp.sum(s[0] ** 2) > 1, lambda s: (s[0] - eta * jax.grad(f)(s[0]), s[1] + 1), (w, 0)
            )
            return state[1]

        return jax.vmap(f)(begin) + 1, jnp.linalg.norm(slopes, axis=1), jax.vmap(descend)(begin)

    gap, slope, steps = measure(key)
    exact = 0.5 * (expi(np.asarray(r) ** 2 / 2) - expi(0.5))
    yield at_least("value above the minimum", gap[1:], 0.5, x=r[1:], along="distance")
    yield monotone("gradient", slope, "decreasing", x=r, along="distance")
    yield at_least("value over what convexity would allow, beyond 2", gap[2:] / (slope * r)[2:], 1.0)
    # Euler's method runs ahead of the flow by O(eta) relative, and counts whole steps
    yield equal("time to come within 1", eta * steps, exact, rtol=2 * eta, atol=eta, x=r, along="distance")
    # Ei(u) = e^u / u (1 + 1/u + ...): the slope is 1 - 1/u^2 + ..., with u from 3.3 on
    yield rate(
        "time times squared distance",
        r[3:] ** 2 / 2,
        eta * steps[3:] * r[3:] ** 2,
        1.0,
        tolerance=0.1,
        axes="semi-log",
    )


@claim(rows=("T06.18", "T06.19", "T06.24"))
def directions_of_improvement(key, *, dim: Size = 5, points: Size = 400):
    r"""Where some direction improves there is no second-order stationary point, and a step goes down.

    $\delta$ is an $(\epsilon,\gamma)$-direction of improvement at $w$ if $|\langle\nabla
    f,\delta\rangle|>\epsilon\|\delta\|$ or $\delta^\top\nabla^2f\delta<-\gamma\|\delta\|^2$. Then $w$ is no
    $(\epsilon,\gamma)$-second-order stationary point, $\|\nabla f\|\le\epsilon$ and
    $\lambda_{\min}\ge-\gamma$; and conversely at a point that is none, the gradient or the eigenvector of the
    least curvature is such a direction. A small step along $\delta$ or $-\delta$ lowers $f$.
    """
    epsilon = gamma = 0.7

    @jax.jit
    def measure(key):
        a_key, w_key, d_key = jax.random.split(key, 3)
        direction = jax.random.normal(a_key, (8, dim)) / jnp.sqrt(dim)
        f = lambda w: jnp.cos(direction @ w).sum() + 0.05 * jnp.sum(w**2)  # noqa: E731
        begin = jax.random.normal(w_key, (points, dim))
        delta = jax.random.normal(d_key, (points, dim))
        # from anywhere to nearly stationary: point i has made i mod 40 steps of descent
        _, path = jax.lax.scan(lambda w, _: (w - 0.2 * jax.vmap(jax.grad(f))(w), w), begin, length=40)
        w = path[jnp.arange(points) % 40, jnp.arange(points)]

        def one(args):
            w, delta = args
            verdict = second_order_stationary(f, w, epsilon, gamma)
            along = jax.vmap(lambda d: direction_of_improvement(f, w, d, epsilon, gamma).improves)
            drop = jax.vmap(lambda d: jnp.minimum(f(w + 0.01 * d), f(w - 0.01 * d)) - f(w))
            tried = jnp.stack(
                [delta / jnp.linalg.norm(delta), jax.grad(f)(w) / verdict.gradient_norm, verdict.direction]
            )
            return verdict.holds, along(tried), drop(tried)

        return jax.lax.map(one, (w, delta))

    holds, improves, drop = (np.asarray(a) for a in measure(key))
    yield at_least("points of either kind", np.array([holds.sum(), (~holds).sum()]), 10)
    yield equal("directions that improve at second-order stationary points", improves[holds], 0)
    yield equal("gradient or least curvature improves at the others", improves[~holds, 1:].any(1), 1)
    # the slope gains 0.01 * 0.7, the curvature 0.5e-4 * 0.7; the third derivative costs 8 * 1e-6 at most
    yield at_most("change of value along directions that improve", drop[improves], -1e-5)
    yield control("second-order stationary points: here others", equal("directions that improve", improves[~holds], 0))
