"""What an accuracy costs, in gradients of single examples: gradient descent against stochastic gradient descent."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, rate
from corollary.optimization import (
    expected_value,
    inverse_time,
    minimize,
    quadratic,
    quadratic_law,
    quadratic_moments,
    rates,
    step_sizes,
    steps_to_shrink,
    walk,
)


@claim(rows=("B05.31",))
def iterations(key, *, horizon: Count = 4000, L: Positive = 2.0, sigma: Positive = 1.5):
    r"""To a squared gradient of ε stochastic gradient descent needs of the order of 1/ε^2 steps.

    For $L$-smooth $f$ and $\mathbb E\|g\|^2\le\sigma^2$, after $K=\frac{2L(f(\theta_0)-f^*)\sigma^2}{\epsilon^2}$ steps
    of the best constant size the average of $\mathbb E\|\nabla f\|^2$ is at most $\epsilon$; on the walk with gradients
    $\pm\sigma$ no fewer will do, up to lower order. Gradient descent has the promise after
    $\frac{2L(f(\theta_0)-f^*)}\epsilon$ steps, each of $n$ gradients: the costs cross at $n=\sigma^2/\epsilon$.
    """
    line = walk(L, sigma)
    gap = line(line.start)
    accuracies = sigma**2 / np.sqrt(np.array([400.0, 900.0, 1600.0, 2500.0, float(horizon)]))
    counts = rates.sgd.iterations(L, sigma, gap, accuracies)

    @jax.jit
    def measure(counts, factor):
        def average(count):
            eta = rates.sgd.nonconvex_step(L, sigma, gap, count)

            # the second moment of the walk: every gradient has the size sigma
            def advance(m, k):
                return (1 - 2 * eta * L) * m + (eta * sigma) ** 2, jnp.where(k < count, L**2 * m, 0.0)

            return jax.lax.scan(advance, (sigma / L) ** 2, jnp.arange(horizon))[1].sum() / count

        return jax.vmap(average)(jnp.floor(factor * counts + 0.5))

    reached = measure(counts, 1.0)
    yield equal("the bound after that many steps", rates.sgd.nonconvex(L, sigma, gap, counts), accuracies, rtol=1e-10)
    yield at_most("average on the walk", reached, accuracies, x=counts, along="steps")
    yield at_least("average on the walk, attained", reached, accuracies * (1 - 0.6 / np.sqrt(counts)), x=counts)
    yield rate("steps against the accuracy", accuracies, counts, -2.0, tolerance=0.01, along="accuracy")
    descent = 2 * L * gap / accuracies
    promised = rates.gradient_descent.stationary(L, gap, descent - 1)
    yield equal("gradient descent, promise after its number of steps", promised, accuracies, rtol=1e-10)
    yield equal("gradients where the costs cross, both methods", counts, sigma**2 / accuracies * descent, rtol=1e-10)
    yield control("half as many steps", at_most("average on the walk", measure(counts, 0.5), accuracies))


@claim(rows=("M18.20",))
def crossing(key, *, dim: Size = 80):
    r"""For many examples and modest accuracy the stochastic method is the cheaper one.

    Cost in gradients of single examples of an excess value $\epsilon$, on quadratics where it is known exactly.
    Strongly convex: gradient descent $O(M\log\frac1\epsilon)$, stochastic $O(\frac1\epsilon)$, crossing at $\epsilon$
    of the order $\frac1M$ up to logarithms. Merely convex, with a bias that falls like $(\eta k)^{-1.1}$ and the best
    constant step for each $\epsilon$: $M\epsilon^{-0.91}$ and $\epsilon^{-1.91}$, the orders 1 and 2 of M in the limit.
    (M starts from a strongly convex function and says that "typically" $O(\frac1\epsilon)$ and $O(\frac1{\epsilon^2})$
    steps are required: true there, and loose.)
    """
    examples = np.geomspace(50.0, 3000.0, 10)
    fine = np.geomspace(1e-5, 1e-1, 400)
    coarse = np.geomspace(1e-3, 1e-2, 8)

    @jax.jit
    def measure(key):
        start = 1 + jax.random.uniform(key)
        steps = 200_000
        etas = step_sizes(inverse_time(2.0, 2.0), steps)
        strong = expected_value(jnp.ones(1), quadratic_moments(jnp.ones(1), jnp.ones(1), start[None], etas))
        plain = _descent_steps(start, jnp.asarray(fine))
        spectrum = jnp.geomspace(1e-7, 1.0, dim)
        away = start * jnp.sqrt(spectrum**0.1 / dim)
        counts, rates_of = jnp.geomspace(1.0, 1e8, 500), jnp.geomspace(1e-5, 1.0, 120)

        def value(eta, k, noise):
            law = quadratic_law(spectrum, noise * spectrum / spectrum.sum(), away, eta, k)
            return 0.5 * spectrum @ (law.mean**2 + law.variance)

        def needed(noise, etas):
            table = jax.vmap(lambda e: jax.vmap(lambda k: value(e, k, noise))(counts))(etas)
            enough = jax.vmap(lambda eps: jnp.where(table <= eps, counts, jnp.inf).min())
            return enough(jnp.asarray(coarse) * 0.02)

        first = jax.vmap(lambda eps: jnp.argmax(strong <= eps))(jnp.asarray(fine))
        return first, plain, needed(1.0, rates_of), needed(0.0, jnp.ones(1)), start**2 / 2

    strong, plain, noisy, clean, first_value = (np.asarray(a) for a in measure(key))
    kept = fine > 3e-5
    yield rate("strongly convex: stochastic", fine[kept], strong[kept], -1.0, tolerance=0.1, along="accuracy")
    # the value shrinks by (3/4)^2 in every step of 1/4
    share = fine / first_value
    yield equal("strongly convex: gradient descent, steps", plain, steps_to_shrink(0.75**2, share), x=fine)
    above = strong[None] > examples[:, None] * np.maximum(plain, 1)[None]
    cross = np.array([fine[row].max() for row in above])
    yield rate("strongly convex: accuracy of the crossing", examples, cross, -1.0, tolerance=0.25, along="examples")
    yield rate("convex: gradient descent, steps", coarse, clean, -1 / 1.1, tolerance=0.15, along="accuracy")
    yield rate("convex: stochastic, steps", coarse, noisy, -1 - 1 / 1.1, tolerance=0.15, along="accuracy")
    yield control(
        "gradients without noise",
        rate("convex: stochastic, steps", coarse, clean, -1 - 1 / 1.1, tolerance=0.15, along="accuracy"),
    )


def _descent_steps(start, accuracies):
    """Steps of gradient descent with step 1/4 on a parabola until the value is at most each of these."""
    value = minimize(quadratic(jnp.ones(1)), optax.sgd(0.25), steps=60, start=start[None]).value
    return jax.vmap(lambda accuracy: jnp.argmax(value <= accuracy))(accuracies)
