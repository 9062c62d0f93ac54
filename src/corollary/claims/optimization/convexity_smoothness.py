"""Smoothness: the curvature, the gradient, and the parabolas on both sides of a tangent."""

import jax
import jax.numpy as jnp

from corollary.evidence import Count, Size, at_most, claim, control, equal, printed, rate
from corollary.foundations import pair_slopes
from corollary.optimization import (
    Problem,
    curvature_range,
    huber,
    isotropic_model,
    log_squares,
    random_cosines,
    random_quadratic,
    ridge_logistic,
    sigmoid_classification,
    tangent_gap,
)


def _data(key, n, dim):
    x_key, y_key = jax.random.split(key)
    return jax.random.normal(x_key, (n, dim)), jax.random.bernoulli(y_key, shape=(n,)).astype(float)


@claim(rows=("E03.04", "E03.05", "M17.06", "T02.06"))
def smooth_iff_bounded_hessian(key, *, pairs: Count = 4000):
    r"""The Lipschitz constant of the gradient is the largest curvature, on a convex set.

    Let $f$ be $C^2$ on a convex set. Then $\|\nabla f(x)-\nabla f(y)\|\le L\|x-y\|$ for all pairs iff all eigenvalues
    of $\nabla^2f$ lie in $[-L,L]$; nearby pairs along the top eigenvector come as close to it as one likes. Constants:
    $\lambda_{\max}$ for a quadratic, $\frac14\lambda_{\max}(X^\top X/n)+C$ for ridge logistic loss, 2 for
    $\sum\ln(1+\theta_i^2)$, 8 for $x^2+3\sin^2x$. On two separate intervals a zero curvature bounds nothing. (E,
    Definition 3.1, calls the two equivalent on the parameters $\Theta$ without naming a convex set, or two
    derivatives.)
    """

    @jax.jit
    def measure(key):
        x_key, y_key, q_key, d_key = jax.random.split(key, 4)
        x, y = 2 * jax.random.normal(x_key, (pairs, 3)), 2 * jax.random.normal(y_key, (pairs, 3))
        problems = {
            "quadratic": random_quadratic(3, 10.0, key=q_key),
            "ridge logistic": ridge_logistic(*_data(d_key, 40, 3), 0.1),
            "logarithms": log_squares(jnp.ones(3)),
            "waves": Problem(lambda t: jnp.sum(t**2 + 3 * jnp.sin(t) ** 2), (), jnp.ones(3), L=jnp.array(8.0)),
        }

        def one(p):
            slopes = pair_slopes(p.gradient, x, y)
            low, high = curvature_range(p, jnp.concatenate([x, y, jnp.zeros((1, 3))]))
            largest = jnp.maximum(-low, high)
            # a short pair along the top eigenvector where the curvature is largest, the origin for all four
            top = jnp.linalg.eigh(p.hessian(jnp.zeros(3)))[1][:, -1]
            near = pair_slopes(p.gradient, 1e-3 * top[None], -1e-3 * top[None])[0]
            local = jnp.abs(jnp.linalg.eigvalsh(p.hessian(jnp.zeros(3)))).max()
            return slopes.max(), largest, p.L, near, local

        apart = huber(1.0, 2.0)
        a, b = jnp.linspace(1.1, 3.0, 20), -jnp.linspace(1.1, 3.0, 20)
        curvature = jnp.abs(jnp.concatenate([jax.vmap(apart.hessian)(a), jax.vmap(apart.hessian)(b)])).max()
        return {n: one(p) for n, p in problems.items()}, pair_slopes(apart.gradient, a, b).max(), curvature

    found, apart, curvature = measure(key)
    slopes, largest, L, near, local = (jnp.stack(v) for v in zip(*found.values(), strict=True))
    yield at_most("slopes of the gradient over pairs, below L", slopes, L)
    yield at_most("sampled curvature, below L", largest, L)
    # a central difference over 2e-3 is off by a sixth of the third derivative of the gradient, 24 at most, times 1e-6
    yield equal("nearby pairs attain the curvature there", near, local, rtol=1e-5)
    yield equal(
        "quadratic, logarithms, waves: L attained at the origin",
        near[jnp.array([0, 2, 3])],
        L[jnp.array([0, 2, 3])],
        rtol=1e-5,
    )
    yield equal("two separate intervals: no curvature at all", curvature, 0.0)
    yield control("a set that is not convex", at_most("slope of the gradient", apart, curvature))


@claim(rows=("B05.11", "B05.15", "B05.32", "M17.07", "T02.07"))
def quadratic_bounds(key, *, dim: Size = 6, pairs: Count = 4000):
    r"""A smooth function lies between two parabolas about each tangent, convex or not.

    If $f$ is $L$-smooth on a convex set, $|f(y)-f(x)-\nabla f(x)\cdot(y-x)|\le\frac L2\|y-x\|^2$; equality for a
    quadratic along its top axis. Hence for $\eta\le1/L$ the model $f(x)+\nabla f(x)\cdot\Delta+\frac1{2\eta}
    \|\Delta\|^2$, whose minimiser is the gradient step $-\eta\nabla f(x)$, is nowhere below $f$ (B, Figure 5.3, where
    the Hessian of the model is $I/\eta$ and not $I$).
    """

    @jax.jit
    def measure(key):
        x_key, y_key, f_key, d_key, q_key = jax.random.split(key, 5)
        x, y = 2 * jax.random.normal(x_key, (pairs, dim)), 2 * jax.random.normal(y_key, (pairs, dim))
        features, labels = _data(d_key, 60, dim)
        problems = {
            "ridge logistic": ridge_logistic(features, labels, 0.05),
            "sigmoid": sigmoid_classification(features, labels),
            "cosines": random_cosines(dim, key=f_key, terms=20),
            "logarithms": log_squares(jnp.ones(dim)),
        }

        def ratio(p, x, y):
            gap = jax.vmap(lambda u, v: tangent_gap(p, u, v))(x, y)
            return 2 * gap / (p.L * jnp.sum((x - y) ** 2, axis=1))

        form = random_quadratic(dim, 20.0, key=q_key)
        top = jnp.linalg.eigh(form.data[0])[1][:, -1]
        other = x[:100] + (1 + jnp.abs(y[:100, :1])) * top
        # one percent more curved along the top axis than L allows
        steeper = form.data[0] + 0.01 * form.L * jnp.outer(top, top)
        beyond = Problem(lambda t, h: 0.5 * t @ h @ t, (steeper,), jnp.zeros(dim), L=form.L)
        # the model of a step of 2.5/L, and the function itself, in units of L/2 times the squared distance
        above = jax.vmap(lambda u, v: form(v) - isotropic_model(form, u, 2.5 / form.L)(v))(x[:100], other)
        above = 2 * above / (form.L * jnp.sum((x[:100] - other) ** 2, axis=1))
        # the model of a gradient step: its minimiser by one Newton step, which is exact for a quadratic model
        p = problems["cosines"]
        step = 1 / p.L

        def model(delta, at):
            return p(at) + p.gradient(at) @ delta + delta @ delta / (2 * step)

        def minimiser(at):
            zero = jnp.zeros(dim)
            return -jnp.linalg.solve(jax.hessian(model)(zero, at), jax.grad(model)(zero, at))

        least = jax.vmap(minimiser)(x[:100])
        return (
            {name: ratio(p, x, y) for name, p in problems.items()},
            ratio(form, x[:100], other),
            least,
            -step * jax.vmap(p.gradient)(x[:100]),
            ratio(beyond, x[:100], other),
            above,
            jax.vmap(lambda u, v: p(v) - isotropic_model(p, u, step)(v))(x, y),
        )

    found, tight, least, step, beyond, above, below = measure(key)
    for name, ratio in found.items():
        extremes = jnp.stack([-ratio.min(), ratio.max()])
        yield at_most(
            f"{name}: deviation from the tangent over L/2 times squared distance, below and above", extremes, 1.0
        )
    # a ratio of differences: eps |f| / (L |x - y|^2 / 2) for the closest pairs
    yield equal("quadratic along its top axis: attained", tight, 1.0, rtol=1e-8)
    yield equal("the model's minimiser is the gradient step", least, step, rtol=1e-9, atol=1e-12)
    yield at_most("cosines: above the model of the step 1/L", below, 0.0, atol=1e-12)
    yield control(
        "a curvature 1 % above L", at_most("deviation from the tangent over L/2 times squared distance", beyond, 1.0)
    )
    yield control("a step of 2.5/L", at_most("above the model, in units of L/2 times squared distance", above, 0.0))


@claim(
    rows=("B05.15",),
    erratum="The upper quadratic bound is said to be another form of L-smoothness; for functions that are not convex "
    "it is weaker: -x^4 satisfies it with every L and has unbounded curvature.",
)
def upper_bound_is_smoothness(key):
    r"""As printed: a function below its parabolas of curvature L has an L-Lipschitz gradient.

    "If $f$ is twice differentiable then smoothness can be restated as" $f(x+\Delta)\le f(x)+\nabla
    f(x)\cdot\Delta+\frac L2\|\Delta\|^2$; it would follow that $\|\nabla f(x)-\nabla f(y)\|\le L\|x-y\|$. But $-x^4$
    has the first with $L=0$ already, and its gradient no Lipschitz constant: over pairs up to $R$ it grows like $R^2$,
    six radii. Corrected: the bound from above and from below is smoothness; $x^2+3\sin^2x$ has both with $L=8$ and an
    8-Lipschitz gradient. (For convex functions the upper bound alone suffices.)
    """
    L, radii = 8.0, 2.0 ** jnp.arange(6)

    def hill(t):
        return -(t**4)

    def waves(t):
        return t**2 + 3 * jnp.sin(t) ** 2

    @jax.jit
    def measure(key):
        x, y = points = 3 * jax.random.normal(key, (2, 2000))
        gaps = [jax.vmap(lambda u, v, f=f: tangent_gap(f, u, v))(x, y) for f in (hill, waves)]
        steep = jax.vmap(lambda r: pair_slopes(jax.grad(hill), r * x / 3, r * y / 3).max())(radii)
        return gaps, 0.5 * (x - y) ** 2, steep, pair_slopes(jax.grad(waves), *points)

    (below, both), square, steep, slopes = measure(key)
    # differences of fourth powers up to 12^4 round at 1e-11
    yield at_most("-x^4: deviation from the tangent, upper bound with L = 0", below, 0.0, atol=1e-10)
    yield at_most("waves: deviation from the tangent, both sides", jnp.abs(both), L * square, atol=1e-12)
    yield at_most("waves: slopes of the gradient", slopes, L)
    yield printed(
        rate("-x^4: largest slope of the gradient", radii, steep, 0.0, tolerance=0.1, side="at most", along="radius")
    )


@claim(
    rows=("B05.11",),
    erratum="Gradient descent is recovered for a Hessian of I over the step, not for the identity.",
)
def identity_hessian(key, *, dim: Size = 4):
    r"""As printed: if the Hessian is the identity, the second-order model has the step in its quadratic term.

    B, 5.3: "if $\nabla^2f(x)=I$, then $f(x+\Delta x)\approx f(x)+\nabla f(x)\cdot\Delta x+\frac1{2\eta}\|\Delta
    x\|^2$", after the expansion of second order, whose error is of third order. For $f=\frac12\|x\|^2+\frac1{10}\sum
    \sin^3(x_i-c_i)$, which has the identity for Hessian at $c$, the error of the printed model with $\eta=0.3$ is of
    second order, over eight distances. Corrected: it is right if $\nabla^2f=\frac1\eta I$, here for $\eta=1$ and for
    the same function with $\frac1{2\eta}\|x\|^2$.
    """
    sizes, eta = 2.0 ** -jnp.arange(3, 11), 0.3

    @jax.jit
    def measure(key):
        centre, direction = jax.random.normal(key, (2, dim))
        direction = jnp.abs(direction) + 0.1  # all signs alike, so that the third order does not cancel

        def error(curvature, step):
            def f(x):
                return 0.5 * curvature * x @ x + 0.1 * jnp.sum(jnp.sin(x - centre) ** 3)

            model, at = isotropic_model(f, centre, step), lambda s: centre + s * direction
            return jax.vmap(lambda s: jnp.abs(f(at(s)) - model(at(s))))(sizes), jax.hessian(f)(centre)

        return error(1.0, 1.0), error(1 / eta, eta), error(1.0, eta)

    (one, hessian), (other, curved), (wrong, _) = measure(key)
    yield equal("Hessian", hessian, jnp.eye(dim), atol=1e-12)
    yield equal("Hessian of the other function", curved, jnp.eye(dim) / eta, atol=1e-12)
    third = {"tolerance": 0.2, "along": "distance"}
    yield rate("Hessian I, step 1: error of the model", sizes, one, 3.0, **third)
    yield rate("Hessian I over the step: error of the model", sizes, other, 3.0, **third)
    yield printed(rate("Hessian I, step 0.3: error of the model", sizes, wrong, 3.0, side="at least", **third))
