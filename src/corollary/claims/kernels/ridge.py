"""Penalised regression in a feature space: primal, dual, and the predictor that needs only the kernel."""

import altair as alt
import jax
import jax.numpy as jnp

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, picture, printed
from corollary.kernels import (
    FeatureKernel,
    GaussianKernel,
    KernelRidge,
    dual_objective,
    feature_ridge,
    gram,
    kernel_ridge_dual,
    primal_objective,
)

BIAS = 0.7


def _psi(x):
    """Polynomial features up to degree 5 of a point on the line."""
    return x[0] ** jnp.arange(6)


def _data(key, n):
    x_key, noise_key = jax.random.split(key)
    x = jax.random.uniform(x_key, (n, 1), minval=-1.0, maxval=1.0)
    return x, jnp.sin(3 * x[:, 0]) + 0.2 * jax.random.normal(noise_key, (n,))


@claim(rows=("M04.14", "M04.15"))
def dual_solution(key, *, n: Size = 30, penalty: Positive = 0.01, draws: Count = 20):
    r"""Ridge regression can be solved over the points instead of the features.

    Let $\Lambda(w)=\frac1M\sum_m\frac12(w\cdot\psi(x_m)+b-y_m)^2+C\|w\|^2$, $C>0$, $b$ known. The minimiser is
    $w=\sum_m\alpha_m\psi(x_m)$ with $\alpha_m=-\frac1{2CM}(w\cdot\psi(x_m)+b-y_m)$, that is
    $\alpha=(G+2CMI)^{-1}(y-b)$; and for every $\alpha$,
    $\Lambda(\sum_m\alpha_m\psi(x_m))=\frac1{2M}\|G\alpha+b-y\|^2+C\alpha^\top G\alpha$. For $C<0$ what is
    stationary need not be a minimum.
    """

    @jax.jit
    def measure(keys):
        return jax.lax.map(one, keys)

    def one(key):
        data_key, alpha_key = jax.random.split(key)
        x, y = _data(data_key, n)
        psi = jax.vmap(_psi)(x)
        g = gram(FeatureKernel(_psi), x)
        w, alpha = feature_ridge(psi, y, penalty, BIAS), kernel_ridge_dual(g, y, penalty, BIAS)
        new = jax.vmap(_psi)(jnp.linspace(-1, 1, 50)[:, None])
        any_alpha = jax.random.normal(alpha_key, (n,))
        # along the eigenvectors of the second derivative, in which the value is a sum of parabolas
        axes = jnp.linalg.eigh(psi.T @ psi)[1].T

        def above(c):
            """How much more the value is beside the stationary point, for the penalty c."""
            at = jnp.linalg.solve(psi.T @ psi + 2 * c * n * jnp.eye(psi.shape[1]), psi.T @ (y - BIAS))
            value = lambda w: primal_objective(w, psi, y, 0.0, BIAS) + c * w @ w  # noqa: E731
            return jax.vmap(value)(at + axes) - value(at)

        return {
            "above": above(penalty),
            "above, C < 0": above(-penalty),
            "primal": new @ w + BIAS,
            "dual": new @ (psi.T @ alpha) + BIAS,
            "slope in w": jax.grad(lambda w: primal_objective(w, psi, y, penalty, BIAS))(w),
            "slope in α": jax.grad(lambda a: dual_objective(a, g, y, penalty, BIAS))(alpha),
            "α": alpha,
            "residuals": -(psi @ w + BIAS - y) / (2 * penalty * n),
            "values": (
                dual_objective(any_alpha, g, y, penalty, BIAS),
                primal_objective(psi.T @ any_alpha, psi, y, penalty, BIAS),
            ),
            "shifted": new @ (psi.T @ kernel_ridge_dual(g, y + 1, penalty, BIAS)),
        }

    m = measure(jax.random.split(key, draws))
    # systems of condition number 1/(2C) or so, solved at 1e-16
    loss = 1e-14 / penalty
    yield equal("predictions, dual and primal", m["dual"], m["primal"], atol=100 * loss)
    yield equal("gradient of Λ(w) at the solution", m["slope in w"], 0.0, atol=10 * loss)
    yield equal("gradient of Λ(α) at the solution", m["slope in α"], 0.0, atol=10 * loss * n)
    yield equal("α and the residuals", m["α"], m["residuals"], atol=100 * loss)
    yield equal("Λ(α) and Λ(w)", *m["values"])
    yield at_least("value beside the solution, above that at it", m["above"], 0.0)
    yield control("C > 0: here it is negative", at_least("value beside, above that at it", m["above, C < 0"], 0.0))


@claim(
    rows=("M04.15",),
    erratum="The labels are missing throughout, and with the average in front of the sum the ridge is 2CM, not 2C.",
)
def printed_dual_solution(key, *, n: Size = 30, penalty: Positive = 0.01):
    r"""The dual solution of ridge regression is minus the inverse of G + 2C I times b.

    As printed: "setting now the gradient $\nabla_\alpha\Lambda(\alpha)=0$, we subsequently obtain"
    $\alpha=-(G+2CI)^{-1}\tilde b$ for the average loss of (4.3). It does not depend on the labels, and the gradient
    does not vanish there; at $(G+2CMI)^{-1}(y-\tilde b)$ it does. With labels that are zero and the penalty $C/M$ the
    printed one would be right.
    """
    x, y = _data(key, n)
    g = gram(FeatureKernel(_psi), x)

    @jax.jit
    def measure(g, y):
        alpha = -jnp.linalg.solve(g + 2 * penalty * jnp.eye(n), jnp.full(n, BIAS))
        slope = jax.grad(dual_objective)
        right = slope(kernel_ridge_dual(g, y, penalty, BIAS), g, y, penalty, BIAS)
        return slope(alpha, g, 0 * y, penalty / n, BIAS), slope(alpha, g, y, penalty, BIAS), right

    lucky, slope, right = measure(g, y)
    yield printed(equal("gradient of the average loss at the solution", slope, 0.0, atol=1e-12 * n))
    yield equal("gradient of the average loss, with labels and 2CM", right, 0.0, atol=1e-13 * n / penalty)
    yield equal("gradient with labels zero and penalty C/M", lucky, 0.0, atol=1e-12 * n)


@claim(rows=("M04.16",))
def kernel_predictor(key, *, n: Size = 12):
    r"""Kernel regression needs the features nowhere, interpolates without penalty and forgets the data with much of it.

    $y^*=\sum_m\alpha_mK(x_m,x^*)+b$. It is the predictor $w\cdot\psi(x^*)+b$ for features of finite number; if $G$ is
    positive definite it passes through the data as $C\to0$; as $C\to\infty$ it tends to the constant $b$ like $1/C$.
    """
    data_key, _ = jax.random.split(key)
    # points at a distance, so that the Gaussian Gram matrix is well conditioned
    x = (jnp.arange(n) + jax.random.uniform(data_key, (n,), minval=0.2, maxval=0.8))[:, None]
    y = jax.random.normal(data_key, (n,))
    kernel = GaussianKernel(0.5)
    grid = jnp.linspace(-1, n + 1, 120)[:, None]
    penalties = (1e-14, 1e-3, 1e-1, 1e6)

    @jax.jit
    def measure(x, y):
        fits = [KernelRidge.fit(kernel, x, y, c, BIAS) for c in penalties]
        small, psi = x / n, jax.vmap(_psi)(x / n)
        finite = KernelRidge.fit(FeatureKernel(_psi), small, y, 0.01, BIAS)
        w = feature_ridge(psi, y, 0.01, BIAS)
        flat = KernelRidge.fit(FeatureKernel(_psi), small, y, 1e-14, BIAS)
        return (
            jnp.stack([jax.vmap(f)(grid) for f in fits]),
            jax.vmap(fits[0])(x),
            (jax.vmap(finite)(grid / n), jax.vmap(_psi)(grid / n) @ w + BIAS),
            jax.vmap(flat)(small),
            jnp.linalg.eigvalsh(gram(kernel, x))[0],
        )

    curves, at_points, (dual, primal), flat, smallest = measure(x, y)
    yield equal("predictor from the kernel and from the features", dual, primal, atol=1e-10)
    yield equal("through the data at C = 1e-14", at_points, y, atol=1e-8)
    # |α| <= |y - b| / 2CM and the kernel is at most 1
    bound = float(jnp.abs(y - BIAS).sum()) / (2 * penalties[-1] * n)
    yield at_most("distance to b at C = 1e6", jnp.abs(curves[-1] - BIAS), bound)
    yield at_most("1 / smallest eigenvalue of G, the premise", 1 / smallest, 1e4)
    yield control(
        f"G is positive definite: here {n} points have six features", equal("through the data", flat, y, atol=1e-8)
    )
    rows = [
        {"x": float(a), "prediction": float(v), "penalty": f"C = {c:g}"}
        for c, curve in zip(penalties, curves, strict=True)
        for a, v in zip(grid[:, 0], curve, strict=True)
    ]
    lines = alt.Chart(alt.Data(values=rows)).mark_line()
    dots = alt.Chart(
        alt.Data(values=[{"x": float(a), "prediction": float(b)} for a, b in zip(x[:, 0], y, strict=True)])
    )
    chart = alt.layer(
        lines.encode(alt.X("x:Q"), alt.Y("prediction:Q"), alt.Color("penalty:N", title=None)),
        dots.mark_point(filled=True, color="#22313f").encode(alt.X("x:Q"), alt.Y("prediction:Q")),
    )
    yield picture("fits with several penalties", chart.properties(width=300, height=190))
