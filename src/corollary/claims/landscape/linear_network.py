"""Matrix derivatives, gradients of linear networks, convexity in each factor, and the form of critical points."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.landscape._linear_data import linear_data, normal_chain, other_bases, product
from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, monotone, printed
from corollary.landscape import (
    MATRIX_DERIVATIVES,
    alternating_least_squares,
    best_inner,
    best_outer,
    critical_point,
    critical_points,
    critical_value,
    deep_linear_loss,
    index_sets,
    matrix_difference,
    principal_directions,
    projected_least_squares,
    second_moments,
    squared_loss_gradient,
    squared_loss_of_moments,
)
from corollary.optimization import chord_gap

Side = Annotated[int, Range(1, 6)]


@claim(rows=("B06.03",))
def matrix_derivatives(key, *, m: Side = 3, n: Annotated[int, Range(2, 6)] = 4, k: Side = 2):
    r"""The table of matrix derivatives agrees with central differences.

    $\nabla\|X\|_F^2=2X$, $\nabla\mathrm{tr}(AX)=A^\top$, $\nabla\mathrm{tr}(AX^\top)=A$,
    $\nabla_xx^\top Ax=(A+A^\top)x$, $\nabla_Ax^\top Ax=xx^\top$, $\nabla_x\|Ax\|^2=2A^\top Ax$,
    $\nabla_A\|Ax\|^2=2Axx^\top$,
    $\nabla_A\|y-Ax\|^2=-2(y-Ax)x^\top$, $\nabla_Xa^\top Xb=ab^\top$,
    $\nabla_Xa^\top X^\top DXb=D^\top Xab^\top+DXba^\top$, $\nabla_B\mathrm{tr}(ABC)=A^\top C^\top$,
    $\nabla_B\mathrm{tr}(CB^\top A^\top)=A^\top C$, $\nabla_B\mathrm{tr}(ABCB^\top A^\top)=A^\top AB(C+C^\top)$, for
    matrices of all shapes for which they make sense, symmetric or not.
    """
    sizes = {"m": m, "n": n, "k": k}

    @jax.jit
    def measure(key):
        # one draw for all arguments: a generator for each would be most of the program
        entries, used, found = jax.random.normal(key, (1000,)), 0, []
        for row in MATRIX_DERIVATIVES:
            arguments = {}
            for name, shape in row.shapes.items():
                axes = [sizes[a] for a in shape.split()]
                arguments[name] = entries[used : used + np.prod(axes)].reshape(axes)
                used += np.prod(axes)
            alone = lambda v, row=row, others=arguments: row.value(**others | {row.variable: v})  # noqa: E731
            found.append((matrix_difference(alone, arguments[row.variable]), row(**arguments)))
        A, x = entries[: n * n].reshape(n, n), jnp.arange(1.0, n + 1)
        return found, matrix_difference(lambda x: x @ A @ x, x), 2 * A @ x

    found, slope, as_if_symmetric = measure(key)
    for row, (differences, exact) in zip(MATRIX_DERIVATIVES, found, strict=True):
        # of second degree at most: the differences have only the rounding of values of the order of 100
        yield equal(row.name, differences, exact, atol=1e-11)
    yield control("a symmetric matrix for 2Ax: here any", equal("x'Ax by x", slope, as_if_symmetric, atol=1e-11))


@claim(
    rows=("B06.05",),
    erratum="Two lines of (6.12) are wrong: the derivatives are A'yx' and 2A'ABxx', not xy'A and 2AA'Bxx'.",
)
def printed_factor_derivatives(key, *, dim: Size = 3):
    r"""Derivatives of the parts of the loss by the inner factor, as printed in (6.12).

    As printed: $\partial_B(x^\top B^\top A^\top y)=xy^\top A$ and $\partial_B(x^\top B^\top A^\top ABx)=2AA^\top
    Bxx^\top$. (In general not even the shapes are right; here all dimensions are equal.) They are $A^\top yx^\top$, as
    the text itself says of the equal $y^\top ABx$, and $2A^\top ABxx^\top$.
    """

    @jax.jit
    def measure(key):
        A, B = jax.random.normal(key, (2, dim, dim))
        x, y = jax.random.normal(jax.random.fold_in(key, 1), (2, dim))
        linear = matrix_difference(lambda B: x @ B.T @ A.T @ y, B)
        square = matrix_difference(lambda B: jnp.sum((A @ B @ x) ** 2), B)
        wrong = jnp.outer(x, y) @ A, 2 * A @ A.T @ B @ jnp.outer(x, x)
        right = A.T @ jnp.outer(y, x), 2 * A.T @ A @ B @ jnp.outer(x, x)
        return (linear, square), wrong, right

    for name, found, wrong, right in zip(("linear", "quadratic"), *measure(key), strict=True):
        yield printed(equal(f"{name} part", found, wrong, atol=1e-11))
        yield equal(f"{name} part, corrected", found, right, atol=1e-11)


@claim(rows=("B06.04", "B06.05", "B06.09"))
def gradients(key, *, n: Size = 12, dim: Size = 4):
    r"""The gradient of a linear network's squared loss from the second moments of the data.

    For $L=\frac12\sum_i\|y_i-Wx_i\|^2$ with $W=W_N\cdots W_1$, $\Sigma_{xx}=\sum_ix_ix_i^\top$ and
    $\Sigma_{yx}=\sum_iy_ix_i^\top$: $\partial L/\partial W_l=-(W_N\cdots W_{l+1})^\top(\Sigma_{yx}-W\Sigma_{xx})
    (W_{l-1}\cdots W_1)^\top$, and $L=\frac12\mathrm{tr}(\Sigma_{yy}-2W\Sigma_{xy}+W\Sigma_{xx}W^\top)$. For $W=AB$:
    $\partial_AL=-(\Sigma_{yx}-AB\Sigma_{xx})B^\top$, $\partial_BL=-A^\top(\Sigma_{yx}-AB\Sigma_{xx})$.
    """
    shapes = {"one hidden layer": (dim, 2, dim), "three hidden layers": (dim, 3, 5, 2, dim)}

    @jax.jit
    def measure(key):
        x, y = jax.random.normal(key, (2, n, dim))
        second = second_moments(x, y)
        found = {}
        for name, sizes in shapes.items():
            weights = normal_chain(jax.random.fold_in(key, len(sizes)), sizes, 0.7)
            slope = jax.grad(deep_linear_loss)(weights, x, y)
            whole = product(weights)
            of_moments = squared_loss_of_moments(whole, second)
            found[name] = slope, squared_loss_gradient(weights, x, y), deep_linear_loss(weights, x, y), of_moments
            if len(sizes) == 3:
                bent = jax.grad(lambda w, last=weights[1]: jnp.sum((y - jnp.tanh(x @ w.T) @ last.T) ** 2) / 2)(
                    weights[0]
                )
        return found, bent

    found, bent = measure(key)
    for name, (slope, formula, value, of_moments) in found.items():
        for layer, (measured, predicted) in enumerate(zip(slope, formula, strict=True), 1):
            yield equal(f"{name}: gradient of layer {layer}", measured, predicted, atol=1e-10)
        yield equal(f"{name}: loss from the moments", value, of_moments)
    formula = found["one hidden layer"][1][0]
    yield control("linear units: here tanh", equal("gradient of layer 1", bent, formula, atol=1e-10))


@claim(rows=("B06.06",))
def convex_in_each_factor(key, *, dim: Size = 5, width: Size = 2, starts: Size = 16, steps: Count = 60):
    r"""The squared loss is convex in each factor, and alternating least squares descends to the global minimum.

    For fixed $A$ the loss $\frac12\|Y-ABX\|_F^2$ has the Hessian $A^\top A\otimes\Sigma_{xx}\succeq0$ in $B$ and is
    least where $A^\top AB\Sigma_{xx}=A^\top\Sigma_{yx}$: a change of $B$ by $\Delta$ costs exactly
    $\frac12\|A\Delta X\|_F^2$ from there. For fixed $B$ the Hessian in $A$ is $I\otimes B\Sigma_{xx}B^\top$, the
    minimum where $AB\Sigma_{xx}B^\top=\Sigma_{yx}B^\top$. Taking turns the loss never increases; from generic
    starts it ends at the global minimum. In both factors together the loss is not convex.
    """
    strengths = 2.0 ** -np.arange(dim)

    @jax.jit
    def measure(key):
        data_key, weight_key, change_key = jax.random.split(key, 3)
        x, y = linear_data(data_key, jnp.asarray(strengths), inputs=dim, outputs=dim, n=3 * dim)
        second = second_moments(x, y)
        inner, outer = normal_chain(weight_key, (dim, width, dim))
        # of rank one less than it could have
        flat = outer.at[:, -1].set(outer[:, 0])
        changes = jax.random.normal(change_key, (100, width, dim))

        def cost(a, b, da, db):
            loss = lambda t: deep_linear_loss((b + t * db, a + t * da), x, y)  # noqa: E731
            return loss(1.0) - loss(0.0), jnp.sum((((a + da) @ (b + db) - a @ b) @ x.T) ** 2) / 2

        best = {"inner": best_inner(outer, x, y), "flat": best_inner(flat, x, y), "outer": best_outer(inner, x, y)}
        costs = {
            "inner": jax.vmap(lambda d: cost(outer, best["inner"], 0 * outer, d))(changes),
            "inner, deficient outer": jax.vmap(lambda d: cost(flat, best["flat"], 0 * outer, d))(changes),
            "outer": jax.vmap(lambda d: cost(best["outer"], inner, d.T, 0 * inner))(changes),
        }
        equations = (
            (flat.T @ flat @ best["flat"] @ second.xx, flat.T @ second.yx),
            (best["outer"] @ inner @ second.xx @ inner.T, second.yx @ inner.T),
        )
        curvature = (
            jax.hessian(lambda b: deep_linear_loss((b, outer), x, y))(inner).reshape(inner.size, inner.size),
            jax.hessian(lambda a: deep_linear_loss((inner, a), x, y))(outer).reshape(outer.size, outer.size),
        )
        kronecker = jnp.kron(outer.T @ outer, second.xx), jnp.kron(jnp.eye(dim), inner @ second.xx @ inner.T)
        begin = jax.random.normal(weight_key, (starts, dim, width))
        # one start after the other: a batch of decompositions inside a loop is no faster on a CPU
        descent = jax.lax.map(lambda a: alternating_least_squares(a, x, y, steps).value, begin)
        top = jnp.arange(dim) < width
        floor = critical_value(principal_directions(x, y), top)

        def joint(v):
            return deep_linear_loss((v[: inner.size].reshape(inner.shape), v[inner.size :].reshape(outer.shape)), x, y)

        point = jnp.concatenate([best["inner"].ravel(), outer.ravel()])
        return costs, equations, curvature, kronecker, descent, floor, chord_gap(joint, point, -point)

    costs, equations, curvature, kronecker, descent, floor, gap = measure(key)
    for name, (measured, predicted) in costs.items():
        yield equal(f"cost of leaving the best {name} factor", measured, predicted, atol=1e-11)
    yield equal("normal equation of the inner factor", *equations[0], atol=1e-11)
    yield equal("normal equation of the outer factor", *equations[1], atol=1e-11)
    yield equal("Hessian in the inner factor", curvature[0], kronecker[0], atol=1e-11)
    yield equal("Hessian in the outer factor", curvature[1], kronecker[1], atol=1e-11)
    yield monotone("loss of alternating least squares", descent, "decreasing", atol=1e-13, along="half step")
    # the way to the minimum shrinks by (s'/s)^2 = 1/4 at least with every step, which leaves rounding alone
    yield equal("where it ends", descent[:, -1], jnp.full(starts, floor), rtol=1e-11)
    yield control("one factor varies: here both, between (A,B) and (-A,-B)", at_least("chord above the loss", gap, 0.0))


@claim(rows=("B06.07", "B06.10"))
def critical_map(key, *, dim: Size = 3, starts: Size = 40):
    r"""At a critical point a linear network computes the projected least-squares map.

    Let $\Sigma_{xx}$ be invertible, $W=W_N\cdots W_1$ and $C=W_N\cdots W_2$ (so $C=A$ for $W=AB$). At every point
    $$W-P_C\Sigma_{yx}\Sigma_{xx}^{-1}=(C^+)^\top\frac{\partial L}{\partial W_1}\Sigma_{xx}^{-1},$$
    with $P_C=CC^+$ the orthogonal projector on the range of $C$. Hence $W=P_C\Sigma_{yx}\Sigma_{xx}^{-1}$ where the
    gradient vanishes, of whatever rank $C$ may be.
    """
    shapes = {"one hidden layer": (dim, 2, dim), "three hidden layers": (dim, 4, 2, 3, dim)}
    strengths = 1.0 / np.arange(1, dim + 1)

    @jax.jit
    def measure(key):
        data_key, weight_key, basis_key, start_key = jax.random.split(key, 4)
        x, y = linear_data(data_key, jnp.asarray(strengths), inputs=dim, outputs=dim, n=3 * dim)
        second, principal = second_moments(x, y), principal_directions(x, y)
        anywhere, listed = {}, {}
        for name, sizes in shapes.items():
            weights = normal_chain(weight_key, sizes)
            outer, whole = product(weights[1:]), product(weights)
            slope = jax.grad(deep_linear_loss)(weights, x, y)[0]
            predicted = jnp.linalg.pinv(outer).T @ jnp.linalg.solve(second.xx, slope.T).T
            anywhere[name] = whole - projected_least_squares(weights, x, y), predicted
            sets = jnp.asarray(index_sets(dim, 2))
            critical = jax.lax.map(
                lambda c, hidden=sizes[1:-1]: other_bases(basis_key, critical_point(principal, c, hidden)), sets
            )
            # idle units leave singular values of C at the rounding: far above it, far below the smallest true one
            projected = jax.lax.map(lambda w: projected_least_squares(w, x, y, 1e-9), critical)
            listed[name] = jax.vmap(product)(critical), projected
        size = 2 * dim

        def split(v):
            return v[:size].reshape(2, dim), v[size:].reshape(dim, 2)

        found = critical_points(
            lambda v: deep_linear_loss(split(v), x, y), 0.7 * jax.random.normal(start_key, (starts, 2 * size))
        )
        maps = jax.vmap(lambda v: split(v)[1] @ split(v)[0])(found.points)

        def form(v):
            # a singular value of A counts from 1/1000 on: the search leaves those that should be zero far below it
            largest = jnp.linalg.norm(split(v)[1], 2)
            return projected_least_squares(split(v), x, y, 1e-3 / jnp.maximum(largest, 1e-200))

        forms = jax.lax.map(form, found.points)
        return anywhere, listed, maps, forms, found.converged

    anywhere, listed, maps, forms, converged = measure(key)
    for name, (residual, predicted) in anywhere.items():
        yield equal(f"{name}: distance from the form anywhere", residual, predicted, rtol=1e-8, atol=1e-10)
    for name, (whole, projected) in listed.items():
        yield equal(f"{name}: map at listed critical points", whole, projected, atol=1e-10)
    converged = np.asarray(converged)
    # the identity above: a gradient of 1.5e-8, where the search stops, over a singular value of A of at least 1e-3
    yield equal("map at critical points found by search", maps[converged], forms[converged], atol=1e-4)
    # about half of the searches get there: fewer than 5 of 40 would do so once in 10^8
    yield at_least("searches that ended at a critical point", converged.sum(), 5)
    yield control(
        "critical points: here random ones",
        at_most("distance from the form", [jnp.abs(residual).max() for residual, _ in anywhere.values()], 1e-5),
    )


@claim(rows=("B06.07",), erratum="With the sum of x y' as defined before the theorem the product is not the map.")
def printed_projection(key, *, dim: Size = 3):
    r"""The map at a critical point with the cross moment as printed in (6.24).

    As printed, Theorem 44: $W=P_A\Sigma_{xy}\Sigma_{xx}^{-1}$, where $\Sigma_{xy}=\sum_ix_iy_i^\top$ was defined for
    it. The proof has $\Sigma_{yx}$, and with that it is right.
    """

    @jax.jit
    def measure(key):
        x, y = linear_data(key, 1.0 / jnp.arange(1, dim + 1), inputs=dim, outputs=dim, n=3 * dim)
        inner, outer = critical_point(principal_directions(x, y), jnp.arange(dim) < 2, (2,))
        second = second_moments(x, y)
        # Σxy and Σyx times the inverse of Σxx, projected on the columns of A
        forms = [outer @ jnp.linalg.pinv(outer) @ jnp.linalg.solve(second.xx, m.T).T for m in (second.yx.T, second.yx)]
        slope = jnp.concatenate([g.ravel() for g in squared_loss_gradient((inner, outer), x, y)])
        return outer @ inner, forms, slope

    whole, (wrong, right), slope = measure(key)
    yield equal("the point is critical", slope, jnp.zeros_like(slope), atol=1e-12)
    yield printed(equal("map at the global minimum, sums of x y'", whole, wrong, atol=1e-9))
    yield equal("map at the global minimum, sums of y x'", whole, right, atol=1e-9)


@claim(
    rows=("B06.10",),
    erratum="C'C has no inverse if a later layer is narrower than the first hidden one; a pseudo-inverse is meant.",
)
def printed_inverse(key, *, dim: Size = 3):
    r"""The map of a deep linear network at a critical point with the inverse as printed in (6.25).

    As printed: "if $\mathbf W$ is a critical point of the loss, then" $W_{H+1}\cdots W_1=C(C^\top C)^{-1}C^\top YX^\top
    (XX^\top)^{-1}$, $C=W_{H+1}\cdots W_2$, for which $C^\top C$ must have an inverse. It has none at the global minimum
    of a network whose second hidden layer is narrower than its first. With the pseudo-inverse the formula is right
    there.
    """

    @jax.jit
    def measure(key):
        x, y = linear_data(key, 1.0 / jnp.arange(1, dim + 1), inputs=dim, outputs=dim, n=3 * dim)
        weights = critical_point(principal_directions(x, y), jnp.arange(dim) < 2, (dim, 2))
        slope = jnp.concatenate([g.ravel() for g in squared_loss_gradient(weights, x, y)])
        values = jnp.linalg.svd(weights[2] @ weights[1], compute_uv=False)
        return slope, values, product(weights), projected_least_squares(weights, x, y, 1e-9)

    slope, values, whole, projected = measure(key)
    yield equal("the point is critical", slope, jnp.zeros_like(slope), atol=1e-12)
    yield printed(at_least("C'C has an inverse: least singular value over its largest", values[-1] / values[0], 1e-8))
    yield equal("map with the pseudo-inverse", whole, projected, atol=1e-9)
