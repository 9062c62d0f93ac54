"""Newton's method, parts of the Hessian, preconditioning, and the local models behind them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.foundations import SIGMOID_SMOOTHNESS
from corollary.optimization import (
    Problem,
    block_newton,
    isotropic_model,
    jacobi,
    minimize,
    newton,
    preconditioned,
    preconditioned_spectrum,
    random_cosines,
    random_quadratic,
    ridge_logistic,
    steps_to_shrink,
    taylor_model,
)


def _logistic(key, n, dim):
    x_key, y_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n, dim))
    return ridge_logistic(x, jax.random.bernoulli(y_key, jax.nn.sigmoid(2 * x[:, 0])).astype(float), 0.05)


@claim(rows=("B05.09", "T02.02"))
def local_models(key, *, dim: Size = 5):
    r"""The second-order model is good to third order, and Newton's step goes to its stationary point.

    $f(c+h)=f(c)+\nabla f(c)\cdot h+\frac12h^\top\nabla^2f(c)h+O(\|h\|^3)$, the first-order model is off by
    $O(\|h\|^2)$; the Hessian is symmetric. Newton's step $-[\nabla^2f]^{-1}\nabla f$ minimises the second-order model
    where $\nabla^2f\succ0$ (B does not say so), the gradient step $-\eta\nabla f$ the model with $\frac1\eta I$ in
    place of the Hessian.
    """
    sizes = 2.0 ** -jnp.arange(2, 10)

    @jax.jit
    def measure(key):
        f_key, c_key, h_key, d_key = jax.random.split(key, 4)
        p = random_cosines(dim, key=f_key, terms=20, scale=5.0)
        centre, h = jax.random.normal(c_key, (dim,)), jax.random.normal(h_key, (dim,))
        h = h / jnp.linalg.norm(h)

        def off(order):
            model = taylor_model(p, centre, order)
            # both signs of h, so that a zero of an odd term does not hide the order
            return jax.vmap(lambda s: jnp.abs(p(centre + s * h) - model(centre + s * h)))(sizes) + jax.vmap(
                lambda s: jnp.abs(p(centre - s * h) - model(centre - s * h))
            )(sizes)

        hessian = p.hessian(centre)
        convex = _logistic(d_key, 60, dim)
        model = taylor_model(convex, centre)
        after = minimize(convex, newton(), steps=1, start=centre).theta[1]
        eta = 0.7 / convex.L
        short = minimize(convex, optax.sgd(eta), steps=1, start=centre).theta[1]
        soft = isotropic_model(convex, centre, eta)
        # two derivatives at the centre and not three
        rough = lambda t: jnp.sum(jnp.abs(t - centre) ** 2.5)  # noqa: E731
        rough_model = taylor_model(rough, centre)
        kink = jax.vmap(lambda s: jnp.abs(rough(centre + s * h) - rough_model(centre + s * h)))(sizes)
        slopes = jax.grad(model)(after), jax.grad(soft)(short)
        return off(1), off(2), hessian, slopes, model(after) - model(centre), kink

    first, second, hessian, (slope, soft_slope), fall, kink = measure(key)
    # where the leading derivative along h happens to be small, the next one bends the line by up to a few tenths
    yield rate("error of the second-order model", sizes[2:], second[2:], 3.0, tolerance=0.3, along="distance")
    yield rate("error of the first-order model", sizes[2:], first[2:], 2.0, tolerance=0.3, along="distance")
    yield control(
        "two derivatives and not three, the power 5/2",
        rate("error of the second-order model", sizes[2:], kink[2:], 3.0, tolerance=0.3, along="distance"),
    )
    yield equal("Hessian: symmetric", hessian, hessian.T, atol=1e-13)
    yield equal("slope of the model after Newton's step", slope, 0.0, atol=1e-12)
    yield at_most("the model falls", fall, 0.0)
    yield equal("slope of the isotropic model after a gradient step", soft_slope, 0.0, atol=1e-12)


@claim(rows=("B05.09", "M17.05", "T02.22"))
def newtons_method(key, *, dim: Size = 6, n: Size = 100):
    r"""Newton's method solves quadratics at once, converges quadratically, and does not mind linear coordinates.

    One step from anywhere minimises a quadratic. If the Hessian is Lipschitz with constant $M$,
    $\|e_{k+1}\|\le\frac M2\|\nabla^2f(\theta_k)^{-1}\|\|e_k\|^2$ for the distance $e$ to a minimum, attained by
    $\frac12\theta^2+\frac M6\theta^3$ from above; for logistic loss $M=\frac1{6\sqrt3n}\sum\|x_i\|^3$. The iterates of
    $f(A\,\cdot)$ are $A^{-1}$ times those of $f$, which gradient descent does not share. It fails far out, as on
    $\ln\cosh\theta$ from $|\theta_0|>1.0887$, and where the Hessian is not positive definite: on $\ln(1+\theta^2)$ it
    runs away from beyond $1/\sqrt3$, at a saddle it goes to the saddle.
    """

    @jax.jit
    def measure(key):
        q_key, d_key, a_key, s_key = jax.random.split(key, 4)
        form = random_quadratic(dim, 1e4, key=q_key)
        once = minimize(form, newton(), steps=1).theta[1] - form.minimiser
        p = _logistic(d_key, n, dim)
        path = minimize(p, newton(), steps=8)
        error = jnp.linalg.norm(path.theta - p.minimiser, axis=1)
        lipschitz = SIGMOID_SMOOTHNESS * jnp.mean(jnp.linalg.norm(p.data[0], axis=1) ** 3)
        stiffness = jax.lax.map(lambda t: jnp.linalg.eigvalsh(p.hessian(t))[0], path.theta[:-1])
        bound = lipschitz / (2 * stiffness) * error[:-1] ** 2
        cubic = Problem(lambda t: jnp.sum(t**2 / 2 + t**3 / 2), (), jnp.ones(1))  # M = 3
        steep = minimize(cubic, newton(), steps=4).theta[:, 0]
        slow = minimize(p, optax.sgd(1 / p.L), steps=400)
        a = jnp.eye(dim) + 0.3 * jax.random.normal(a_key, (dim, dim))
        inner = Problem(lambda z, a: p(a @ z), (a,), jnp.linalg.solve(a, p.start))
        turned = minimize(inner, newton(), steps=8).theta @ a.T
        plain = minimize(inner, optax.sgd(0.1), steps=8).theta @ a.T
        direct = minimize(p, optax.sgd(0.1), steps=8).theta
        log_cosh = Problem(lambda t: jnp.sum(jnp.log(jnp.cosh(t))), (), jnp.zeros(1))
        edge = jax.vmap(lambda s: jnp.abs(minimize(log_cosh, newton(), steps=4, start=s[None]).theta[:, 0]))(
            jnp.array([1.0, 1.08, 1.09, 1.1])
        )
        log = Problem(lambda t: jnp.sum(jnp.log1p(t**2)), (), jnp.zeros(1))
        away = minimize(log, newton(), steps=6, start=jnp.array([0.7])).theta[:, 0]
        saddle = Problem(lambda t: t[0] ** 2 - t[1] ** 2 + t[1] ** 4, (), jnp.zeros(2))
        near = 0.1 * jax.random.uniform(s_key, (2,), minval=0.5)
        return (
            once,
            (error, bound),
            (steep[1:], 3 / 2 / (1 + 3 * steep[:-1]) * steep[:-1] ** 2),
            jnp.linalg.norm(slow.theta - p.minimiser, axis=1),
            (turned, path.theta),
            (plain, direct),
            edge,
            away,
            (minimize(saddle, newton(), steps=8, start=near).theta[-1]),
        )

    once, (error, bound), cubic, slow, (turned, theta), (plain, direct), edge, away, saddle = measure(key)
    # the solve of a system with condition 1e4
    yield equal("a quadratic with condition 10000, one step", once, 0.0, atol=1e-10)
    small = (error[1:] > 1e-7) & (error[:-1] < 0.5)
    order = jnp.log(error[1:]) / jnp.log(error[:-1])
    # the minimiser itself is known up to rounding
    yield at_most("logistic loss: error, from that before it", error[1:], bound, atol=1e-13, along="iteration")
    yield equal("a cubic: the constant attained", *cubic, rtol=1e-9, atol=1e-15, along="iteration")
    yield at_least("logistic loss: last order of convergence seen", jnp.where(small, order, 0.0).max(), 1.8)
    yield at_most("logistic loss: error after 8 steps", error[-1], 1e-12)
    counts = jnp.argmax(slow <= 1e-9), jnp.argmax(error <= 1e-9)
    yield at_least("steps to an error of 1e-9: gradient descent, five times those of Newton", counts[0], 5 * counts[1])
    yield equal("other coordinates: the same iterates", turned, theta, rtol=1e-7, atol=1e-9)
    yield at_least("gradient descent: other iterates", jnp.abs(plain - direct).max(), 1e-3)
    yield at_most("ln cosh from 1 and 1.08: closer", edge[:2, 4], edge[:2, 0])
    yield control("starts at 1.09 and 1.1, beyond the cycle", at_most("ln cosh: closer", edge[2:, 4], edge[2:, 0]))
    yield at_least("ln(1 + t^2) from 0.7: away", jnp.abs(away[1:]), 1.0)
    yield equal("near a saddle: to the saddle", saddle, 0.0, atol=1e-9)


@claim(rows=("B05.10",))
def parts_of_the_hessian(key, *, dim: Size = 8, steps: Count = 60):
    r"""With a part of the Hessian Newton's method is linear, with the spectral radius of what is left out.

    $\theta_{k+1}=\theta_k-B^{-1}\nabla f(\theta_k)$ contracts near a minimum by $\rho(I-B^{-1}H)\le\|B^{-1}\|\|H-B\|$,
    exactly so along the slowest direction: at once if $H$ has the blocks of $B$, the more slowly the more strongly they
    are coupled, and not at all beyond $\rho=1$.
    """
    couplings = jnp.array([0.0, 0.05, 0.1, 0.2, 0.4])

    @jax.jit
    def measure(key):
        q_key, m_key, x_key, c_key, y_key = jax.random.split(key, 5)
        scales = jnp.exp(jax.random.normal(q_key, (dim,)))
        mix = jax.random.normal(m_key, (dim, dim))
        # of unit norm, so that a coupling below 1 leaves the Hessian positive
        mix = (mix + mix.T) * (1 - jnp.eye(dim))
        mix = mix / jnp.linalg.norm(mix)

        def form(t, h):
            return 0.5 * t @ h @ t

        def one(c, blocks):
            h = jnp.diag(scales) + 2 * c * mix * jnp.sqrt(scales[:, None] * scales)
            b = jnp.where(blocks[:, None] == blocks, h, 0)
            # the matrix is similar to a symmetric one
            root = jnp.linalg.cholesky(jnp.linalg.inv(b))
            spectrum, axes = jnp.linalg.eigh(jnp.eye(dim) - root.T @ h @ root)
            slowest = jnp.argmax(jnp.abs(spectrum))
            radius, bound = jnp.abs(spectrum).max(), jnp.linalg.norm(jnp.linalg.inv(b), 2) * jnp.linalg.norm(h - b, 2)

            def size(start, steps):
                path = minimize(Problem(form, (h,), start), block_newton(np.asarray(blocks)), steps=steps).theta
                # in the norm of B the step is symmetric
                return jnp.sqrt(jnp.einsum("ki,ij,kj->k", path, b, path))

            return size(jnp.ones(dim), steps), size(root @ axes[:, slowest], 5), radius, bound

        single, pairs = np.arange(dim), np.arange(dim) // 2
        both = [jax.lax.map(lambda c, part=part: one(c, part), couplings) for part in (single, pairs)]
        h = jnp.where(pairs[:, None] == pairs, 0.5, 0.0) + jnp.eye(dim) * 0.5
        exact = minimize(Problem(form, (h,), jnp.ones(dim)), block_newton(pairs), steps=1)
        tied = jnp.full((dim, dim), 0.99) + 0.01 * jnp.eye(dim)
        apart = minimize(Problem(form, (tied,), jnp.ones(dim)), block_newton(single), steps=20)
        # not a quadratic: four features that have a part in common
        x = jax.random.normal(x_key, (200, 4)) + 0.5 * jax.random.normal(c_key, (200, 1))
        labels = jax.random.bernoulli(y_key, shape=(200,)).astype(float)
        p = ridge_logistic(x, labels, 0.01)
        h = p.hessian(p.minimiser)
        b = jnp.diagonal(h)
        spectrum, axes = jnp.linalg.eigh(jnp.eye(4) - h / jnp.sqrt(b[:, None] * b))
        slowest = jnp.argmax(jnp.abs(spectrum))
        local = jnp.abs(spectrum[slowest])
        near = p.minimiser + 1e-5 * axes[:, slowest] / jnp.sqrt(b)
        path = minimize(ridge_logistic(x, labels, 0.01, near), block_newton(np.arange(4)), steps=3).theta
        away = path - p.minimiser
        norm = jnp.sqrt(away**2 @ b)
        return (
            jax.tree.map(lambda *a: jnp.concatenate(a), *both),
            exact.theta[1],
            jnp.linalg.norm(apart.theta, axis=1),
            (norm, local),
        )

    (size, along, radius, bound), exact, apart, (norm, local) = measure(key)
    yield equal("blocks of the Hessian itself: one step", exact, 0.0, atol=1e-13)
    k = jnp.arange(1, steps + 1)
    coupled = jnp.array([1, 2, 3, 4, 6, 7, 8, 9])
    # beyond the first step the uncoupled ones have nothing left but rounding
    yield at_most(
        "error in the norm of B: diagonal, then blocks",
        size[:, 1:],
        radius[:, None] ** k * size[:, :1],
        atol=1e-13,
        along="iteration",
    )
    factors = along[coupled, 1:] / along[coupled, :-1]
    yield equal("slowest direction: the factor is the spectral radius", factors, radius[coupled, None], rtol=1e-6)
    yield at_most("spectral radius", radius, bound, atol=1e-14)
    yield rate("diagonal: factor against the coupling", couplings[1:], factors[:4, 0], 1.0, tolerance=0.01)
    # so near, third derivatives change a factor by 1e-5 of itself, the minimiser's own error by 1e-16 over 1e-5
    yield equal("logistic loss, the diagonal alone: factor along the slowest", norm[1:] / norm[:-1], local, rtol=1e-3)
    yield control(
        "a coupling beyond the limit, correlation 0.99", at_most("error in the end, of the first", apart[-1], apart[0])
    )


@claim(rows=("B05.14", "T02.21"))
def preconditioning(key, *, dim: Size = 8, spread: Positive = 1e4):
    r"""A preconditioner changes the coordinates, and with them the condition number that counts.

    $\theta_{k+1}=\theta_k-\eta Q\nabla f(\theta_k)$ is gradient descent in $z$ with $\theta=Q^{1/2}z$, governed by the
    spectrum of $Q^{1/2}HQ^{1/2}$: with $\kappa$ its condition and the best step the value shrinks by
    $(\frac{\kappa-1}{\kappa+1})^2$ or more, and by just that from a start on the two extreme eigenvectors. One step if
    $Q=H^{-1}$ and $\eta=1$ (learning rates $1/\lambda_i$ if $H$ is diagonal). The inverse diagonal undoes bad scaling
    of the coordinates, but not of rotated ones.
    """

    @jax.jit
    def measure(key):
        m_key, r_key, s_key = jax.random.split(key, 3)
        start = jax.random.normal(s_key, (dim,))
        # well-conditioned correlations, badly scaled
        mix = jax.random.normal(m_key, (dim, dim))
        good = jnp.eye(dim) + 0.2 * (mix + mix.T) / (2 * jnp.sqrt(dim))
        scales = spread ** jnp.linspace(0.0, 1.0, dim)
        bad = good * jnp.sqrt(scales[:, None] * scales)
        turn = jnp.linalg.qr(jax.random.normal(r_key, (dim, dim)))[0]
        rotated = turn @ bad @ turn.T

        def count(h, q):
            spectrum = preconditioned_spectrum(h, q)
            step = 2 / (spectrum[0] + spectrum[-1])
            p = Problem(lambda t, h: 0.5 * t @ h @ t, (h,), start)
            path = minimize(p, preconditioned(q, step), steps=200)
            kappa = spectrum[-1] / spectrum[0]
            return path.value, kappa

        def extreme(h, q):
            """The factor of every step from a start on the two extreme axes of the preconditioned problem."""
            values, vectors = jnp.linalg.eigh(jnp.sqrt(q)[:, None] * h * jnp.sqrt(q))
            both = vectors[:, 0] / jnp.sqrt(values[0]) + vectors[:, -1] / jnp.sqrt(values[-1])
            p = Problem(lambda t, h: 0.5 * t @ h @ t, (h,), jnp.sqrt(q) * both)
            value = minimize(p, preconditioned(q, 2 / (values[0] + values[-1])), steps=10).value
            return value[1:] / value[:-1]

        one = jnp.ones(dim)
        rows = [count(bad, one), count(bad, jacobi(bad)), count(rotated, one), count(rotated, jacobi(rotated))]
        p = Problem(lambda t, h: 0.5 * t @ h @ t, (bad,), start)
        exact = minimize(p, preconditioned(jnp.linalg.inv(bad)), steps=1).value
        each = minimize(Problem(lambda t, s: 0.5 * t @ (s * t), (scales,), start), preconditioned(1 / scales), steps=1)
        root = jnp.diag(1 / jnp.sqrt(jnp.diag(bad)))
        inner = Problem(lambda z: p(root @ z), (), jnp.linalg.solve(root, start))
        same = minimize(inner, optax.sgd(0.5), steps=30).theta @ root
        outer = minimize(p, preconditioned(jacobi(bad), 0.5), steps=30).theta
        worst = extreme(bad, jacobi(bad))
        return jax.tree.map(lambda *a: jnp.stack(a), *rows), exact, each.value, same, outer, worst

    (value, kappa), exact, each, same, outer, worst = measure(key)
    rho = ((kappa - 1) / (kappa + 1)) ** 2
    k = jnp.arange(1, 201)
    yield at_most(
        "value: plain, diagonal, rotated plain, rotated diagonal",
        value[:, 1:],
        rho[:, None] ** k * value[:, :1],
        rtol=1e-8,
        atol=1e-25,
        along="iteration",
    )
    yield equal("diagonal, from the extreme axes: factor of every step", worst, rho[1], rtol=1e-8, along="iteration")
    yield at_most("inverse Hessian: value after one step, of the first", exact[1] / exact[0], 1e-20)
    yield at_most("learning rates 1/lambda: value after one step, of the first", each[1] / each[0], 1e-20)
    yield equal("descent in other coordinates", same, outer, rtol=1e-9, atol=1e-12)
    yield at_most("diagonal: condition number", kappa[1], 4.0)
    yield control("a rotated Hessian is not nearly diagonal", at_most("diagonal: condition number", kappa[3], 4.0))
    done = jnp.argmax(value[1] <= 1e-12 * value[1, 0])
    # the slowest axis may be missing from the start: fewer steps, never more
    yield at_most("diagonal: steps to a share of 1e-12", done, steps_to_shrink(rho[1], 1e-12))
    left = value[:, -1] / value[:, 0]
    yield at_least("share left after 200 steps: rotated, beyond a million times the other", left[3], 1e6 * left[1])


@claim(
    rows=("T02.21",),
    erratum="The preconditioner is said to approximate the Hessian; it must approximate the inverse.",
)
def preconditioner_is_the_hessian(key, *, dim: Size = 4):
    r"""As printed: descent preconditioned by the Hessian itself stands for Newton's method.

    For Newton's $w\leftarrow w-\nabla^2f(w)^{-1}\nabla f(w)$ "approximation of the hessian and its inverse is used:
    $w\leftarrow w-\eta Q(w)\nabla f(w)$, where $Q(w)$ is supposed to be a good approximation of $\nabla^2f(w)$". With
    $Q=\nabla^2f$ itself, on a quadratic, the steps do not even have the direction of Newton's, and the condition number
    of $QH$ is squared instead of removed. Corrected, and as in the text's next sentence: $Q$ approximates the inverse.
    """
    condition = 10.0

    @jax.jit
    def measure(key):
        problem = random_quadratic(dim, condition, key=key)
        hessian = problem.data[0]

        def direction(method):
            theta = minimize(problem, method, steps=1).theta
            return (theta[1] - theta[0]) / jnp.linalg.norm(theta[1] - theta[0])

        matrices = (hessian, jnp.linalg.inv(hessian))
        steps = [direction(preconditioned(q)) for q in matrices]
        return direction(newton()), steps, preconditioned_spectrum(hessian, hessian)

    exact, (by_hessian, by_inverse), spectrum = measure(key)
    yield equal("direction of a step, the inverse of the Hessian for Q", by_inverse, exact)
    yield equal("condition number, the Hessian for Q", spectrum[-1] / spectrum[0], condition**2, rtol=1e-8)
    yield printed(equal("direction of a step, the Hessian for Q", by_hessian, exact))
