"""Conditions that make a landscape easy: Polyak-Łojasiewicz, weak quasi-convexity, restricted secants, strict
saddles.
"""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.landscape import (
    optimizability_curve,
    quasi_convex_rate,
    quasi_convexity,
    restricted_secant,
    secant_rate,
)
from corollary.optimization import Problem, least_squares, minimize, pl_constant, quadratic, random_quadratic, wavy


@claim(rows=("T06.07", "T06.08", "T06.09"))
def constants(key, *, points: Size = 4000):
    r"""Three conditions that make a function easy, and how they hang together.

    Polyak-Łojasiewicz: $\|\nabla f\|^2\ge\mu(f-f^*)$ (the texts B and E have $\frac12\|\nabla f\|^2$, and
    half the constant). Weak quasi-convexity: $\langle\nabla f,w-w^*\rangle\ge\tau(f-f^*)$; at least 1 for
    convex functions, the degree for homogeneous ones. Restricted secant: $\langle\nabla
    f,w-w^*\rangle\ge\mu\|w-w^*\|^2$, which with $L$-smoothness gives $\|\nabla
    f\|^2\ge\frac{2\mu^2}L(f-f^*)$, attained by round quadratics. $w^2+3\sin^2w$, not convex, has all three:
    0.351, 0.496 and 0.697. $w^4$ is weakly quasi-convex and has neither of the others.
    """

    @jax.jit
    def measure(key):
        c_key, q_key, d_key = jax.random.split(key, 3)
        cloud = 3 * jax.random.normal(c_key, (points, 4))
        line = jnp.linspace(-15.0, 15.0, 30000)
        wave, zero = wavy(), jnp.zeros(())
        form = random_quadratic(4, 10.0, key=q_key)
        data = jax.random.normal(d_key, (8, 4))
        origin = jnp.zeros(4)
        bowl = Problem(
            lambda w: jnp.sum(jax.nn.softplus(data @ w) + jax.nn.softplus(-data @ w)) + 0.05 * jnp.sum(w**2),
            (),
            origin,
            L=jnp.linalg.norm(data, 2) ** 2 / 2 + 0.1,
            minimum=16 * jnp.log(2.0),
            minimiser=origin,
        )
        quartic = lambda w: jnp.sum(w**2) ** 2  # noqa: E731
        small = 10.0 ** -jnp.arange(1, 6)[:, None, None] * jnp.ones((1, 1, 4))
        axis = form.minimiser + jnp.linalg.eigh(form.data[0])[1].T
        sets = jnp.concatenate([cloud, axis])

        def pair(p):
            mu = restricted_secant(p, p.minimiser, sets)
            return 2 * pl_constant(p, p.minimum, sets), 2 * mu**2 / p.L, mu, quasi_convexity(p, p.minimiser, sets)

        round_ = Problem(lambda w: 1.5 * jnp.sum(w**2), (), origin, L=3.0, minimum=0.0, minimiser=origin)
        return {
            "wave": (
                2 * pl_constant(wave, 0.0, line),
                quasi_convexity(wave, zero, line),
                restricted_secant(wave, zero, line),
            ),
            "problems": jnp.stack([jnp.stack(pair(p)) for p in (form, bowl, round_)]),
            "mu": form.mu,
            "quartic": quasi_convexity(quartic, origin, cloud),
            "vanish": (
                jax.vmap(lambda s: 2 * pl_constant(quartic, 0.0, s))(small),
                jax.vmap(lambda s: restricted_secant(quartic, origin, s))(small),
            ),
        }

    found = measure(key)
    # on a grid of 1e-3 a smooth minimum of the ratio is met to 1e-6
    yield equal(
        "waves, not convex: Polyak-Łojasiewicz, quasi-convexity and secant constants",
        jnp.stack(found["wave"]),
        jnp.array([0.351, 0.496, 0.697]),
        rtol=2e-3,
    )
    yield at_least(
        "secant and smooth: Polyak-Łojasiewicz over what follows",
        found["problems"][:, 0] / found["problems"][:, 1],
        1.0,
    )
    yield equal("round quadratic: attained", found["problems"][2, 0], found["problems"][2, 1])
    # the curvature of the waves is up to 8; that of their square alone, 2, would promise 0.486
    yield control(
        "a 2-smooth function: here waves",
        at_least("Polyak-Łojasiewicz over what follows", found["wave"][0] / found["wave"][2] ** 2, 1.0),
    )
    yield equal(
        "quadratic: the secant constant is the least eigenvalue", found["problems"][0, 2], found["mu"], rtol=1e-8
    )
    yield at_least("convex functions: quasi-convexity", found["problems"][:, 3], 1.0)
    yield control("convex functions: here waves", at_least("quasi-convexity", found["wave"][1], 1.0))
    yield equal("fourth power of the norm: quasi-convex with its degree", found["quartic"], 4.0, rtol=1e-12)
    for name, values in zip(("Polyak-Łojasiewicz", "secant"), found["vanish"], strict=True):
        yield rate(f"fourth power: the {name} ratio vanishes", 10.0 ** -jnp.arange(1, 6), values, 2.0, tolerance=0.01)


@claim(rows=("T06.10",))
def rates_of_descent(key, *, steps: Count = 200):
    r"""Polyak-Łojasiewicz or restricted secants make descent geometric, weak quasi-convexity only sublinear.

    Let $f$ be $L$-smooth. If $\|\nabla f\|^2\ge\mu(f-f^*)$ then with $\eta=1/L$ each step gives
    $f_{t+1}-f^*\le(1-\frac\mu{2L})(f_t-f^*)$, and for any $\eta<2/L$ the factor is $1-\mu\eta(1-\frac{\eta
    L}2)$, attained by round quadratics. If $\langle\nabla f,w-w^*\rangle\ge\mu\|w-w^*\|^2$ then with
    $\eta=\mu/L^2$ each step gives $\|w_{t+1}-w^*\|^2\le(1-\frac{\mu^2}{L^2})\|w_t-w^*\|^2$. If $\langle\nabla
    f,w-w^*\rangle\ge\tau(f-f^*)$ then with $\eta=\frac\tau{2L}$ the mean of $f_t-f^*$ over the first $T$
    steps is at most $\frac{2L\|w_0-w^*\|^2}{\tau^2T}$, attained at $T=1$ by round quadratics.
    """
    k = jnp.arange(1, steps + 1)
    fractions = jnp.array([0.25, 0.5, 0.75])

    @jax.jit
    def measure(key):
        x_key, y_key, c_key, s_key = jax.random.split(key, 4)
        wave, line = wavy(), jnp.linspace(-13.0, 13.0, 20000)
        pl, secant = 2 * pl_constant(wave, 0.0, line), restricted_secant(wave, jnp.zeros(()), line)
        begin = jax.random.uniform(s_key, (8,), minval=-12.0, maxval=12.0)

        def run(p, eta, start):
            path = minimize(p, optax.sgd(eta), steps=steps, start=start)
            return path.value, jnp.sum(((path.theta - p.minimiser) ** 2).reshape(steps + 1, -1), 1)

        waves = jax.vmap(lambda s: run(wave, 1 / wave.L, s)[0])(begin)
        near = jax.vmap(lambda s: run(wave, secant / wave.L**2, s)[1])(begin)
        rows = jax.random.normal(x_key, (5, 12))
        flat = least_squares(rows, jax.random.normal(y_key, (5,)))
        # the book's constant is twice that of the problem
        fit = run(flat, 1 / flat.L, flat.start)[0] - flat.minimum
        ball = quadratic(jnp.ones(3))
        balls = jax.vmap(lambda c: run(ball, c, jnp.ones(3))[0])(fractions)
        data = jax.random.normal(c_key, (6, 4))
        origin, top = jnp.zeros(4), jnp.linalg.norm(data, 2) ** 2
        # log cosh is convex and 1-smooth: the sum is quasi-convex with 1, and smooth with the top eigenvalue
        bowl = Problem(
            lambda w, data: jnp.sum(jnp.logaddexp(data @ w, -data @ w) - jnp.log(2.0)),
            (data,),
            origin,
            minimiser=origin,
        )
        starts = 3 * jax.random.normal(s_key, (8, 4))
        bowls = jax.vmap(lambda s: run(bowl, 1 / (2 * top), s)[0])(starts)
        first = run(ball, 1.0, jnp.ones(3))[0][0]
        well = Problem(lambda w: w**4 - 4 * w**2 + w, (), jnp.ones(()), minimiser=jnp.ones(()) * -1.473)
        stuck = run(well, 1 / 40, jnp.ones(()) * 1.9)[0] + 5.444191
        return {
            "wave": (waves, pl, secant, near, wave.L),
            "flat": (fit, 1 - flat.pl / flat.L),
            "balls": balls,
            "bowl": (bowls, top, jnp.linalg.norm(starts, axis=1)),
            "first": first,
            "stuck": stuck,
        }

    found = measure(key)
    value, mu, secant, square, L = found["wave"]
    floor = 1e-28  # values below it are the squares of rounding errors
    yield at_most(
        "waves, Polyak-Łojasiewicz: value after each step", value[:, 1:], (1 - mu / (2 * L)) * value[:, :-1], atol=floor
    )
    gap, factor = found["flat"]
    yield at_most("rank-deficient least squares: value after each step", gap[1:], factor * gap[:-1], atol=floor)
    eta = fractions[:, None]
    yield equal(
        "round quadratic: attained for steps of 1/4, 1/2, 3/4",
        found["balls"][:, 1:20],
        (1 - 2 * eta * (1 - eta / 2)) * found["balls"][:, :19],
        atol=1e-300,
    )
    yield at_most(
        "waves, secant: squared distance after each step", square[:, 1:], (1 - (secant / L) ** 2) * square[:, :-1]
    )
    distance = jnp.sqrt(square[:, :1])
    yield at_most(
        "waves, secant: squared distance", square[:, 1:], secant_rate(L, secant, distance, k), x=k, along="iteration"
    )
    values, top, far = found["bowl"]
    means = jnp.cumsum(values[:, :-1], 1) / k
    yield at_most(
        "convex, quasi-convex with 1: mean value",
        means,
        quasi_convex_rate(top, 1.0, far[:, None], k),
        x=k,
        along="iteration",
    )
    yield equal("round quadratic: attained at the start", found["first"], quasi_convex_rate(1.0, 2.0, jnp.sqrt(3.0), 1))
    stuck = found["stuck"]
    yield control(
        "Polyak-Łojasiewicz: here a spurious minimum",
        at_most("value after each step", stuck[1:], (1 - mu / (2 * L)) * stuck[:-1], atol=floor),
    )


@claim(
    rows=("T06.10",),
    erratum="Claim 6.2.2 promises a geometric rate also under weak quasi-convexity; only a sublinear one follows.",
)
def geometric_under_quasi_convexity(key, *, steps: Count = 4000):
    r"""As printed: on a smooth, weakly quasi-convex function gradient descent converges at a geometric rate.

    Claim 6.2.2: under one of three conditions, weak quasi-convexity among them, and smoothness ("a special smoothness
    property", for it: $f'^2\le\Gamma(f-f^*)$), descent "converges to global minimum with a geometric rate" in the
    value. $\frac14w^4$ is weakly quasi-convex with $\tau=4$, 3-smooth on $[-1,1]$, which descent does not leave, and
    has $\Gamma=4$ there. But $w_t\sim(2\eta t)^{-1/2}$, so that $f(w_t)$ falls like $t^{-2}$, and the rate per step,
    $\frac1t\ln\frac{f(w_0)}{f(w_t)}$, which a geometric rate keeps above a constant, falls nearly as $1/t$. What is
    true is that the mean of the values up to $T$ is at most $\frac{2L\|w_0-w^*\|^2}{\tau^2T}$ for steps of
    $\frac\tau{2L}$.
    """

    def quartic(w):
        return w**4 / 4

    start = 0.5 + 0.5 * jax.random.uniform(key, ())
    path = minimize(Problem(quartic, (), start), optax.sgd(1 / 3), steps=steps, start=start)
    points = jnp.linspace(-1.0, 1.0, 200)
    yield equal("weakly quasi-convex with 4", quasi_convexity(quartic, jnp.zeros(()), points), 4.0)
    late = jnp.arange(steps // 10, steps, steps // 50)
    yield rate("value: the true rate", late, path.value[late], -2.0, tolerance=0.1, along="iteration")
    ratio = jax.vmap(lambda w: jax.grad(quartic)(w) ** 2 / quartic(w))(points)
    yield at_most("squared slope over the value", ratio, 4.0)
    # ln t / t: a slope of 1/ln t above -1, about -0.85 here
    per_step = jnp.log(path.value[0] / path.value[late]) / late
    yield printed(
        rate("fall of the logarithm per step", late, per_step, 0.0, tolerance=0.25, side="at least", along="iteration")
    )
    slow = minimize(Problem(quartic, (), start), optax.sgd(4 / 6), steps=steps, start=start)
    count = jnp.arange(1, steps + 1)
    means = jnp.cumsum(slow.value[:-1]) / count
    yield at_most("mean of the values", means, quasi_convex_rate(3.0, 4.0, start, count), x=count, along="iteration")


@claim(rows=("T06.20",))
def locally_optimizable(key, *, grid: Size = 41, rays: Size = 24):
    r"""Approximate second-order stationary points of strict-saddle functions are nearly optimal.

    $f$ is locally optimisable (strict saddle) if for every $\tau$ there are $\epsilon,\gamma$, powers of
    $\tau$, such that every $(\epsilon,\gamma)$-second-order stationary point has $f\le f^*+\tau$.
    Factorisation $\frac14\|zz^\top-xx^\top\|^2$, phase retrieval $\frac18\mathbb E((a^\top x)^2-(a^\top
    z)^2)^2$ and decomposition of an orthogonal tensor, $\sum_i(v_i^\top x)^4$ maximised near the sphere by
    $(\|x\|^2-1)^2-\frac12\sum_i(v_i^\top x)^4$, are: the worst value is $\frac{\epsilon^2}{2\lambda}$ with
    $\lambda$ the least curvature at the minimum, so $\tau\sim\epsilon^2$. With a spurious minimum it does not
    fall at all. Each depends on two coordinates only (of $x$ against $z$, or in the plane of two $v_i$),
    which are searched by a grid, and by rays about every minimum.
    """
    epsilons = 2.0 ** -jnp.arange(3, 11)

    @jax.jit
    def measure(key):
        axis = jnp.linspace(-2.0, 2.0, grid)
        plane = jnp.stack(jnp.meshgrid(axis, axis), -1).reshape(-1, 2)
        turn = 2 * jnp.pi * (jnp.arange(rays) + jax.random.uniform(key, ())) / rays
        # the rays hold the axes, along which the least and the largest curvature lie
        turn = jnp.concatenate([turn, jnp.arange(4) * jnp.pi / 2])
        radius = jnp.exp(jnp.linspace(jnp.log(1e-5), jnp.log(0.5), 300))
        star = (radius[:, None, None] * jnp.stack([jnp.cos(turn), jnp.sin(turn)], 1)).reshape(-1, 2)

        def curve(f, minima):
            points = jnp.concatenate([plane, *[m + star for m in minima]])
            return optimizability_curve(f, 0.0, points, epsilons)

        one, two = jnp.eye(2)
        square = lambda w: jnp.sum(w**2)  # noqa: E731
        tilted = lambda w: w[0] ** 4 - 4 * w[0] ** 2 + w[0] + w[1] ** 2  # noqa: E731
        best, other = (r * one for r in jnp.array([-1.473, 1.347]))
        far = jnp.sqrt(2.0)
        return jnp.stack(
            [
                curve(lambda w: 0.25 * (square(w) ** 2 - 2 * w[0] ** 2 + 1), (one, -one)),
                curve(lambda w: (3 * square(w) ** 2 + 3 - 2 * square(w) - 4 * w[0] ** 2) / 8, (one, -one)),
                curve(lambda w: (square(w) - 1) ** 2 - jnp.sum(w**4) / 2 + 1, (far * one, -far * one, far * two)),
                curve(lambda w: tilted(w) + 5.444191, (best, other)),
            ]
        )

    *easy, hard = measure(key)
    for name, curve, least in zip(("factorisation", "phase retrieval", "tensor"), easy, (1.0, 1.0, 4.0), strict=True):
        # radii grow by 3.7 % a point, so that the last one that qualifies may miss 7.3 % of the value; the next
        # order is about 3 epsilon, 2.3 %
        predicted = epsilons[4:] ** 2 / (2 * least)
        yield equal(
            f"{name}: worst value, small epsilon", curve[4:], predicted, rtol=0.1, x=epsilons[4:], along="epsilon"
        )
        yield rate(f"{name}: worst value", epsilons[2:], curve[2:], 2.0, tolerance=0.1, along="epsilon")
    yield at_least("with a spurious minimum: worst value", hard, 2.0, x=epsilons, along="epsilon")
    # the least curvature at the best minimum is 2, in the second coordinate
    small = epsilons[4:]
    yield control(
        "no spurious minimum: here one", equal("worst value, small epsilon", hard[4:], small**2 / 4, rtol=0.1, x=small)
    )
