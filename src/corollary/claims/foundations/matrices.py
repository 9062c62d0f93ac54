"""Matrices: span, algebra, orthogonality, trace."""

import jax
import jax.numpy as jnp

from corollary.claims.foundations._matrix_pictures import parallelograms
from corollary.evidence import Size, at_least, at_most, claim, control, equal
from corollary.foundations import column_space, commutator, in_span, inverse, matrix_product, orthogonality_defect

EPS = 2.3e-16


@claim(rows=("B01.01",))
def span(key, *, samples: Size = 200):
    r"""Two independent vectors span the plane, two dependent ones a line.

    With $V=(v_1,v_2)$, $v_1=(-3,2)$, $v_2=(2,3)$: $0.5v_1+v_2=(0.5,4)$, the rank is 2 and every $b\in\mathbb R^2$ is a
    combination. With $v_1=(1,2)$, $v_2=2v_1$: $v_1+0.5v_2=(2,4)$, the rank is 1, and $b$ is a combination exactly if it
    is a multiple of $(1,2)$; $(1,0)$ is at distance $2/\sqrt5$. (The text labels both columns $v_1$.)
    """
    independent = jnp.array([[-3.0, 2.0], [2.0, 3.0]])
    dependent = jnp.array([[1.0, 2.0], [2.0, 4.0]])
    b = jax.random.normal(key, (samples, 2))

    @jax.jit
    def measure(v):
        return jax.vmap(lambda b: in_span(v, b))(b), column_space(v)

    anywhere, (_, rank) = measure(independent)
    line, (basis, rank_one) = measure(dependent)
    products = jnp.stack([independent @ jnp.array([0.5, 1.0]), dependent @ jnp.array([1.0, 0.5])])
    yield equal("the two worked products", products, jnp.array([[0.5, 4.0], [2.0, 4.0]]), atol=0, rtol=0)
    yield equal("ranks", jnp.stack([rank, rank_one]), jnp.array([2, 1]), atol=0, rtol=0)
    yield equal("independent: any vector is reached", anywhere.inside, 1.0, atol=0)
    # the coefficients carry the condition number (here 1.4) and the size of b
    back = anywhere.coefficients @ independent.T
    yield equal("independent: from the coefficients back", back, b, atol=20 * EPS * float(jnp.abs(b).max()))
    normal = jnp.array([2.0, -1.0]) / jnp.sqrt(5.0)
    yield equal("dependent: distance to the line", line.distance, jnp.abs(b @ normal), atol=1e-14 * 10)
    yield equal("dependent: the line", jnp.abs(basis[:, 0] @ normal), 0.0, atol=10 * EPS)
    out = in_span(dependent, jnp.array([1.0, 0.0]))
    yield equal("dependent: (1, 0) is out of reach", out.distance, 2 / jnp.sqrt(5.0))
    yield control("the vectors are dependent", equal("any vector is reached", line.inside, 1.0, atol=0))
    yield parallelograms(independent, dependent)


@claim(rows=("B01.02",))
def algebra(key, *, dim: Size = 6, samples: Size = 100):
    r"""Matrix multiplication is associative and distributive but not commutative, and inverses work from both sides.

    $A(B+C)=AB+AC$, $(A+B)C=AC+BC$, $(AB)C=A(BC)$ and $AA^{-1}=A^{-1}A=I$ for invertible $A$, with
    $(AB)_{ij}=\sum_kA_{ik}B_{kj}$. In general $AB\ne BA$; a polynomial of $A$ does commute with $A$.
    """
    a, b, c = jax.random.normal(key, (3, samples, dim, dim))

    @jax.jit
    def measure(a, b, c):
        product = jax.vmap(matrix_product)
        inverses = jax.vmap(inverse)(a)
        polynomial = 2 * product(a, a) - 3 * a + jnp.eye(dim)
        size = jax.vmap(lambda m: jnp.linalg.norm(m))
        return {
            "left": product(a, b + c) - product(a, b) - product(a, c),
            "right": product(a + b, c) - product(a, c) - product(b, c),
            "associative": product(product(a, b), c) - product(a, product(b, c)),
            "definition": product(a, b) - a @ b,
            "inverse": jnp.stack([product(a, inverses), product(inverses, a)]),
            "condition": jnp.max(size(a) * size(inverses)),
            "commutator": size(jax.vmap(commutator)(a, b)),
            "polynomial": size(jax.vmap(commutator)(a, polynomial)),
            "scale": jnp.max(size(a)) * jnp.max(size(b)) * jnp.max(size(c)),
        }

    m = measure(a, b, c)
    rounding = 10 * dim * EPS * float(m["scale"])
    for name, words in (
        ("left", "A(B + C) - AB - AC"),
        ("right", "(A + B)C - AC - BC"),
        ("associative", "(AB)C - A(BC)"),
        ("definition", "sums of products against the library's product"),
    ):
        yield equal(words, m[name], 0.0, atol=rounding)
    # elimination with pivots is off by the condition number, and by a growth factor of 2^(dim - 1) at the very worst
    loss = 10 * dim * EPS * float(m["condition"]) * 2 ** (dim - 1)
    yield equal("A times its inverse, both ways", m["inverse"], jnp.eye(dim), atol=loss)
    yield equal("A commutes with its polynomials", m["polynomial"], 0.0, atol=rounding)
    yield at_least("norm of AB - BA for independent matrices", m["commutator"], 0.1)
    yield control("B is no polynomial of A", equal("norm of AB - BA", m["commutator"], 0.0, atol=rounding))


@claim(rows=("B01.22",))
def orthogonal_matrices(key, *, dim: Size = 12, samples: Size = 50):
    r"""The inverse of an orthogonal matrix is its transpose, and it keeps lengths and angles.

    Let $A$ be square with orthonormal columns. Then the rows are orthonormal too, $AA^\top=A^\top A=I$,
    $A^{-1}=A^\top$, and $(Ax)^\top(Ay)=x^\top y$. Columns that are orthogonal but not of unit length do not do, and
    neither do orthonormal columns of a matrix that is not square.
    """
    q_key, x_key, s_key = jax.random.split(key, 3)
    q = jax.jit(lambda key: jax.random.orthogonal(key, dim, (samples,)))(q_key)
    x, y = jax.random.normal(x_key, (2, samples, dim))
    stretch = 1 + jax.random.uniform(s_key, (samples, 1, dim))
    thin = q[:, :, :-1]

    @jax.jit
    def measure(q, x, y):
        product = jnp.einsum("sij,sj,sik,sk->s", q, x, q, y)
        return jax.vmap(orthogonality_defect)(q), jax.vmap(inverse)(q) - q.swapaxes(1, 2), product

    defect, difference, product = measure(q, x, y)
    # ten operations on unit rows, each a sum of dim terms of at most one
    rounding = 20 * dim * EPS
    yield at_most("largest entry of A'A - I and AA' - I", defect, rounding)
    yield equal("inverse less transpose", difference, 0.0, atol=rounding)
    yield equal("inner products after the map", product, jnp.sum(x * y, axis=1), atol=20 * rounding)
    yield control(
        "the columns are not of unit length",
        equal("inverse less transpose", measure(q * stretch, x, y)[1], 0.0, atol=rounding),
    )
    tall = jnp.einsum("sij,skj->sik", thin, thin)
    yield control("not square: A'A = I but AA' is a projection", equal("AA'", tall, jnp.eye(dim), atol=rounding))


@claim(rows=("B01.18",))
def trace(key, *, dim: Size = 7, other: Size = 4, samples: Size = 100):
    r"""The trace is linear, does not see a transposition or a cyclic shift, and is the sum of the eigenvalues.

    $\mathrm{tr}(\alpha A+\beta B)=\alpha\,\mathrm{tr}A+\beta\,\mathrm{tr}B$, $\mathrm{tr}A^\top=\mathrm{tr}A$,
    $\mathrm{tr}(AB)=\mathrm{tr}(BA)$ also for $A\in\mathbb R^{m\times n}$, $B\in\mathbb R^{n\times m}$, hence
    $\mathrm{tr}(ABC)=\mathrm{tr}(BCA)$; and $\mathrm{tr}A=\sum_i\lambda_i$ over the complex eigenvalues with their
    multiplicities. Other permutations than the cyclic ones do change the trace. (The text defines eigenvalues as real,
    "mostly", and sums $\lambda_1,\dots,\lambda_n$: a real matrix has $n$ of them only if the complex ones count.)
    """
    square_key, long_key, s_key = jax.random.split(key, 3)
    a, b, c = jax.random.normal(square_key, (3, samples, dim, dim))
    long, wide = jax.random.normal(long_key, (2, samples, dim, other))
    alpha, beta = jax.random.normal(s_key, (2, samples))

    @jax.jit
    def measure(a, b, c, long, wide, alpha, beta):
        tr = jax.vmap(jnp.trace)
        eigenvalues = jnp.linalg.eigvals(a)
        wide_t = wide.swapaxes(1, 2)
        return {
            "linear": (tr(alpha[:, None, None] * a + beta[:, None, None] * b), alpha * tr(a) + beta * tr(b)),
            "cyclic": (tr(long @ wide_t), tr(wide_t @ long)),
            "three": (tr(a @ b @ c), tr(b @ c @ a)),
            "swapped": (tr(a @ b @ c), tr(a @ c @ b)),
            "transpose": (tr(a.swapaxes(1, 2)), tr(a)),
            "eigen": (eigenvalues.sum(1).real, tr(a)),
            "imaginary": jnp.abs(eigenvalues.sum(1).imag),
        }

    m = measure(a, b, c, long, wide, alpha, beta)
    size = 100 * dim * EPS * dim**3  # sums of dim³ products of normals
    yield equal("trace of αA + βB", *m["linear"], atol=size)
    yield equal("trace of the transpose", *m["transpose"], atol=size)
    yield equal("trace of AB and of BA, rectangular", *m["cyclic"], atol=size)
    yield equal("trace of ABC and of BCA", *m["three"], atol=size)
    # one eigenvalue may lose digits to its condition; their sum is the trace of a triangular form and does not
    yield equal("sum of the complex eigenvalues", *m["eigen"], atol=size)
    yield equal("imaginary part of that sum", m["imaginary"], 0.0, atol=size)
    yield control("a permutation that is not cyclic", equal("trace of ABC and of ACB", *m["swapped"], atol=size))
