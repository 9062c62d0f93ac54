"""Derivatives as limits, the chain rule, Taylor's theorem."""

from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, at_most, claim, control, equal, monotone, picture, printed, rate
from corollary.foundations import (
    chain_jacobian,
    difference_quotient,
    directional_derivative,
    finite_difference_gradient,
    taylor_coefficients,
    taylor_remainder,
)

EPS = 2.3e-16


@claim(rows=("B01.07",))
def difference_quotients(key, *, dim: Size = 5, points: Size = 14):
    r"""Difference quotients converge to the gradient times the direction: one-sided ones slowly, central ones fast.

    If $f$ is three times differentiable, $(f(x+\epsilon v)-f(x))/\epsilon-\nabla f(x)\cdot v=O(\epsilon)$ and
    $(f(x+\epsilon v)-f(x-\epsilon v))/2\epsilon-\nabla f(x)\cdot v=O(\epsilon^2)$; with $v=e_i$ the limit is
    $\partial f/\partial x_i$. Here for exp, sin and the logarithm of a sum of exponentials. At the kink of $|x|$ the
    one-sided limits are $1$ and $-1$.
    """
    x_key, v_key = jax.random.split(key)
    # from where on no second or third derivative is near zero, so that the order shows
    t = jax.random.uniform(x_key, minval=0.6, maxval=1.0)
    x = jax.random.uniform(x_key, (dim,), minval=-0.3, maxval=0.3)
    directions = jax.random.normal(v_key, (20, dim))
    first = jnp.eye(dim)[0]
    steps = jnp.geomspace(1e-4, 0.03, points)
    wide = jnp.geomspace(1e-13, 0.3, 60)
    lse = jax.nn.logsumexp

    @jax.jit
    def measure(t, x, directions):
        def error(f, x, v, scheme, steps):
            exact = directional_derivative(f, x, v)
            return jax.vmap(lambda s: jnp.abs(difference_quotient(f, x, v, s, scheme) - exact))(steps)

        cases = {"exp": (jnp.exp, t, 1.0), "sin": (jnp.sin, t, 1.0), "log sum exp": (lse, x, first)}
        return {
            "errors": {(n, s): error(*case, s, steps) for n, case in cases.items() for s in ("forward", "central")},
            "wide": {s: error(jnp.exp, t, 1.0, s, wide) for s in ("forward", "central")},
            "along": jax.vmap(lambda v: directional_derivative(lse, x, v))(directions),
            "gradient": finite_difference_gradient(lse, x, 1e-5),
            "kink": jnp.stack(
                [difference_quotient(jnp.abs, 0.0, side, s) for side in (1.0, -1.0) for s in (0.1, 1e-6)]
            ),
        }

    m = measure(t, x, directions)
    for (name, scheme), errors in m["errors"].items():
        order = {"forward": 1.0, "central": 2.0}[scheme]
        yield rate(f"{name}, {scheme} quotient", steps, errors, order, tolerance=0.05, along="ε")
    softmax = jnp.exp(x) / jnp.sum(jnp.exp(x))  # the gradient in closed form
    yield equal("directional derivative against gradient times direction", m["along"], directions @ softmax)
    # a third derivative below one over six, times 1e-10, and rounding of 1e-16 over 1e-5
    yield equal("gradient by central differences", m["gradient"], softmax, rtol=0, atol=1e-10)
    yield control(
        "|x| has a kink at 0",
        equal("quotients along 1 and -1 are opposite", m["kink"], [1.0, 1.0, -1.0, -1.0]),
    )
    yield _valley(wide, m["wide"])


def _valley(steps, errors):
    rows = [
        {"step": float(s), "error": float(e), "quotient": scheme}
        for scheme, values in errors.items()
        for s, e in zip(np.asarray(steps), np.asarray(values), strict=True)
        if e > 0
    ]
    log = alt.Scale(type="log")
    axis = alt.Axis(format="~e", tickCount=6)
    chart = alt.Chart(alt.Data(values=rows)).mark_line(point={"size": 14}, strokeWidth=1.3)
    chart = chart.encode(
        alt.X("step:Q", scale=log, axis=axis, title="ε"),
        alt.Y("error:Q", scale=log, axis=axis, title="error"),
        alt.Color("quotient:N", legend=alt.Legend(title=None, orient="bottom")),
    )
    return picture("derivative of exp: truncation falls, rounding rises", chart.properties(width=300, height=190))


@claim(rows=("B01.08",))
def chain_rule(key, *, k: Size = 4, m: Size = 6, d: Size = 3):
    r"""The Jacobian of a composition is the product of the Jacobians, the outer one taken at the inner value.

    For differentiable $g:\mathbb R^k\to\mathbb R^m$ and $f:\mathbb R^m\to\mathbb R^d$,
    $J_{f\circ g}(x)=J_f(g(x))\,J_g(x)\in\mathbb R^{d\times k}$; for numbers $(f\circ g)'(x)=f'(g(x))\,g'(x)$. Measured
    by central differences of the composition.
    """
    keys = jax.random.split(key, 3)
    inner_weight, outer_weight = jax.random.normal(keys[0], (m, k)), jax.random.normal(keys[1], (d, m))
    x = jax.random.normal(keys[2], (k,))
    # truncation is h² times a third derivative (below 1e3 here), rounding 1e-16/h
    h, tolerance = 1e-5, 1e-7

    @jax.jit
    def measure(inner_weight, outer_weight, x):
        def g(x):
            return jnp.tanh(inner_weight @ x)

        def f(y):
            return jnp.sin(outer_weight @ y)

        def differences(f):
            return jax.vmap(lambda e: (f(x + h * e) - f(x - h * e)) / (2 * h), out_axes=1)(jnp.eye(k))

        def kinked(y):
            return jnp.where(y > 0, 2 * y, y)

        t = x[0]
        # the inner value is 0, where the outer function has a kink
        inner = lambda x: jnp.tanh(x[:1])  # noqa: E731
        at_kink = (kinked(inner(h * jnp.eye(k)[0])) - kinked(inner(-h * jnp.eye(k)[0]))) / (2 * h)
        return {
            "product": chain_jacobian(f, g, x),
            "measured": differences(lambda x: f(g(x))),
            "kink": (at_kink, chain_jacobian(kinked, inner, 0 * x)[0, :1]),
            "scalar": jax.grad(lambda t: jnp.sin(jnp.exp(t)))(t) - jnp.cos(jnp.exp(t)) * jnp.exp(t),
        }

    found = measure(inner_weight, outer_weight, x)
    yield equal("Jacobian of the composition", found["measured"], found["product"], atol=tolerance)
    yield equal("numbers: sin of exp", found["scalar"], 0.0)
    yield control(
        "the outer function has a kink at the inner value",
        equal("derivative of the composition", *found["kink"], atol=tolerance),
    )


@claim(rows=("B01.09",))
def taylor(key, *, points: Size = 9):
    r"""The Taylor polynomial of order k leaves a remainder of order k + 1.

    If $f$ is $k$ times differentiable at $a$, $f(x)=\sum_{j\le k}\frac{f^{(j)}(a)}{j!}(x-a)^j+h_k(x)(x-a)^k$ with
    $h_k(x)\to0$ as $x\to a$. If moreover $|f^{(k+1)}|\le M$ between $a$ and $x$, the remainder is at most
    $M|x-a|^{k+1}/(k+1)!$. Here for exp, sin and $1/(1+x)$ with $k=1,\dots,5$. $|x|^{5/2}$ is not three times
    differentiable at 0: what its polynomial leaves is of order 5/2 only.
    """
    a = jax.random.uniform(key, minval=0.6, maxval=1.0)  # where no derivative of sin is near zero
    # large enough for the sixth power over 720 to stand out of rounding, small enough for the first term to rule
    sizes = jnp.geomspace(0.02, 0.06, points)
    orders = range(1, 6)
    functions = {"exp": jnp.exp, "sin": jnp.sin, "1/(1 + x)": lambda x: 1 / (1 + x)}

    @jax.jit
    def measure(a):
        return {
            n: jnp.stack([jnp.abs(taylor_remainder(f, a, k, a + sizes)) for k in orders]) for n, f in functions.items()
        }

    m = measure(a)
    factorial = np.cumprod(np.arange(1, 7))
    for name, remainders in m.items():
        for k in (1, 3, 5):
            # the next term of the series is below 0.06 of the first, and bends the slope by less than that
            yield rate(
                f"{name}: remainder of order {k}", sizes, remainders[k - 1], k + 1.0, tolerance=0.06, along="x - a"
            )
    largest = {
        "exp": [float(jnp.exp(a + sizes[-1]))] * 5,
        "sin": [1.0] * 5,
        "1/(1 + x)": [factorial[k] / (1 + float(a)) ** (k + 2) for k in orders],
    }
    measured = jnp.stack([m[n] for n in functions])
    bound = jnp.stack(
        [jnp.stack([largest[n][k - 1] * sizes ** (k + 1) / factorial[k] for k in orders]) for n in functions]
    )
    yield at_most("remainder against M|x - a|^(k+1)/(k+1)!", measured, bound, atol=10 * EPS)
    shares = measured / sizes ** jnp.arange(1, 6)[:, None]
    yield monotone("h: the remainder over the last power", shares, "increasing", x=np.log(sizes), along="log of x - a")
    # all derivatives of |x|^(5/2) at 0 that exist are 0, so that the remainder is the function
    yield control(
        "|x|^(5/2) is not three times differentiable at 0",
        rate("remainder of order 3", sizes, jnp.abs(sizes) ** 2.5, 4.0, tolerance=0.06, along="x - a"),
    )


@claim(
    rows=("B01.09",),
    erratum="In the last line of the proof the second-order term lacks its factor 1/2.",
)
def taylor_without_half(key, *, nodes: Size = 200):
    r"""The function is its second-order expansion without the factor 1/2, plus a threefold integral.

    As printed, in the last line of the proof of Theorem 2:
    $f(x)=f(a)+f'(a)(x-a)+f''(a)(x-a)^2+\int_a^x\int_a^{x_1}\int_a^{x_2}f'''$. For $f=\exp$, $a=0$, $x=1$ the right side
    is $e+\frac12$. With $\frac12f''(a)(x-a)^2$ it is right.
    """
    t = (jnp.arange(nodes) + 0.5) / nodes
    threefold = jnp.mean((1 - t) ** 2 / 2 * jnp.exp(t))  # the inner two integrals done: (x - t)²/2
    value, slope, half = taylor_coefficients(jnp.exp, 0.0, 2)
    # the midpoint rule is off by less than 1/24 n² of the second derivative, below 3
    yield equal("right side with the factor 1/2", value + slope + half + threefold, jnp.e, atol=1 / (8 * nodes**2))
    yield printed(equal("right side without it", value + slope + 2 * half + threefold, jnp.e, atol=1 / (8 * nodes**2)))


@claim(
    rows=("B01.09",),
    erratum="A continuous second derivative does not bound the third one; the proof has to assume that bound.",
)
def third_derivative_is_bounded(key, *, points: Annotated[int, Range(4, 20)] = 16):
    r"""If a function is three times differentiable with a continuous second derivative, the third one is bounded.

    As printed: "$f^{(2)}$ is continuous, therefore $|f^{(3)}(x)|\le M$ for all $x$". Let $f''(x)=x^2\sin x^{-2}$ and
    $f''(0)=0$. It is continuous, since $|f''|\le x^2$, and $f^{(3)}$ exists everywhere, with $f^{(3)}(0)=0$; but
    $f^{(3)}(x)=2x\sin x^{-2}-\frac2x\cos x^{-2}$ exceeds every bound near 0: it is $-\frac2x$ at $x=(2\pi k)^{-1/2}$. A
    bound would make the largest value down to $x$ level off as $x\to0$. Where the bound is assumed (a second instance,
    $\exp$ on $[0,1]$ with $M=e$), the remainder is at most $M|x-a|^3/3!$, as the proof goes on.
    """

    def second(x):
        return x**2 * jnp.sin(x**-2)

    x = (2 * jnp.pi * 2.0 ** jnp.arange(points)) ** -0.5
    seconds, thirds = jax.jit(lambda x: (second(x), jax.vmap(jax.grad(second))(x)))(x)
    # the sine of 2πk is rounding: k eps, times x² = 1/(2πk)
    yield at_most("second derivative: continuous at 0", jnp.abs(seconds), x**2, x=np.log10(x), along="log10 x")
    yield at_most(
        "its quotient by x: the third derivative at 0 is 0", jnp.abs(seconds / x), x, x=np.log10(x), along="log10 x"
    )
    yield equal("third derivative", thirds, -2 / x, rtol=1e-8)
    largest = jax.lax.cummax(jnp.abs(thirds))
    yield printed(rate("largest third derivative down to x", x, largest, 0.0, tolerance=0.1, along="x"))
    remainder = jnp.abs(taylor_remainder(jnp.exp, 0.0, 2, jnp.linspace(0.1, 1.0, 10)))
    yield at_most("remainder of exp where M bounds it", remainder, jnp.e * jnp.linspace(0.1, 1.0, 10) ** 3 / 6)
