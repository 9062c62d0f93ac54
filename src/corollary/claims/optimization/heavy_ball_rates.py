"""How fast the heavy ball is: what holds on quadratics, what is printed for more, and what is guaranteed."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Positive, Size, at_most, claim, control, equal, printed, rate
from corollary.optimization import (
    bent_line,
    heavy_ball,
    heavy_ball_matrix,
    huber,
    minimize,
    nesterov,
    polyak_parameters,
    quadratic,
    random_quadratic,
    rates,
    ridge_logistic,
)


@claim(rows=("M17.19", "T02.12", "T02.17"))
def quadratic_rate(key, *, dim: Size = 20, condition: Positive = 100.0, steps: Count = 150):
    r"""On quadratics the heavy ball needs of the order of the root of the condition number.

    For a quadratic with spectrum in $[\mu,L]$, $\kappa=L/\mu$, and Polyak's $\eta=\frac4{(\sqrt L+\sqrt\mu)^2}$,
    $\rho=r^2$, $r=\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$, the iteration matrix has spectral radius $r$ at all
    curvatures, and $\|\theta_k-\theta^*\|\le(1+(1+r)k)\,r^k\|\theta_0-\theta^*\|$, with equality along the eigenvector
    of $L$. M, Remark 17.17, has $O(\sqrt\kappa\log\frac1\epsilon)$ steps for strongly convex functions, "however" the
    method "may be unstable and not converge". So it is: for $L=25$, $\mu=1$ on the function with $f'(x)=25x$ for $x<1$,
    $x+24$ for $1\le x<2$, $25x-24$ beyond (Lessard, Recht and Packard) it converges from 0.5, and from starts near 3.3
    ends in the cycle $2.1159\to0.6465\to-1.8024$, where gradient descent and Nesterov's method converge.
    """
    k = jnp.arange(steps + 1)

    @jax.jit
    def measure(key):
        problem = random_quadratic(dim, condition, key=key)
        step, momentum = polyak_parameters(problem.L, problem.mu)
        path = minimize(problem, heavy_ball(step, momentum), steps=steps).theta
        top = minimize(quadratic(problem.L[None]), heavy_ball(step, momentum), steps=steps).theta[:, 0]
        matrices = heavy_ball_matrix(step, momentum, jnp.geomspace(problem.mu, problem.L, 20))
        ball = heavy_ball(*polyak_parameters(25.0, 1.0))
        bent = minimize(bent_line(), ball, steps=steps).theta
        starts = 3.3 + 0.05 * jax.random.uniform(jax.random.fold_in(key, 1), (8,), minval=-1.0)

        def end(method):
            return jax.vmap(lambda s: minimize(bent_line(s), method, steps=400).theta[-3:])(starts)

        others = end(ball), end(optax.sgd(1 / 25)), end(nesterov(1 / 25, 2 / 3))
        near = minimize(bent_line(0.5), ball, steps=400).theta[-1]
        return jnp.linalg.norm(path - problem.minimiser, axis=1), jnp.abs(top), matrices, jnp.abs(bent), others, near

    distance, top, matrices, bent, (cycling, descent, ahead), near = measure(key)
    bound = rates.momentum.heavy_ball_quadratic_distance(1.0, 1 / condition, distance[0], k)
    # the gradient is known up to eps L times the numbers in it, which moves the minimum by kappa times their rounding
    floor = 4 * 2.3e-16 * condition * float(distance[0])
    yield at_most("distance on a quadratic", distance[1:], bound[1:], atol=floor, x=k[1:], along="iteration")
    # along an eigenvector with a double root errors grow like the square of the step count
    unit = rates.momentum.heavy_ball_quadratic_distance(1.0, 1 / condition, 1.0, k)
    yield equal(
        "attained at the largest curvature", top, unit, rtol=1e-15 * (1 + steps) ** 3, atol=0, along="iteration"
    )
    # near a double root eigenvalues move with the root of the rounding
    radii = np.abs(np.linalg.eigvals(np.asarray(matrices))).max(-1)
    yield equal("spectral radius at 20 curvatures", radii, (condition**0.5 - 1) / (condition**0.5 + 1), rtol=1e-6)
    cycle = jnp.tile(jnp.array([-1.80245, 0.64653, 2.11592]), (8, 1))
    # the numbers are known to five digits
    yield equal("a line with a bend, from near 3.3: the cycle", jnp.sort(cycling, axis=1), cycle, atol=1e-5)
    yield at_most("a line with a bend, from 0.5: distance", jnp.abs(near), 1e-12)
    yield at_most("the same from near 3.3, gradient descent: distance", jnp.abs(descent), 1e-5)
    yield at_most("the same from near 3.3, Nesterov's method: distance", jnp.abs(ahead), 1e-12)
    yield control(
        "a strongly convex function with a bend",
        at_most(
            "distance",
            bent[1:],
            rates.momentum.heavy_ball_quadratic_distance(25.0, 1.0, bent[0], k)[1:],
            along="iteration",
        ),
    )


@claim(
    rows=("M17.19",),
    erratum="With fixed parameters the heavy ball needs of the order of 1/ε steps on convex functions, not 1/√ε.",
)
def convex_printed(key, *, horizon: Count = 4000):
    r"""The heavy ball needs of the order of 1/√ε steps on every convex function.

    As printed in Remark 17.17: to an error of order $\epsilon$ "Polyak's method requires $O(1/\sqrt\epsilon)$ steps for
    convex loss functions"; the excess after $k$ steps would fall like $k^{-2}$. With $\eta=1/L$ and $\rho=0.9$ take the
    Huber function whose threshold is $\frac R{2S+1}$, where $S=\sum_{j\le k}\frac{1-\rho^j}{1-\rho}$ is how far a unit
    force drives the ball. Corrected: the excess is $\frac{LR^2}{4S+2}$, of order $\frac1k$, and $O(1/\epsilon)$ steps
    are needed. Eight horizons.
    """
    horizons, excess, predicted = _excess_at_horizon(key, horizon)
    yield equal("excess at the horizon", excess, predicted, x=horizons, along="steps")
    yield rate("excess at the horizon: order", horizons, excess, -1.0, tolerance=0.15, along="steps")
    yield printed(
        rate(
            "excess at the horizon: order as printed",
            horizons,
            excess,
            -2.0,
            tolerance=0.15,
            side="at most",
            along="steps",
        )
    )


@claim(rows=("M17.19",))
def guarantees(key, *, dim: Size = 20, n: Size = 100, steps: Count = 300):
    r"""What the heavy ball does guarantee on convex and strongly convex functions.

    Let $f$ be convex and $L$-smooth, $\rho\in[0,1)$, $\eta\le\frac{1-\rho}L$. Then
    $\frac1k\sum_{i<k}f(\theta_i)-f^*\le\frac{\|\theta_0-\theta^*\|^2}{2k}\bigl(\frac{1-\rho}\eta+\frac{L\rho}{1-\rho}\bigr)$,
    attained for $\rho=0$, $\eta=\frac1L$ by $\frac L2\theta^2$ at every $k$, and order $\frac1k$ is the best for every
    $\rho$: the Huber function at its horizon. If $f$ is $\mu$-strongly convex, $\eta\le1/L$
    and $\rho=\sqrt{(1-\eta\mu)(1-\eta L)}$ then $f(\theta_k)-f^*\le(1-\eta\mu)^k(f(\theta_0)-f^*)$. (Both are Ghadimi,
    Feyzmahdavian and Johansson's; M's Remark 17.17 promises the rates of Nesterov instead.)
    """
    k = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        quadratic_key, x_key, y_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (n, dim))
        labels = jax.random.bernoulli(y_key, shape=(n,)).astype(float)
        flat = random_quadratic(dim, 1e5, key=quadratic_key)
        far = jnp.linalg.norm(flat.start - flat.minimiser)

        def mean(problem, rho, factor=1.0):
            path = minimize(problem, heavy_ball(factor * (1 - rho) / problem.L, rho), steps=steps)
            return jnp.cumsum(path.value[:-1] - problem.minimum) / k

        def excess(problem, share):
            step = share / problem.L
            rho = jnp.sqrt((1 - step * problem.mu) * (1 - share))
            path = minimize(problem, heavy_ball(step, rho), steps=steps)
            return path.value - problem.minimum

        shares = jnp.array([0.2, 0.5, 1.0])
        problems = {
            "logistic": ridge_logistic(x, labels, 0.1, start=3 * jnp.ones(dim)),
            "line with a bend": bent_line(),
        }
        strong = {name: (jax.vmap(lambda s, p=p: excess(p, s))(shares), p.L, p.mu) for name, p in problems.items()}
        rhos = jnp.array([0.0, 0.5, 0.9])
        means = jax.vmap(lambda r: mean(flat, r))(rhos)
        small = jax.vmap(lambda r: mean(huber(0.05), r))(rhos)
        bowl = mean(quadratic(jnp.ones(1)), 0.0)
        bent = minimize(bent_line(), heavy_ball(*polyak_parameters(25.0, 1.0)), steps=steps).value
        return means, small, bowl, far, mean(flat, 0.5, 6.6), strong, bent, rhos, shares

    means, small, bowl, far, long, strong, bent, rhos, shares = measure(key)
    bounds = _average_bounds(1.0, far, k, rhos)
    yield at_most("mean excess, ill-conditioned quadratic", means, bounds, x=k, along="iteration")
    yield at_most("mean excess, Huber function", small, _average_bounds(1.0, 1.0, k, rhos), x=k, along="iteration")
    attained = rates.momentum.heavy_ball_average(1.0, 1.0, k, step=1.0, momentum=0.0)
    yield equal("mean excess without momentum, parabola: attained", bowl, attained, x=k, along="iteration")
    horizons, excess, _ = _excess_at_horizon(key, 4000)
    yield rate("excess of the Huber function at its horizon", horizons, excess, -1.0, tolerance=0.15, along="steps")
    for name, (gap, L, mu) in strong.items():
        bound = jnp.stack([rates.momentum.heavy_ball_strongly_convex(L, mu, gap[0, 0], k, step=s / L) for s in shares])
        # values are differences of numbers of the size of the first one
        yield at_most(f"excess, {name}", gap[:, 1:], bound, atol=1e-14 * float(gap[0, 0]), x=k, along="iteration")
    yield control("a step above 2(1 + ρ)/L", at_most("mean excess", long, bounds[1], x=k, along="iteration"))
    polyak = rates.momentum.heavy_ball_strongly_convex(25.0, 1.0, bent[0], k, step=1 / 25)
    yield control("Polyak's step, longer than 1/L", at_most("excess", bent[1:], polyak, x=k, along="iteration"))


def _average_bounds(L, distance, k, rhos):
    return jnp.stack(
        [rates.momentum.heavy_ball_average(L, distance, k, step=(1 - r) / L, momentum=r) for r in np.asarray(rhos)]
    )


def _excess_at_horizon(key, horizon):
    """The excess of the heavy ball with step 1/L and momentum 0.9 after k steps, on the Huber function made for k."""
    rho, horizons = 0.9, np.unique(np.geomspace(100, horizon, 8).astype(int))
    driven = np.cumsum((1 - rho ** np.arange(1, horizon + 1)) / (1 - rho))[horizons - 1]

    @jax.jit
    def measure(key):
        L = jax.random.uniform(key, minval=0.5, maxval=2.0)

        def one(threshold, k):
            return minimize(huber(threshold, L=L), heavy_ball(1 / L, rho), steps=horizon).value[k] / L

        return jax.vmap(one)(jnp.asarray(1 / (2 * driven + 1)), jnp.asarray(horizons))

    return horizons, measure(key), 1 / (4 * driven + 2)
