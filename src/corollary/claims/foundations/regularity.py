"""Lipschitz and smoothness constants, and what smoothness says at a minimum."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Size, at_least, at_most, claim, control, equal, picture, rate
from corollary.foundations import (
    SIGMOID_SMOOTHNESS,
    lipschitz_lower_bound,
    lipschitz_upper_bound,
    network_lipschitz_bound,
    pair_slopes,
    quadratic_smoothness,
    smoothness_lower_bound,
)


@claim(rows=("B01.14",))
def lipschitz_constants(key, *, pairs: Size = 500, cells: Size = 200):
    r"""Samples bound a Lipschitz constant from below, certificates from above, and both close in on it.

    $|f(x)-f(y)|\le L\|x-y\|$ for all $x,y$. For $\sin3x$ on $[-2,2]$ $L=3$: neighbours on a grid of spacing $h$ show at
    least $3(1-\frac92h^2)$, and gradients at the centres of cells of half-width $r$ certify at most $3+9r$. For $\|x\|$
    $L=1$, and for a tanh network at most the product of the spectral norms, attained by diagonal weights near zero.
    The root of $|x|$ has no Lipschitz constant.
    """
    g_key, x_key, w_key = jax.random.split(key, 3)
    h = 4.0 / pairs
    grid = -2 + h * (jnp.arange(pairs) + jax.random.uniform(g_key))
    x, y = 2 * jax.random.normal(x_key, (2, pairs, 4))
    first, second = jax.random.normal(w_key, (2, 4, 4))
    sizes = jnp.geomspace(1e-8, 1.0, 9)
    counts = [cells // 8, cells // 4, cells // 2, cells, 2 * cells]

    @jax.jit
    def measure(grid, x, y, first, second):
        def wave(x):
            return jnp.sin(3 * x)

        def network(x):
            return second @ jnp.tanh(first @ x)

        tight = jnp.diag(jnp.array([2.0, 1.0, 0.5, 0.1]))
        small = 1e-4 * jnp.eye(4)[:1]
        return {
            "lower": lipschitz_lower_bound(wave, grid[:-1], grid[1:]),
            "refined": lipschitz_lower_bound(wave, x[:, 0], y[:, 0], rounds=15),
            "upper": jnp.stack([lipschitz_upper_bound(wave, -2.0, 2.0, 9.0, c) for c in counts]),
            "norm": pair_slopes(jnp.linalg.norm, x, y),
            "radial": pair_slopes(jnp.linalg.norm, x, 2 * x),
            "network": pair_slopes(network, x, y),
            "product": network_lipschitz_bound([first, second]),
            "tight": pair_slopes(lambda x: tight @ jnp.tanh(tight @ x), small, -small)[0],
            "tight product": network_lipschitz_bound([tight, tight]),
            "root": pair_slopes(lambda x: jnp.sqrt(jnp.abs(x)), sizes, 0 * sizes),
        }

    m = measure(grid, x, y, first, second)
    slopes = jnp.stack([m["lower"], m["refined"]])
    # two values of at most one are rounded, and divided by what fifteen halvings leave of the nearest pair
    rounding = 4 * 2.3e-16 / (float(jnp.abs(x[:, 0] - y[:, 0]).min()) / 2**15)
    yield at_most("sin 3x: slopes from samples", slopes, 3.0, rtol=0, atol=rounding)
    yield at_least("sin 3x: slopes of neighbours on the grid", m["lower"], 3 * (1 - 4.5 * h**2))
    yield at_least("sin 3x: certificates", m["upper"], 3.0)
    radii = 2.0 / np.array(counts)
    yield at_most("sin 3x: certificates less 3", m["upper"] - 3, 9 * radii, x=counts, along="cells")
    yield at_most("length of a vector: slopes", m["norm"], 1.0)
    yield equal("length of a vector: along rays", m["radial"], 1.0)
    yield at_most("tanh network: slopes against the product of spectral norms", m["network"], m["product"])
    # tanh t = t(1 - t²/3) at t = 2e-4
    yield equal("diagonal weights near zero attain the product", m["tight"], m["tight product"], rtol=2e-8)
    yield control(
        "the root of |x| has no Lipschitz constant",
        at_most("slopes", m["root"], 100.0, x=np.log10(sizes), along="log10 x"),
    )


@claim(rows=("B01.15",))
def bounded_gradient(key, *, n: Size = 30, dim: Size = 4, pairs: Size = 20_000):
    r"""A function with a bounded gradient on a convex set is Lipschitz with that bound.

    If $\|\nabla f\|\le L$ on a convex set, $|f(x)-f(y)|\le L\|x-y\|$ there. The logistic loss
    $\frac1n\sum\ln(1+e^{-y_ia_i\cdot w})$ has $L=\frac1n\sum\|a_i\|$, approached far out for a single point; an affine
    function attains its $L$. The gradient of $x^2$ is bounded on no ray. Convexity is needed: on a plane cut along a
    ray from the origin the angle has the gradient $1/r\le1$ for $r\ge1$, but jumps by $2\pi$ across the cut.
    """
    a_key, y_key, w_key, d_key = jax.random.split(key, 4)
    a = jax.random.normal(a_key, (n, dim))
    y = jnp.where(jax.random.bernoulli(y_key, shape=(n,)), 1.0, -1.0)
    centre, step = jax.random.normal(w_key, (2, pairs, dim))
    scale = jnp.exp(jax.random.normal(d_key, (pairs, 2)) * 2)
    w, v = centre * scale[:, :1], centre * scale[:, :1] + step * scale[:, 1:]
    radii = jnp.geomspace(1, 1e4, 9)

    @jax.jit
    def measure(a, y, w, v, scale):
        def loss(w):
            return jnp.mean(jnp.logaddexp(0, -y * (a @ w)))

        def single(w):
            return jnp.logaddexp(0, -a[0] @ w)

        def angle(p):
            return jnp.arctan2(p[1], p[0])

        unit = a[0] / jnp.linalg.norm(a[0])
        far = -(50 / jnp.linalg.norm(a[0])) * unit
        above = jnp.stack([-radii, 1e-3 * radii], 1)
        below = jnp.stack([-radii, -1e-3 * radii], 1)
        return {
            "slopes": pair_slopes(loss, w, v),
            "gradients": jax.vmap(lambda w: jnp.linalg.norm(jax.grad(loss)(w)))(w),
            "bound": jnp.mean(jnp.linalg.norm(a, axis=1)),
            "single": pair_slopes(single, far[None], 2 * far[None])[0] / jnp.linalg.norm(a[0]),
            "affine": pair_slopes(lambda w: a[0] @ w + 1, w, w + scale[:, :1] * a[0]) / jnp.linalg.norm(a[0]),
            "square": pair_slopes(lambda x: x**2, radii, 2 * radii),
            "angle gradients": jax.vmap(lambda p: jnp.linalg.norm(jax.grad(angle)(p)))(above),
            "angle": pair_slopes(angle, above, below),
        }

    m = measure(a, y, w, v, scale)
    # pairs as near as e^-8 of points as far as e^8: the slope rounds at 1e-16 e^16
    yield at_most("slopes of the logistic loss", m["slopes"], m["bound"], rtol=1e-8)
    yield at_most("gradients of the logistic loss", m["gradients"], m["bound"])
    # at the margin -50 the loss is linear up to e^-50
    yield equal("one point, far out: slope over bound", m["single"], 1.0)
    yield equal("an affine function attains its bound", m["affine"], 1.0, rtol=1e-8)
    along = {"x": np.log10(radii), "along": "log10 of the radius"}
    yield control("x² has no bounded gradient", at_most("slopes of x²", m["square"], 100.0, **along))
    yield at_most("angle on the cut plane: gradients", m["angle gradients"], 1.0, **along)
    yield control(
        "the cut plane is not convex", at_most("slopes of the angle across the cut", m["angle"], 1.0, **along)
    )


@claim(rows=("B01.16",))
def smoothness(key, *, n: Size = 40, dim: Size = 5, pairs: Size = 2000):
    r"""Smoothness constants of quadratics, of the logistic loss and of the logistic function.

    $f$ is $L$-smooth if $\|\nabla f(x)-\nabla f(y)\|\le L\|x-y\|$; for $f\in C^2$ the least $L$ is
    $\sup\|\nabla^2f\|_2$. For $x^2$ it is 2, with equality everywhere; for $\frac12x^\top Hx$ it is
    $\max|\lambda_i(H)|$; for the logistic loss at most $\frac1{4n}\lambda_{\max}(A^\top A)$, attained at 0; for the
    logistic function $\frac1{6\sqrt3}$. $|x|$, $x^4$ and $|x|^{3/2}$ are not smooth on the line.
    """
    h_key, a_key, x_key = jax.random.split(key, 3)
    hessian = jax.random.normal(h_key, (dim, dim))
    hessian = (hessian + hessian.T) / 2
    a = jax.random.normal(a_key, (n, dim))
    x, y = 2 * jax.random.normal(x_key, (2, pairs, dim))
    grid = jnp.linspace(-6, 6, 4001)
    sizes = jnp.geomspace(1e-6, 1e6, 13)

    @jax.jit
    def measure(hessian, a, x, y):
        def quadratic(x):
            return x @ hessian @ x / 2

        def loss(w):
            return jnp.mean(jnp.logaddexp(0, -(a @ w)))

        values, basis = jnp.linalg.eigh(hessian)
        top = basis[:, jnp.argmax(jnp.abs(values))]
        curvature, directions = jnp.linalg.eigh(a.T @ a / (4 * n))
        small = 1e-4 * directions[:, -1]

        def slopes(f):
            return pair_slopes(jax.grad(f), sizes, -sizes)

        return {
            "square": pair_slopes(jax.grad(lambda x: x**2), x[:, 0], y[:, 0]),
            "quadratic": pair_slopes(jax.grad(quadratic), x, y),
            "quadratic L": quadratic_smoothness(hessian),
            "along": smoothness_lower_bound(quadratic, x, x + top),
            "logistic": pair_slopes(jax.grad(loss), x, y),
            "logistic L": curvature[-1],
            "logistic at 0": smoothness_lower_bound(loss, small[None], -small[None]),
            "sigmoid": smoothness_lower_bound(jax.nn.sigmoid, grid[:-1], grid[1:]),
            "others": jnp.stack([slopes(jnp.abs), slopes(lambda x: x**4), slopes(lambda x: jnp.abs(x) ** 1.5)]),
        }

    m = measure(hessian, a, x, y)
    yield equal("x²: slopes of the derivative", m["square"], 2.0)
    yield at_most("quadratic form: slopes of the gradient", m["quadratic"], m["quadratic L"])
    yield equal("quadratic form: along the top eigenvector", m["along"], m["quadratic L"])
    yield at_most("logistic loss: slopes of the gradient", m["logistic"], m["logistic L"])
    # the curvature falls by the square of the margin, here 1e-4 times a few
    yield equal("logistic loss: at zero", m["logistic at 0"], m["logistic L"], rtol=1e-6)
    # neighbours 0.003 apart see the maximum of the second derivative up to the square of that
    yield equal("logistic function: 1/(6√3)", m["sigmoid"], SIGMOID_SMOOTHNESS, rtol=1e-5)
    along = {"x": np.log10(sizes), "along": "log10 of x"}
    for name, slopes in zip(("|x|", "x to the 4th", "|x| to the 3/2"), m["others"], strict=True):
        yield control(f"{name} is not smooth", at_most(f"{name}: slopes of the derivative", slopes, 100.0, **along))
    yield _gallery()


def _gallery():
    x = np.linspace(-1.5, 1.5, 121)
    curves = {
        "x²": (x**2, 2 * x),
        "|x|": (np.abs(x), np.sign(x)),
        "step": (1.0 * (x > 0), 0 * x),
        "|x| to the 3/2": (np.abs(x) ** 1.5, 1.5 * np.sign(x) * np.abs(x) ** 0.5),
    }
    panels = []
    for name, (value, slope) in curves.items():
        rows = [{"x": float(a), "y": float(b), "of": "f"} for a, b in zip(x, value, strict=True)]
        rows += [{"x": float(a), "y": float(b), "of": "f'"} for a, b in zip(x, slope, strict=True)]
        chart = alt.Chart(alt.Data(values=rows), title=name).mark_point(size=4, filled=True)
        colour = alt.Color("of:N", legend=alt.Legend(title=None, orient="bottom"))
        chart = chart.encode(alt.X("x:Q", title=None), alt.Y("y:Q", title=None), colour)
        panels.append(chart.properties(width=120, height=120))
    return picture("functions and their derivatives", alt.hconcat(*panels))


@claim(rows=("B01.34",))
def at_a_minimum(key, *, n: Size = 40, dim: Size = 4, samples: Size = 5000):
    r"""At a minimum of a smooth function the loss rises at most like a parabola of the smoothness constant.

    For $f\in C^2$: $\nabla^2f(x)v=\lim_{t\to0}(\nabla f(x+tv)-\nabla f(x))/t$. If $f$ is $L$-smooth, all eigenvalues of
    $\nabla^2f$ lie in $[-L,L]$; at a minimum $x^*$ also $\|\nabla^2f(x^*)\|_2\le L$, and
    $f(x)-f(x^*)\le\frac L2\|x-x^*\|^2$, without the remainder that the exercise allows for. From a point that is not
    stationary this is false.
    """
    a_key, w_key, v_key, s_key = jax.random.split(key, 4)
    a = jax.random.normal(a_key, (n, dim))
    ridge = 0.05
    points = 3 * jax.random.normal(w_key, (samples, dim))
    v = jax.random.normal(v_key, (dim,))
    waves = jax.random.normal(s_key, (8, dim))
    steps = jnp.geomspace(1e-4, 0.03, 10)

    @jax.jit
    def measure(a, points, v, waves):
        def loss(w):
            return jnp.mean(jnp.logaddexp(0, -(a @ w))) + ridge * w @ w

        def ripples(x):  # not convex; at 0 the curvature is -L
            return jnp.sum(jnp.cos(waves @ x))

        smooth = jnp.linalg.eigvalsh(a.T @ a / (4 * n))[-1] + 2 * ridge
        slope = jax.grad(loss)

        def newton(w, _):
            return w - jnp.linalg.solve(jax.hessian(loss)(w), slope(w)), None

        best, _ = jax.lax.scan(newton, jnp.zeros(dim), length=12)
        at = points[0] / 3
        product = jax.jvp(slope, (at,), (v,))[1]
        forward = jax.vmap(lambda t: jnp.linalg.norm((slope(at + t * v) - slope(at)) / t - product))(steps)
        central = jax.vmap(lambda t: jnp.linalg.norm((slope(at + t * v) - slope(at - t * v)) / (2 * t) - product))(
            steps
        )

        def rise(start):
            return jax.vmap(lambda x: loss(x) - loss(start))(points), jnp.sum((points - start) ** 2, axis=1)

        rippled = jnp.linalg.eigvalsh(waves.T @ waves)[-1]
        return {
            "L": smooth,
            "slope": jnp.linalg.norm(slope(best)),
            "product": product - jax.hessian(loss)(at) @ v,
            "forward": forward,
            "central": central,
            "spectrum": jax.vmap(lambda x: jnp.linalg.eigvalsh(jax.hessian(loss)(x)))(points[:200]),
            "ripples": jax.vmap(lambda x: jnp.linalg.eigvalsh(jax.hessian(ripples)(x)))(points[:200]) / rippled,
            "crest": jnp.linalg.eigvalsh(jax.hessian(ripples)(jnp.zeros(dim)))[0] / rippled,
            "at best": jnp.linalg.eigvalsh(jax.hessian(loss)(best))[-1],
            "rise": rise(best),
            "elsewhere": rise(best + 2 * v / jnp.linalg.norm(v)),
        }

    m = measure(a, points, v, waves)
    yield equal("the gradient at the minimiser", m["slope"], 0.0, atol=1e-13)
    yield equal("Hessian times vector against the Hessian", m["product"], 0.0, atol=1e-13 * 10)
    yield rate("difference of gradients, one-sided", steps, m["forward"], 1.0, tolerance=0.1, along="t")
    yield rate("difference of gradients, central", steps, m["central"], 2.0, tolerance=0.1, along="t")
    yield at_most("eigenvalues of the Hessian", m["spectrum"], m["L"])
    yield at_most("cosines: absolute eigenvalues over L", jnp.abs(m["ripples"]), 1.0)
    yield equal("cosines: the least eigenvalue at 0 over L", m["crest"], -1.0)
    yield at_most("norm of the Hessian at the minimum", m["at best"], m["L"])
    gap, distance = m["rise"]
    yield at_most("f(x) - f(x*) under the parabola", gap, m["L"] / 2 * distance)
    gap, distance = m["elsewhere"]
    yield control("the centre is not stationary", at_most("f(x) - f(centre)", gap, m["L"] / 2 * distance))
