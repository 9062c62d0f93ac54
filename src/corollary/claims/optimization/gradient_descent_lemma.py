"""What one gradient step does to a smooth function, without convexity."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, monotone, printed
from corollary.foundations import integral_increment
from corollary.optimization import (
    Problem,
    cosine_wells,
    log_squares,
    minimize,
    quadratic,
    random_cosines,
    random_quadratic,
    rates,
    ridge_logistic,
    sigmoid_classification,
    wavy,
)

gd = rates.gradient_descent


def _smooth(key, dim):
    """Smooth functions with certified constants, two convex and three not."""
    q_key, x_key, y_key, f_key = jax.random.split(key, 4)
    x, y = jax.random.normal(x_key, (60, dim)), jax.random.bernoulli(y_key, shape=(60,)).astype(float)
    return {
        "quadratic": random_quadratic(dim, 20.0, key=q_key),
        "ridge logistic": ridge_logistic(x, y, 0.05),
        "sigmoid": sigmoid_classification(x, y),
        "cosines": random_cosines(dim, key=f_key, terms=20),
        "logarithms": log_squares(jnp.ones(dim)),
    }


@claim(rows=("B05.20", "E03.06", "M17.08", "M17.25", "T02.08"))
def descent_lemma(key, *, dim: Size = 6, points: Count = 500):
    r"""A gradient step lowers a smooth function by at least a multiple of the squared gradient.

    If $f$ is $L$-smooth, $f(\theta-\eta\nabla f(\theta))\le f(\theta)-\eta(1-\frac{\eta L}2)\|\nabla f(\theta)\|^2$ for
    every $\eta>0$ (E and T, in between): a decrease for $0<\eta<2/L$ unless $\nabla f=0$. For $\eta\le1/L$ the
    decrease is at least $\frac\eta2\|\nabla f\|^2$ (B, M, T; E at $\eta=1/L$). No convexity. Equality for a quadratic
    along its top axis. M, Exercise 17.4 says always, without a limit for the step.
    """
    products = jnp.array([0.1, 0.5, 1.0, 1.5, 1.9])

    @jax.jit
    def measure(key):
        f_key, x_key = jax.random.split(key)
        x = 2 * jax.random.normal(x_key, (points, dim))

        def ratios(p):
            """The decrease in units of eta |grad|^2, for each eta L."""
            slopes = jax.vmap(p.gradient)(x)
            square = jnp.sum(slopes**2, axis=1)
            values = jax.vmap(p)(x)

            def decrease(product):
                eta = product / p.L
                return (values - jax.vmap(p)(x - eta * slopes)) / (eta * square)

            return jax.vmap(decrease)(products)

        top, e = quadratic(jnp.array([3.0, 0.1])), jnp.array([1.0, 0.0])
        edge = jnp.append(products, jnp.array([2.0, 2.05, 3.0]))
        lowered = jax.vmap(lambda c: top(e) - top(e - c / top.L * top.gradient(e)))(edge)
        square = jnp.sum(top.gradient(e) ** 2)
        # not smooth: for a step of any size there is a start so far out that the value rises
        quartic = jax.vmap(
            lambda eta: (
                (lambda t: t**4 + t**2)(4 / eta - eta * (4 * (4 / eta) ** 3 + 2 * (4 / eta)))
                - ((4 / eta) ** 4 + (4 / eta) ** 2)
            )
        )(jnp.array([0.01, 0.1, 1.0]))
        return {n: ratios(p).min(1) for n, p in _smooth(f_key, dim).items()}, edge, lowered, square, quartic

    found, edge, lowered, square, quartic = measure(key)
    least = jnp.stack(list(found.values()))
    # the smallest of the ratios is a difference of values over eta |grad|^2: rounding of 1e-16 over 1e-6 or so
    yield at_least(
        "least decrease in units of eta times squared gradient, five functions",
        least,
        1 - products / 2,
        atol=1e-9,
        x=products,
        along="eta L",
    )
    yield at_least("at least a half for eta L up to 1", least[:, :3], 0.5, atol=1e-9, x=products[:3], along="eta L")
    eta = edge / 3.0
    promised = -gd.decrease(3.0, jnp.sqrt(square), step=eta)
    yield equal("quadratic along its top axis: attained", lowered, promised, rtol=1e-10, x=edge, along="eta L")
    yield equal("level again at the step 2/L", lowered[5], 0.0, atol=1e-12)
    yield at_least("fourth powers rise from far out, whatever the step", quartic, 1.0)
    yield control(
        "a step of 1.5/L", at_least("half of eta times squared gradient", lowered[3] / (eta[3] * square), 0.5)
    )
    yield control("a step of 2.05/L", at_least("decrease", lowered[6], 0.0))
    yield control("a step of 3/L, strongly convex", at_least("decrease", lowered[7], 0.0))


@claim(
    rows=("E03.06",),
    erratum="The last line of the derivation has an equality sign; it is an inequality, with equality only where the "
    "curvature along the gradient is L throughout.",
)
def decrease_is_equal(key, *, dim: Size = 5):
    r"""As printed: a step of 1/L lowers a smooth function by exactly the squared gradient over 2L.

    "As a result, we obtain sufficient decrease, $h(\theta_2)=h(\theta_1)-\frac1{2L}\|\nabla h(\theta_1)\|^2$" for
    $\theta_2=\theta_1-\frac1L\nabla h(\theta_1)$. So it is for $\frac L2\|\theta\|^2$; the logistic loss falls by more.
    Corrected: at most that.
    """

    @jax.jit
    def measure(key):
        p = _smooth(key, dim)["ridge logistic"]
        isotropic = quadratic(3 * jnp.ones(dim))

        def pair(p):
            slope = p.gradient(p.start)
            return p(p.start - slope / p.L) - p(p.start), gd.decrease(p.L, jnp.linalg.norm(slope))

        return pair(isotropic), pair(p)

    (flat, flat_promised), (fall, promised) = measure(key)
    yield equal("isotropic quadratic: change in a step", flat, flat_promised)
    yield at_most("ridge logistic loss: change in a step", fall, promised)
    yield printed(equal("ridge logistic loss: change in a step, as printed", fall, promised))


@claim(
    rows=("T02.08", "E03.06"),
    erratum="The squared length of a step has the step to the fourth power (T), or the value in place of the gradient "
    "(E).",
)
def printed_squares(key, *, count: Size = 20):
    r"""As printed: two lines on the way to the descent lemma.

    T, Lemma 2.1.4: $f(w_{t+1})\le f(w_t)-\eta\|\nabla f(w_t)\|^2+\frac L2\|\eta^2\nabla f(w_t)\|^2$, where
    $\|\eta\nabla f\|^2$ is meant. E: $h(\theta_2)-h(\theta_1)\le-\eta\|\nabla h\|^2+\frac{L\eta^2}2\|h(\theta_1)\|^2$,
    where $\|\nabla h\|^2$ is meant. On $\frac L2\theta^2$ with $\eta\le\frac1L$ and $\eta<1$ the first is violated,
    close to the minimum the second.
    """

    @jax.jit
    def measure(key):
        size_key, start_key = jax.random.split(key)
        L = jax.random.uniform(size_key, (count,), minval=2.0, maxval=4.0)
        start = 0.1 + 0.4 * jax.random.uniform(start_key, (count,))

        def one(L, start):
            p, eta = quadratic(L[None], start[None]), 0.9 / L
            path = minimize(p, optax.sgd(eta), steps=1)
            value, square = path.value[0], path.gradient_norm[0] ** 2
            rest = L / 2 * jnp.stack([eta**2 * square, eta**4 * square, eta**2 * value**2])
            return path.value[1], value - eta * square + rest

        return jax.vmap(one)(L, start)

    after, bounds = measure(key)
    right, in_t, in_e = bounds.T
    yield equal("value after a step, square of the step times the gradient", after, right, rtol=1e-9)
    yield printed(at_most("value after a step, as printed in T", after, in_t))
    yield printed(at_most("value after a step, as printed in E", after, in_e))


@claim(
    rows=("M17.25",),
    erratum="Exercise 17.4 asks to show that a gradient step never increases the objective; it does with a step "
    "beyond 2/L.",
)
def always_decreases(key):
    r"""As printed: the value never increases along gradient descent.

    Exercise 17.4: "Assume that $\Lambda(\theta)$ is strongly convex. Prove that the gradient descent update always
    decreases the objective function." On $\frac12\theta^2$ it does with $\eta<2/L$ (corrected), here $1.9/L$, and does
    not with $3/L$, which the exercise does not exclude.
    """
    start = 1 + jax.random.uniform(key, (1,))
    values = [minimize(quadratic(jnp.ones(1)), optax.sgd(eta), steps=5, start=start).value for eta in (1.9, 3.0)]
    yield monotone("value along the path, step 1.9/L", values[0], "decreasing", strict=True, along="iteration")
    yield printed(monotone("value along the path, step 3/L", values[1], "decreasing", along="iteration"))


@claim(rows=("M17.15",))
def one_step_expansion(key, *, dim: Size = 4, steps: Count = 200):
    r"""The change of the value in a step is first-order up to a remainder that can be summed.

    For an $L$-smooth $\Lambda$ and any steps, $\Lambda(\theta_{k+1})-\Lambda(\theta_k)+\eta_k\|\nabla\Lambda(\theta_k)
    \|^2=\xi_{k+1}$ with $\xi_{k+1}=-\eta_k\int_0^1\langle\nabla\Lambda(\theta_k-s\eta_k\nabla\Lambda(\theta_k))-\nabla
    \Lambda(\theta_k),\nabla\Lambda(\theta_k)\rangle ds$ and $|\xi_{k+1}|\le\frac L2\eta_k^2\|\nabla\Lambda(\theta_k)
    \|^2$, attained by a quadratic along its top axis; so $\sum|\xi_k|\le\frac L2L_1^2\sum\eta_k^2$ if
    $\|\nabla\Lambda\|\le L_1$.
    """
    etas = 2.0 / jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        problem = log_squares(4 * jax.random.normal(key, (dim,)))

        def remainders(p):
            path = minimize(p, optax.sgd(lambda k: 2.0 / (k + 1)), steps=steps)
            theta, norm = path.theta[:-1], path.gradient_norm[:-1]
            left = path.value[1:] - path.value[:-1] + etas * norm**2

            def integral(theta, eta):
                g = p.gradient(theta)
                return integral_increment(p, theta, -eta * g) + eta * g @ g

            return left, jax.vmap(integral)(theta, etas), norm

        forms = (quadratic(jnp.array([top, 0.3]), jnp.array([1.0, 0.0])) for top in (1.0, 2.0))
        return remainders(problem), *(remainders(form) for form in forms)

    (left, integral, norm), (flat_left, _, flat_norm), (steep_left, _, steep_norm) = measure(key)
    # 40 nodes on log(1 + t^2), whose poles are at distance 1 from a first step of at most 2 in each coordinate: the
    # error of Gauss-Legendre falls like (1 + 2^0.5)^-80
    yield equal("remainder by the integral", integral, left, rtol=1e-9, atol=1e-12, along="iteration")
    bound = gd.expansion_remainder(2.0, norm, etas)
    yield at_most("size of the remainder", jnp.abs(left), bound, atol=1e-14, along="iteration")
    # gradients of log(1 + t^2) are at most 1 in each coordinate
    sums = jnp.cumsum(jnp.abs(left))
    yield at_most("sum of the remainders", sums, 2.0 / 2 * dim * jnp.cumsum(etas**2), along="iteration")
    # the first step of 2/L arrives at the mirror image: equality at its sharpest
    attained = gd.expansion_remainder(1.0, flat_norm, etas)
    yield equal("quadratic along its top axis: attained", flat_left, attained, rtol=1e-9, atol=1e-15)
    allowed = gd.expansion_remainder(1.0, steep_norm, etas)
    yield control(
        "a quadratic with twice the curvature that L allows",
        at_most("size of the remainder", jnp.abs(steep_left), allowed, atol=1e-14, along="iteration"),
    )


@claim(rows=("B05.17", "M17.26"))
def gradient_below_excess(key, *, dim: Size = 5, points: Count = 2000):
    r"""A smooth function is above its minimum by at least the squared gradient over 2L.

    If $f$ is $L$-smooth with infimum $f^*$, $\frac1{2L}\|\nabla f(\theta)\|^2\le f(\theta)-f^*$ everywhere (B, Lemma
    36; M, Exercise 17.5). Convexity is not needed. Equality for $\frac L2\|\theta\|^2$.
    """

    @jax.jit
    def measure(key):
        f_key, x_key = jax.random.split(key)
        x = 2 * jax.random.normal(x_key, (points, dim))
        problems = {n: p for n, p in _smooth(f_key, dim).items() if n != "cosines"}
        problems["wells"] = cosine_wells(jnp.ones(dim))
        problems["waves"] = Problem(
            lambda t: wavy()(t).sum(), (), jnp.ones(dim), L=jnp.array(8.0), minimum=jnp.array(0.0)
        )

        def both(p):
            square = jax.vmap(lambda t: jnp.sum(p.gradient(t) ** 2))(x)
            low = 0.0 if p.minimum is None else p.minimum
            return square, gd.squared_gradient(p.L, jax.vmap(p)(x) - low)

        isotropic = quadratic(3 * jnp.ones(dim))
        steeper = quadratic(3.03 * jnp.ones(dim))
        beyond = Problem(steeper.function, steeper.data, steeper.start, L=isotropic.L, minimum=jnp.array(0.0))
        return {n: both(p) for n, p in problems.items()}, both(isotropic), both(beyond)

    found, (square, bound), (over, allowed) = measure(key)
    for name, (measured, promised) in found.items():
        yield at_most(f"{name}: squared gradient over twice L times excess", (measured / promised).max(), 1.0)
    yield equal("isotropic quadratic: attained", square, bound, rtol=1e-10)
    yield control("a curvature 1 % above L", at_most("squared gradient", over, allowed))
