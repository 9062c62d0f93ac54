"""Singular values and the singular value decomposition."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.foundations._matrix_pictures import ellipses, images
from corollary.evidence import Size, at_least, at_most, claim, control, equal, printed
from corollary.foundations import (
    in_span,
    jacobi_svd,
    numerical_rank,
    rank_one_terms,
    singular_values,
    sorted_eigen,
    svd,
    svd_geometry,
    truncation_errors,
)

EPS = 2.3e-16


def _of_rank(key, m, n, rank):
    left, right = jax.random.split(key)
    return jax.random.normal(left, (m, rank)) @ jax.random.normal(right, (rank, n))


@claim(rows=("B01.20",))
def gram_matrices(key, *, rows: Size = 9, columns: Size = 6, rank: Size = 4, samples: Size = 20):
    r"""Singular values are the roots of the eigenvalues of both Gram matrices, and the rank is how many are not zero.

    For $A\in\mathbb R^{m\times n}$ and $i\le\min(m,n)$, $\sigma_i(A)^2=\lambda_i(AA^\top)=\lambda_i(A^\top A)$; the
    larger Gram matrix has zeros beyond. The number of nonzero $\sigma_i$ is the rank, and $\sigma_1=\|A\|_2$.
    """
    a = jax.vmap(lambda k: _of_rank(k, rows, columns, rank))(jax.random.split(key, samples))

    @jax.jit
    def measure(a):
        eigen = jax.vmap(lambda g: sorted_eigen(g)[0])
        transposed = a.swapaxes(1, 2)
        return {
            "sigma": jax.vmap(singular_values)(a),
            "tall": eigen(a @ transposed),
            "wide": eigen(transposed @ a),
            "rank": jax.vmap(numerical_rank)(a),
            "stretch": jax.vmap(lambda a: jnp.linalg.norm(a @ sorted_eigen(a.T @ a)[1][:, 0]))(a),
            "minors": jnp.abs(jnp.linalg.det(a[:, :rank, :rank])),
        }

    m = measure(a)
    least = min(rows, columns)
    # the eigenvalues are off by the rounding of the largest one, in squares
    error = 50 * (rows + columns) * EPS * float(m["tall"].max())
    yield equal("eigenvalues of AA' and squares", m["tall"][:, :least], m["sigma"] ** 2, atol=error)
    yield equal("eigenvalues of A'A and squares", m["wide"][:, :least], m["sigma"] ** 2, atol=error)
    yield equal("the rest of the larger one", m["tall"][:, least:], 0.0, atol=error)
    yield equal("singular values that are not zero", m["rank"], rank, atol=0, rtol=0)
    yield at_least("a minor of that order is not zero", m["minors"], 1e-9)
    yield equal("largest one and the largest stretch", m["sigma"][:, 0], m["stretch"])
    turned = np.asarray(a) * np.exp(
        1j * np.arange(columns)
    )  # the phases of the columns leave the singular values alone
    sizes = np.sort(np.abs(np.linalg.eigvals(turned @ turned.swapaxes(1, 2))), axis=1)[:, ::-1]
    yield control(
        "the matrix is complex, and its transpose not conjugated",
        equal("absolute eigenvalues of AA' and squares", sizes[:, :least], m["sigma"] ** 2, atol=error),
    )


@claim(rows=("B01.21",))
def decomposition(key, *, tall: Size = 7, wide: Size = 5, rank: Size = 3):
    r"""Every matrix is an orthogonal matrix times a diagonal one times an orthogonal one.

    $A=UDV^\top$ with $U\in\mathbb R^{m\times m}$, $V\in\mathbb R^{n\times n}$ orthogonal and
    $D$ diagonal, $\sigma_1\ge\sigma_2\ge\dots\ge0$. Then $Av_i=\sigma_iu_i$ and $A^\top u_i=\sigma_iv_i$, so that the
    $u_i$, $v_i$ are eigenvectors of $AA^\top$, $A^\top A$; the first $r=\mathrm{rank}A$ columns of $U$ span the column
    space. Where a singular value is repeated, the factors may be rotated together: the decomposition is not unique.
    """
    keys = jax.random.split(key, 5)
    cases = {
        "tall": jax.random.normal(keys[0], (tall, wide)),
        "wide": jax.random.normal(keys[1], (wide, tall)),
        "square": jax.random.normal(keys[2], (wide, wide)),
        "deficient": _of_rank(keys[3], tall, wide, rank),
    }

    @jax.jit
    def measure(cases):
        out = {}
        for name, a in cases.items():
            parts = svd(a)
            (u, s, v), k = parts, parts.s.size
            out[name] = {
                "back": jnp.abs(u @ parts.d @ v.T - a).max(),
                "orthogonal": jnp.maximum(
                    jnp.abs(u.T @ u - jnp.eye(len(u))).max(), jnp.abs(v.T @ v - jnp.eye(len(v))).max()
                ),
                "right": jnp.abs(a @ v[:, :k] - u[:, :k] * s).max(),
                "left": jnp.abs(a.T @ u[:, :k] - v[:, :k] * s).max(),
                "eigen": jnp.abs(a @ (a.T @ u[:, :k]) - u[:, :k] * s**2).max(),
                "order": jnp.concatenate([jnp.diff(-s), s]).min(),
            }
        a, low = cases["tall"], cases["deficient"]
        own, (u, s, v) = jacobi_svd(a), svd(a)
        u = u[:, :wide]
        turn = jnp.eye(wide).at[:2, :2].set(jnp.array([[0.6, -0.8], [0.8, 0.6]]))
        twice, once = (jnp.array([top, 2.0, *[1.0] * (wide - 2)]) for top in (2.0, 3.0))
        basis = svd(low).u[:, :rank]
        return {
            "cases": {k: jnp.stack([case[k] for case in out.values()]) for k in out["tall"]},
            "jacobi": own.s - s,
            "jacobi back": (own.u * own.s) @ own.v.T - a,
            "rotated": (u @ turn * twice) @ (v @ turn).T - (u * twice) @ v.T,
            "mixed": (u @ turn * once) @ (v @ turn).T - (u * once) @ v.T,
            "span": basis @ (basis.T @ low) - low,
        }

    m = measure(cases)
    size = float(max(jnp.linalg.norm(a) for a in cases.values()))
    rounding = 20 * (tall + wide) * EPS
    c = m["cases"]
    yield at_most("tall, wide, square, deficient: UDV' - A", c["back"], rounding * size)
    yield at_most("departure from orthogonality", c["orthogonal"], rounding)
    yield at_most("Av - σu and A'u - σv", jnp.stack([c["right"], c["left"]]), rounding * size)
    yield at_most("AA'u - σ²u", c["eigen"], rounding * size**2)
    yield at_least("order and sign of the singular values", c["order"], 0.0)
    yield equal("the first r left vectors span the columns", m["span"], 0.0, atol=rounding * size)
    yield equal("singular values by Jacobi rotations", m["jacobi"], 0.0, atol=rounding * size)
    yield equal("the product of Jacobi's factors", m["jacobi back"], 0.0, atol=rounding * size)
    yield equal("a repeated value: both factors rotated", m["rotated"], 0.0, atol=rounding * size)
    yield control(
        "rotating vectors of different singular values",
        equal("both factors rotated", m["mixed"], 0.0, atol=rounding * size),
    )


@claim(
    rows=("B01.21",),
    erratum="Only the first r left singular vectors lie in the column space; the others are orthogonal to it.",
)
def left_vectors_in_column_space(key, *, tall: Size = 5, wide: Size = 3):
    r"""The columns of U form an orthonormal basis of the column space.

    As printed, for the $m$ columns of $U$ in $A=UDV^\top$. With $m=5$ rows and $n=3$ columns, two of the five are not
    in the column space at all: they are at distance 1 from it. (The first $\mathrm{rank}A$ columns do form a basis.)
    """
    a = jax.random.normal(key, (tall, wide))
    distance = jax.vmap(lambda u: in_span(a, u).distance)(svd(a).u.T)
    yield at_most("distance of the first columns of U to the column space", distance[:wide], 1e-12)
    yield printed(at_most("distance of all columns of U to the column space", distance, 1e-12))


@claim(
    rows=("B01.21",),
    erratum="U = V holds for positive semi-definite symmetric matrices only; a negative eigenvalue makes u = -v.",
)
def symmetric_means_equal_factors(key):
    r"""A symmetric matrix has equal left and right singular vectors.

    As printed: "the special case of $m=n$ and $U=V$ (i.e. $A$ symmetric)". For $\mathrm{diag}(2,-1)$ every
    decomposition has $u_2=-v_2$, since $\sigma_2u_2=Av_2=-v_2$. Right is $u_i\cdot v_i=\mathrm{sign}\,\lambda_i$, and
    $U=V$ for $\mathrm{diag}(2,1)$, a second instance, which is positive definite.
    """
    turn = jnp.linalg.qr(jax.random.normal(key, (2, 2)))[0]
    a, definite = (turn @ jnp.diag(jnp.array([2.0, least])) @ turn.T for least in (-1.0, 1.0))

    def products(a):
        u, _, v = svd(a)
        return jnp.sum(u * v, axis=0)

    yield equal("the matrix is symmetric", a, a.T)
    yield equal("inner products of left and right vectors: signs of the eigenvalues", products(a), [1.0, -1.0])
    yield equal("the same for a positive definite matrix: 1", products(definite), 1.0)
    yield printed(equal("inner products of left and right vectors: 1", products(a), 1.0))


@claim(rows=("B01.23", "B01.36"))
def rank_one_sum(key, *, side: Size = 28, rank: Size = 8):
    r"""A matrix is a sum of matrices of rank one, and the first k of them leave exactly the other singular values.

    $A=\sum_{i\le r}\sigma_iu_iv_i^\top$ with $r=\mathrm{rank}A$, each outer product of rank 1, and
    $\|A-A_k\|_F^2=\sum_{i>k}\sigma_i^2$ for the sum $A_k$ of the first $k$.
    """
    image_key, swap_key = jax.random.split(key)
    a = _picture(side) + 0.05 * _of_rank(image_key, side, side, rank)
    order = jax.random.permutation(swap_key, side)

    @jax.jit
    def measure(a, order):
        terms = rank_one_terms(a)
        partial = jnp.cumsum(terms, axis=0)

        def left(sums):
            return jnp.linalg.norm(a - sums, axis=(1, 2))

        return {
            "partial": partial,
            "errors": left(partial),
            "shuffled": left(jnp.cumsum(terms[order], axis=0)),
            "predicted": truncation_errors(a)[1:],
            "ranks": jax.vmap(lambda t: numerical_rank(t, 1e-9 * jnp.linalg.norm(t)))(terms[:10]),
            # every minor of order two of an outer product vanishes, which is what rank 1 means
            "minors": jax.vmap(lambda t: t[:-1, :-1] * t[1:, 1:] - t[:-1, 1:] * t[1:, :-1])(terms[:10]),
        }

    m = measure(a, order)
    rounding = 20 * side * EPS * float(jnp.linalg.norm(a))
    yield equal("what the first k terms leave", m["errors"], m["predicted"], atol=rounding, along="k")
    yield equal("all terms together", m["partial"][-1], a, atol=rounding)
    yield equal("rank of a term", m["ranks"], 1, atol=0, rtol=0)
    yield equal("minors of order two of a term", m["minors"], 0.0, atol=rounding)
    yield control(
        "the terms in another order",
        equal("what the first k terms leave", m["shuffled"], m["predicted"], atol=rounding, along="k"),
    )
    yield images({f"k = {k}": m["partial"][k - 1] for k in (1, 3, 8)} | {"A": a})


def _picture(side):
    """A disc, a bar and a slope: something to look at that is not of low rank."""
    x, y = jnp.meshgrid(jnp.linspace(-1, 1, side), jnp.linspace(-1, 1, side))
    return 1.0 * (x**2 + (y - 0.2) ** 2 < 0.3) + 0.6 * (jnp.abs(x + y) < 0.2) + 0.3 * x


@claim(rows=("B01.24",))
def geometry(key, *, points: Size = 20_000):
    r"""A matrix maps the unit circle to an ellipse whose half-axes are its singular values.

    For $A\in\mathbb R^{2\times2}$: $V^\top$ turns (or reflects) the circle, $D$ stretches it along the axes by
    $\sigma_1,\sigma_2$, $U$ turns it again. The image has the half-axes $\sigma_1,\sigma_2$, in the directions of
    $u_1,u_2$, and the area $\pi\sigma_1\sigma_2=\pi|\det A|$.
    """
    a = jax.random.normal(key, (2, 2))
    parts = jax.jit(svd_geometry, static_argnames="points")(a, points)

    def axes(image):
        radius = jnp.linalg.norm(image, axis=1)
        return jnp.stack([radius.max(), radius.min()])

    s, u = singular_values(a), svd(a).u
    # the grid misses an axis by at most half its spacing, which moves σ by the square of that times σ1²/σ2
    grid = float((jnp.pi / points) ** 2 * s[0] ** 2 / s[1])
    yield equal("half-axes of the image", axes(parts.image), s, atol=grid)
    longest = parts.image[jnp.argmax(jnp.linalg.norm(parts.image, axis=1))]
    # near the longest axis the direction is off by the angle of the grid
    yield at_least("cosine of the long axis and u1", jnp.abs(longest @ u[:, 0]) / s[0], 1 - (2 * jnp.pi / points) ** 2)
    x, y = parts.image.T
    area = jnp.abs(jnp.sum(x * jnp.roll(y, -1) - y * jnp.roll(x, -1))) / 2
    yield equal("area of the image", area, jnp.pi * s[0] * s[1], rtol=float((2 * jnp.pi / points) ** 2))
    yield equal("the three maps one after the other", parts.image, parts.circle @ a.T, atol=1e-14 * 10 * float(s[0]))
    yield equal("the first map keeps lengths", jnp.linalg.norm(parts.rotated, axis=1), 1.0)
    yield control("the map is not linear", equal("half-axes of the image", axes(jnp.tanh(parts.image)), s, atol=grid))
    yield ellipses(parts)
