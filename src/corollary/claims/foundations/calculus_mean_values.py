"""Mean value theorems: at a point, as an integral, and of second order."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Size, at_least, at_most, claim, control, equal, picture, printed, rate
from corollary.foundations import (
    integral_gradient_increment,
    integral_increment,
    integral_second_remainder,
    mean_value_point,
)


def _waves(key, dim, terms=6):
    """A random smooth function: a sum of sines of random projections."""
    w_key, b_key, a_key = jax.random.split(key, 3)
    w, b = jax.random.normal(w_key, (terms, dim)), jax.random.normal(b_key, (terms,))
    a = jax.random.normal(a_key, (terms,))
    return lambda x: a @ jnp.sin(w @ jnp.atleast_1d(x) + b)


@claim(rows=("B01.10", "B01.36"))
def at_a_point(key, *, dim: Size = 3, samples: Size = 100):
    r"""Somewhere on a segment the slope equals the mean slope.

    If $f$ is continuous on $[a,b]$ and differentiable inside, $f'(c)=\frac{f(b)-f(a)}{b-a}$ for some $c\in(a,b)$; if
    $f:\mathbb R^d\to\mathbb R$ is differentiable along the segment, $f(x+y)-f(x)=\nabla f(x+cy)^\top y$ for some
    $c\in(0,1)$. For $|x|$ on $[-1,1]$ there is no such point, and for maps into $\mathbb R^2$ neither: the circle
    $(\cos t,\sin t)$ comes back after $2\pi$, but its velocity never vanishes.
    """
    f_key, x_key, y_key, s_key = jax.random.split(key, 4)
    x, y = jax.random.normal(x_key, (samples, dim)), jax.random.normal(y_key, (samples, dim))
    s = jax.random.normal(s_key, (samples, 2))

    @jax.jit
    def measure(f_key, x, y, s):
        f, scalar = _waves(f_key, dim), _waves(f_key, 1)
        vector = jax.vmap(lambda x, y: mean_value_point(f, x, y))(x, y)
        number = jax.vmap(lambda s: mean_value_point(scalar, s[0], s[1]))(s)
        scale = jax.vmap(lambda x, y: jnp.linalg.norm(jax.grad(f)(x)) * jnp.linalg.norm(y))(x, y)
        t = 2 * jnp.pi * jnp.linspace(0, 1, 1000)
        velocity = 2 * jnp.pi * jnp.stack([-jnp.sin(t), jnp.cos(t)])
        return vector, number, scale, mean_value_point(jnp.abs, -1.0, 2.0), jnp.linalg.norm(velocity, axis=0)

    vector, number, scale, kink, velocity = measure(f_key, x, y, s)
    # halving ends at the rounding of c, and a slope of the size below changes by its curvature times that
    rounding = 1e-12 * float(1 + scale.max())
    yield equal("slope there less mean slope, on a segment", vector.residual, 0.0, atol=rounding)
    yield equal("slope there less mean slope, on an interval", number.residual, 0.0, atol=rounding)
    inside = jnp.concatenate([vector.c, number.c])
    yield at_least("place on the segment, from its start", inside, 1e-3)
    yield at_most("place on the segment, to its end", inside, 1 - 1e-3)
    yield control("|x| has a kink", equal("slope less mean slope on [-1, 1]", kink.residual, 0.0, atol=rounding))
    yield control(
        "a map into the plane",
        at_most("least distance of the velocity of a circle to its mean", velocity.min(), rounding),
    )
    widest = int(jnp.argmax(jnp.abs(s[:, 1])))
    yield _chord(f_key, *map(float, (s[widest, 0], s[widest, 1], number.c[widest])))


def _chord(key, a, width, c):
    x = np.linspace(a - 0.3 * width, a + 1.3 * width, 161)
    ends = np.array([a, a + width, a + c * width])
    values = np.asarray(jax.jit(lambda key, x: jax.vmap(_waves(key, 1))(x))(key, np.concatenate([ends, x])))
    start, end, height = map(float, values[:3])
    slope, middle = (end - start) / width, a + c * width
    rows = [{"x": float(u), "y": float(v), "line": "f"} for u, v in zip(x, values[3:], strict=True)]
    rows += [{"x": a, "y": start, "line": "chord"}, {"x": a + width, "y": end, "line": "chord"}]
    rows += [{"x": middle + d * width, "y": height + d * width * slope, "line": "tangent at c"} for d in (-0.35, 0.35)]
    chart = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2)
    chart = chart.encode(
        alt.X("x:Q", scale=alt.Scale(zero=False), title="x"),
        alt.Y("y:Q", scale=alt.Scale(zero=False), title=None),
        alt.Color("line:N", sort=["f", "chord", "tangent at c"], legend=alt.Legend(title=None, orient="bottom")),
    )
    return picture("a chord and the tangent parallel to it", chart.properties(width=300, height=190))


def _functions(key, dim):
    w_key, a_key = jax.random.split(key)
    w, a = jax.random.normal(w_key, (8, dim)) / dim**0.5, jax.random.normal(a_key, (8,))
    return {
        "log sum exp": jax.nn.logsumexp,
        "quartic": lambda x: jnp.sum(x**4) / 4 + jnp.sum(x[:-1] * x[1:]),
        "tanh network": lambda x: a @ jnp.tanh(w @ x),
    }


@claim(rows=("B01.11",))
def as_an_integral(key, *, dim: Size = 20, samples: Size = 10):
    r"""Increments are integrals of gradients along the segment, and increments of gradients integrals of Hessians.

    For $f\in C^1$, $f(x+y)-f(x)=\int_0^1\nabla f(x+ty)^\top y\,dt$; for $f\in C^2$,
    $\nabla f(x+y)=\nabla f(x)+\int_0^1\nabla^2f(x+ty)\,y\,dt$. The step function $\mathbf 1[x_1>0]$ has the gradient 0
    almost everywhere, and its increment is not the integral of that.
    """
    f_key, x_key, y_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (samples, dim))
    y = jax.random.normal(y_key, (samples, dim)) / dim**0.5

    @jax.jit
    def measure(f_key, x, y):
        out, functions = {}, _functions(f_key, dim)
        for name, f in functions.items():
            slope = jax.grad(f)
            out[name] = (
                jax.vmap(lambda x, y, f=f: f(x + y) - f(x))(x, y),
                jax.vmap(lambda x, y, f=f: integral_increment(f, x, y))(x, y),
                jax.vmap(lambda x, y, slope=slope: slope(x + y) - slope(x))(x, y),
                jax.vmap(lambda x, y, f=f: integral_gradient_increment(f, x, y))(x, y),
            )

        def step(x):
            return jnp.where(x[0] > 0, 1.0, 0.0)

        across = jnp.ones(dim)
        return out, step(across) - step(-across), integral_increment(step, -across, 2 * across)

    out, rise, integral = measure(f_key, x, y)
    for name, (increment, by_integral, gradient, by_hessian) in out.items():
        # forty Gauss nodes over a segment of length one: the error is rounding of values of the order of dim
        yield equal(f"{name}: increment of f", by_integral, increment, atol=1e-11)
        yield equal(f"{name}: increment of the gradient", by_hessian, gradient, atol=1e-11)
    yield control("a step is not continuous", equal("increment of a step function", integral, rise, atol=1e-11))


@claim(rows=("B01.12",))
def second_order(key, *, dim: Size = 10, samples: Size = 10):
    r"""The remainder of first order is the integral of the Hessian with the weight 1 - t.

    For $f\in C^2$, $f(x+y)=f(x)+\nabla f(x)^\top y+\int_0^1(1-t)\,y^\top\nabla^2f(x+ty)\,y\,dt$. The constant weight
    $\frac12$, which (1.17) prints, is right where the Hessian is constant, and otherwise off by the order $\|y\|^3$.
    """
    f_key, x_key, y_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (samples, dim))
    y = jax.random.normal(y_key, (samples, dim)) / dim**0.5
    sizes = 2.0 ** -jnp.arange(1, 8)
    forward = jax.random.uniform(y_key, (dim,), minval=0.5, maxval=1.5)

    def half(t):
        return 0.5

    @jax.jit
    def measure(f_key, x, y, forward):
        functions = {name: f for name, f in _functions(f_key, dim).items() if name != "log sum exp"}

        def left(f, x, y):
            return f(x + y) - f(x) - jax.grad(f)(x) @ y

        def exponentials(x):
            return jnp.sum(jnp.exp(x))  # its third derivative along positive directions is positive

        def square(x):
            return jnp.sum(jnp.cumsum(x) ** 2)

        pairs = {
            n: jax.vmap(lambda x, y, f=f: jnp.stack([left(f, x, y), integral_second_remainder(f, x, y)]))(x, y)
            for n, f in functions.items()
        }
        f = functions["quartic"]
        return (
            pairs,
            jax.vmap(lambda x, y: integral_second_remainder(f, x, y, weight=half))(x, y),
            jax.vmap(
                lambda x, y: jnp.stack([left(square, x, y), integral_second_remainder(square, x, y, weight=half)])
            )(x, y),
            jax.vmap(
                lambda s: jnp.abs(
                    left(exponentials, 0 * forward, s * forward)
                    - integral_second_remainder(exponentials, 0 * forward, s * forward, weight=half)
                )
            )(sizes),
        )

    pairs, constant, quadratic, error = measure(f_key, x, y, forward)
    for name, both in pairs.items():
        yield equal(f"{name}: remainder of first order", both[:, 1], both[:, 0], atol=1e-11)
    yield equal("a quadratic with the weight 1/2", quadratic[:, 1], quadratic[:, 0], atol=1e-11)
    # the next order adds a term of the size of y, whose half bends the slope at the larger sizes
    yield rate("error of the weight 1/2", sizes, error, 3.0, tolerance=0.25, along="length of y")
    yield control(
        "the weight 1/2, and a function that is no quadratic",
        equal("quartic: remainder of first order", constant, pairs["quartic"][:, 0], atol=1e-11),
    )


@claim(
    rows=("B01.12",),
    erratum="The weight in the integral must be 1 - t; the constant 1/2 is right for quadratics only.",
)
def second_order_with_half(key):
    r"""The remainder of first order is half the integral of the Hessian.

    As printed in (1.17): $f(x+y)=f(x)+\nabla f(x)^\top y+\frac12\int_0^1y^\top\nabla^2f(x+ty)\,y\,dt$. For
    $f=x^3$, $x=0$, $y=1$ the left side is 1 and the right side $\frac12\int_0^16t\,dt=1.5$. With the weight $1-t$ in
    place of $\frac12$ it is 1.
    """

    def cube(x):
        return x**3

    rise = cube(1.0) - cube(0.0)  # the slope at 0 is 0
    yield equal("cube: with the weight 1 - t", integral_second_remainder(cube, 0.0, 1.0), rise)
    yield printed(
        equal("cube: with the weight 1/2", integral_second_remainder(cube, 0.0, 1.0, weight=lambda t: 0.5), rise)
    )
