"""Gradient descent on convex and strongly convex functions."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Positive, Size, at_most, claim, control, equal
from corollary.optimization import huber, minimize, quadratic, random_quadratic, rates, ridge_logistic


@claim(rows=("B05.16", "M17.12", "M17.13"))
def strongly_convex_rate(key, *, dim: Size = 20, condition: Positive = 50.0, n: Size = 100, steps: Count = 200):
    r"""Gradient descent contracts linearly on a smooth, strongly convex function.

    Let $f$ be $L$-smooth and $\mu$-strongly convex. For $0<\eta\le1/L$ (B, Theorem 34)
    $$\|\theta_k-\theta^*\|^2\le(1-\eta\mu)^k\|\theta_0-\theta^*\|^2,\qquad
    f(\theta_k)-f^*\le\tfrac L2(1-\eta\mu)^k\|\theta_0-\theta^*\|^2,$$
    and for $0<\eta\le\frac2{L+\mu}$ (M, Lemma 17.14) $\|\theta_k-\theta^*\|^2\le(1-\eta\frac{2\mu
    L}{L+\mu})^k\|\theta_0-\theta^*\|^2$, which on a quadratic is attained along both extreme eigenvectors at
    $\eta=\frac2{L+\mu}$, where the factor is $(\frac{\kappa-1}{\kappa+1})^2$.
    """
    k = jnp.arange(steps + 1)

    @jax.jit
    def measure(key):
        quadratic_key, x_key, y_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (n, dim))
        labels = jax.random.bernoulli(y_key, shape=(n,)).astype(float)

        def runs(problem):
            etas = jnp.stack([0.1 / problem.L, 1 / problem.L, 2 / (problem.L + problem.mu)])
            path = jax.vmap(lambda eta: minimize(problem, optax.sgd(eta), steps=steps))(etas)
            square = jnp.sum((path.theta - problem.minimiser) ** 2, axis=-1)
            return square, path.value - problem.minimum, problem.L, problem.mu, etas

        # along an extreme eigenvector of a quadratic the second bound is attained, up to a step of 2/(L + mu)
        flat = quadratic(jnp.array([1 / condition, 1.0]))
        best = 2 / (flat.L + flat.mu)
        extreme = jax.vmap(
            lambda eta: jax.vmap(lambda s: minimize(flat, optax.sgd(eta), steps=steps, start=s).theta)(jnp.eye(2))
        )
        problems = {
            "quadratic": random_quadratic(quadratic_key, dim, condition),
            "logistic": ridge_logistic(x, labels, 0.1, start=3 * jnp.ones(dim)),
        }
        return {name: runs(p) for name, p in problems.items()}, jnp.sum(extreme(best * jnp.array([1.0, 1.1])) ** 2, -1)

    found, (tight, long) = measure(key)
    for name, (square, gap, L, mu, etas) in found.items():
        distance = jnp.sqrt(square[0, 0])
        # the path stops at a distance of the order of eps times the numbers it moves among
        rounding = 1e-14 * float(square[0, 0])
        first = jnp.stack([rates.gradient_descent.strongly_convex(L, mu, distance, k, step=eta) for eta in etas[:2]])
        sharper = jnp.stack(
            [rates.gradient_descent.strongly_convex_cocoercive(L, mu, distance, k, step=eta) for eta in etas]
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
    predicted = rates.gradient_descent.strongly_convex_cocoercive(1.0, 1 / condition, 1.0, k)
    yield equal("extreme eigenvectors of a quadratic: attained", tight, predicted, rtol=1e-10, along="iteration")
    yield equal("factor at the step 2/(L+mu)", tight[:, 1], ((condition - 1) / (condition + 1)) ** 2)
    yield control(
        "a step 10 % above 2/(L+mu)",
        at_most("squared distance, top eigenvector", long[1], predicted, along="iteration"),
    )


@claim(rows=("B05.18", "M17.11"))
def convex_rate(key, *, dim: Size = 40, steps: Count = 300):
    r"""Gradient descent on a smooth convex function comes within O(1/k) of the minimum.

    Let $f$ be convex and $L$-smooth with a minimiser and $0<\eta\le1/L$. Then
    $f(\theta_k)-f^*\le\frac{\|\theta_0-\theta^*\|^2}{2\eta k}$ (B, Theorem 37; M, Lemma 17.11, which omits
    convexity). The best constant at $\eta=1/L$ is $\frac{L\|\theta_0-\theta^*\|^2}{4k+2}$, attained at step $k$ by
    the Huber function with threshold $\frac R{2k+1}$ started at $R$: the texts are within a factor 2 of it.
    """
    k = jnp.arange(1, steps + 1)
    horizons = jnp.array([1, 5, 20, 100, steps])

    @jax.jit
    def measure(key):
        problem = random_quadratic(key, dim, 1e6)
        path = minimize(problem, optax.sgd(1 / problem.L), steps=steps)
        distance = jnp.linalg.norm(problem.start - problem.minimiser)
        worst = jax.vmap(lambda h: minimize(huber(1 / (2 * h + 1)), optax.sgd(1.0), steps=steps).value[h])(horizons)
        steep = minimize(quadratic(jnp.ones(1)), optax.sgd(1.9), steps=1)
        return path.value[1:] - problem.minimum, problem.L, distance, worst, steep.value[1]

    gap, L, distance, worst, steep = measure(key)
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
    attained = rates.gradient_descent.convex_tight(1.0, 1.0, horizons)
    yield equal("Huber function at its horizon: attained", worst, attained, rtol=1e-12, x=horizons, along="horizon")
    yield at_most(
        "Huber function at its horizon, bound of the texts",
        worst,
        rates.gradient_descent.convex(1.0, 1.0, horizons),
        x=horizons,
        along="horizon",
    )
    yield control("a step of 1.9/L", at_most("value after one step", steep, 1 / (2 * 1.9)))
