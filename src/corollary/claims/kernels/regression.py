"""Regression with kernels: features behind them, the form of minimisers, interpolants of least norm."""

import math
from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import (
    Count,
    Positive,
    Range,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    picture,
    printed,
    rate,
)
from corollary.kernels import (
    GaussianKernel,
    LaplaceKernel,
    PolynomialKernel,
    definiteness,
    gram,
    kernel_coefficients,
    kernel_descent,
    plane_features,
    polynomial_features,
    rkhs_norm,
    sphere_series,
)
from corollary.linear import linearly_separable, max_margin
from corollary.optimization import gradient_descent

EPS = 2.3e-16


@claim(rows=("T03.11",))
def quadratic_kernel(key, *, pairs: Count = 100):
    r"""The quadratic kernel is the product of explicit features, as many as its Gram matrices have rank.

    $(1+x\cdot x')^2=\phi(x)\cdot\phi(x')$ for $\phi$ with the entries $1$, $\sqrt2x_i$, $\sqrt2x_ix_j$ ($i<j$) and
    $x_i^2$: $1+2d+\binom d2=\binom{d+2}2$ of them. A Gram matrix of more points than that, in general position, has
    exactly this rank; the Gaussian kernel's has full rank.
    """
    dims = (1, 2, 4)

    @jax.jit
    def measure(key):
        def one(d):
            x, y = jax.random.normal(key, (2, pairs, d))
            features = jax.vmap(lambda p: polynomial_features(p, 2))
            products = jnp.sum(features(x) * features(y), 1), (1 + jnp.sum(x * y, 1)) ** 2
            listed = jnp.concatenate([jnp.ones(1), 2**0.5 * x[0], x[0] ** 2, _pairs(2**0.5 * jnp.outer(x[0], x[0]))])
            # points on the cube, so that no eigenvalue is far below the others
            points = jax.random.uniform(key, (math.comb(d + 2, 2) + 6, d), minval=-2.0, maxval=2.0)
            rank = jnp.linalg.matrix_rank(gram(PolynomialKernel(2, 1.0), points), rtol=1e-12)
            return products, (jnp.sort(features(x)[0]), jnp.sort(listed)), rank

        full = jnp.linalg.matrix_rank(gram(GaussianKernel(0.3), 2 * jnp.arange(12.0)))
        return [one(d) for d in dims], full

    found, full = measure(key)
    for d, (products, features, rank) in zip(dims, found, strict=True):
        yield equal(f"kernel and features, d = {d}", *products, rtol=1e-12, atol=1e-11)
        yield equal(f"list of features, d = {d}", *features, atol=1e-13)
        yield equal(f"rank, d = {d}", rank, math.comb(d + 2, 2), rtol=0, atol=0)
    yield control(
        "a quadratic kernel: here Gaussian",
        equal("rank of twelve points on the line", full, math.comb(3, 2), rtol=0, atol=0),
    )


def _pairs(matrix):
    return matrix[jnp.triu_indices(matrix.shape[0], 1)]


@claim(rows=("T03.12",))
def kernels_on_the_sphere(key, *, dim: Size = 3, points: Size = 12, terms: Count = 60):
    r"""Polynomial, Gaussian and Laplace kernels on the sphere are power series with positive coefficients.

    For unit vectors $1+(x\cdot x')^p$ has the features $(1,x^{\otimes p})$;
    $e^{-\|x-x'\|^2}=e^{-2}\sum_k\frac{2^k}{k!}(x\cdot x')^k$; and $e^{-\|x-x'\|_2}=\sum_kc_k(x\cdot x')^k$ with all
    $c_k>0$, $\sum_kc_k=1$, falling like $k^{-3/2}$. With $m$ terms the error is at most what the coefficients lack of
    their sum. $e^{+\|x-x'\|}$ has negative coefficients, and of two points a determinant below zero.
    """

    @jax.jit
    def measure(key):
        x = jax.random.normal(key, (points, dim))
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
        u = x @ x.T
        series = {name: sphere_series(name, terms) for name in ("gaussian", "laplace", "growing")}
        powers = u[..., None] ** jnp.arange(terms)
        tensors = jnp.einsum("na,nb,nc->nabc", x, x, x).reshape(points, -1)
        cubic = jnp.concatenate([jnp.ones((points, 1)), tensors], 1)
        growing = jnp.exp(jnp.sqrt(jnp.maximum(2 - 2 * u[:2, :2], 0)))
        return {
            "cubic": (cubic @ cubic.T, 1 + u**3),
            "gaussian": (powers @ series["gaussian"], gram(GaussianKernel(0.5**0.5), x)),
            "laplace": (powers @ series["laplace"], gram(LaplaceKernel(order=2), x)),
            "smallest": (definiteness(gram(LaplaceKernel(order=2), x)).smallest, jnp.linalg.det(growing)),
            "coefficients": series,
            "far": sphere_series("laplace", 2000),
        }

    m = measure(key)
    yield equal("1 + cube: features", *m["cubic"], atol=1e-13)
    for name in ("gaussian", "laplace"):
        value, kernel = m[name]
        lacking = 1 - float(jnp.sum(m["coefficients"][name]))  # both kernels are 1 at distance 0
        yield at_most(f"{name}: error of the series", jnp.abs(value - kernel), max(lacking, 0.0), atol=1e-12)
        yield at_least(f"{name}: coefficients", m["coefficients"][name], 0.0)
    known = np.array([0.24312, 0.17191, 0.10376, 0.06620, 0.04570])
    yield equal("laplace: first coefficients", m["coefficients"]["laplace"][:5], known, rtol=0, atol=5e-6)
    k = np.unique(np.geomspace(100, 1999, 12).astype(int))
    yield rate("laplace: coefficients", k, m["far"][k], -1.5, tolerance=0.02, along="k")
    yield at_least("laplace: smallest eigenvalue", m["smallest"][0], 0.0, atol=points**2 * EPS)
    yield control(
        "the exponent is minus the distance: here plus", at_least("coefficients", m["coefficients"]["growing"], 0.0)
    )
    yield control(
        "the exponent is minus the distance: here plus", at_least("determinant of two points", m["smallest"][1], 0.0)
    )


@claim(
    rows=("T03.12",),
    erratum="The sign and a constant are wrong: exp(-‖x - x'‖) = exp(-sqrt(2 - 2 x·x')) is the Laplace kernel.",
)
def printed_laplace_kernel(key, *, dim: Size = 3, points: Size = 2):
    r"""The exponential of the distance between unit vectors is a kernel.

    As printed: for unit vectors "find an infinite dimensional representation that realizes" the Laplace kernel,
    $\exp(\|x_1-x_2\|_2)=\exp(\sqrt{1-2x_1\cdot x_2})$. Its values off the diagonal are above those on it, which the
    inequality of Cauchy and Schwarz does not allow; and $\|x_1-x_2\|^2=2-2x_1\cdot x_2$. With a minus sign it is a
    kernel.
    """
    x = jax.random.normal(key, (points + 1, dim))
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    u = x @ x.T
    square = jnp.sum((x[:, None] - x) ** 2, -1)
    grown, fallen = (jnp.linalg.eigvalsh(jnp.exp(sign * jnp.sqrt(square)))[0] for sign in (1.0, -1.0))
    yield printed(at_least("smallest eigenvalue, exponential of the distance", grown, 0.0, atol=1e-12))
    yield at_least("smallest eigenvalue, exponential of minus the distance", fallen, 0.0, atol=1e-12)
    off = np.triu_indices(points + 1, 1)
    yield printed(equal("squared distance and 1 - 2x·x'", square[off], (1 - 2 * u)[off], atol=1e-9))
    yield equal("squared distance and 2 - 2x·x'", square[off], (2 - 2 * u)[off], atol=1e-12)


@claim(rows=("B07.03",), full={"features": 500})
def representer(key, *, n: Size = 10, features: Size = 40, ridge: Positive = 0.3):
    r"""Minimisers of a loss at the data plus a growing function of the norm combine the kernel at the data.

    Let $f_\theta(x)=\theta\cdot\phi(x)$ and $\Phi$ have the rows $\phi(x_i)$. A minimiser of
    $\sum_i\ell(f_\theta(x_i),y_i)+\frac\rho2\|\theta\|^2$ is $\theta=\Phi^\top\alpha$, that is
    $f(x)=\sum_i\alpha_iK(x,x_i)$: any part of $\theta$ outside the rows of $\Phi$ changes no value at the data and
    makes the norm larger. For squares $(\Phi^\top\Phi+\rho I)^{-1}\Phi^\top y=\Phi^\top(K+\rho I)^{-1}y$. Without the
    penalty this is true of the shortest minimiser and not of others; with the penalty $\|\theta\|_1$ it fails.
    """
    dim = n + features  # more features than data

    @jax.jit
    def measure(key):
        phi_key, y_key, new_key, start_key = jax.random.split(key, 4)
        phi = jax.random.normal(phi_key, (n, dim)) / dim**0.5
        new = jax.random.normal(new_key, (20, dim)) / dim**0.5
        y, start = jax.random.normal(y_key, (n,)), jax.random.normal(start_key, (dim,))
        rows = jnp.linalg.qr(phi.T)[0]

        def outside(theta):
            return theta - rows @ (rows.T @ theta)

        primal = jnp.linalg.solve(phi.T @ phi + ridge * jnp.eye(dim), phi.T @ y)
        alpha = kernel_coefficients(phi @ phi.T, y, ridge)

        def logistic(theta):
            return jnp.sum(jnp.log1p(jnp.exp(-jnp.sign(y) * (phi @ theta)))) + ridge / 2 * theta @ theta

        def newton(theta, _):
            return theta - jnp.linalg.solve(jax.hessian(logistic)(theta), jax.grad(logistic)(theta)), None

        # from anywhere: what is outside at the start must go
        best = jax.lax.scan(newton, 0.1 * start, None, length=12)[0]
        free = gradient_descent(lambda t: phi.T @ (phi @ t - y), start, 0.3, 400)
        shrink = 0.3 * 0.02

        def proximal(theta, _):
            theta = theta - 0.3 * phi.T @ (phi @ theta - y)
            return jnp.sign(theta) * jnp.maximum(jnp.abs(theta) - shrink, 0), None

        sparse = jax.lax.scan(proximal, jnp.zeros(dim), None, length=2000)[0]
        return {
            "values": (new @ primal, (new @ phi.T) @ alpha),
            "outside": (outside(primal), outside(best)),
            "slope": jax.grad(logistic)(best),
            "rise": logistic(best + outside(start)) - logistic(best),
            "rise predicted": ridge / 2 * jnp.sum(outside(start) ** 2),
            "free": (jnp.linalg.norm(jax.vmap(outside)(free), axis=1), jnp.linalg.norm(outside(start))),
            "free loss": jnp.sum((phi @ free[-1] - y) ** 2),
            "sparse": outside(sparse),
        }

    m = measure(key)
    yield equal("values at new points, primal and dual", *m["values"], atol=1e-12 / ridge)
    yield equal("squares: outside the span", m["outside"][0], 0.0, atol=1e-13 / ridge)
    yield equal("logistic loss: a minimum was found", m["slope"], 0.0, atol=1e-10)
    yield equal("logistic loss: outside the span", m["outside"][1], 0.0, atol=1e-10 / ridge)
    yield equal("loss added by a part outside", m["rise"], m["rise predicted"], rtol=1e-7)
    yield equal("no penalty: the outside part stays in descent", *m["free"], rtol=1e-10, along="step")
    yield at_most("no penalty: squared error where descent ends", m["free loss"], 1e-4)
    yield control("a penalty: here none", equal("outside the span", m["free"][0][-1], 0.0, atol=1e-6))
    yield control(
        "a penalty that grows with the norm: here on absolute values",
        equal("outside the span", m["sparse"], 0.0, atol=1e-3),
    )


@claim(
    rows=("B07.03",),
    erratum="The loss (7.1) has no penalty: its minimiser is not unique, and only the shortest one has the form.",
)
def representer_without_penalty(key, *, n: Size = 8, spare: Size = 12):
    r"""A minimiser of the sum of squares combines the kernel at the data.

    As printed: "specifically, for the loss function $L(\theta)$ defined in Eq. (7.1)", which is
    $\frac12\sum_i(f_\theta(x_i)-y_i)^2$ without a penalty, "the optimal function can be expressed as"
    $\sum_i\alpha_iK(x,x_i)$. With more features than data there is another minimiser for every direction that the data
    do not have, of other values away from them. The shortest minimiser has the form.
    """
    dim = n + spare

    @jax.jit
    def measure(key):
        phi_key, new_key, y_key, extra_key = jax.random.split(key, 4)
        phi, new = jax.random.normal(phi_key, (n, dim)), jax.random.normal(new_key, (20, dim))
        y, extra = jax.random.normal(y_key, (n,)), jax.random.normal(extra_key, (dim,))
        rows = jnp.linalg.qr(phi.T)[0]
        shortest = jnp.linalg.lstsq(phi, y)[0]
        both = jnp.stack([shortest, shortest + extra - rows @ (rows.T @ extra)])
        # the one combination of the kernel with these values at the data, elsewhere
        alpha = jnp.linalg.solve(phi @ phi.T, phi @ both.T)
        return jnp.sum((phi @ both.T - y[:, None]) ** 2, 0), both @ new.T, (new @ phi.T @ alpha).T

    losses, values, combined = measure(key)
    yield at_most("squared error of two minimisers", losses, 1e-16)
    yield equal("shortest minimiser at new points: a combination of the kernel", values[0], combined[0], atol=1e-7)
    yield printed(equal("the other at new points: a combination of the kernel", values[1], combined[1], atol=1e-2))


@claim(rows=("T03.13", "T03.14", "B07.04"))
def kernel_interpolant(key, *, n: Annotated[int, Range(2, 12)] = 8):
    r"""Descent on the coefficients of the kernel is descent on the features, and ends at the interpolant.

    $\alpha_{t+1}=\alpha_t-\eta(G\alpha_t-y)$ from 0 gives $w_t=\sum_i\alpha_t(i)\phi(x_i)$ at all $t$. If $G$ is
    invertible, $w_t\cdot\phi(x)\to z^\top G^{-1}y$, $z_i=K(x,x_i)$, the residual shrinking by $1-\eta\lambda_{\min}(G)$
    a step in the end; the limit passes through the data, is the shortest exact fit in feature space, and is the same
    for $cK$. With a point twice and two labels, nothing passes through.
    """
    kernel, dim = PolynomialKernel(2, 1.0), 4  # 15 features

    @jax.jit
    def measure(key):
        x_key, y_key, new_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (n, dim))
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
        y, new = jax.random.normal(y_key, (n,)), jax.random.normal(new_key, (20, dim))
        features = jax.vmap(lambda p: polynomial_features(p, 2))
        phi, g, z = features(x), gram(kernel, x), gram(kernel, new, x)
        values, vectors = jnp.linalg.eigh(g)
        step = 1 / values[-1]
        alpha = kernel_descent(g, y, step, 60)
        w = gradient_descent(lambda w: phi.T @ (phi @ w - y), jnp.zeros(phi.shape[1]), step, 60)
        # all of the residual along the slowest direction
        slow = kernel_descent(g, vectors[:, 0], step, 60) @ g - vectors[:, 0]
        solved = z @ jnp.linalg.solve(g, y)
        twice = jnp.concatenate([x, x[:1]]), jnp.append(y, y[0] + 1)
        bad = kernel_coefficients(gram(kernel, twice[0]), twice[1])
        return {
            "train": (alpha @ g, w @ phi.T),
            "test": (alpha @ z.T, w @ features(new).T),
            "slow": jnp.linalg.norm(slow, axis=1),
            "rho": jnp.log1p(-step * values[0]),
            "condition": values[-1] / values[0],
            "limit": (z @ kernel_coefficients(g, y), solved),
            "through": (g @ kernel_coefficients(g, y), y),
            "shortest": (features(new) @ jnp.linalg.lstsq(phi, y)[0], solved),
            "scaled": (7 * z @ kernel_coefficients(7 * g, y), solved),
            "twice": (gram(kernel, twice[0]) @ bad, twice[1]),
        }

    m = measure(key)
    rounding = 100 * EPS * float(m["condition"]) * n
    yield equal("descent on coefficients and on features, at the data", *m["train"], atol=1e-12)
    yield equal("and elsewhere", *m["test"], atol=1e-11)
    slack = 1e-3 * abs(float(m["rho"])) + 1e-9
    yield rate(
        "slowest part", np.arange(61), m["slow"], float(m["rho"]), tolerance=slack, axes="semi-log", along="step"
    )
    yield equal("limit at new points", *m["limit"], rtol=rounding, atol=10 * rounding)
    yield equal("through the data", *m["through"], atol=10 * rounding)
    yield equal("shortest fit in feature space", *m["shortest"], rtol=rounding, atol=10 * rounding)
    yield equal("the same for 7 K", *m["scaled"], rtol=rounding, atol=10 * rounding)
    yield control(
        "an invertible Gram matrix: here a point has two labels", equal("through the data", *m["twice"], atol=1e-3)
    )


@claim(rows=("T03.15",))
def least_norm(key, *, n: Size = 6, extra: Size = 6, competitors: Count = 500):
    r"""Of all functions of a kernel's space that pass through the data, the kernel interpolant has the least norm.

    $\|\sum_i\alpha_iK(x_i,\cdot)\|_K^2=\alpha^\top G\alpha$, and for the interpolant $y^\top G^{-1}y$. Another function
    through the same data is $f+g$ with $g$ zero there, and $\|f+g\|^2=\|f\|^2+\|g\|^2$.
    """
    kernel = GaussianKernel(0.5)

    @jax.jit
    def measure(key):
        y_key, c_key, jitter_key = jax.random.split(key, 3)
        m = n + extra
        x = jnp.arange(m) + 0.3 * jax.random.uniform(jitter_key, (m,))
        # data and other centres in turn, as long as there are both
        order = jnp.argsort(jnp.where(jnp.arange(m) % 2 == 0, jnp.arange(m), jnp.arange(m) + m))
        x = x[order]
        g, y = gram(kernel, x), jax.random.normal(y_key, (n,))
        data = g[:n, :n]
        alpha = jnp.linalg.solve(data, y)

        def competitor(key):
            free = jax.random.normal(key, (extra,))
            # the coefficients at the data that bring the sum back through the labels
            tied = jnp.linalg.solve(data, y - g[:n, n:] @ free)
            c = jnp.concatenate([tied, free])
            return rkhs_norm(c, g) ** 2, g[:n] @ c, rkhs_norm(c - jnp.append(alpha, jnp.zeros(extra)), g) ** 2

        found = jax.lax.map(competitor, jax.random.split(c_key, competitors), batch_size=100)
        ridged = rkhs_norm(kernel_coefficients(data, y, 0.5), data) ** 2
        return rkhs_norm(alpha, data) ** 2, y @ alpha, found, y, ridged

    norm, form, (others, values, apart), y, ridged = measure(key)
    yield equal("squared norm of the interpolant", norm, form)
    yield equal("the others pass through the data", values, y, atol=1e-11)
    yield at_least("squared norms of the others", others, norm)
    yield equal("squared norms add up", others, norm + apart, rtol=1e-9)
    yield control("functions through the data: here a fit with a ridge", at_least("its squared norm", ridged, norm))


@claim(rows=("B07.06",))
def separable_in_features(key, *, n: Size = 20, radius: Positive = 1.0, gap: Positive = 0.6):
    r"""Two rings that no line separates are separated by a plane in quadratic features, and the kernel finds it.

    With $\phi(a,b)=(a^2,\sqrt2ab,b^2)$ a circle about the origin is a plane. The hyperplane of greatest margin there is
    $w=\sum_i\lambda_iy_i\phi(x_i)$, so that its decision needs only $K(x,x')=(x\cdot x')^2$.
    """

    @jax.jit
    def measure(key):
        turn, noise = jax.random.split(key)
        angle = jax.random.uniform(turn, (2, n), maxval=2 * np.pi)
        # evenly turned as well, so that the rings have no open side
        angle = angle[:, :1] + 2 * np.pi * jnp.arange(n) / n
        size = radius * jnp.array([[1.0], [1.0 + gap]]) + 0.2 * gap * radius * jax.random.uniform(noise, (2, n))
        x = (size[..., None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1)).reshape(-1, 2)
        y = jnp.repeat(jnp.array([-1.0, 1.0]), n)
        phi = jax.vmap(plane_features)(x)
        found = max_margin(phi, y)
        # the dual form: multipliers sum to one in each class and combine to twice the margin times w
        alpha = found.multipliers * y
        g = gram(PolynomialKernel(2), x)
        length = jnp.sqrt(alpha @ g @ alpha)
        side = jnp.linspace(-2, 2, 15) * radius
        grid = jnp.stack(jnp.meshgrid(side, side), -1).reshape(-1, 2)
        primal = jax.vmap(plane_features)(grid) @ found.w + found.b
        dual = gram(PolynomialKernel(2), grid, x) @ alpha / length + found.b
        return {
            "plain": linearly_separable(x, y),
            "lifted": linearly_separable(phi, y),
            "margin": (found.margin, found.bound, jnp.min(y * (g @ alpha / length + found.b))),
            "decision": (dual, primal),
            "points": (x, y),
            "plane": (grid, primal),
        }

    m = measure(key)
    yield equal("a plane separates the features", m["lifted"], 1.0, rtol=0, atol=0)
    yield equal("decision from the kernel and from the features", *m["decision"], rtol=1e-7, atol=1e-7)
    yield equal("margin, measured with the kernel", m["margin"][2], m["margin"][1], rtol=1e-6)
    yield control("quadratic features: here the points themselves", equal("separates", m["plain"], 1.0, rtol=0, atol=0))
    x, y = m["points"]
    rows = [
        {"a": float(p[0]), "b": float(p[1]), "ring": "outer" if s > 0 else "inner"} for p, s in zip(x, y, strict=True)
    ]
    cells = [
        {"a": float(p[0]), "b": float(p[1]), "side": "outside" if v > 0 else "inside"}
        for p, v in zip(*m["plane"], strict=True)
    ]
    chart = alt.layer(
        alt.Chart(alt.Data(values=cells))
        .mark_square(size=260, opacity=0.25)
        .encode(alt.X("a:Q"), alt.Y("b:Q"), alt.Color("side:N", title=None)),
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=40)
        .encode(alt.X("a:Q"), alt.Y("b:Q"), alt.Shape("ring:N", legend=None), color=alt.value("#22313f")),
    )
    yield picture("decision in the plane", chart.properties(width=280, height=280))
