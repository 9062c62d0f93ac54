"""Stochastic gradient descent with a constant step on least squares: when it stops short, and where it stays."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.optimization._regression import regression
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, monotone, printed, rate
from corollary.optimization import Problem, confusion_zone, least_squares_moments, least_squares_sum, minimize, sgd


def _step(x):
    """A step within the premise of the problem and short enough for every single example."""
    n = x.shape[0]
    # the terms of the text are n times ours, so its step is ours over n
    top = jnp.linalg.eigvalsh(x.T @ x)[-1]
    return n * jnp.minimum(0.5 / top, 1 / (n * jnp.sum(x**2, axis=1).max()))


@claim(rows=("B05.34",))
def lower_bound(key, *, n: Size = 20, dim: Size = 5, points: Count = 300, steps: Count = 4000):
    r"""One step cannot come closer to the solution than its own noise, and on inconsistent data that noise stays.

    Let $\ell_i(w)=\frac n2(x_i\cdot w-y_i)^2$ and $\eta\le\frac1{2\|X^\top X\|}$. From any $w_k$, $\mathbb
    E\|w_{k+1}-w_*\|^2\ge\eta^2\mathbb E\|\nabla\ell_i(w_k)\|^2$ with $w_*$ the least squares solution; it is attained
    along the top eigenvector of $X^\top X$ at the largest step. Where $y\ne Xw_*$ the right side does not tend to 0,
    and the distance stays above a floor.
    """

    @jax.jit
    def measure(key):
        data_key, point_key = jax.random.split(key)
        x, y, start = regression(data_key, n, dim, noise=0.5)
        problem = least_squares_sum(x, y, start)
        values, vectors = jnp.linalg.eigh(x.T @ x)

        def sides(away, eta):
            g = n * problem.gradients(problem.minimiser + away)
            return jnp.mean(jnp.sum((away - eta * g) ** 2, 1)), eta**2 * jnp.mean(jnp.sum(g**2, 1))

        at = jax.random.normal(point_key, (points, dim))
        limit = 0.5 / values[-1]
        second = least_squares_moments(x, y, start, _step(x), steps).variance
        error = jnp.trace(second, axis1=1, axis2=2)
        floor = (_step(x) / n) ** 2 * jnp.mean(jnp.sum((n * problem.gradients(problem.minimiser)) ** 2, 1))
        top = vectors[:, -1]
        return (
            jax.vmap(lambda u: sides(u, limit))(at),
            sides(top, limit),
            sides(100 * top, 1.2 * limit),
            error,
            floor,
        )

    (after, least), attained, over, error, floor = measure(key)
    yield at_least("squared distance after a step, all draws", after, least)
    yield equal("top eigenvector at the largest step: attained", *attained, rtol=1e-10)
    yield at_least("inconsistent data: mean squared distance, last steps", error[-100:], floor)
    yield at_most("inconsistent data: no progress in the second half", error[steps // 2] / error[-1], 1.05)
    yield control("a step 20 % too long", at_least("squared distance after a step", *over))


@claim(
    rows=("B05.34",),
    erratum="From the lower bound it is concluded that stochastic gradient descent does not converge on average "
    "although y = X w*; but then the bound itself tends to 0, and it does converge.",
)
def never_converges(key, *, n: Size = 20, dim: Size = 5, steps: Count = 600):
    r"""As printed: on consistent least squares a constant step does not converge on average.

    Problem 2 (e): with $y=Xw_*$ and $\eta\le\frac1{2\|X^\top X\|}$ "$\mathbb E\|w_{k+1}-w_*\|^2\ge\eta^2\mathbb
    E\|\nabla\ell_i(w_k)\|^2>0$. In other words, SGD does not converge to the critical point $w_*$ on average". If it
    did not, the logarithm of the mean squared distance would level off; over six numbers of steps it falls in
    proportion to them. Corrected: the lower bound holds at every step and tends to 0 itself; where also
    $n\eta\|x_i\|^2\le1$ for all $i$, $\mathbb E\|w_k-w_*\|^2\le(1-\eta\lambda_{\min}(X^\top X))^k\|w_0-w_*\|^2$.
    """
    counts = steps // 6 * np.arange(1, 7)

    @jax.jit
    def measure(key):
        x, _, start = regression(key, n, dim)
        truth = jnp.ones(dim)
        eta = _step(x)
        second = least_squares_moments(x, x @ truth, start, eta, steps).variance
        # E|grad l_i|^2 = n sum |x_i|^2 (x_i . e)^2, with e the distance to the solution; the text's step is eta/n
        weights = n * (x.T * jnp.sum(x**2, axis=1)) @ x
        noise = (eta / n) ** 2 * jnp.einsum("kij,ij->k", second, weights)
        return jnp.trace(second, axis1=1, axis2=2), noise, eta / n * jnp.linalg.eigvalsh(x.T @ x)

    error, noise, products = measure(key)
    k = np.arange(1, steps + 1)
    # the premise of the text, up to the rounding of the largest eigenvalue
    yield at_most("step times the norm of the second moments of the data", products[-1], 0.5)
    # the recursion rounds at 1e-16 of the parameters, squared
    yield at_least("mean squared distance: the lower bound", error[1:], noise[:-1], atol=1e-30, x=k, along="step")
    promised = (1 - products[0]) ** k * error[0]
    yield at_most("mean squared distance", error[1:], promised, atol=1e-30, x=k, along="step")
    yield printed(
        rate(
            "mean squared distance, six numbers of steps",
            counts,
            error[counts],
            0.0,
            tolerance=float(products[0]) / 2,
            side="at least",
            axes="semi-log",
            along="step",
        )
    )


@claim(rows=("M18.25",))
def confusion(key, *, m: Size = 12, steps: Count = 300, runs: Count = 2000):
    r"""In one dimension stochastic gradient descent enters the zone of the single solutions and stays there.

    $\Lambda(w)=\frac1M\sum(wx_m-y_m)^2$, all $x_m\ne0$, $w_m^*=y_m/x_m$. If $2\eta\max x_m^2\le1$ every step is a
    convex combination of $w_k$ and one $w_m^*$: the closed interval of the $w_m^*$ is never left, and no step from
    outside leads away from it. There it has mean $w^*=\frac{\sum x_my_m}{\sum x_m^2}$ and variance
    $\frac{\eta\,\overline{x^2r^2}}{\overline{x^2}-\eta\,\overline{x^4}}$, $r_m=y_m-w^*x_m$, proportional to small
    steps, while gradient descent converges to $w^*$. If all $w_m^*$ agree, so does stochastic gradient
    descent.
    """

    @jax.jit
    def measure(key):
        x_key, y_key, run_key, start_key = jax.random.split(key, 4)
        x = jax.random.uniform(x_key, (m,), minval=0.5, maxval=1.5) * jax.random.rademacher(y_key, (m,))
        y = 2 * x + 0.5 * jax.random.normal(y_key, (m,))
        eta = 0.5 / jnp.max(x**2)
        zone = confusion_zone(x, y, eta)
        # our terms are half the text's squares: twice its step
        problem = least_squares_sum(x[:, None], y, jnp.zeros(1))

        def run(key, start, eta, y):
            seen = eqx.tree_at(lambda p: p.data, problem, (x[:, None], y))
            return minimize(seen, sgd(2 * eta), steps=steps, key=key, start=start[None]).theta[:, 0]

        # one program: inside the zone, from outside, with too long a step, and with one solution for all
        inside = zone.low + (zone.high - zone.low) * jax.random.uniform(start_key, (runs,))
        starts = jnp.concatenate([inside, jnp.full(256, zone.high + 5.0), jnp.full(257, zone.minimiser)])
        etas = jnp.full(starts.shape, eta).at[-257:-1].multiply(2.2)
        targets = jnp.tile(y, (starts.shape[0], 1)).at[-1].set(2 * x)
        paths = jax.vmap(run)(jax.random.split(run_key, starts.shape[0]), starts, etas, targets)
        within, far, long, agree = jnp.split(paths, [runs, runs + 256, runs + 512])
        moments = least_squares_moments(x[:, None], y, zone.minimiser[None], 2 * eta, 3000).variance[-1, 0, 0]
        etas = eta * 2.0 ** -jnp.arange(2, 8)
        variances = jax.vmap(lambda e: confusion_zone(x, y, e).variance)(etas)
        plain = minimize(Problem(problem.function, problem.data, problem.start), optax.sgd(2 * eta), steps=steps)
        return zone, within, far, long, moments, etas, variances, plain.theta[:, 0], agree[0]

    zone, within, far, long, moments, etas, variances, plain, agree = measure(key)
    low, high = float(zone.low), float(zone.high)
    span = high - low
    yield at_most("inside: highest point of all runs", within.max(), high, rtol=1e-12)
    yield at_least("inside: lowest point of all runs", within.min(), low, rtol=1e-12, atol=1e-12)
    outside = np.maximum(np.asarray(far) - high, 0.0)
    yield at_most("from outside: the distance to the zone never grows", np.diff(outside, axis=1).max(), 0.0, atol=1e-12)
    yield at_most("from outside: the zone is reached in the end", outside[:, -1], 1e-3 * span)
    yield estimate("mean of the last iterate", within[:, -1], zone.minimiser, wrong=zone.minimiser + 0.2 * span)
    spread = (within[:, -1] - zone.minimiser) ** 2
    yield estimate("variance of the last iterate", spread, zone.variance, wrong=0.7 * float(zone.variance))
    yield equal("stationary variance of the moment recursion", moments, zone.variance, rtol=1e-9)
    yield rate("variance against the step", etas, variances, 1.0, tolerance=0.15, along="step")
    yield at_most("gradient descent: distance at the end", jnp.abs(plain[-1] - zone.minimiser), 1e-6)
    yield at_most("one solution for all: distance at the end", jnp.abs(agree[-1] - 2.0), 1e-6)
    yield control("more than twice the longest step", at_most("highest point", long.max(), high))


@claim(
    rows=("M18.25",),
    erratum="The zone is said to be entered and kept with any fixed step; beyond one over the largest squared input it "
    "is left for ever.",
)
def confusion_with_any_step(key, *, m: Size = 12, steps: Count = 300, runs: Count = 256):
    r"""As printed: with a fixed learning rate stochastic gradient descent ends in the confusion zone and stays there.

    M, 18.4.3, "for a fixed learning rate": from outside, "after a few number of steps of SGD" $w_k\in(w_{\min}^*,
    w_{\max}^*)$, and "consequently, SGD will oscillate in the confusion zone". No limit for $\eta$ is given; with
    $\eta=\frac4{\min x_m^2}$ every step multiplies the distance to some $w_m^*$ by at least 7, and the distance to the
    zone of the nearest of all runs grows from five steps to ten, fifteen and twenty. Corrected: for $2\eta\max
    x_m^2\le1$ all runs end in the zone, the same data and starts.
    """
    counts = np.array([5, 10, 15, 20])  # of the long steps: the numbers do not go much further

    @jax.jit
    def measure(key):
        x_key, y_key, run_key = jax.random.split(key, 3)
        x = jax.random.uniform(x_key, (m,), minval=0.5, maxval=1.5)
        y = 2 * x + 0.5 * jax.random.normal(y_key, (m,))
        zone = confusion_zone(x, y, 0.5 / jnp.max(x**2))
        problem = least_squares_sum(x[:, None], y, jnp.full(1, zone.high + 1.0))

        def run(key, eta, at):
            path = minimize(problem, sgd(2 * eta), steps=steps, key=key).theta[at, 0]
            return jnp.maximum(path - zone.high, zone.low - path) / (zone.high - zone.low)

        etas = jnp.stack([0.5 / jnp.max(x**2), 4 / jnp.min(x**2)])
        keys, at = jax.random.split(run_key, runs), jnp.append(counts, steps)
        short, long = jax.vmap(lambda e: jax.vmap(lambda k: run(k, e, at))(keys))(etas)
        return short[:, -1], long[:, :-1]

    short, long = measure(key)
    yield at_most("distance to the zone over its length, step 1/(2 max x^2)", short, 0.0, atol=1e-9)
    nearest = long.min(0)
    yield monotone("step 4/min x^2: nearest of all runs", nearest, strict=True, x=counts, along="step")
    yield printed(
        at_most(
            "step 4/min x^2: nearest of all runs, distance to the zone over its length",
            nearest,
            0.0,
            atol=1e-9,
            x=counts,
            along="step",
        )
    )
