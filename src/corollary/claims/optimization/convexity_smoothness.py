"""Smoothness: the curvature, the gradient, and the parabolas on both sides of a tangent."""

import jax
import jax.numpy as jnp

from corollary.evidence import Count, Size, at_most, claim, control, equal
from corollary.foundations import pair_slopes
from corollary.optimization import (
    Problem,
    curvature_range,
    huber,
    isotropic_model,
    log_squares,
    quadratic,
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
    $\sum\ln(1+\theta_i^2)$, 8 for $x^2+3\sin^2x$. On two separate intervals a zero curvature bounds nothing.
    """

    @jax.jit
    def measure(key):
        x_key, y_key, q_key, d_key = jax.random.split(key, 4)
        x, y = 2 * jax.random.normal(x_key, (pairs, 3)), 2 * jax.random.normal(y_key, (pairs, 3))
        problems = {
            "quadratic": random_quadratic(q_key, 3, 10.0),
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


@claim(
    rows=("E03.05",),
    erratum="The two conditions are called equivalent on any set; a bound of the curvature says nothing about points "
    "that the set does not connect.",
)
def bounded_hessian_on_any_set(key, *, points: Count = 50):
    r"""As printed: a bound of the Hessian on a set is a Lipschitz constant of the gradient on it.

    E, Definition 3.1: $\|\nabla h(\theta_1)-\nabla h(\theta_2)\|\le L\|\theta_1-\theta_2\|$ on $\Theta$ "is equivalent"
    to $\|\nabla^2h\|_2\le L$ on $\Theta$. Take $\Theta=[-3,-1]\cup[1,3]$ and a function with slope $-2$ on the left and
    $2$ on the right, smooth in between: its curvature on $\Theta$ is 0.
    """

    @jax.jit
    def measure(key):
        h = huber(0.9, L=2 / 0.9)
        right, left = jax.random.uniform(key, (2, points), minval=1.0, maxval=3.0)
        curvature = jax.vmap(h.hessian)(jnp.concatenate([right, -left]))
        return curvature, pair_slopes(h.gradient, right, left), pair_slopes(h.gradient, right, -left)

    curvature, within, across = measure(key)
    yield equal("curvature on the set", curvature, 0.0)
    yield at_most("slope of the gradient within a piece", within, 0.0, atol=1e-12)
    yield at_most("slope of the gradient on the set", across, 0.0, atol=1e-12)


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
            "cosines": random_cosines(f_key, dim, terms=20),
            "logarithms": log_squares(jnp.ones(dim)),
        }

        def ratio(p, x, y):
            gap = jax.vmap(lambda u, v: tangent_gap(p, u, v))(x, y)
            return 2 * gap / (p.L * jnp.sum((x - y) ** 2, axis=1))

        form = random_quadratic(q_key, dim, 20.0)
        top = jnp.linalg.eigh(form.data[0])[1][:, -1]
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
            ratio(form, x[:100], x[:100] + (1 + jnp.abs(y[:100, :1])) * top),
            least,
            -step * jax.vmap(p.gradient)(x[:100]),
        )

    found, tight, least, step = measure(key)
    for name, ratio in found.items():
        extremes = jnp.stack([-ratio.min(), ratio.max()])
        yield at_most(
            f"{name}: deviation from the tangent over L/2 times squared distance, below and above", extremes, 1.0
        )
    # a ratio of differences: eps |f| / (L |x - y|^2 / 2) for the closest pairs
    yield equal("quadratic along its top axis: attained", tight, 1.0, rtol=1e-8)
    yield equal("the model's minimiser is the gradient step", least, step, rtol=1e-9, atol=1e-12)
    yield control("one per cent less than L", at_most("quadratic along its top axis", tight / 0.99, 1.0))
    yield control("a model for the step 2.5/L", at_most("deviation over that of the model", tight * 2.5, 1.0))


@claim(
    rows=("B05.15",),
    erratum="The upper quadratic bound is said to be another form of L-smoothness; for functions that are not convex "
    "it is weaker: -x^4 satisfies it with every L and has unbounded curvature.",
)
def upper_bound_is_smoothness(key):
    r"""As printed: a function below its parabolas of curvature L has an L-Lipschitz gradient.

    $f(x+\Delta)\le f(x)+\nabla f(x)\cdot\Delta+\frac L2\|\Delta\|^2$ for all $x,\Delta$ would imply
    $\|\nabla f(x)-\nabla f(y)\|\le L\|x-y\|$. It does for convex functions; $-x^4$ has the first with $L=0$ already.
    """
    points = 3 * jax.random.normal(key, (2, 2000))

    def f(t):
        return -(t**4)

    gap = jax.jit(jax.vmap(lambda u, v: tangent_gap(f, u, v)))(*points)
    # differences of fourth powers up to 12^4 round at 1e-11
    yield at_most("-x^4 is below its tangents", gap, 0.0, atol=1e-10)
    yield at_most("slopes of its gradient, L = 1", pair_slopes(jax.grad(f), *points), 1.0)


@claim(
    rows=("B05.11",),
    erratum="Gradient descent is recovered for a Hessian of I over the step, not for the identity.",
)
def identity_hessian(key, *, dim: Size = 4):
    r"""As printed: if the Hessian is the identity, the second-order model has the step in its quadratic term.

    B, 5.3: "if $\nabla^2f(x)=I$, then $f(x+\Delta x)\approx f(x)+\nabla f(x)\cdot\Delta x+\frac1{2\eta}\|\Delta
    x\|^2$". For $f=\frac12\|x\|^2$ the second-order model is $f$ itself, with $\frac12\|\Delta x\|^2$: the two agree
    for $\eta=1$ only.
    """

    @jax.jit
    def measure(key):
        x, delta = jax.random.normal(key, (2, dim))
        f = quadratic(jnp.ones(dim))
        models = jnp.stack([isotropic_model(f, x, eta)(x + delta) for eta in (1.0, 0.3)])
        return f.hessian(x), models, f(x + delta)

    hessian, models, value = measure(key)
    yield equal("Hessian", hessian, jnp.eye(dim))
    yield equal("model with the step 1", models[0], value)
    yield equal("model with the step 0.3", models[1], value)
