"""Least squares in one feature: gradient, level sets, minimiser."""

import jax
import jax.numpy as jnp

from corollary.claims.linear._pictures import contours
from corollary.data import book_linear_features, book_linear_surrogate, linear_data
from corollary.evidence import Positive, Size, at_least, at_most, claim, control, equal
from corollary.linear import (
    moment_eigenvalues,
    moment_matrix,
    ols_1d,
    squared_gradient,
    squared_loss,
    squared_point_gradients,
)
from corollary.optimization import gradient_descent


@claim(rows=("M02.05",))
def gradient(key, *, n: Size = 40, starts: Size = 32):
    r"""The gradient of the average squared loss is affine in the parameters.

    For $\Lambda(w,b)=\frac1n\sum_i(y_i-wx_i-b)^2$ the gradient of one summand is $-2(y-wx-b)(x,1)^\top$, and
    $$\nabla\Lambda(\theta)=2A\theta-2\begin{pmatrix}\overline{xy}\\\bar y\end{pmatrix},\qquad
    A=\begin{pmatrix}\overline{x^2}&\bar x\\\bar x&1\end{pmatrix},$$
    so that the Hessian is $2A$ everywhere. Measured by automatic differentiation and by central differences of the
    loss itself.
    """
    data_key, start_key = jax.random.split(key)
    x, y = linear_data(jnp.array([1.6, 5.0]), n, key=data_key, noise=2.0)
    thetas = 3 * jax.random.normal(start_key, (starts, 2))
    h = 1e-4  # a central difference of a quadratic has no truncation error, only rounding

    @jax.jit
    def measure(thetas):
        def loss(theta):
            return squared_loss(theta, x, y)

        def quartic(theta):
            return jnp.mean((y - theta[0] * x - theta[1]) ** 4)

        def differences(theta):
            return jax.vmap(lambda e: (loss(theta + h * e) - loss(theta - h * e)) / (2 * h))(jnp.eye(2))

        points = jax.vmap(lambda t: squared_point_gradients(t, x, y))(thetas)
        summands = jax.vmap(
            lambda t: jax.vmap(jax.grad(lambda t, a, b: (b - t[0] * a - t[1]) ** 2), (None, 0, 0))(t, x, y)
        )
        return {
            "formula": jax.vmap(lambda t: squared_gradient(t, x, y))(thetas),
            "autodiff": jax.vmap(jax.grad(loss))(thetas),
            "differences": jax.vmap(differences)(thetas),
            "points": points,
            "point autodiff": summands(thetas),
            "hessian": jax.vmap(jax.hessian(loss))(thetas),
            "quartic": jax.vmap(jax.hessian(quartic))(thetas),
            "scale": jnp.max(jax.vmap(loss)(thetas)),
        }

    m = measure(thetas)
    yield equal("gradient by automatic differentiation", m["autodiff"], m["formula"], atol=1e-11)
    # each loss is rounded at eps * loss, and the difference is divided by 2h
    rounding = 8 * 2.3e-16 * float(m["scale"]) / h
    yield equal("gradient by central differences", m["differences"], m["formula"], atol=rounding)
    yield equal("gradients of the summands", m["point autodiff"], m["points"], atol=1e-11)
    yield equal("Hessian", m["hessian"], 2 * moment_matrix(x))
    yield control(
        "the error is not squared but of the fourth power", equal("Hessian", m["quartic"], 2 * moment_matrix(x))
    )


@claim(rows=("M02.01", "M02.04"))
def level_sets(key, *, n: Size = 100, angles: Size = 3600):
    r"""The level sets of the squared loss are ellipses along the eigenvectors of the moment matrix.

    If the $x_i$ are not all equal, $\Lambda$ has one minimiser, and $\{\Lambda=\Lambda(\theta^*)+c\}$ is an ellipse
    about it whose axes are the eigenvectors of $A$ and whose lengths have the ratio $\sqrt{\lambda_+/\lambda_-}$: for
    the 100 features behind Table 2.1, $\lambda_+=7.123$, $\lambda_-=0.509$ and the ratio is 3.74.
    """
    book = book_linear_features()
    random, labels = linear_data(jnp.array([1.6, 5.0]), n, key=key, noise=2.0)

    @jax.jit
    def axes(x, y, centre):
        phi = jnp.linspace(0, jnp.pi, angles, endpoint=False)
        directions = jnp.stack([jnp.cos(phi), jnp.sin(phi)], 1)
        rise = jax.vmap(lambda d: squared_loss(centre + d, x, y))(directions) - squared_loss(centre, x, y)
        # the level c = 1 has the radius 1/√rise, because the rise along a ray is quadratic
        longest = directions[jnp.argmin(rise)]
        _, basis = jnp.linalg.eigh(moment_matrix(x))
        ratio = jnp.sqrt(rise.max() / rise.min())
        return ratio, jnp.abs(longest @ basis[:, 0]), moment_eigenvalues(x), rise.min() / rise.max()

    surrogate = book_linear_surrogate()
    ratio, _, (small, large), _ = axes(*surrogate, ols_1d(*surrogate))
    yield equal("1/λ+ of the book's features, printed as 0.140", 1 / large, 0.140, rtol=0, atol=5e-4)
    yield equal("printed features, one decimal", book[:5], [5.8, 1.5, 2.7, 9.4, 6.5], rtol=0, atol=0.05 + 1e-12)
    # the grid of directions misses an axis by at most half its spacing, which is second order in the radius
    grid = float((jnp.pi / angles) ** 2 * large / small)
    yield equal("ratio of the axes, the book's features", ratio, jnp.sqrt(large / small), rtol=grid)
    ratio, alignment, (small, large), least = axes(random, labels, ols_1d(random, labels))
    grid = float((jnp.pi / angles) ** 2 * large / small)
    yield equal("ratio of the axes, random features", ratio, jnp.sqrt(large / small), rtol=grid)
    yield at_least("cosine of the long axis and the eigenvector of λ-", alignment, 1 - grid)
    # standard normal features have λ-/λ+ near 1, and the grid comes within 1e-6 of a direction without any rise
    yield at_least("one minimiser: least rise about it over the greatest", least, 1e-3)
    constant = axes(jnp.full(n, random[0]), labels, jnp.stack([0.0, labels.mean()]))
    yield control(
        "all features are equal", at_least("least rise about a minimiser over the greatest", constant[3], 1e-3)
    )
    yield contours(
        "loss over (w, b) with its minimiser",
        lambda theta: squared_loss(theta, surrogate.x, surrogate.y),
        centre=ols_1d(surrogate.x, surrogate.y),
        radius=(2.0, 6.0),
        names=("w", "b"),
    )


@claim(rows=("M02.13", "M02.18"))
def closed_form(key, *, n: Size = 50, steps: Size = 4000, stretch: Positive = 0.9):
    r"""One-variable least squares has a closed form, and gradient descent finds it.

    If $\overline{x^2}\neq\bar x^2$ the minimiser of $\Lambda$ is unique:
    $$w^*=\frac{\overline{xy}-\bar x\bar y}{\overline{x^2}-\bar x^2},\qquad b^*=\bar y-w^*\bar x,\qquad
    \Lambda(w^*,b^*)=\operatorname{var}(y)\,(1-r^2),$$
    with $r$ the correlation of $x$ and $y$; the residuals are orthogonal to $1$ and to $x$. For the points
    $(0,1),(2,0),(1,3)$ it is $w=-\frac12$, $b=\frac{11}6$ with loss $\frac{25}{18}$. Without the premise the minimiser
    is a whole line, and where descent ends depends on where it starts.
    """
    data_key, start_key = jax.random.split(key)
    x, y = linear_data(jnp.array([1.6, 5.0]), n, key=data_key, noise=2.0)
    starts = 5 * jax.random.normal(start_key, (2, 2))

    @jax.jit
    def descend(x, y):
        step = stretch / moment_eigenvalues(x)[1]
        path = jax.vmap(lambda s: gradient_descent(lambda t: squared_gradient(t, x, y), s, step, steps)[-1])
        return path(starts)

    @jax.jit
    def fit(x, y):
        theta = ols_1d(x, y)
        residual = y - theta[0] * x - theta[1]
        loss = squared_loss(theta, x, y)
        explained = jnp.var(y) * (1 - jnp.corrcoef(x, y)[0, 1] ** 2)
        return theta, loss, explained, jnp.stack([residual.mean(), (residual * x).mean()])

    theta, loss, explained, moments = fit(x, y)
    small, large = moment_eigenvalues(x)
    # what is left of the slowest mode after all steps, in front of the distance at the start
    remainder = float((1 - 2 * stretch * small / large) ** steps * 30)
    yield equal("limit of gradient descent from two starts", descend(x, y), theta, atol=remainder + 1e-10)
    yield equal("minimal loss", loss, explained)
    yield equal("residuals against 1 and x", moments, 0.0, atol=1e-12 * float(jnp.abs(x * y).max() + 1))
    theta, loss, *_ = fit(jnp.array([0.0, 2.0, 1.0]), jnp.array([1.0, 0.0, 3.0]))
    yield equal("three points: w, b, loss", jnp.append(theta, loss), jnp.array([-1 / 2, 11 / 6, 25 / 18]), rtol=1e-14)
    flat = descend(jnp.full(n, 2.0), y)
    yield at_most(
        "constant feature: the gradient vanishes all the same", jnp.abs(flat @ jnp.array([2.0, 1.0]) - y.mean()), 1e-9
    )
    yield control("the feature is constant", equal("two starts end in one point", flat[0], flat[1]))
