"""Models against data: too simple a family, too few samples for a rich one, and the fan of perfect fits."""

from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, at_least, at_most, claim, control, equal, estimate, picture, printed
from corollary.foundations import (
    FiniteLaw,
    LinearModel,
    expected_loss,
    fit_quadratic_form,
    parabola_through,
    quadratic_features,
)
from corollary.linear import squared_error


@claim(rows=("M01.05",))
def line_on_a_parabola(
    key, *, nodes: Annotated[int, Range(4, 200)] = 20, samples: Annotated[int, Range(100, 100_000)] = 2000
):
    r"""No linear model follows quadratic data.

    For $y=x^2$ with $x$ uniform on $[-1,1]$ the best $\theta x$ is $\theta=0$, with mean squared error
    $E[x^4]=\frac15$; the best line $wx+b$ is the constant $\frac13$, with error $\mathrm{Var}[x^2]=\frac4{45}$, however
    many samples there are. One more feature, $x^2$, and the error is 0.
    """
    x, weight = np.polynomial.legendre.leggauss(nodes)

    @jax.jit
    def measure(key):
        law = FiniteLaw(x, x**2, weight / 2)  # Gauss: expectations of polynomials below degree 2 nodes are exact

        def best(columns):
            root = jnp.sqrt(weight / 2)
            return jnp.linalg.lstsq(columns * root[:, None], x**2 * root)[0]

        def risk(features):
            columns = jax.vmap(features)(jnp.asarray(x))
            theta = best(columns)
            error = lambda theta, a, y: squared_error(y, LinearModel.of(theta)(features(a)))  # noqa: E731
            return theta, expected_loss(error, theta, law)

        draws = jax.random.uniform(key, (samples,), minval=-1.0, maxval=1.0)
        through = risk(lambda a: a[None])
        line = risk(lambda a: jnp.stack([a, jnp.ones_like(a)]))
        parabola = risk(lambda a: jnp.stack([a, jnp.ones_like(a), a**2]))
        residual = (draws**2 - line[0][0] * draws - line[0][1]) ** 2
        return through, line, parabola, residual

    through, line, parabola, residual = jax.tree.map(np.asarray, measure(key))
    yield equal("best θ x: slope and error", [through[0][0], through[1]], [0.0, 1 / 5], rtol=1e-12)
    yield equal("best line: slope, offset and error", [*line[0], line[1]], [0.0, 1 / 3, 4 / 45], rtol=1e-12)
    yield estimate("squared error of the best line on fresh samples", residual, 4 / 45, wrong=0.0)
    yield at_most("error with the feature x squared", parabola[1], 1e-20)
    yield control("the model has the feature x squared", at_least("mean squared error", parabola[1], 4 / 45))


@claim(rows=("M01.06", "M01.07"), full={"sets": 1000})
def samples_for_a_quadratic_form(
    key, *, d: Annotated[int, Range(3, 10)] = 6, sets: Annotated[int, Range(100, 5000)] = 200
):
    r"""A quadratic form in d features is recovered from d(d+1)/2 samples, and from none fewer.

    $y=x^\top\theta^*x$ without noise, normal $x\in\mathbb R^d$. Only the symmetric part of $\theta^*$ enters: there are
    $D=d(d+1)/2$ degrees of freedom. Least squares recovers it from $M\ge D$ samples almost surely. From $M<D$ the fits
    without error form an affine space of dimension $D-M$; the one of least norm misses a share of $1-M/D$ of the
    squared norm on average, for a $\theta^*$ of random direction.
    """
    full = d * (d + 1) // 2
    counts = np.array([full // 8 + 1, full // 4, full // 2, full - 1, full, 2 * full])

    @jax.jit
    def measure(key):
        def one(key):
            x_key, theta_key = jax.random.split(key)
            x = jax.random.normal(x_key, (int(counts[-1]), d))
            a = jax.random.normal(theta_key, (d, d))
            theta = (a + a.T) / 2  # its isometric coordinates are independent normal: a random direction
            y = jnp.einsum("na,ab,nb->n", x, theta, x)

            def from_first(m):
                # samples that are left out are rows of zeros, which constrain nothing
                used = jnp.arange(x.shape[0]) < m
                fitted = fit_quadratic_form(x * used[:, None], y * used).theta
                spectrum = jnp.linalg.svd(quadratic_features(x * used[:, None]), compute_uv=False)
                rank = jnp.sum(spectrum > 1e-12 * spectrum[0])
                residual = jnp.einsum("na,ab,nb->n", x, fitted, x) - y
                share = jnp.sum((fitted - theta) ** 2) / jnp.sum(theta**2)
                # least squares leaves a residual of the order of the rounding of its largest products
                relative = jnp.linalg.norm(residual * used) / (spectrum[0] * jnp.linalg.norm(theta))
                return share, rank, relative, spectrum[0] / spectrum[-1]

            return jax.vmap(from_first)(counts)

        return jax.vmap(one)(jax.random.split(key, sets))

    share, rank, residual, condition = (np.asarray(a) for a in measure(key))
    few = counts < full
    yield equal("rank of the samples", rank, np.minimum(counts, full), rtol=0, atol=0, x=counts, along="M")
    yield estimate(
        "share of the squared norm missed", share[:, few], 1 - counts[few] / full, wrong=1 - counts[few] / d**2
    )
    # least squares magnifies rounding by the condition number of the samples
    yield at_most(
        "error of the fit from enough samples",
        np.sqrt(share[:, ~few]),
        100 * 2.3e-16 * condition[:, ~few],
        x=counts[~few],
        along="M",
    )
    yield at_most("training error of the fit of least norm", residual[:, few], 100 * 2.3e-16, x=counts[few], along="M")
    yield control("one sample too few", at_most("error of the fit", np.sqrt(share[:, few][:, -1]), 1e-8))
    points = [{"M": float(m / d**2), "share": float(s)} for m, s in zip(counts, share.mean(0), strict=True)]
    curve = [{"M": float(m / d**2), "share": float(max(0.0, 1 - m / full))} for m in np.linspace(0, counts[-1], 200)]
    axes = alt.X("M:Q", title="samples over d²"), alt.Y("share:Q", title="share of the squared norm missed")
    chart = alt.Chart(alt.Data(values=curve)).mark_line(strokeDash=[5, 4], color="#d1495b").encode(*axes)
    chart += alt.Chart(alt.Data(values=points)).mark_point(filled=True, size=60, color="#1f6f8b").encode(*axes)
    yield picture("recovery against the number of samples", chart.properties(width=300, height=190))


@claim(
    rows=("M01.06",),
    erratum="A d × d matrix is said to give d × d degrees of freedom; its antisymmetric part changes no value.",
)
def quadratic_form_as_counted(key, *, d: Annotated[int, Range(2, 12)] = 6):
    r"""A quadratic form in d features has d × d degrees of freedom.

    As printed: "the model has $d\times d$ degrees of freedom ($\theta$ is a $d\times d$ matrix)" for
    $m(x;\theta)=x^\top\theta x$. The values at any number of points depend on $d(d+1)/2$ combinations of the entries.
    """
    x = jax.random.normal(key, (3 * d * d, d))
    outer = jnp.einsum("na,nb->nab", x, x).reshape(-1, d * d)
    spectrum = np.linalg.svd(np.asarray(outer), compute_uv=False)
    rank = np.sum(spectrum > 1e-12 * spectrum[0])
    yield equal("independent directions of the parameter: d(d + 1)/2", rank, d * (d + 1) / 2)
    yield printed(equal("independent directions of the parameter: d × d", rank, d * d))


@claim(rows=("M01.15",))
def parabolas_through_one_point(
    key,
    *,
    x0: Annotated[float, Range(-10, 10)] = 1.5,
    y0: Annotated[float, Range(-100, 100)] = 2.0,
    draws: Annotated[int, Range(200, 100_000)] = 4000,
):
    r"""Infinitely many parabolas fit one datapoint exactly, and disagree everywhere else.

    For the datapoint $(x^0,y^0)$ and the model $ax^2+bx+c$, the choice $c=y^0$, $b=-ax^0$ fits for every $a$. Elsewhere
    the prediction is $y^0+a\,x(x-x^0)$, which for a standard normal $a$ has the variance $x^2(x-x^0)^2$: zero at
    $x^0$ and at 0, and without bound. (All fits form a family with two free parameters; this one has one.)
    """
    grid = np.linspace(-1.0, 3.0, 41)

    @jax.jit
    def measure(key):
        a = jnp.concatenate([jnp.linspace(-10, 10, 21), jax.random.normal(key, (draws,))])
        coefficients = parabola_through(x0, y0, a)
        at = jax.vmap(jnp.polyval, (0, None))
        new = x0 + jnp.array([-2.0, -0.7, 0.4, 1.3])
        offset = jnp.polyval(jnp.array([1.0, 0.0, y0]), x0)  # c = y0 without b = -a x0
        return at(coefficients, jnp.asarray(x0)), at(coefficients[21:], new), at(coefficients[:21], grid), new, offset

    fits, predictions, fan, new, offset = (np.asarray(a) for a in measure(key))
    size = 2.3e-16 * 100 * (1 + x0**2 + abs(y0))
    yield equal("prediction at the datapoint", fits, y0, rtol=0, atol=size)
    spread = (new * (new - x0)) ** 2
    yield estimate("squared deviation at new points", (predictions - y0) ** 2, spread, wrong=2 * spread + 1e-9)
    # one equation for three coefficients leaves two of them free
    rank = np.linalg.matrix_rank(np.array([[x0**2, x0, 1.0]]))
    yield equal("free parameters of all fits", 3 - rank, 2, rtol=0, atol=0)
    if abs(x0) > 1e-6:
        yield control("b is 0, not -a x0", equal("prediction at the datapoint", offset, y0, rtol=0, atol=size))
    rows = [
        {"x": float(u), "y": float(v), "a": i - 10}
        for i, curve in enumerate(fan)
        if i % 2 == 0
        for u, v in zip(grid, curve, strict=True)
    ]
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=1.2)
        .encode(alt.X("x:Q"), alt.Y("y:Q"), alt.Detail("a:N"), alt.Color("a:Q", scale=alt.Scale(scheme="blueorange")))
    )
    point = alt.Chart(alt.Data(values=[{"x": x0, "y": y0}])).mark_point(filled=True, size=90, color="#22313f")
    chart = (lines + point.encode(alt.X("x:Q"), alt.Y("y:Q"))).properties(width=300, height=190)
    yield picture("parabolas through one point", chart)
