"""What one stochastic step does to the value, and the constants of the noise in it."""

import jax
import jax.numpy as jnp

from corollary.claims.optimization._regression import regression
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, rate
from corollary.optimization import (
    Problem,
    decreasing_step,
    least_growth,
    least_squares_sum,
    noise_constants,
    quadratic,
    rates,
)


@claim(rows=("M18.01", "M18.07", "M18.08", "M18.10", "M18.43"))
def expected_change(key, *, dim: Size = 3, n: Size = 20, points: Count = 500):
    r"""What one step does to the value, with the gradient and with a stochastic one.

    Gradient descent: $f(\theta_{k+1})-f(\theta_k)=-\eta\|\nabla f\|^2+\frac{\eta^2}2\nabla f^\top\nabla^2f\,\nabla
    f+O(\eta^3)$, and for an $L$-smooth $f$ at most $-\eta(1-\frac{L\eta}2)\|\nabla f\|^2$ (M 18.3). An unbiased
    stochastic gradient $g$: $\mathbb E f(\theta_{k+1})-f(\theta_k)\le\eta(\frac{L\eta}2\mathbb E\|g\|^2-\|\nabla
    f\|^2)$ (Lemma 18.3), and with $\mathbb E\|g\|^2\le\kappa_1+\kappa_2\|\nabla f\|^2$ at most
    $\eta(\frac{L\eta\kappa_1}2-(1-\frac{L\eta\kappa_2}2)\|\nabla f\|^2)$ (Lemma 18.5). The first of the two is an
    equality where $f$ has curvature $L$ in all directions. So no step below $\frac{2\|\nabla f\|^2}{L\mathbb E\|g\|^2}$
    raises the expected value. At the minimiser the value must rise.
    """
    etas = 2.0 ** -jnp.arange(2, 11)

    @jax.jit
    def measure(key):
        data_key, point_key, eta_key = jax.random.split(key, 3)
        x, y, theta = regression(data_key, n, dim)
        round_x = jnp.tile(jnp.eye(dim), (n, 1)) * jnp.sqrt(dim)  # curvature 1 in all directions
        labels = jnp.sign(y)

        def logistic(t):
            return jnp.mean(jax.nn.softplus(-labels * (x @ t)))

        slope, hessian = jax.grad(logistic)(theta), jax.hessian(logistic)(theta)
        change = jax.vmap(lambda eta: logistic(theta - eta * slope) - logistic(theta))(etas)
        remainder = jnp.abs(change + etas * (slope @ slope) - etas**2 / 2 * (slope @ hessian @ slope))

        def one_step(problem, theta, eta):
            each, full = problem.gradients(theta), problem.gradient(theta)
            expected = jax.vmap(lambda g: problem(theta - eta * g))(each).mean() - problem(theta)
            plain = problem(theta - eta * full) - problem(theta)
            return expected, plain, jnp.linalg.norm(full), jnp.mean(jnp.sum(each**2, 1))

        def longest(problem, theta):
            """The expected change at the step below which the lemma promises that it is no rise."""
            each, full = problem.gradients(theta), problem.gradient(theta)
            eta = decreasing_step(problem.L, jnp.linalg.norm(full), jnp.mean(jnp.sum(each**2, 1)))
            return one_step(problem, theta, eta)[0] / problem(theta)

        problem = least_squares_sum(x, y)
        flat = least_squares_sum(round_x, jax.random.normal(data_key, (n * dim,)))
        # a quarter more curved than the other in all directions
        steeper = least_squares_sum(round_x * 1.25**0.5, flat.data[1])
        at = problem.minimiser + 3 * jax.random.normal(point_key, (points, dim))
        eta = jax.random.uniform(eta_key, (points,), minval=0.01, maxval=2.0) / problem.L
        constants = noise_constants(x, y, 1.5 * least_growth(x))
        return (
            remainder,
            jax.vmap(lambda t, e: one_step(problem, t, e))(at, eta),
            jax.vmap(lambda t, e: one_step(flat, t, e * problem.L / flat.L))(at, eta),
            one_step(problem, problem.minimiser, 0.1),
            jax.vmap(lambda t: longest(problem, t))(at),
            jax.vmap(lambda t: longest(flat, t))(at),
            (eta, problem.L, flat.L, eta * problem.L / flat.L),
            constants,
            jax.vmap(lambda t, e: one_step(steeper, t, e * problem.L / flat.L))(at, eta),
        )

    remainder, found, round_found, still, steep, level, (eta, L, flat_L, flat_eta), constants, over = measure(key)
    yield rate("gradient descent: rest after the second order", etas, remainder, 3.0, tolerance=0.1, along="step")
    change, plain, norm, second = found
    rounding = 1e-12 * float(jnp.abs(change).max())
    bound = rates.gradient_descent.decrease(L, norm, step=eta)
    yield at_most("gradient descent: decrease", plain, bound, atol=rounding)
    yield at_most(
        "least squares: expected change", change, rates.sgd.expected_change(L, norm, second, step=eta), atol=rounding
    )
    moment = constants.kappa1 + constants.kappa2 * norm**2
    yield at_most(
        "least squares: expected change, noise constants",
        change,
        rates.sgd.expected_change(L, norm, moment, step=eta),
        atol=rounding,
    )
    change, plain, norm, second = round_found
    predicted = rates.sgd.expected_change(flat_L, norm, second, step=flat_eta)
    yield equal("the same curvature in all directions: attained", change, predicted, rtol=1e-9, atol=rounding)
    rise, _, _, noise = still
    yield at_least("rise in expectation at the minimiser", rise, 0.0)
    yield at_most("rise at the minimiser", rise, L * 0.1**2 / 2 * noise)
    # relative to values that are sums of squares, rounded at 1e-16 of themselves
    yield at_most("no rise at the longest step that the lemma allows, of the value", steep, 0.0, atol=1e-12)
    yield equal("level there with the same curvature in all directions, of the value", level, 0.0, atol=1e-12)
    change, _, norm, second = over
    allowed = rates.sgd.expected_change(flat_L, norm, second, step=flat_eta)
    yield control("a curvature a quarter above L", at_most("expected change", change, allowed, atol=rounding))


@claim(rows=("M18.09",))
def constants_of_least_squares(key, *, dim: Size = 3, n: Size = 20, points: Count = 4000):
    r"""The noise constants of least squares are known exactly.

    For $f_i=\frac12(x_i\cdot\theta-y_i)^2$ and $\kappa_2>\lambda_{\max}(A^{-1}BA^{-1})$, with $A=\frac1n\sum
    x_ix_i^\top$, $B=\frac1n\sum\|x_i\|^2x_ix_i^\top$, the least $\kappa_1$ in $\mathbb E\|\nabla
    f_i(\theta)\|^2\le\kappa_1+\kappa_2\|\nabla f(\theta)\|^2$ is $e+c^\top(\kappa_2A^2-B)^{-1}c$ with
    $e=\frac1n\sum\|x_i\|^2r_i^2$, $c=\frac1n\sum\|x_i\|^2r_ix_i$ and the residuals $r_i$ at the minimum: attained at
    one point. For consistent data it is 0. Below that $\kappa_2$ no constant suffices; $\kappa_2<1$ is never enough.
    """

    @jax.jit
    def measure(key):
        data_key, point_key = jax.random.split(key)
        x, y, truth = regression(data_key, n, dim)
        growth = least_growth(x)
        found = noise_constants(x, y, 1.5 * growth)
        problem, exact = least_squares_sum(x, y), noise_constants(x, x @ truth, 1.5 * growth)
        spread = 10.0 ** jax.random.uniform(point_key, (points, 1), minval=-3, maxval=3)

        def moments(theta):
            each = problem.gradients(theta)
            return jnp.mean(jnp.sum(each**2, 1)), jnp.sum(each.mean(0) ** 2)

        at = found.attained + spread * jax.random.normal(point_key, (points, dim))
        return jax.vmap(moments)(at), moments(found.attained), found, exact.kappa1, growth

    (second, square), (top, under), (kappa1, kappa2, _), consistent, growth = measure(key)
    scale = float(jnp.abs(kappa1) + 1)
    yield at_most("second moment at random points", second, kappa1 + kappa2 * square, atol=1e-10 * scale)
    yield equal("attained at one point", top, kappa1 + kappa2 * under, rtol=1e-9)
    yield equal("consistent data: first constant", consistent, 0.0, atol=1e-20 * scale + 1e-18)
    yield at_least("second constant", growth, 1.0)
    yield control("a second constant below the limit, 0.9", at_most("second moment", second, kappa1 + 0.9 * square))


@claim(rows=("M18.11",))
def gradient_dominates_value(key, *, dim: Size = 6, points: Count = 1000):
    r"""Strong convexity makes the gradient large wherever the value is.

    If $f$ is $\gamma$-strongly convex, $\|\nabla f(\theta)\|^2\ge2\gamma(f(\theta)-f^*)$, with equality along an
    eigenvector to $\gamma$ of a quadratic. Least squares without full rank has it too, with the least positive
    eigenvalue for $\gamma$. A convex function that is not strongly so need not: $\theta^4$ near 0.
    """

    @jax.jit
    def measure(key):
        data_key, point_key = jax.random.split(key)
        x, y, _ = regression(data_key, dim // 2, dim)
        lame = least_squares_sum(x, y)
        at = 2 * jax.random.normal(point_key, (points, dim))
        spectrum = jnp.geomspace(0.1, 1.0, dim)
        round_one = quadratic(spectrum)

        def both(problem, at):
            return jnp.sum(jax.vmap(problem.gradient)(at) ** 2, 1), jax.vmap(problem)(at) - problem.minimum

        gamma = jnp.linalg.eigvalsh(x @ x.T / x.shape[0])[0]
        axis = jnp.linspace(0.1, 5, 20)[:, None] * jnp.eye(dim)[0]
        fourth = Problem(lambda t: jnp.sum(t**4), (), jnp.zeros(1), minimum=0.0)
        near = both(fourth, jnp.linspace(0.01, 0.1, 20)[:, None])
        return both(round_one, at), both(lame, at), gamma, both(round_one, axis), near

    strong, lame, gamma, axis, quartic = measure(key)
    yield at_least("quadratic with least eigenvalue 0.1", strong[0], 2 * 0.1 * strong[1])
    yield at_least("least squares of half the rank", lame[0], 2 * gamma * lame[1], atol=1e-12)
    yield equal("along the flattest eigenvector: attained", axis[0], 0.2 * axis[1], rtol=1e-12)
    yield control("the fourth power near its minimum", at_least("squared gradient", quartic[0], 0.2 * quartic[1]))
