"""The perceptron in dual form, and through a kernel."""

import altair as alt
import jax
import jax.numpy as jnp

from corollary.evidence import Count, Size, at_least, claim, control, equal, picture
from corollary.kernels import (
    FeatureKernel,
    GaussianKernel,
    KernelPerceptron,
    LinearKernel,
    PolynomialKernel,
    gram,
    kernel_perceptron,
    monomial_features,
    plane_features,
    primal_from_dual,
)


def _primal(features, y, order, start):
    """The perceptron (4.2) in its own words: the weights, and on which visits it erred."""

    def visit(w, m):
        wrong = jnp.where(features[m] @ w >= 0, 1, -1) != y[m]
        return w + jnp.where(wrong, y[m], 0) * features[m], wrong

    return jax.lax.scan(visit, start, order)


def _data(key, n, dim):
    """Points of small whole numbers, so that both forms compute without rounding, labelled by a plane."""
    x_key, w_key = jax.random.split(key)
    x = jax.random.randint(x_key, (n, dim), -8, 9).astype(float)
    x = x.at[:, 0].set(2 * x[:, 0] + 1)  # odd: never at the origin
    w = jax.random.normal(w_key, (dim,))
    return x, jnp.where(x @ w >= 0, 1.0, -1.0)


@claim(rows=("M04.07",))
def dual_representation(key, *, n: Size = 60, dim: Size = 4, steps: Count = 2000, runs: Count = 16):
    r"""The perceptron's weights are the points it erred on, counted.

    Start the perceptron (4.2) at $w_0=0$ and let $\alpha_m$ be the number of mistakes on point $m$. At every time
    $w=\sum_m\alpha_my_mx_m$, and $x$ is classified by $\operatorname{sign}(\sum_m\alpha_my_m\,x_m\cdot x)$. From
    another start the weights differ from that sum by exactly $w_0$.
    """
    keys = jax.random.split(key, runs)

    @jax.jit
    @jax.vmap
    def measure(key):
        x_key, order_key, new_key, start_key = jax.random.split(key, 4)
        x, y = _data(x_key, n, dim)
        order = jax.random.randint(order_key, (steps,), 0, n)
        w, wrong = _primal(x, y, order, jnp.zeros(dim))
        alpha = jnp.zeros(n).at[order].add(wrong)
        new = jax.random.randint(new_key, (50, dim), -8, 9).astype(float)
        by_sum = jnp.where((alpha * y) @ (x @ new.T) >= 0, 1, -1)
        start = jax.random.randint(start_key, (dim,), 1, 9).astype(float)
        moved, erred = _primal(x, y, order, start)
        other = primal_from_dual(jnp.zeros(n).at[order].add(erred), y, x)
        return (
            w,
            primal_from_dual(alpha, y, x),
            jnp.where(new @ w >= 0, 1, -1),
            by_sum,
            moved,
            other,
            start,
            wrong.sum(),
        )

    w, total, labels, by_sum, moved, other, start, mistakes = measure(keys)
    yield at_least("mistakes made", mistakes, 1)
    yield equal("weights and counted points", w, total, rtol=0, atol=0)
    yield equal("classes of new points", labels, by_sum, rtol=0, atol=0)
    yield equal("from another start: the difference is the start", moved - other, start, rtol=0, atol=0)
    yield control("a start at zero: here elsewhere", equal("weights and counted points", moved, other))


@claim(rows=("M04.11",))
def kernel_form(key, *, n: Size = 60, steps: Count = 3000, runs: Count = 16):
    r"""The kernel perceptron is the perceptron in feature space, and solves XOR.

    With the same visits it makes the same mistakes as the perceptron on the features $\psi$ of its kernel
    $K(x,x')=\psi(x)\cdot\psi(x')$: the linear kernel on the points themselves, $(x\cdot x')^2$ on $(a^2,\sqrt2ab,b^2)$.
    On the four points $\{\pm1\}^2$ with the labels $y=ab$ the quadratic kernel ends without errors; the linear one
    cannot.
    """

    @jax.jit
    @jax.vmap
    def measure(key):
        x_key, order_key = jax.random.split(key)
        x, y = _data(x_key, n, 2)
        y = y * jnp.where(x[:, 0] * x[:, 1] >= 0, 1.0, -1.0)  # not separable by a line
        order = jax.random.randint(order_key, (steps,), 0, n)
        # √2 rounds, and a score that should vanish may not: 2ab as (√2, √2) does not, hence twice the features
        psi = jax.vmap(lambda p: jnp.array([p[0] ** 2, p[0] * p[1], p[0] * p[1], p[1] ** 2]))(x)
        primal = [_primal(f, y, order, jnp.zeros(f.shape[1]))[1] for f in (x, psi)]
        dual = [kernel_perceptron(gram(k, x), y, order).mistakes for k in (LinearKernel(), PolynomialKernel(2))]
        return jnp.stack(primal), jnp.stack(dual)

    @jax.jit
    def corners(key):
        x = jnp.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        y = x[:, 0] * x[:, 1]
        order = jax.random.randint(key, (200,), 0, 4)
        fits = [KernelPerceptron.fit(k, x, y, order) for k in (PolynomialKernel(2), LinearKernel())]
        return [jnp.mean(jax.vmap(fit)(x) != y) for fit in fits]

    # counted up: two runs with the same count at every visit erred on the same visits
    primal, dual = (jnp.cumsum(m, -1) for m in measure(jax.random.split(key, runs)))
    yield equal("mistakes so far, linear", dual[:, 0], primal[:, 0], rtol=0, atol=0, along="visit")
    yield equal("mistakes so far, quadratic", dual[:, 1], primal[:, 1], rtol=0, atol=0, along="visit")
    yield control(
        "the kernel of the features: here linear for quadratic ones",
        equal("mistakes so far", dual[:, 0], primal[:, 1], rtol=0, atol=0, along="visit"),
    )
    solved, unsolved = corners(key)
    yield equal("errors on XOR, quadratic kernel", solved, 0.0, rtol=0, atol=0)
    yield control("a quadratic kernel: here linear", equal("errors on XOR", unsolved, 0.0, rtol=0, atol=0))
    yield _regions(key)


@claim(rows=("M04.08",))
def quadratic_identity(key, *, pairs: Count = 1000, dim: Size = 4):
    r"""The product of quadratic features is the square of the product.

    $\psi(a,b)=(a^2,\sqrt2ab,b^2)$ has $\psi(x)\cdot\psi(x')=(x\cdot x')^2$. In $d$ dimensions the monomials of degree
    $p$, each with the root of its multinomial coefficient, reproduce $(x\cdot x')^p$; there are $\binom{d+p-1}p$.
    Points inside and outside a circle, which no line separates, are separated by a plane in these features and a
    constant.
    """
    x_key, y_key, ring_key = jax.random.split(key, 3)
    x, y = jax.random.normal(x_key, (pairs, dim)), jax.random.normal(y_key, (pairs, dim))

    @jax.jit
    def measure(x, y):
        def bare(p):
            return jnp.array([p[0] ** 2, p[0] * p[1], p[1] ** 2])

        def products(psi, cut=dim):
            return jax.vmap(lambda a, b: psi(a[:cut]) @ psi(b[:cut]))(x, y)

        plane = products(plane_features, 2), products(bare, 2)
        powers = [products(lambda p, k=k: monomial_features(p, k)) for k in (1, 2, 3, 4)]
        return plane, jnp.stack(powers)

    (plane, bare), powers = measure(x, y)
    inner = jnp.sum(x * y, 1)
    flat = jnp.sum(x[:, :2] * y[:, :2], 1) ** 2
    # the terms of the sum are larger than the sum itself where the points are nearly orthogonal
    size = float(jnp.max(jnp.linalg.norm(x, axis=1) * jnp.linalg.norm(y, axis=1)))
    yield equal("two dimensions, degree 2", plane, flat, atol=1e-14 * size**2)
    for k in (1, 2, 3, 4):
        yield equal(f"{dim} dimensions, degree {k}", powers[k - 1], inner**k, atol=1e-14 * size**k)
    yield control(
        "monomials with the root of their coefficient: here without",
        equal("two dimensions, degree 2", bare, flat, atol=1e-14 * size**2),
    )
    ring = jax.random.normal(ring_key, (200, 2))
    label = jnp.where(jnp.linalg.norm(ring, axis=1) < 1, 1.0, -1.0)
    lifted = jax.vmap(lambda p: jnp.append(plane_features(p), 1.0))(ring)
    yield equal("classes of the plane 1 - a² - b²", jnp.sign(lifted @ jnp.array([-1.0, 0.0, -1.0, 1.0])), label)


def _regions(key):
    """What linear, quadratic and Gaussian kernels make of two rings."""
    x_key, order_key = jax.random.split(key)
    x = jax.random.normal(x_key, (120, 2))
    y = jnp.where(jnp.linalg.norm(x, axis=1) < 1.1, 1.0, -1.0)
    order = jax.random.randint(order_key, (3000,), 0, 120)
    with_constant = FeatureKernel(lambda p: jnp.append(p, 1.0))
    kernels = {"linear": with_constant, "quadratic": PolynomialKernel(2, 1.0), "Gaussian": GaussianKernel(0.7)}
    side = jnp.linspace(-2.6, 2.6, 40)
    grid = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)

    @jax.jit
    def classes(x, y, order):
        return [jax.vmap(KernelPerceptron.fit(k, x, y, order))(grid) for k in kernels.values()]

    panels = []
    for name, values in zip(kernels, classes(x, y, order), strict=True):
        cells = [
            {"a": round(float(a), 3), "b": round(float(b), 3), "class": int(c)}
            for (a, b), c in zip(grid.tolist(), values.tolist(), strict=True)
        ]
        points = [{"a": a, "b": b, "class": int(c)} for (a, b), c in zip(x.tolist(), y.tolist(), strict=True)]
        colour = alt.Color("class:N", legend=None, scale=alt.Scale(domain=[-1, 1], range=["#d1495b", "#1f6f8b"]))
        axis_x = alt.X("a:Q", axis=None, scale=alt.Scale(domain=[-2.6, 2.6]))
        axis_y = alt.Y("b:Q", axis=None, scale=alt.Scale(domain=[-2.6, 2.6]))
        shade = alt.Chart(alt.Data(values=cells)).mark_square(size=9, opacity=0.35, clip=True)
        dots = alt.Chart(alt.Data(values=points)).mark_point(size=14, filled=True, clip=True)
        layer = alt.layer(shade.encode(axis_x, axis_y, colour), dots.encode(axis_x, axis_y, colour))
        panels.append(layer.properties(width=120, height=120, title=name))
    return picture("what three kernels learn", alt.hconcat(*panels))
