"""Nesterov's accelerated gradient: its forms, its damping, its rates."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import (
    Count,
    Positive,
    Probability,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    printed,
    rate,
)
from corollary.optimization import (
    Problem,
    bent_line,
    convex_momentum,
    heavy_ball,
    heavy_ball_matrix,
    huber,
    minimize,
    nesterov,
    nesterov_chain,
    nesterov_matrix,
    of_optax,
    polyak_parameters,
    quadratic,
    random_quadratic,
    rates,
    ridge_logistic,
    strongly_convex_momentum,
)


@claim(rows=("M17.20", "T02.15", "E03.10"))
def forms(key, *, dim: Size = 10, steps: Count = 300, step: Positive = 0.1, momentum: Probability = 0.9):
    r"""All forms of Nesterov's method walk the same path, or one that is ahead of it by a known amount.

    With constant $\eta$ and $\rho$, from $\theta_{-1}=\theta_0$, $u_0=0$: $\chi=\theta_k+\rho(\theta_k-\theta_{k-1})$,
    $\theta_{k+1}=\chi-\eta\nabla f(\chi)$ (E); $u_{k+1}=\rho u_k-\eta\nabla f(\theta_k+\rho u_k)$,
    $\theta_{k+1}=\theta_k+u_{k+1}$ (M); $u_{k+1}=\rho u_k-\nabla f(\theta_k+\eta\rho u_k)$,
    $\theta_{k+1}=\theta_k+\eta u_{k+1}$ (T, corrected). The form $u_{k+1}=\rho u_k-\eta\nabla f(\hat\theta_k)$,
    $\hat\theta_{k+1}=\hat\theta_k+\rho(u_{k+1}-u_k)+u_{k+1}$ (M), which is Optax's, follows
    $\hat\theta_k=\theta_k+\rho u_k$. With $\rho=0$ all are gradient descent. The gradient at the point ahead is what
    tells it from the heavy ball.
    """
    ways = ("velocity", "scaled velocity", "shifted")

    @jax.jit
    def measure(key):
        problem = random_quadratic(dim, 50.0, key=key)

        def path(method):
            return minimize(problem, method, steps=steps).theta[1:]

        return (
            path(nesterov(step, momentum)),
            {form: path(nesterov(step, momentum, form=form)) for form in ways},
            path(optax.sgd(step, momentum, nesterov=True)),
            path(heavy_ball(step, momentum)),
            problem.start,
        )

    reference, others, with_optax, ball, start = measure(key)
    ahead = reference + momentum * jnp.diff(jnp.concatenate([start[None], reference]), axis=0)
    # rounding errors of different order on a contracting path
    rounding = 1e-10 * float(jnp.abs(reference).max())
    for form in ("velocity", "scaled velocity"):
        yield equal(form, others[form], reference, atol=rounding)
    yield equal("shifted form, against the point ahead", others["shifted"], ahead, atol=rounding)
    yield equal("Optax, against the point ahead", with_optax, ahead, atol=rounding)
    yield control("the gradient where the ball is", equal("heavy ball", ball, reference, atol=rounding))


@claim(
    rows=("T02.15",),
    erratum="The gradient is printed at w + β (u_t - u_{t-1}), an equation for u_t; it must be at w + η β u_{t-1}.",
)
def printed_lookahead(key, *, dim: Size = 6, step: Positive = 0.1, momentum: Probability = 0.9):
    r"""Nesterov's method with the gradient at the printed point is Nesterov's method.

    As printed: $u_t=-\nabla f(w_t+\beta(u_t-u_{t-1}))+\beta u_{t-1}$, $w_{t+1}=w_t+\eta u_t$. The velocity appears on
    both sides and without the step. On a quadratic with Hessian $H$ the equation has the solution $u_t=(I+\beta
    H)^{-1}(-Hw_t+\beta Hu_{t-1}+\beta u_{t-1})$, which is another method. Corrected: the gradient at $w_t+\eta\beta
    u_{t-1}$.
    """

    @jax.jit
    def measure(key):
        problem = random_quadratic(dim, 50.0, key=key)
        hessian = problem.hessian(problem.start)

        def advance(state, _):
            w, u = state
            right = -problem.gradient(w) + momentum * (hessian @ u + u)
            new = jnp.linalg.solve(jnp.eye(dim) + momentum * hessian, right)
            residual = new + problem.gradient(w + momentum * (new - u)) - momentum * u
            return (w + step * new, new), (w + step * new, jnp.abs(residual).max())

        start = problem.start
        path, residual = jax.lax.scan(advance, (start, 0 * start), length=30)[1]

        def correct(state, _):
            w, u = state
            new = -problem.gradient(w + step * momentum * u) + momentum * u
            return (w + step * new, new), w + step * new

        corrected = jax.lax.scan(correct, (start, 0 * start), length=30)[1]
        return path, residual, corrected, minimize(problem, nesterov(step, momentum), steps=30).theta[1:]

    path, residual, corrected, right = measure(key)
    yield equal("residual of the printed equation", residual, 0.0, atol=1e-12, along="iteration")
    name = "first coordinate, against Nesterov's method"
    yield equal(f"{name}: corrected", corrected[:, 0], right[:, 0], atol=1e-10, along="iteration")
    yield printed(equal(f"{name}: as printed", path[:, 0], right[:, 0], atol=1e-10, along="iteration"))


@claim(rows=("M17.20",))
def damping(key, *, momentum: Probability = 0.8):
    r"""Nesterov's method damps directions of large curvature, the heavy ball damps all alike.

    On $\frac h2\theta^2$, where the roots are complex, the iteration matrix of Nesterov's method has eigenvalues of
    modulus $\sqrt{\rho(1-\eta h)}<\sqrt\rho$, falling with the curvature; those of the heavy ball have modulus
    $\sqrt\rho$. In one step from the same state the two differ by $\eta h\rho u$.
    """
    # complex for Nesterov where (1 + rho)^2 (1 - x) < 4 rho, for the heavy ball where sqrt(x) > 1 - sqrt(rho)
    least = max(1 - 4 * momentum / (1 + momentum) ** 2, (1 - momentum**0.5) ** 2)
    x = jnp.linspace(least + 0.02, 0.98, 40)

    @jax.jit
    def measure(key):
        h, position, velocity = jax.random.uniform(key, (3,), minval=0.5, maxval=2.0)
        state = jnp.stack([position, position - velocity])
        ahead, ball = nesterov_matrix(x / h, momentum, h), heavy_ball_matrix(x / h, momentum, h)
        return ahead, ball, (ahead @ state - ball @ state)[:, 0] / velocity

    ahead, ball, difference = measure(key)
    modulus = np.abs(np.linalg.eigvals(np.stack([ahead, ball])))
    predicted = jnp.sqrt(momentum * (1 - x))
    for i, which in enumerate(("larger", "smaller")):
        yield equal(f"Nesterov, {which} eigenvalue", modulus[0][:, i], predicted, x=x, along="η h")
    yield equal("heavy ball, both eigenvalues", modulus[1], momentum**0.5)
    yield equal("difference of one step over the velocity", difference, -x * momentum, x=x, along="η h")
    small = 0.5 * (1 - 4 * momentum / (1 + momentum) ** 2)
    real = np.abs(np.linalg.eigvals(np.asarray(nesterov_matrix(small, momentum, 1.0)))).max()
    wrong = np.sqrt(momentum * (1 - small))
    yield control("curvature so small that the roots are real", equal("larger eigenvalue", real, wrong))


@claim(rows=("E03.11", "T02.17"))
def convex_rate(key, *, dim: Size = 300, steps: Count = 200):
    r"""On smooth convex functions Nesterov's method comes within O(1/k²) of the minimum.

    Let $f$ be convex and $L$-smooth, $\eta=1/L$ and the momentum of step $k$ either $\frac{k-1}{k+2}$ or
    $\frac{t_{k-1}-1}{t_k}$ with $t_0=1$, $t_{k+1}=\frac{1+\sqrt{1+4t_k^2}}2$. Then
    $f(\theta_k)-f^*\le\frac{2L\|\theta_0-\theta^*\|^2}{(k+1)^2}$. The best constant for the first schedule is
    $\frac{2L\|\theta_0-\theta^*\|^2}{k^2+5k+6}$, attained by a Huber function: for large $k$ the factor 2 of the bound
    cannot be improved. (T and E only say that the guarantee is
    better than gradient descent's $\frac{L\|\theta_0-\theta^*\|^2}{2k}$.) On the quadratic of the lower bounds the
    exponent of gradient descent doubles.
    """
    k = jnp.arange(1, steps + 1)
    horizons = np.array([1, 3, 10, 50, 500])

    @jax.jit
    def measure(key):
        chain, flat = nesterov_chain(dim), random_quadratic(30, 1e6, key=key)

        def gaps(problem):
            methods = (nesterov(1.0, convex_momentum), nesterov(1.0), optax.sgd(1.0))
            return jnp.stack([minimize(problem, m, steps=steps).value[1:] for m in methods])

        far = minimize(huber(1.0, start=1e9), nesterov(1.0, convex_momentum), steps=500).theta
        driven = (far[0] - far)[horizons]
        worst = jax.vmap(
            lambda s, h: minimize(huber(1 / (2 * s + 1)), nesterov(1.0, convex_momentum), steps=500).value[h]
        )(driven, jnp.asarray(horizons))
        steep = minimize(quadratic(jnp.ones(1)), nesterov(1.9, convex_momentum), steps=steps).value[1:]
        distances = [jnp.linalg.norm(p.start - p.minimiser) for p in (chain, flat)]
        return gaps(chain), gaps(flat), distances, worst, steep

    chain, flat, (chain_distance, flat_distance), worst, steep = measure(key)
    bound = rates.momentum.nesterov_convex
    yield at_most("quadratic of the lower bounds", chain[:2], bound(1.0, chain_distance, k), x=k, along="iteration")
    yield at_most("ill-conditioned quadratic", flat[:2], bound(1.0, flat_distance, k), x=k, along="iteration")
    sharp = rates.momentum.nesterov_convex_tight(1.0, flat_distance, k)
    yield at_most("ill-conditioned quadratic, best constant", flat[0], sharp, x=k, along="iteration")
    attained = rates.momentum.nesterov_convex_tight(1.0, 1.0, horizons)
    # the drift of the far start is a difference of numbers of size 1e9
    yield equal("Huber function at its horizon: attained", worst, attained, rtol=1e-6, x=horizons, along="horizon")
    yield at_least("the same at 500 steps: share of the bound", worst[-1] / bound(1.0, 1.0, 500), 0.99)
    # over a decade of a chain of finite length the two exponents, near 1/2 and 1, are known to a few percent
    late = np.asarray(k) > 10
    slopes = [np.polyfit(np.log(k[late]), np.log(gap[late]), 1)[0] for gap in (chain[0], chain[2])]
    yield equal("exponent over that of gradient descent", slopes[0] / slopes[1], 2.0, rtol=0.1)
    yield control("a step of 1.9/L", at_most("excess", steep, bound(1.0, 1.0, k), x=k, along="iteration"))


@claim(rows=("M17.21", "E03.11", "T02.17"))
def strongly_convex_rate(key, *, dim: Size = 20, condition: Positive = 400.0, n: Size = 100, steps: Count = 1000):
    r"""On smooth, strongly convex functions Nesterov's method contracts by 1 - 1/√κ per step.

    Let $f$ be $L$-smooth and $\mu$-strongly convex, $\kappa=L/\mu$, $\eta=1/L$,
    $\rho=\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$ (M, Remark 17.18). Then
    $$f(\theta_k)-f^*\le\Bigl(1-\frac1{\sqrt\kappa}\Bigr)^k\Bigl(f(\theta_0)-f^*+\frac\mu2\|\theta_0-\theta^*\|^2\Bigr).$$
    On quadratics $\|\theta_k-\theta^*\|\le(1+\frac k{\sqrt\kappa})(1-\frac1{\sqrt\kappa})^k\|\theta_0-\theta^*\|$,
    with equality along the eigenvector of $\mu$, where the iteration matrix has a double root; no other curvature has
    a larger spectral radius.
    """
    k = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        quadratic_key, x_key, y_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (n, dim))
        labels = jax.random.bernoulli(y_key, shape=(n,)).astype(float)

        def run(problem):
            rho = strongly_convex_momentum(problem.L, problem.mu)
            path = minimize(problem, nesterov(1 / problem.L, rho), steps=steps)
            far = jnp.linalg.norm(path.theta - problem.minimiser, axis=-1) if path.theta.ndim > 1 else path.theta
            return path.value - problem.minimum, far, problem.L, problem.mu

        ball = random_quadratic(dim, condition, key=quadratic_key)
        rho = strongly_convex_momentum(ball.L, ball.mu)
        slow = minimize(quadratic(ball.mu[None]), nesterov(1 / ball.L, rho), steps=steps).theta[:, 0]
        matrices = nesterov_matrix(1 / ball.L, rho, jnp.geomspace(ball.mu, ball.L, 20))
        # as if mu were 25 times what it is
        hasty = minimize(ball, nesterov(1 / ball.L, strongly_convex_momentum(ball.L, 25 * ball.mu)), steps=steps)
        found = {
            "quadratic": run(ball),
            "logistic": run(ridge_logistic(x, labels, 0.01, start=3 * jnp.ones(dim))),
            "line with a bend": run(bent_line()),
        }
        return found, jnp.abs(slow), matrices, hasty.value

    found, slow, matrices, hasty = measure(key)
    for name, (gap, far, L, mu) in found.items():
        bound = rates.momentum.nesterov_strongly_convex(L, mu, gap[0], jnp.abs(far[0]), k)
        # values are differences of numbers of the size of the first one
        yield at_most(f"excess, {name}", gap[1:], bound, atol=1e-14 * float(gap[0]), x=k, along="iteration")
    gap, far, L, mu = found["quadratic"]
    bound = rates.momentum.nesterov_quadratic_distance(L, mu, far[0], k)
    # the gradient is known up to eps L times the numbers in it, which moves the minimum by kappa times their rounding
    floor = 4 * 2.3e-16 * condition * float(far[0])
    yield at_most("distance on the quadratic", far[1:], bound, atol=floor, x=k, along="iteration")
    early = min(steps, 200)
    # a double root: errors grow like the square of the step count
    yield equal(
        "attained at the least curvature",
        slow[1 : early + 1],
        rates.momentum.nesterov_quadratic_distance(L, mu, 1.0, k[:early]),
        rtol=1e-15 * early**3,
        x=k[:early],
        along="iteration",
    )
    radii = np.abs(np.linalg.eigvals(np.asarray(matrices))).max(-1)
    # near a double root eigenvalues move with the root of the rounding
    yield equal("spectral radius at the least curvature", radii[0], 1 - condition**-0.5, rtol=1e-6)
    yield at_most("spectral radius at larger curvatures", radii[1:], 1 - condition**-0.5)
    wrong = rates.momentum.nesterov_strongly_convex(L, 25 * mu, hasty[0], far[0], k)
    flatter = at_most("excess", hasty[1:], wrong, x=k, along="iteration")
    yield control("a function 25 times flatter than assumed", flatter)


@claim(rows=("M17.21",))
def best_momentum(key, *, curvatures: Size = 60):
    r"""The momentum (√m - 1)/(√m + 1) is the best one for quadratics with the step 1/L.

    Let $\eta=1/L$ and $m=L/\gamma$. Over $\rho\in[0,1)$ the largest spectral radius of Nesterov's iteration over the
    curvatures in $[\gamma,L]$ is least at $\rho=\frac{\sqrt m-1}{\sqrt m+1}$, where it is $1-\frac1{\sqrt m}$: below,
    the flattest direction creeps; above, it swings with the radius $\sqrt{\rho(1-1/m)}$. At $m=1$ it is 0, for large
    $m$ it tends to 1, and the usual 0.9 belongs to $m=361$. With another step it is another one.
    """
    conditions = jnp.array([4.0, 25.0, 100.0, 361.0, 1000.0])
    rest = jnp.geomspace(0.01, 1.0, 2001)  # 1 - rho

    @jax.jit
    def measure(key):
        L = jax.random.uniform(key, minval=0.5, maxval=2.0)

        def radii(m, factor=1.0):
            h = jnp.geomspace(L / m, L, curvatures)
            return _radius(nesterov_matrix(factor / L, 1 - rest[:, None], h)).max(1)

        return jax.vmap(radii)(conditions), radii(100.0, 0.3), strongly_convex_momentum(L, L)

    radii, short, none = measure(key)
    best = 1 - rest[jnp.argmin(radii, 1)]
    predicted = (jnp.sqrt(conditions) - 1) / (jnp.sqrt(conditions) + 1)
    # the scan has steps of 0.23 % in 1 - rho
    yield equal("friction 1 - ρ at the best", 1 - best, 1 - predicted, rtol=0.003, x=conditions, along="m")
    # and the radius has a corner there, with the root of the distance on its steep side
    yield equal("least radius", radii.min(1), 1 - 1 / jnp.sqrt(conditions), rtol=5e-3, x=conditions, along="m")
    yield equal("m = 1 needs no momentum", none, 0.0)
    yield equal("m = 361 needs 0.9", strongly_convex_momentum(361.0, 1.0), 0.9)
    yield control("a step of 0.3/L", equal("friction", rest[jnp.argmin(short)], 2 / 11, rtol=0.003))


def _radius(matrices):
    """The spectral radius of 2 by 2 matrices, from trace and determinant."""
    half = (matrices[..., 0, 0] + matrices[..., 1, 1]) / 2
    det = matrices[..., 0, 0] * matrices[..., 1, 1] - matrices[..., 0, 1] * matrices[..., 1, 0]
    inside = half**2 - det
    return jnp.where(inside > 0, jnp.abs(half) + jnp.sqrt(jnp.abs(inside)), jnp.sqrt(jnp.abs(det)))


@claim(rows=("T02.17", "M17.19", "M17.21", "E03.11"))
def acceleration(key, *, dim: Size = 20, limit: Count = 400_000):
    r"""Momentum replaces the condition number by its root in the number of steps.

    On quadratics with spectrum spread over $[L/\kappa,L]$, the steps until $f\le10^{-8}f(\theta_0)$ grow like $\kappa$
    for gradient descent (step $1/L$) and like $\sqrt\kappa$ for Nesterov's method
    ($\rho=\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$) and for the heavy ball with Polyak's parameters, which has it on
    quadratics only. With $\rho$ fixed the exponent is again 1.
    """
    conditions = jnp.asarray(10.0 ** np.arange(1.0, 4.1, 0.5))

    @jax.jit
    def measure(key):
        noise = jax.random.normal(key, (dim,))
        signs = jnp.where(noise >= 0, 1.0, -1.0) + 0.1 * noise  # no direction is missing by chance

        def count(method):
            def one(condition):
                h = condition ** (-jnp.linspace(0.0, 1.0, dim))
                start = signs / jnp.sqrt(h)  # about the same share of the value in every direction
                problem = Problem(lambda theta, h: 0.5 * h @ theta**2, (h,), start)
                way = of_optax(method(condition))
                small = 1e-8 * problem(start)

                def go(state):
                    return (problem(way.point(state[0])) > small) & (state[1] < limit)

                def advance(state):
                    return way.step(problem, state[0], key), state[1] + 1

                return jax.lax.while_loop(go, advance, (way.init(problem, start), 0))[1]

            return jax.vmap(one)(conditions)

        return (
            count(lambda m: heavy_ball(1.0, 0.0)),
            count(lambda m: nesterov(1.0, strongly_convex_momentum(m, 1.0))),
            count(lambda m: heavy_ball(*polyak_parameters(1.0, 1 / m))),
            count(lambda m: nesterov(1.0, 0.5)),
        )

    descent, ahead, ball, fixed = measure(key)
    yield rate("gradient descent", conditions, descent, 1.0, tolerance=0.1, along="condition number")
    yield rate("Nesterov's method", conditions, ahead, 0.5, tolerance=0.1, along="condition number")
    yield rate("heavy ball", conditions, ball, 0.5, tolerance=0.1, along="condition number")
    ratio, root = descent / ahead, jnp.sqrt(conditions)
    yield at_least("steps of gradient descent over Nesterov's", ratio, root / 4, x=conditions, along="condition number")
    yield control("a momentum of 0.5 at all κ", rate("Nesterov's method", conditions, fixed, 0.5, tolerance=0.1))
