"""Gradient descent on quadratics: every axis by itself, the threshold of the step, the condition number."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, monotone, printed, rate
from corollary.optimization import (
    Problem,
    best_step,
    condition_number,
    gradient_descent,
    minimize,
    quadratic,
    quadratic_descent,
    quadratic_factor,
    random_quadratic,
    steps_to_shrink,
)


@claim(rows=("B05.07", "B05.12", "B05.33", "E03.03", "M17.02", "T02.01", "T02.18", "T02.19"))
def dynamics(key, *, dim: Size = 12, condition: Positive = 30.0, steps: Count = 100):
    r"""Gradient descent on a quadratic multiplies every axis by its factor and converges iff the step is below 2/L.

    For $f(\theta)=\frac12(\theta-\theta^*)^\top H(\theta-\theta^*)$ with $H=U\Lambda U^\top\succ0$,
    $\theta_k-\theta^*=(I-\eta H)^k(\theta_0-\theta^*)$: in the coordinates $z=U^\top(\theta-\theta^*)$ the $i$-th is
    multiplied by $1-\eta\lambda_i$ and its part of the value by $(1-\eta\lambda_i)^2$. Everything converges iff
    $\eta<2/\lambda_{\max}$ (B says that $1/\lambda$ is needed), $|\theta_k-\theta^*|\le\|I-\eta
    H\|^k|\theta_0-\theta^*|$, attained along an extreme axis, and with $\eta=\frac1{2\lambda_1}$ the top axis halves
    and the last contracts by $1-\frac1{2\kappa}$ (T): $\lceil\ln\epsilon/\ln(1-\frac1{2\kappa})\rceil$ steps to the
    share $\epsilon$. Least squares: $H=X^\top X$ (B, Problem 2). Optax's `sgd` is this recursion.
    """

    @jax.jit
    def measure(key):
        q_key, x_key, w_key = jax.random.split(key, 3)
        p = random_quadratic(dim, condition, key=q_key)
        hessian, centre = p.data
        spectrum, axes = jnp.linalg.eigh(hessian)
        products = jnp.array([0.5, 1.0, 1.9])
        path = jax.vmap(lambda c: minimize(p, optax.sgd(c / p.L), steps=steps).theta)(products)
        by_hand = gradient_descent(p.gradient, p.start, 0.5 / p.L, steps)
        closed = jax.vmap(lambda c: quadratic_descent(hessian, p.start, c / p.L, steps, centre))(products)
        # the rotated problem, one coordinate at a time
        turned = quadratic(spectrum, axes.T @ (p.start - centre))
        rotated = minimize(turned, optax.sgd(0.5 / p.L), steps=steps).theta
        parts = 0.5 * spectrum * ((path[0] - centre) @ axes) ** 2
        # least squares with as many equations as it takes for one solution
        x = jax.random.normal(x_key, (3 * dim, dim))
        w = jax.random.normal(w_key, (dim,))
        normal = x.T @ x
        # step 1/L contracts the flattest axis by 1 - 1/kappa: the bound of the exercise is attained from there
        values, vectors = jnp.linalg.eigh(normal)
        loss = Problem(lambda t, x, w: 0.5 * jnp.sum((x @ (t - w)) ** 2), (x, w), jnp.zeros(dim))
        starts = jnp.stack([jnp.zeros(dim), w + vectors[:, 0]])
        solved = jax.vmap(lambda s: minimize(loss, optax.sgd(1 / values[-1]), steps=steps, start=s).theta)(starts)
        thin = Problem(loss.function, (x[: dim // 2], w), jnp.zeros(dim))
        stalled = minimize(thin, optax.sgd(0.5 / jnp.linalg.norm(x[: dim // 2], 2) ** 2), steps=2000).theta[-1]
        # the threshold, from a start on the top axis
        line = quadratic(jnp.array([1.0]))
        sweep = jnp.array([1.9, 1.99, 2.0, 2.01, 2.1])
        ends = jax.vmap(lambda c: jnp.abs(minimize(line, optax.sgd(c), steps=2000).theta[-1, 0]))(sweep)
        away = jnp.linalg.norm(solved - w, axis=-1)
        norm = jnp.linalg.norm(jnp.eye(dim) - normal / values[-1], 2)
        return (
            path,
            closed,
            by_hand,
            (rotated, (path[0] - centre) @ axes),
            (parts, spectrum / p.L),
            away,
            norm,
            ends,
            (jnp.linalg.norm(stalled - w)),
        )

    path, closed, by_hand, (rotated, seen), (parts, shares), away, norm, ends, stalled = measure(key)
    k = jnp.arange(1, steps + 1)
    yield equal("simulated and closed form, steps 0.5/L, 1/L, 1.9/L", path, closed, rtol=1e-9, atol=1e-11)
    yield equal("Optax and the recursion by hand", path[0], by_hand, rtol=1e-12, atol=1e-13)
    yield equal("rotated coordinates go by themselves", seen, rotated, rtol=1e-9, atol=1e-11)
    factors = (1 - 0.5 * shares) ** (2 * k[:20, None])
    yield equal("value of each axis", parts[1:21], factors * parts[0], rtol=1e-8, atol=1e-13)
    yield at_most("least squares: distance", away[0, 1:], norm**k * away[0, 0], along="iteration")
    yield equal("least squares from its flattest axis: attained", away[1, 1:], norm**k, rtol=1e-9, along="iteration")
    yield at_most("steps 1.9/L and 1.99/L: distance after 2000 steps", ends[:2], 1e-8)
    yield equal("step 2/L: neither", ends[2], 1.0)
    # along e_d with the step 1/(2 L): the count is exact
    kappa = jnp.array([5.0, 30.0, 200.0])
    predicted = steps_to_shrink(1 - 1 / (2 * kappa), 1e-3)
    slow = jax.vmap(lambda c: minimize(quadratic(jnp.array([1.0]) / c), optax.sgd(0.5), steps=3000).theta[:, 0])(kappa)
    yield equal("steps to a thousandth along the flattest axis", jnp.argmax(slow <= 1e-3, axis=1), predicted)
    yield equal("the top axis halves, step 0.5/L: its value", parts[1:11, -1], 0.25 ** k[:10] * parts[0, -1], rtol=1e-8)
    yield control("steps 2.01/L and 2.1/L", at_most("distance after 2000 steps", ends[3:], 1.0))
    yield control("fewer equations than unknowns", at_most("distance to a given solution", stalled, 1e-3))


@claim(
    rows=("B05.12",),
    erratum="A step below 1/lambda is said to be needed for the objective to decrease by a constant factor; every step "
    "below 2/lambda does.",
)
def step_below_one_over_lambda(key):
    r"""As printed: the objective does not decrease by a constant factor if the step is 1/lambda or more.

    $g(z_{k+1})=(1-\lambda\eta)^2g(z_k)$; "we need $\eta<\frac1\lambda$ for the objective to decrease by a constant
    factor $<1$ in every step". Corrected: the factor is below 1 up to $\frac2\lambda$, and not beyond.
    """
    lam = 0.5 + jax.random.uniform(key, ())
    products = jnp.array([1.0, 1.2, 1.5, 1.9, 2.1, 3.0])
    problem = quadratic(lam[None])
    path = jax.vmap(lambda c: minimize(problem, optax.sgd(c / lam), steps=10).value)(products)
    worst, least = (path[:4, 1:] / path[:4, :1]).max(1), path[4:, 1:] / path[4:, :-1]
    shown = {"x": products[:4], "along": "step times lambda"}
    yield at_most("from 1 to 1.9 over lambda: largest share of the first value", worst, 0.9**2, **shown)
    yield at_least("2.1 and 3 over lambda: factor of the objective", least, 1.0)
    factor = path[:4, 1] / path[:4, 0]
    yield printed(at_least("from 1 to 1.9 over lambda: factor of the objective", factor, 1.0, **shown))


@claim(rows=("B05.13", "T02.19", "T02.20"))
def best_rate(key, *, dim: Size = 10):
    r"""The best constant step balances the two extreme axes, and the condition number decides how well that goes.

    $\eta^*=\arg\min_\eta\max_i|1-\eta\lambda_i|=\frac2{\lambda_{\max}+\lambda_{\min}}$, where the value contracts by
    $\rho=(\frac{\kappa-1}{\kappa+1})^2\le(1-\frac1\kappa)^2$ a step, $\kappa=\lambda_{\max}/\lambda_{\min}$; a start on
    the two extreme axes contracts by exactly that. The number of steps to a given accuracy grows like $\kappa$. (B
    prints the bound $(1-\kappa)^2$, which is more than 1 for every $\kappa>2$.) $\kappa$ is that of $cH$, of
    $UHU^\top$ and of $H^{-1}$.
    """
    kappas = jnp.array([2.0, 10.0, 100.0])
    many = jnp.array([32.0, 64.0, 128.0, 256.0, 512.0])

    @jax.jit
    def measure(key):
        s_key, q_key = jax.random.split(key)
        inner = jax.random.uniform(s_key, (3, dim - 2))
        spectra = jnp.concatenate([jnp.ones((3, 1)), kappas[:, None] ** -inner, 1 / kappas[:, None]], axis=1)
        best = jax.vmap(best_step)(spectra)
        grid = best[:, None] * jnp.linspace(0.5, 1.5, 2001)
        factors = jax.vmap(quadratic_factor)(spectra, grid)
        searched = jnp.take_along_axis(grid, jnp.argmin(factors, axis=1, keepdims=True), axis=1)[:, 0]

        def run(spectrum, step, start):
            return minimize(quadratic(spectrum), optax.sgd(step), steps=40, start=start).value

        extreme = jnp.zeros(dim).at[0].set(1.0).at[-1].set(1.0)
        exact = jax.vmap(lambda s, b: run(s, b, extreme))(spectra, best)
        spread = jax.vmap(lambda s, b: run(s, b, jnp.ones(dim)))(spectra, best)
        longer = jax.vmap(lambda s, b: run(s, 1.1 * b, extreme))(spectra, best)

        def count(kappa):
            pair = jnp.stack([jnp.ones(()), 1 / kappa])
            path = minimize(quadratic(pair), optax.sgd(best_step(pair)), steps=4000).value
            return jnp.argmax(path <= 1e-6 * path[0])

        matrix = random_quadratic(dim, 25.0, key=q_key).data[0]
        turn = jnp.linalg.qr(jax.random.normal(s_key, (dim, dim)))[0]
        same = jnp.stack([condition_number(m) for m in (3 * matrix, turn @ matrix @ turn.T, jnp.linalg.inv(matrix))])
        return best, searched, exact, spread, longer, jax.vmap(count)(many), same

    best, searched, exact, spread, longer, counts, same = measure(key)
    rho = ((kappas - 1) / (kappas + 1)) ** 2
    yield equal("best step by search", searched, best, rtol=1e-3)
    yield equal("extreme axes: factor of every step", exact[:, 1:11] / exact[:, :10], rho[:, None], rtol=1e-8)
    yield at_most("all axes: factor of every step", (spread[:, 1:11] / spread[:, :10]).max(1), rho)
    yield at_most("extreme axes: the bound with 1/kappa", exact[:, 1] / exact[:, 0], (1 - 1 / kappas) ** 2)
    yield rate("steps to accuracy against the condition number", many, counts, 1.0, tolerance=0.05, along="condition")
    yield equal("condition of a multiple, a rotation, the inverse", same, 25.0, rtol=1e-8)
    yield control("a step 10 % longer", at_most("factor of the value", (longer[:, 11] / longer[:, 10]), rho, rtol=1e-9))


@claim(
    rows=("B05.13",),
    erratum="The best step is written as the least factor instead of where it is taken, and the second line drops the "
    "square.",
)
def best_step_is_the_least_factor(key, *, dim: Size = 6):
    r"""As printed: the best step is the least value of the largest squared factor, with or without the square.

    $\eta^*=\min_\eta\max_i(1-\eta\lambda_i)^2=\min_\eta\max\{\eta\lambda_{\max}-1,1-\eta\lambda_{\min}\}$, and
    $\eta^*=\frac2{\lambda_{\max}+\lambda_{\min}}$. The last is where the minimum is; the other two are its values,
    $(\frac{\kappa-1}{\kappa+1})^2$ and $\frac{\kappa-1}{\kappa+1}$. Searched on a fine grid of steps.
    """
    # curvatures so small that the best step is above 1, and no factor is
    spectrum = jax.random.uniform(key, (dim,), minval=0.1, maxval=0.4).at[:2].set(jnp.array([0.1, 0.4]))
    best = 2 / (spectrum.max() + spectrum.min())
    grid = best * jnp.linspace(0.5, 1.5, 2001)
    factors = jnp.abs(1 - grid[:, None] * spectrum).max(1)
    yield equal("where the least factor is", grid[jnp.argmin(factors)], best, rtol=1e-3)
    yield equal("that step, as the library has it", best_step(spectrum), best)
    yield printed(equal("the least factor, squared: the best step", (factors**2).min(), best, rtol=1e-3))
    yield printed(equal("the least factor: its own square", factors.min(), (factors**2).min(), rtol=1e-3))


@claim(
    rows=("M17.13",),
    erratum="The contraction factor is said to decrease with the condition number; it increases, from 0 to 1.",
)
def factor_decreases_with_condition(key, *, count: Size = 20):
    r"""As printed: the factor of gradient descent with the step 2/(L + mu) decreases with the condition number.

    Remark 17.15: "$\lambda$ is a decreasing function of $\frac L\gamma$" for the factor
    $\lambda=(\frac{\kappa-1}{\kappa+1})^2$. Measured on quadratics with spectrum $\{1,\kappa\}$. Corrected: it
    increases, the worse the condition the slower.
    """
    kappas = 1.1 + jnp.cumsum(jax.random.uniform(key, (count,), minval=0.1, maxval=2.0))

    def factor(kappa):
        pair = jnp.stack([jnp.ones(()), kappa])
        square = jnp.sum(minimize(quadratic(pair), optax.sgd(best_step(pair)), steps=1).theta ** 2, axis=1)
        return square[1] / square[0]

    factors = jax.jit(jax.vmap(factor))(kappas)
    along = {"x": kappas, "along": "condition number"}
    yield monotone("factor of the squared distance: increasing", factors, "increasing", strict=True, **along)
    yield printed(monotone("factor of the squared distance: decreasing", factors, "decreasing", **along))
