"""Momentum under stochastic gradients: where it does not accelerate, and what does."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, printed, rate
from corollary.optimization import (
    best_contraction,
    contraction,
    coordinate_least_squares,
    finite_sum,
    heavy_ball,
    mass,
    mass_parameters,
    minimize,
    nesterov,
    quadratic,
    rates,
    sag,
    second_moment_matrix,
    strongly_convex_momentum,
    svrg,
    svrg_variance,
)

CONDITIONS = np.geomspace(1e3, 1e5, 4)


def _pair(m):
    return jnp.stack([jnp.ones_like(m), 1 / m])


@claim(rows=("M18.23",))
def momentum_does_not_accelerate(key, *, runs: Count = 20_000, steps: Size = 12):
    r"""Momentum changes the constant of stochastic gradient descent, not the power of the condition number.

    Least squares with samples $x=\sqrt{h_i}\,z\,e_i$, $i\in\{1,2\}$ with probability ½ each, $h=(1,\frac1m)$ and $z$
    normal, fitted exactly by $\theta^*=0$. With the best constant step and momentum the expected loss shrinks per step
    by a factor $1-\frac cm$, for large $m$, with plain stochastic gradients, with the heavy ball and with Nesterov's
    momentum: the factor is the spectral radius of the matrix that the second moments follow. With full gradients it is
    $1-\frac cm$ for gradient descent and $1-\frac c{\sqrt m}$ for Nesterov's method. (M cites Liu and Belkin, and
    Kidambi and others.) What spoils it is the noise in the size of the samples: with $z=\pm1$ Nesterov's momentum does
    accelerate.
    """
    m = jnp.asarray(CONDITIONS)
    ten = jnp.array([1.0, 0.1])

    @jax.jit
    def gaps():
        def best(method, amplitude):
            return 1 - jax.vmap(lambda m: best_contraction(method, _pair(m), amplitude=amplitude).factor)(m)

        # a single coordinate, seen at every step and with its true curvature, is the full gradient
        def full(m):
            rho = strongly_convex_momentum(m, 1.0)
            each = [contraction("nesterov", 1.0, rho, h[None], amplitude="sign") for h in _pair(m)]
            return 1 - jnp.maximum(*each), 1 - ((m - 1) / (m + 1)) ** 2

        normal = [best(method, "normal") for method in ("sgd", "heavy ball", "nesterov")]
        return normal, best("nesterov", "sign"), jax.vmap(full)(m)

    @jax.jit
    def simulate(key):
        def final(method):
            problem = coordinate_least_squares(ten)
            return jax.vmap(lambda k: minimize(problem, method, steps=steps, key=k).theta[-1])(keys) ** 2

        keys = jax.random.split(key, runs)
        return final(heavy_ball(0.2, 0.5)), final(nesterov(0.15, 0.7))

    (plain, ball, ahead), signs, (with_momentum, without) = gaps()
    for name, gap in (("plain", plain), ("heavy ball", ball), ("Nesterov's momentum", ahead)):
        yield rate(f"stochastic gradients, {name}: gap", m, gap, -1.0, tolerance=0.1, along="condition number")
    yield rate("full gradients, plain: gap", m, without, -1.0, tolerance=0.05, along="condition number")
    yield rate("full gradients, Nesterov: gap", m, with_momentum, -0.5, tolerance=0.05, along="condition number")
    squares = simulate(key)
    for name, sample, method, step, momentum in (
        ("heavy ball", squares[0], "heavy ball", 0.2, 0.5),
        ("Nesterov", squares[1], "nesterov", 0.15, 0.7),
    ):
        right = _second_moments(method, step, momentum, ten, steps, 3.0)
        constant_size = _second_moments(method, step, momentum, ten, steps, 1.0)
        no_momentum = _second_moments(method, step, 0.0, ten, steps, 3.0)
        yield estimate(f"{name}: simulated squares, steep coordinate", sample[:, 0], right[0], wrong=constant_size[0])
        yield estimate(f"{name}: simulated squares, flat coordinate", sample[:, 1], right[1], wrong=no_momentum[1])
    yield control(
        "samples of constant size",
        rate("stochastic gradients, Nesterov's momentum: gap", m, signs, -1.0, tolerance=0.1, along="condition number"),
    )


def _second_moments(method, step, momentum, h, steps, fourth, compensation=0.0):
    """The mean square of the iterate of every coordinate after `steps` steps from 1, by the matrix."""
    matrices = second_moment_matrix(
        method, step, momentum, h, share=1 / h.size, fourth=fourth, compensation=compensation
    )
    state = np.array([1.0, 0.0, 0.0, 0.0])
    moments = np.stack([np.linalg.matrix_power(a, steps) @ state for a in np.asarray(matrices)])
    # the state holds the point of the gradient and its lead over the iterate; for the heavy ball the iterate itself
    return moments[:, 0] if method == "heavy ball" else moments[:, 0] - 2 * moments[:, 1] + moments[:, 3]


@claim(
    rows=("M18.23",),
    erratum="The bound with the root of m is printed for gradient descent without momentum; it holds with momentum.",
)
def printed_full_gradient(key, *, steps: Count = 400):
    r"""Gradient descent without momentum shrinks the loss by exp(-1/√m) per step.

    As printed: "standard GD without momentum would lead to" $|\Lambda(\theta_k)-\Lambda(\theta^*)|\le e^{-k/\sqrt
    m}|\Lambda(\theta_0)-\Lambda(\theta^*)|$. Take a quadratic with curvatures 1 and $\frac1m$, $m=400$, with the best
    step $\frac2{L+\gamma}$. Corrected: without momentum it is $e^{-k/m}$; the bound with the root is that of Nesterov's
    method, up to a factor 2.
    """
    k, m = jnp.arange(1, steps + 1), 400.0

    @jax.jit
    def measure(key):
        start = jax.random.uniform(key, (2,), minval=0.5, maxval=1.5)
        problem = quadratic(jnp.array([1.0, 1 / m]), start)
        methods = (nesterov(1.0, strongly_convex_momentum(m, 1.0)), optax.sgd(2 / (1 + 1 / m)))
        values = [minimize(problem, method, steps=steps).value for method in methods]
        return [v[1:] / v[0] for v in values]

    ahead, descent = measure(key)
    promised = jnp.exp(-k / m**0.5)
    yield at_most("Nesterov's method, against twice the bound", ahead, 2 * promised, x=k, along="iteration")
    yield at_most("gradient descent, the bound with m", descent, jnp.exp(-k / m), x=k, along="iteration")
    # "for k large enough" stands beside the other bounds of the page
    late = k >= steps // 2
    yield printed(at_most("gradient descent, the bound with the root of m", descent[late], promised[late], x=k[late]))


@claim(rows=("M18.24",))
def mass_accelerates(key, *, steps: Count = 400, runs: Count = 512, n: Size = 40, dim: Size = 4):
    r"""MaSS, Nesterov's momentum with a compensation term, does accelerate stochastic gradients.

    Least squares with samples $x$ that $\theta^*$ fits exactly, $H=\mathbb Exx^\top\succeq\mu I$, $\mathbb
    E\|x\|^2xx^\top\preceq L_1H$, $\mathbb E(x^\top H^{-1}x)xx^\top\preceq\tilde\kappa H$, $\kappa=L_1/\mu$,
    $\alpha=\frac1{\sqrt{\kappa\tilde\kappa}}$. With $\eta_1=\frac1{L_1}$, $\gamma=\frac{1-\alpha}{1+\alpha}$,
    $\eta_2=\frac{\eta_1}{1+\alpha}(1-\frac1{\tilde\kappa})$, the iteration $\theta_{k+1}=u_k-\eta_1g_k$,
    $u_{k+1}=(1+\gamma)\theta_{k+1}-\gamma\theta_k+\eta_2g_k$ satisfies $\mathbb EV_k\le(1-\alpha)^kV_0$ for
    $V=\|v-\theta^*\|^2_{H^{-1}}+\frac1\mu\|\theta-\theta^*\|^2$, $v=u+\frac1\alpha(u-\theta)$ (Liu and Belkin). On the
    instance where plain momentum does not help, $L_1=3$ and $\tilde\kappa=6$: the gap is of order $m^{-1/2}$ instead
    of $m^{-1}$.
    """
    k = jnp.arange(1, steps + 1)
    m = jnp.asarray(CONDITIONS)
    conditions = jnp.array([10.0, 100.0, 1000.0])

    @jax.jit
    def exact():
        def potentials(m, compensated):
            h = _pair(m)
            p, alpha = mass_parameters(3.0, h[1] / 2, 6.0), 1 / (6 * jnp.sqrt(m))
            back = p.compensation if compensated else 0.0
            matrices = second_moment_matrix("mass", p.step, p.momentum, h, share=0.5, fourth=3.0, compensation=back)

            def advance(state, _):
                uu, ud, dd = state[:, 0], state[:, 1], state[:, 3]
                v = (uu + 2 * ud / alpha + dd / alpha**2) / (h / 2)
                theta = (uu - 2 * ud + dd) / (h[1] / 2)
                return jnp.einsum("cij,cj->ci", matrices, state), (v + theta).sum()

            start = jnp.zeros((2, 4)).at[:, 0].set(1.0)
            return jax.lax.scan(advance, start, length=steps + 1)[1]

        def gap(m):
            p = mass_parameters(3.0, 1 / (2 * m), 6.0)
            return 1 - contraction("mass", p.step, p.momentum, _pair(m), compensation=p.compensation)

        return jax.vmap(lambda m: potentials(m, True))(conditions), potentials(100.0, False), jax.vmap(gap)(m)

    @jax.jit
    def simulate(key):
        x_key, theta_key, run_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (n, dim)) * jnp.geomspace(1.0, 0.1, dim)
        target = jax.random.normal(theta_key, (dim,))
        hessian = x.T @ x / n
        values, axes = jnp.linalg.eigh(hessian)
        white = x @ axes / jnp.sqrt(values)  # then H is the identity
        sizes = jnp.sum(x**2, 1), jnp.sum(white**2, 1)
        L1, statistical = (jnp.linalg.eigvalsh((white.T * s) @ white / n)[-1] for s in sizes)
        problem = finite_sum(lambda t, x, y: 0.5 * (x @ t - y) ** 2, (x, x @ target), jnp.zeros(dim))
        method = mass(*mass_parameters(L1, values[0], statistical))
        path = jax.vmap(lambda key: minimize(problem, method, steps=steps, key=key).theta)(
            jax.random.split(run_key, runs)
        )
        potential = target @ jnp.linalg.solve(hessian, target) + target @ target / values[0]
        return jnp.sum((path - target) ** 2, -1)[:, 1:] / values[0], potential, L1 / values[0], statistical

    found, without, gaps = exact()
    bounds = jnp.stack([rates.momentum.mass(6 * c, 6.0, v[0], k) for c, v in zip(conditions, found, strict=True)])
    yield at_most("mean potential at m = 10, 100, 1000, exact", found[:, 1:], bounds, x=k, along="iteration")
    yield rate("gap", m, gaps, -0.5, tolerance=0.05, along="condition number")
    squares, potential, kappa, statistical = simulate(key)
    upper = squares.mean(0) + 5 * squares.std(0) / np.sqrt(runs)
    promised = rates.momentum.mass(kappa, statistical, potential, k)
    yield at_most("finite sum: squared distance over μ, mean and 5 errors", upper, promised, x=k, along="iteration")
    yield control(
        "no compensation term", at_most("mean potential at m = 100", without[1:], bounds[1], x=k, along="iteration")
    )


@claim(rows=("M18.24",))
def control_variates(key, *, runs: Count = 256, n: Size = 8, epochs: Size = 6, inner: Count = 150, steps: Count = 1000):
    r"""With control variates stochastic gradients converge linearly with a constant step.

    Let $f=\frac1n\sum_if_i$ be $\mu$-strongly convex and every $f_i$ convex and $L$-smooth. SVRG with snapshots at
    random iterates of the last $m$ steps multiplies $\mathbb Ef(\tilde\theta)-f^*$ per epoch by at most
    $\frac1{\mu\eta(1-2L\eta)m}+\frac{2L\eta}{1-2L\eta}$ (Johnson and Zhang); SAG with $\eta=\frac1{16L}$ and a table
    of zeros has $\mathbb
    Ef(\theta_k)-f^*\le(1-\min\{\frac\mu{16L},\frac1{8n}\})^k(f(\theta_0)-f^*+\frac{4L}n\|\theta_0-\theta^*\|^2+
    \frac{\sigma^2}{16L})$, $\sigma^2=\frac1n\sum\|\nabla f_i(\theta^*)\|^2$ (Le Roux, Schmidt and Bach). The noise of
    SVRG's direction is at most $4L(f(\theta)-f^*+f(\tilde\theta)-f^*)$, attained up to $\frac1n$ where one of the $f_i$
    is $\frac L2\theta^2$, the others 0, and $\tilde\theta=-\theta$; it vanishes at the minimum. That of a plain
    stochastic gradient does not, and with the same constant step it stays at a distance.
    """
    k, checked = jnp.arange(1, steps + 1), np.arange(49, steps, 50)

    @jax.jit
    def measure(key):
        angle_key, y_key, run_key, point_key = jax.random.split(key, 4)
        # inputs of length 1 in all directions: L = 1, mu near 1/2
        angles = jnp.pi * (jnp.arange(n) + jax.random.uniform(angle_key, (n,))) / n
        x, y = jnp.stack([jnp.cos(angles), jnp.sin(angles)], 1), jax.random.normal(y_key, (n,))
        hessian = x.T @ x / n
        best = jnp.linalg.solve(hessian, x.T @ y / n)
        start = best + jnp.array([2.0, -2.0])
        problem = finite_sum(lambda t, x, y: 0.5 * (x @ t - y) ** 2, (x, y), start)
        least = problem(best)

        def excess(method, steps, at):
            # a method is made for every run: its own draws come from its own key
            values = jax.vmap(lambda key: minimize(problem, method(key), steps=steps, key=key).value[at])
            return values(jax.random.split(run_key, runs)) - least

        points = best + jax.random.normal(point_key, (20, 2, 2))
        noise = jax.vmap(lambda p: svrg_variance(problem, p[0], p[1]))(points)
        excesses = jax.vmap(lambda p: problem(p[0]) + problem(p[1]) - 2 * least)(points)
        at_best = svrg_variance(problem, best, best), svrg_variance(problem, best, None)
        # one term that counts among two hundred, seen from opposite sides of the minimum
        lone = finite_sum(lambda t, x: 0.5 * (x @ t) ** 2, (jnp.zeros((200, 1)).at[0].set(1.0),), jnp.ones(1))
        attained = svrg_variance(lone, jnp.ones(1), -jnp.ones(1)) / (8 * lone(jnp.ones(1)))
        known = problem(start) - least, jnp.linalg.eigvalsh(hessian)[0], jnp.sum(problem.gradients(best) ** 2) / n
        return (
            excess(lambda key: svrg(0.1, inner, key=key), epochs * inner, inner * np.arange(1, epochs + 1)),
            excess(lambda key: sag(1 / 16), steps, checked + 1),
            excess(lambda key: optax.sgd(1 / 16), steps, checked + 1),
            (noise, 4 * excesses, at_best, attained),
            known,
        )

    snapshots, averaged, plain, (noise, allowed, (none, some), attained), (gap, mu, sigma) = measure(key)
    s = jnp.arange(1, epochs + 1)
    factor = rates.variance_reduction.svrg_factor(1.0, mu, step=0.1, inner=inner)
    yield at_most("SVRG: excess, mean and 5 errors", _upper(snapshots), factor**s * gap, x=s, along="epoch")
    promised = rates.variance_reduction.sag(1.0, mu, n, gap, 8**0.5, sigma, k)[checked]
    # the excess is a difference of values of order one
    rounding = 1e-15 * float(gap + sigma)
    at = k[checked]
    yield at_most("SAG: excess, mean and 5 errors", _upper(averaged), promised, atol=rounding, x=at, along="iteration")
    yield at_most("noise of SVRG's direction", noise, allowed, along="point")
    yield at_least("one term that counts: share of the bound", attained, 0.99)
    yield equal("noise of SVRG's direction at the minimum", none, 0.0)
    yield equal("noise of a plain stochastic gradient there", some, sigma)
    yield control("no control variates", at_most("excess, mean", plain.mean(0), promised, x=at, along="iteration"))


def _upper(samples):
    return samples.mean(0) + 5 * samples.std(0) / np.sqrt(samples.shape[0])
