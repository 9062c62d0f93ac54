"""Gradients of three losses: least squares, matrix factorisation, nonlinear least squares."""

import jax
import jax.numpy as jnp

from corollary.evidence import Count, Size, at_least, claim, control, equal, monotone
from corollary.foundations import (
    LeastSquares,
    MatrixFactorization,
    NonlinearLeastSquares,
    factorization_gradient,
    factorization_loss,
    fit_factorization,
    truncation_errors,
)


def _differences(f, x, h):
    """Central differences of f along every coordinate of x."""
    return jax.vmap(lambda e: (f(x + h * e) - f(x - h * e)) / (2 * h), out_axes=-1)(jnp.eye(x.size))


@claim(rows=("B01.13", "B01.33", "B01.36"))
def least_squares(key, *, n: Size = 12, dim: Size = 5, samples: Size = 20):
    r"""The derivative of Ax is A, and the gradient of the squared distance is twice A transposed times the residual.

    $\partial(Ax)/\partial x=A$. $L(x)=\|Ax-y\|_2^2$ has the gradient $2A^\top(Ax-y)$ by the chain rule, and the same by
    the product rule for the inner product $(Ax-y)^\top(Ax-y)$; the Hessian is $2A^\top A$, and the gradient vanishes
    at the least-squares solution. This loss has no factor $\frac12$: with it, the gradient would be half of that.
    """
    a_key, y_key, x_key = jax.random.split(key, 3)
    problem = LeastSquares(jax.random.normal(a_key, (n, dim)), jax.random.normal(y_key, (n,)))
    points = jax.random.normal(x_key, (samples, dim))
    h = 1e-4  # a central difference of a quadratic has no truncation error

    @jax.jit
    def measure(problem, points):
        def halves(x):
            def product(u, v):
                return (problem.a @ u - problem.y) @ (problem.a @ v - problem.y)

            return jax.grad(product, 0)(x, x) + jax.grad(product, 1)(x, x)

        return {
            "jacobian": jax.jacfwd(lambda x: problem.a @ x)(points[0]),
            "formula": jax.vmap(problem.gradient)(points),
            "autodiff": jax.vmap(jax.grad(problem))(points),
            "product": jax.vmap(halves)(points),
            "differences": jax.vmap(lambda x: _differences(problem, x, h))(points),
            "hessian": jax.hessian(problem)(points[0]),
            "minimiser": problem.gradient(problem.minimiser),
            "distance": jax.vmap(lambda x: _differences(lambda x: jnp.sqrt(problem(x)), x, h))(points),
            "size": jnp.max(jax.vmap(problem)(points)),
        }

    m = measure(problem, points)
    rounding = 8 * 2.3e-16 * float(m["size"]) / h  # each loss is rounded, and the difference divided by 2h
    yield equal("derivative of Ax", m["jacobian"], problem.a, atol=0)
    yield equal("gradient by automatic differentiation", m["autodiff"], m["formula"], atol=1e-11)
    yield equal("gradient by the product rule", m["product"], m["formula"], atol=1e-11)
    yield equal("gradient by central differences", m["differences"], m["formula"], atol=rounding)
    yield equal("Hessian", m["hessian"], problem.hessian, atol=1e-12)
    yield equal("gradient at the least-squares solution", m["minimiser"], 0.0, atol=1e-11)
    yield control(
        "the distance is not squared",
        equal("gradient by central differences", m["distance"], m["formula"], atol=rounding),
    )


@claim(rows=("B01.33",))
def matrix_factorization(key, *, rows: Size = 8, columns: Size = 6, steps: Count = 1500):
    r"""The gradients of a factorisation, and descent down to the best approximation of that rank.

    $L(U,V)=\frac12\|UV-R\|_F^2$ has $\partial_UL=(UV-R)V^\top$ and $\partial_VL=U^\top(UV-R)$. No factors of inner
    size $p$ get below $\frac12\sum_{i>p}\sigma_i(R)^2$, and gradient descent from small random factors gets there.
    """
    u_key, v_key, m_key = jax.random.split(key, 3)
    sigma = jnp.array([3.0, 2.0, 0.5, 0.4, 0.3, 0.2])
    left, right = jax.random.orthogonal(u_key, rows)[:, : sigma.size], jax.random.orthogonal(v_key, columns)
    r = (left * sigma) @ right[: sigma.size]
    model, wide = (MatrixFactorization(rows, columns, size, scale=0.1, key=m_key) for size in (2, 3))
    h = 1e-4

    @jax.jit
    def measure(model, wide, r):
        def flat(theta):
            u, v = jnp.split(theta, [rows * 2])
            return factorization_loss(MatrixFactorization.of(u.reshape(rows, 2), v.reshape(2, columns)), r)

        theta = jnp.concatenate([model.left.ravel(), model.right.ravel()])
        slope = factorization_gradient(model, r)
        # the step is below one over the curvature, which is near the largest singular value
        fit = fit_factorization(model, r, 0.1, steps)
        wider = fit_factorization(wide, r, 0.1, steps)
        return {
            "formula": jnp.concatenate([slope.left.ravel(), slope.right.ravel()]),
            "differences": _differences(flat, theta, h),
            "losses": fit.losses,
            "wider": wider.losses[-1],
            "product": fit.model.product,
            "floor": truncation_errors(r) ** 2 / 2,
        }

    m = measure(model, wide, r)
    # the loss is quartic: truncation h² times a third derivative of the order of one, and rounding 1e-15/h
    tolerance = 1e-7
    yield equal("gradients by central differences", m["differences"], m["formula"], atol=tolerance)
    # once converged, the sum of squares of some fifty entries is only known to rounding
    yield monotone("loss along descent", m["losses"][:300], "decreasing", atol=1e-14, along="step")
    yield at_least("loss along descent, above the floor", m["losses"], m["floor"][2], along="step")
    # the gap of 1.5 between kept and left singular values shrinks the rest by 0.85 a step
    yield equal("last loss against the floor", m["losses"][-1], m["floor"][2])
    best = (left[:, :2] * sigma[:2]) @ right[:2]
    yield equal("the product against the two largest terms", m["product"], best, atol=1e-8)
    yield control("the inner size is three", at_least("last loss, above the floor", m["wider"], m["floor"][2]))


@claim(rows=("B01.33",))
def nonlinear_least_squares(key, *, n: Size = 25, dim: Size = 4):
    r"""Gradient and Hessian of nonlinear least squares, and the term that Gauss-Newton leaves out.

    $L(w)=\frac1{2n}\sum(y_i-\ell(z_i))^2$ with $z_i=x_i\cdot w$ has the gradient
    $-\frac1n\sum(y_i-\ell(z_i))\ell'(z_i)x_i$ and the Hessian
    $\frac1n\sum[\ell'(z_i)^2-(y_i-\ell(z_i))\ell''(z_i)]x_ix_i^\top$. Without the term in $\ell''$ it is
    right only where the residuals vanish.
    """
    x_key, y_key, w_key = jax.random.split(key, 3)
    x, y, w = jax.random.normal(x_key, (n, dim)), jax.random.normal(y_key, (n,)), jax.random.normal(w_key, (dim,))
    links = {"logistic": jax.nn.sigmoid, "sine": jnp.sin}
    # truncation h²/6 times derivatives and powers of the features (below 1e3 in all), rounding 1e-16/h
    h, tolerance = 1e-5, 1e-7

    @jax.jit
    def measure(x, y, w):
        out = {}
        for name, link in links.items():
            problem = NonlinearLeastSquares(x, y, link)
            perfect = NonlinearLeastSquares(x, link(x @ w), link)
            out[name] = {
                "gradient": (_differences(problem, w, h), problem.gradient(w)),
                "hessian": (_differences(problem.gradient, w, h), problem.hessian(w)),
                "perfect": (perfect.hessian(w), perfect.gauss_newton(w)),
                "gauss": (_differences(problem.gradient, w, h), problem.gauss_newton(w)),
            }
        return out

    for name, m in measure(x, y, w).items():
        yield equal(f"{name}: gradient by central differences", *m["gradient"], atol=tolerance)
        yield equal(f"{name}: Hessian by central differences", *m["hessian"], atol=tolerance)
        yield equal(f"{name}: Gauss-Newton at zero residuals", *m["perfect"])
        yield control("the residuals do not vanish", equal(f"{name}: Hessian", *m["gauss"], atol=tolerance))
