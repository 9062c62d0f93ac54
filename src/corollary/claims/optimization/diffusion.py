"""Stochastic gradient descent as gradient descent with normal noise, and as a diffusion."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import stats

from corollary.claims.optimization._regression import regression
from corollary.evidence import Count, Positive, Size, at_most, claim, control, equal, estimate, printed, rate, same_law
from corollary.optimization import (
    batch_gradient,
    circle_grid,
    diffuse,
    gaussian_sgd,
    generator,
    gradient_covariance,
    least_squares_moments,
    least_squares_sum,
    minimize,
    noisy,
    quadratic,
    quadratic_law,
    quadratic_moments,
    transition,
)


@claim(rows=("M18.22",))
def weak_order(key, *, grid: Size = 96):
    r"""A diffusion with a corrected drift has the law of stochastic gradient descent up to the square of the step.

    $d\Theta=(-\nabla f-\frac\eta4\nabla\|\nabla f\|^2)dt+\sqrt\eta\,\Sigma(\Theta)^{1/2}dW$ with $\Sigma$ the
    covariance of the stochastic gradient, all coefficients smooth with bounded derivatives:
    $|\mathbb E\phi(\theta_k)-\mathbb E\phi(\Theta(k\eta))|\le C\eta^2$ for smooth bounded $\phi$ and $k\eta\le T$.
    Without the term $\frac\eta4\nabla\|\nabla f\|^2$ the order is 1. On a circle, for all starts at once and without
    sampling: powers of a transition matrix against the exponential of a generator, $T=1$.
    """
    counts = np.array([64, 90, 128, 180, 256])
    etas = 1 / counts
    angles = circle_grid(grid)
    # the phase is all that is drawn: any other smooth function would do as well
    phase = jax.random.uniform(key, maxval=2 * jnp.pi)

    @jax.jit
    def measure(phase):
        def slope(t):
            return jnp.sin(t) + 0.3 * jnp.cos(2 * t + phase)

        def bend(t):
            return jnp.cos(t) - 0.6 * jnp.sin(2 * t + phase)

        def spread(t):
            return 0.8 * (1 + 0.5 * jnp.cos(t))

        phi = jnp.sin(angles) + 0.5 * jnp.cos(2 * angles)

        def descent(count):
            # the power of the matrix by squaring, so that the number of steps may vary in one program
            def bit(i, state):
                power, square = state
                return jnp.where((count >> i) & 1, power @ square, power), square @ square

            first = jnp.eye(grid), transition(slope, spread, 1 / count, grid)
            return jax.lax.fori_loop(0, 9, bit, first)[0] @ phi

        def diffusion(eta, correction, root):
            matrix = generator(
                lambda t: -slope(t) - correction * eta * slope(t) * bend(t),
                lambda t: eta**root * spread(t) ** 2,
                grid,
            )
            return diffuse(matrix, phi, 1.0)

        exact = jax.vmap(descent)(jnp.asarray(counts))
        # a quarter of the squared gradient's gradient is half of f' f''
        kinds = (jnp.array([0.5, 0.0, 1.0, 0.5]), jnp.array([1.0, 1.0, 1.0, 2.0]))
        models = jax.vmap(lambda c, r: jax.vmap(lambda e: diffusion(e, c, r))(jnp.asarray(etas)))(*kinds)
        return jnp.abs(models - exact).max(-1), exact

    errors, exact = measure(phase)
    # at these steps the next order still bends the line by a few hundredths
    yield rate("largest difference, corrected drift", etas, errors[0], 2.0, tolerance=0.2, along="step")
    yield rate("largest difference, plain drift", etas, errors[1], 1.0, tolerance=0.2, along="step")
    yield at_most("no expectation above the largest value", jnp.abs(exact).max(), 1.5, rtol=1e-6)
    one = jnp.ones(1)
    means = [quadratic_moments(one, one, one, jnp.full(int(n), 1 / n)).mean[-1, 0] for n in counts]
    apart = jnp.abs(jnp.stack(means) - jnp.exp(-(1 + etas / 2)))
    yield rate("mean on a parabola, corrected drift", etas, apart, 2.0, tolerance=0.2, along="step")
    for name, row in (("twice the correction", 2), ("noise of the order of the step", 3)):
        yield control(name, rate("largest difference", etas, errors[row], 2.0, tolerance=0.2, side="at least"))


@claim(rows=("M18.21",))
def gaussian_increments(key, *, n: Size = 100, dim: Size = 3, batch: Size = 4, draws: Count = 20000):
    r"""A step with normal noise of the same covariance has the first two moments of a stochastic step.

    $\mathbb E[\theta_{k+1}-\theta_k]=-\eta\nabla f$ and $\mathrm{Cov}[\theta_{k+1}-\theta_k]=\frac{\eta^2}B\Sigma$ with
    the covariance $\Sigma$ of the gradient of one example (M prints that of $\Lambda$), for batches with replacement
    and for $\theta_{k+1}=\theta_k-\eta\nabla f+\frac\eta{\sqrt B}\Sigma^{1/2}Z_k$. On least squares both have the same
    moments at all times. A batch gradient comes closer to normal like $B^{-1/2}$ in Kolmogorov's distance: known
    exactly for $f_i=\frac12(\theta-y_i)^2$ with one $y_i$ of ten different from the others, where the sum is binomial.
    """
    sizes = np.array([16, 32, 64, 128, 256, 512, 1024])
    eta, steps = 0.1, 20

    @jax.jit
    def measure(key):
        data_key, step_key, run_key = jax.random.split(key, 3)
        x, y, theta = regression(data_key, n, dim)
        x = x / jnp.sqrt(dim)
        problem = least_squares_sum(x, y, theta)
        keys = jax.random.split(step_key, draws)
        model = jax.vmap(lambda k: gaussian_sgd(eta, batch_size=batch).step(problem, theta, k))(keys)
        real = jax.vmap(lambda k: batch_gradient(problem, theta, jax.random.randint(k, (batch,), 0, n)))(keys)
        moves = jnp.stack([(model - theta) / eta, -real], 1)
        centred = moves + problem.gradient(theta)
        single = jax.vmap(lambda k: problem.oracle(theta, key=k))(keys) - problem.gradient(theta)
        ends = jax.vmap(lambda k: minimize(problem, gaussian_sgd(eta, batch_size=batch), steps=steps, key=k).theta[-1])(
            jax.random.split(run_key, 1000)
        )
        second = jnp.trace(least_squares_moments(x, y, theta, eta, steps, batch_size=batch).variance[-1])
        return (
            moves,
            -problem.gradient(theta),
            jnp.einsum("nki,nkj->nkij", centred, centred),
            gradient_covariance(problem, theta) / batch,
            jnp.sum((ends - problem.minimiser) ** 2, axis=1),
            second,
            jnp.einsum("ni,nj->nij", single, single),
        )

    moves, mean, products, covariance, ends, second, alone = measure(key)
    scale = float(jnp.sqrt(jnp.trace(covariance)))
    both = jnp.stack([mean, mean])
    yield estimate("mean of a step over its length, model and batch", moves, both, wrong=both + 0.2 * scale)
    both = jnp.stack([covariance, covariance])
    yield estimate("covariance of a step, model and batch", products, both, wrong=both + 0.5 * scale**2)
    yield estimate("model: squared distance after twenty steps", ends, second, wrong=0.5 * float(second))
    distance = []
    for b in sizes:
        jumps = np.arange(b + 1)
        normal = stats.norm.cdf((jumps - 0.1 * b) / np.sqrt(0.09 * b))
        after, before = stats.binom.cdf(jumps, b, 0.1), stats.binom.cdf(jumps - 1, b, 0.1)
        distance.append(max(np.abs(normal - after).max(), np.abs(normal - before).max()))
    yield rate("distance of a batch gradient to normal", sizes, distance, -0.5, tolerance=0.1, along="batch")
    yield control(
        "a step with one example in place of the batch",
        estimate("covariance of a step", alone, covariance, wrong=covariance + 0.5 * scale**2),
    )


@claim(
    rows=("M18.21",),
    erratum="The variance of a step is printed with the full gradient, which has none; that of one example is meant.",
)
def variance_of_the_full_gradient(key, *, n: Size = 60, dim: Size = 3, batch: Size = 4, draws: Count = 4000):
    r"""As printed: the variance of a step is that of the full gradient over the size of the batch.

    M, 18.4.1: $\mathrm{Var}[\theta_{k+1}-\theta_k\mid\theta_k]=
    \frac{\eta^2}M\mathrm{Var}[\nabla_\theta\Lambda(\theta_k)\mid\theta_k]$. Given $\theta_k$ the gradient of
    $\Lambda=\frac1n\sum\lambda_m$ is a number: the step would have no variance at all. With $\nabla\lambda_{(X,Y)}$ in
    place of $\nabla\Lambda$ it is right.
    """

    @jax.jit
    def measure(key):
        data_key, step_key = jax.random.split(key)
        x, y, theta = regression(data_key, n, dim)
        problem = least_squares_sum(x, y, theta)
        full = problem.gradient(theta)
        drawn = jax.vmap(lambda k: batch_gradient(problem, theta, jax.random.randint(k, (batch,), 0, n)))(
            jax.random.split(step_key, draws)
        )
        return jnp.sum((drawn - full) ** 2, 1), jnp.trace(gradient_covariance(problem, theta)) / batch

    squares, right = measure(key)
    yield estimate("variance of a step over the squared rate, from one example", squares, right, wrong=2 * right)
    # given the parameters the full gradient is a number, whose variance is 0
    yield printed(estimate("variance of a step over the squared rate, as printed", squares, 0.0, wrong=2 * right))


@claim(rows=("M18.38",))
def stationary_law(key, *, step: Positive = 0.4, sigma: Positive = 1.5, runs: Count = 4000, steps: Count = 60):
    r"""Gradient descent with normal noise on a parabola is normal at all times and does not come to rest.

    $x_{t+1}=(1-\eta)x_t-\eta\sigma\xi_t$ with normal $\xi_t$: $x_t\sim
    N\big((1-\eta)^tx_0,\eta^2\sigma^2\frac{1-(1-\eta)^{2t}}{1-(1-\eta)^2}\big)$, which tends to
    $N(0,\frac{\eta\sigma^2}{2-\eta})$ for $0<\eta<2$. For $\eta>2$ the variance grows without bound.
    """
    one = jnp.ones(1)

    @jax.jit
    def measure(key):
        problem = noisy(quadratic(one, 3 * one), sigma)
        paths = jax.vmap(lambda k: minimize(problem, optax.sgd(step), steps=steps, key=k).theta[:, 0])(
            jax.random.split(key, runs)
        )
        moments = quadratic_moments(one, sigma**2 * one, 3 * one, jnp.full(steps, step))
        long = quadratic_moments(one, sigma**2 * one, 3 * one, jnp.full(steps, 2.1)).variance
        laws = jax.vmap(lambda k: quadratic_law(one, sigma**2 * one, 3 * one, step, k))(jnp.arange(steps + 1.0))
        return paths, moments, laws, long

    paths, moments, laws, long = measure(key)
    rest = quadratic_law(one, sigma**2 * one, 3 * one, step, jnp.inf)
    yield equal("mean in closed form", moments.mean, laws.mean, rtol=1e-10, along="step")
    yield equal("variance in closed form", moments.variance, laws.variance, rtol=1e-10, along="step")
    yield equal("variance in the limit", moments.variance[-1, 0], step * sigma**2 / (2 - step), rtol=1e-9)
    early, late = np.sqrt(float(laws.variance[3, 0])), np.sqrt(float(rest.variance[0]))
    centre = float(laws.mean[3, 0])
    yield same_law(
        "after three steps", paths[:, 3], stats.norm(centre, early).cdf, wrong=stats.norm(centre, late * 1.3).cdf
    )
    yield same_law("in the end", paths[:, -1], stats.norm(0, late).cdf, wrong=stats.norm(0, 1.2 * late).cdf)
    yield control("a step of 2.1", at_most("variance", long[1:, 0], late**2, along="step"))
