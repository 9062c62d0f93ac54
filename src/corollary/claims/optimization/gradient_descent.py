"""Gradient descent on convex and strongly convex functions."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal
from corollary.optimization import (
    Problem,
    cosine_wells,
    huber,
    minimize,
    quadratic,
    random_quadratic,
    rates,
    ridge_logistic,
)


@claim(rows=("B05.16", "M17.12", "M17.13"))
def strongly_convex_rate(key, *, dim: Size = 20, condition: Positive = 50.0, n: Size = 100, steps: Count = 200):
    r"""Gradient descent contracts linearly on a smooth, strongly convex function.

    Let $f$ be $L$-smooth and $\mu$-strongly convex. For $0<\eta\le1/L$ (B, Theorem 34)
    $$\|\theta_k-\theta^*\|^2\le(1-\eta\mu)^k\|\theta_0-\theta^*\|^2,\qquad
    f(\theta_k)-f^*\le\tfrac L2(1-\eta\mu)^k\|\theta_0-\theta^*\|^2,$$
    and for $0<\eta\le\frac2{L+\mu}$ (M, Lemma 17.14) $\|\theta_k-\theta^*\|^2\le(1-\eta\frac{2\mu
    L}{L+\mu})^k\|\theta_0-\theta^*\|^2$, since
    $\langle\nabla f(\theta),\theta-\theta^*\rangle\ge\frac1{L+\mu}\|\nabla f(\theta)\|^2+\frac{\mu
    L}{L+\mu}\|\theta-\theta^*\|^2$ (for which M names strong convexity alone; it takes smoothness too). On a quadratic
    both are equalities along the extreme eigenvectors, the first at $\eta=\frac2{L+\mu}$, where the factor is
    $(\frac{\kappa-1}{\kappa+1})^2\le e^{-4\mu L/(L+\mu)^2}$ (M, Remark 17.15). The best factor for any $\eta<2/L$ is
    $\max\{(1-\eta\mu)^2,(1-\eta L)^2\}$, of the squared distance and of the excess value: for $\eta\le1/L$ the square
    of B's. With $\mu=0$ there is no such rate.
    """
    k = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        quadratic_key, x_key, y_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (n, dim))
        labels = jax.random.bernoulli(y_key, shape=(n,)).astype(float)

        def runs(problem):
            etas = jnp.stack([0.1 / problem.L, 1 / problem.L, 2 / (problem.L + problem.mu)])
            path = jax.vmap(lambda eta: minimize(problem, optax.sgd(eta), steps=steps))(etas)
            away = path.theta - problem.minimiser
            slopes = jax.vmap(problem.gradient)(path.theta[0, :50])
            inner = jnp.sum(slopes * away[0, :50], axis=1)
            least = (jnp.sum(slopes**2, 1) + problem.mu * problem.L * jnp.sum(away[0, :50] ** 2, 1)) / (
                problem.L + problem.mu
            )
            square = jnp.sum(away**2, axis=-1)
            return square, path.value - problem.minimum, problem.L, problem.mu, etas, (inner, least)

        # along an extreme eigenvector of a quadratic the bounds are attained
        flat = quadratic(jnp.array([1 / condition, 1.0]))
        best = 2 / (flat.L + flat.mu)

        def extreme(eta):
            paths = jax.vmap(lambda s: minimize(flat, optax.sgd(eta), steps=steps, start=s))(jnp.eye(2))
            return jnp.sum(paths.theta**2, -1), paths.value

        slopes = jax.vmap(flat.gradient)(jnp.eye(2))
        sides = jnp.diag(slopes), (jnp.sum(slopes**2, 1) + flat.mu * flat.L) / (flat.L + flat.mu)
        # convex and not strongly so: the fourth power, with a constant that it does not have
        quartic = minimize(Problem(lambda t: t**4 / 12, (), jnp.ones(())), optax.sgd(1.0), steps=steps).theta ** 2
        problems = {
            "quadratic": random_quadratic(dim, condition, key=quadratic_key),
            "logistic": ridge_logistic(x, labels, 0.1, start=3 * jnp.ones(dim)),
        }
        etas = jnp.stack([best, 1.1 * best, 0.1, 1.0, 1.99])
        return {name: runs(p) for name, p in problems.items()}, jax.vmap(extreme)(etas), sides, quartic, etas[2:]

    found, (ends, values), (inner, least), quartic, others = measure(key)
    tight, long = ends[:2, :, 1:]
    for name, (square, gap, L, mu, etas, key_sides) in found.items():
        distance, start = jnp.sqrt(square[0, 0]), gap[0, 0]
        square, gap = square[:, 1:], gap[:, 1:]
        # the path stops at a distance of the order of eps times the numbers it moves among
        rounding = 1e-14 * float(distance) ** 2
        first = jnp.stack(
            [rates.gradient_descent.strongly_convex_squared_distance(L, mu, distance, k, step=eta) for eta in etas[:2]]
        )
        sharper = jnp.stack(
            [rates.gradient_descent.cocoercive_squared_distance(L, mu, distance, k, step=eta) for eta in etas]
        )
        yield at_most(
            f"{name}: squared distance, steps 0.1/L and 1/L", square[:2], first, atol=rounding, along="iteration"
        )
        yield at_most(
            f"{name}: excess value, steps 0.1/L and 1/L",
            gap[:2],
            L / 2 * first,
            atol=rounding * float(L),
            along="iteration",
        )
        yield at_most(f"{name}: squared distance, sharper bound", square, sharper, atol=rounding, along="iteration")
        best = jnp.stack([rates.gradient_descent.strongly_convex_tight(L, mu, start, k, step=eta) for eta in etas])
        yield at_most(f"{name}: excess value, best factor", gap, best, atol=rounding * float(L), along="iteration")
        yield at_least(f"{name}: the inequality behind it", *key_sides, atol=rounding, along="iteration")
    yield equal("the inequality behind it: attained on the quadratic", inner, least)
    # the larger of the two axes is the worst one
    worst, worst_value = ends[2:].max(1)[:, 1:], (values / values[:, :, :1])[2:].max(1)[:, 1:]
    exact = jnp.stack(
        [rates.gradient_descent.strongly_convex_tight(1.0, 1 / condition, 1.0, k, step=e) for e in others]
    )
    yield equal("steps 0.1/L, 1/L, 1.99/L: best factor attained", worst, exact, rtol=1e-10, along="iteration")
    yield equal("excess value: best factor attained", worst_value, exact, rtol=1e-10, along="iteration")
    predicted = rates.gradient_descent.cocoercive_squared_distance(1.0, 1 / condition, 1.0, k)
    yield equal("extreme eigenvectors of a quadratic: attained", tight, predicted, rtol=1e-10, along="iteration")
    yield equal("factor at the step 2/(L+mu)", tight[:, 0], ((condition - 1) / (condition + 1)) ** 2)
    exponential = jnp.exp(-4 * condition / (condition + 1) ** 2 * k)
    yield at_most("extreme eigenvectors, exponential bound", tight, exponential, along="iteration")
    yield control(
        "a step 10 % above 2/(L+mu)",
        at_most("squared distance, top eigenvector", long[1], predicted, along="iteration"),
    )
    fake = rates.gradient_descent.strongly_convex_squared_distance(1.0, 0.2, 1.0, k)
    yield control(
        "the fourth power, not strongly convex", at_most("squared distance", quartic[1:], fake, along="iteration")
    )


@claim(rows=("B05.18", "M17.11"))
def convex_rate(key, *, dim: Size = 40, steps: Count = 300):
    r"""Gradient descent on a smooth convex function comes within O(1/k) of the minimum.

    Let $f$ be convex and $L$-smooth with a minimiser and $0<\eta\le1/L$. Then
    $f(\theta_k)-f^*\le\frac{\|\theta_0-\theta^*\|^2}{2\eta k}$ (B, Theorem 37; M, Lemma 17.11, which leaves the
    convexity to the title of its section: without it descent may stay near a maximum for long). The best constant is
    $\frac{L\|\theta_0-\theta^*\|^2}{4\eta Lk+2}$, attained at step $k$ by the Huber function with threshold $\frac
    R{2\eta Lk+1}$ started at $R$: for many steps the texts are off by the factor 2, and never by less.
    """
    k = jnp.arange(1, steps + 1)
    horizons, shares = jnp.array([1, 5, 20, 100, steps]), jnp.array([1.0, 0.3])

    @jax.jit
    def measure(key):
        problem = random_quadratic(dim, 1e6, key=key)
        path = minimize(problem, optax.sgd(1 / problem.L), steps=steps)
        distance = jnp.linalg.norm(problem.start - problem.minimiser)

        def slowest(share, horizon):
            return minimize(huber(1 / (2 * share * horizon + 1)), optax.sgd(share), steps=steps).value[horizon]

        worst = jax.vmap(lambda s: jax.vmap(lambda h: slowest(s, h))(horizons))(shares)
        steep = minimize(quadratic(jnp.ones(1)), optax.sgd(1.9), steps=1)
        top = jnp.pi - 10.0 ** -jax.random.uniform(key, (1,), minval=4.0, maxval=6.0)
        hill = minimize(cosine_wells(top), optax.sgd(1.0), steps=12).value[1:]
        return path.value[1:] - problem.minimum, problem.L, distance, worst, steep.value[1], hill, top[0]

    gap, L, distance, worst, steep, hill, top = measure(key)
    yield at_most(
        "ill-conditioned quadratic", gap, rates.gradient_descent.convex(L, distance, k), x=k, along="iteration"
    )
    yield at_most(
        "ill-conditioned quadratic, best constant",
        gap,
        rates.gradient_descent.convex_tight(L, distance, k),
        x=k,
        along="iteration",
    )
    attained = jnp.stack([rates.gradient_descent.convex_tight(1.0, 1.0, horizons, step=s) for s in shares])
    yield equal(
        "Huber function at its horizon, steps 1/L and 0.3/L: attained",
        worst,
        attained,
        rtol=1e-12,
        x=horizons,
        along="horizon",
    )
    printed = jnp.stack([rates.gradient_descent.convex(1.0, 1.0, horizons, step=s) for s in shares])
    yield at_most("the same, bound of the texts", worst, printed, x=horizons, along="horizon")
    yield at_least("share of the texts' bound, longest horizon", worst[:, -1] / printed[:, -1], 0.495)
    yield control("a step of 1.9/L", at_most("value after one step", steep, 1 / (2 * 1.9)))
    yield control(
        "not convex, from near a maximum of the cosine",
        at_most("excess value", hill, rates.gradient_descent.convex(1.0, top, k[:12]), x=k[:12], along="iteration"),
    )
