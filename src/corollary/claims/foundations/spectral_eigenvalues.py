"""Eigenvalues: the characteristic polynomial, the Loewner order, singular values of symmetric matrices."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.foundations._matrix_pictures import level_curves
from corollary.evidence import Size, at_least, at_most, claim, control, equal, printed
from corollary.foundations import characteristic_polynomial, loewner_geq, singular_values, sorted_eigen, svd

EPS = 2.3e-16


def _symmetric(key, count, dim):
    a = jax.random.normal(key, (count, dim, dim))
    return (a + a.swapaxes(1, 2)) / 2


@claim(rows=("B01.17",))
def roots(key, *, dim: Size = 5, samples: Size = 40):
    r"""The eigenvalues of a matrix are the roots of its characteristic polynomial, counted with multiplicity.

    $Av=\lambda v$ for some $v\ne0$ exactly if $\det(A-\lambda I)=0$. For symmetric $A$ all roots are real and
    can be sorted, $\lambda_1\ge\dots\ge\lambda_n$. The algebraic multiplicity of an eigenvalue is its multiplicity as a
    root; the number of different eigenvalues is the number of different roots.
    """
    a_key, t_key = jax.random.split(key)
    a = _symmetric(a_key, samples, dim)
    elsewhere = jax.random.normal(t_key, (samples,))

    @jax.jit
    def measure(a, elsewhere):
        values, vectors = jax.vmap(sorted_eigen)(a)
        coefficients = jax.vmap(characteristic_polynomial)(a)
        at = jax.vmap(jnp.polyval)
        shifted = a - elsewhere[:, None, None] * jnp.eye(dim)
        return {
            "values": values,
            "residual": a @ vectors - vectors * values[:, None, :],
            "roots": jax.vmap(lambda c: jnp.roots(c, strip_zeros=False))(coefficients),
            "polynomial": at(coefficients, elsewhere),
            "determinant": jnp.linalg.det(shifted) * (-1) ** dim,
            "distinct": jnp.abs(jnp.diff(values, axis=1)).min(1),
            "derivative": jax.vmap(lambda c, x: jnp.polyval(jnp.polyder(c), x))(coefficients, values),
        }

    m = measure(a, elsewhere)
    scale = float(jnp.abs(m["values"]).max())
    yield equal("Av - λv", m["residual"], 0.0, atol=20 * dim * EPS * scale)
    yield equal("polynomial against the determinant", m["polynomial"], m["determinant"], atol=1e-12 * scale**dim)
    # Every coefficient is a sum of products of eigenvalues that may cancel, and an eigensolver finds the roots of a
    # polynomial whose coefficients are off by some dim² roundings of the largest. A root moves by what that does to the
    # polynomial there, over its slope.
    sizes = np.abs(np.asarray(m["values"]))
    terms = np.array([np.poly(-size).max() for size in sizes])  # with the roots -|λ|, so that nothing cancels
    powers = np.sum(sizes[..., None] ** np.arange(dim), axis=-1)
    error = 4 * dim**2 * EPS * terms[:, None] * powers / np.abs(m["derivative"])
    by_size = jnp.sort(m["roots"].real, axis=1)[:, ::-1]
    yield at_most("distance of roots and eigenvalues", jnp.abs(by_size - m["values"]), error)
    yield at_most("imaginary parts of the roots", jnp.abs(m["roots"].imag).max(1), error.max(1))
    double = jnp.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, -1.0]])
    yield equal(
        "polynomial of diag(2, 2, -1): (λ - 2)²(λ + 1)",
        characteristic_polynomial(double),
        jnp.array([1.0, -3.0, 0.0, 4.0]),
    )
    yield control(
        "λ is no eigenvalue",
        equal("polynomial elsewhere", m["polynomial"], 0.0, atol=1e-12 * scale**dim),
    )


@claim(
    rows=("B01.17",),
    erratum="The number of different eigenvalues is not the multiplicity of an eigenvalue as a root.",
)
def count_by_multiplicity(key):
    r"""The number of distinct eigenvalues equals the multiplicity of an eigenvalue as a root.

    As printed: "the number of distinct eigenvalues of $A$ is equal to the multiplicity of $\lambda$ as a root of this
    polynomial". The identity of the plane has one eigenvalue, and $(\lambda-1)^2$ has it as a double root. The
    number of distinct eigenvalues is that of distinct roots.
    """
    polynomial = np.poly1d(np.asarray(characteristic_polynomial(jnp.eye(2))))
    # the first derivative that does not vanish at 1 is that of the order of the multiplicity
    multiplicity = next(k for k in range(1, 3) if abs(polynomial.deriv(k)(1.0)) > 1e-9)
    distinct = np.unique(np.round(np.asarray(sorted_eigen(jnp.eye(2))[0]), 12)).size
    roots = np.unique(np.round(polynomial.roots, 6)).size  # a double root is known to the root of the rounding
    yield equal("number of distinct eigenvalues: of distinct roots", distinct, roots, rtol=0, atol=0)
    yield printed(
        equal("number of distinct eigenvalues: the multiplicity of 1", distinct, multiplicity, rtol=0, atol=0)
    )


@claim(rows=("B01.19",))
def loewner_order(key, *, dim: Size = 4, samples: Size = 200):
    r"""The Loewner order is a partial order of symmetric matrices, and inversion turns it round.

    $A\succcurlyeq B$ means $u^\top(A-B)u\ge0$ for all $u$, for symmetric $A-B$ the same as no negative eigenvalue.
    It is reflexive, transitive and antisymmetric, but $\mathrm{diag}(1,0)$ and $\mathrm{diag}(0,1)$ are not comparable.
    If $A\succcurlyeq B\succ0$ then $B^{-1}\succcurlyeq A^{-1}$.
    """
    keys = jax.random.split(key, 4)
    b = _symmetric(keys[0], samples, dim)
    # bumps of full and of deficient rank; differences of both signs come from independent matrices
    roots = jax.random.normal(keys[1], (2, samples, dim, dim)) * (jnp.arange(dim) < dim - 1)
    one, two = roots @ roots.swapaxes(2, 3)
    other = _symmetric(keys[2], samples, dim)
    u = jax.random.normal(keys[3], (500, dim))
    shift = jnp.linspace(0, 8, samples)[:, None, None] * jnp.eye(dim)  # some are above, some are not

    @jax.jit
    def measure(b, one, two, other, u):
        geq = jax.vmap(loewner_geq)
        a, c = b + one, b + one + two
        definite = one + jnp.eye(dim)
        larger = definite + two
        _, basis = jnp.linalg.eigh(b - other)
        lowest = basis[:, :, 0]  # along it a difference that is not above zero shows a negative form
        return {
            "above": jnp.stack([geq(b, b), geq(a, b), geq(c, a), geq(c, b)]),
            "turned": geq(jnp.linalg.inv(definite), jnp.linalg.inv(larger)),
            "below": geq(b, a),
            "difference": jnp.abs(a - b).max((1, 2)),
            "forms": jnp.einsum("ui,sij,uj->su", u, a - b, u),
            "decided": geq(b + shift, other),
            "lowest": jnp.einsum("si,sij,sj->s", lowest, b + shift - other, lowest),
            "inverted": geq(jnp.linalg.inv(definite - 3 * jnp.eye(dim)), jnp.linalg.inv(larger - 3 * jnp.eye(dim))),
        }

    m = measure(b, one, two, other, u)
    yield equal("B above B, A above B, C above A and so C above B", m["above"], 1.0, atol=0)
    yield equal("inverses of positive definite matrices, turned round", m["turned"], 1.0, atol=0)
    # the bumps are of the order dim², and their forms of the order of the squared length of u
    yield at_least("forms of A - B", m["forms"], 0.0, atol=1e-12)
    yield equal("the order against the sign of the least form", m["decided"], m["lowest"] >= 0, atol=0)
    # antisymmetry: where both hold the difference must vanish, so with a positive difference only one holds
    yield equal("A above B above A, for different matrices", m["below"], 0.0, atol=0)
    yield at_least("their difference", m["difference"], 1e-3)
    one, other = jnp.diag(jnp.array([1.0, 0.0])), jnp.diag(jnp.array([0.0, 1.0]))
    yield equal("diag(1, 0) or diag(0, 1) is above", loewner_geq(one, other) | loewner_geq(other, one), 0.0, atol=0)
    yield control(
        "the matrices are not positive definite",
        equal("inverses, turned round", m["inverted"], 1.0, atol=0),
    )
    small, tall = np.array([[1.0, 0.3], [0.3, 0.6]]), np.diag([0.3, 2.0])
    yield level_curves(nested=(small + np.diag([0.5, 0.3]), small), crossing=(small, tall))


@claim(
    rows=("B01.19",),
    erratum="The criterion by eigenvalues needs a symmetric matrix, which is not assumed.",
)
def definite_by_eigenvalues(key):
    r"""A matrix whose eigenvalues are not negative is positive semi-definite.

    As printed: "$u^\top Au\ge0$ for all $u$, or equivalently all the eigenvalues $\lambda_i$ of $A$ are non-negative",
    for any matrix $A$. The triangular $\begin{pmatrix}1&-10\\0&1\end{pmatrix}$ has the eigenvalues 1, 1 and at
    $u=(1,1)$ the form $-8$. The eigenvalues of the symmetric part $\frac12(A+A^\top)$ decide, here $6$ and $-4$: the
    least form over all $u$ of length one is the least of them.
    """
    a, u = jnp.array([[1.0, -10.0], [0.0, 1.0]]), jnp.ones(2)
    turns = jnp.linspace(0, jnp.pi, 1000, endpoint=False)
    circle = jnp.stack([jnp.cos(turns), jnp.sin(turns)], 1)
    forms = jnp.einsum("ti,ij,tj->t", circle, a, circle)
    yield at_least("eigenvalues", np.linalg.eigvals(np.asarray(a)).real, 0.0)
    yield equal(
        "least form: least eigenvalue of the symmetric part", forms.min(), jnp.linalg.eigvalsh((a + a.T) / 2)[0]
    )
    yield printed(at_least("quadratic form at (1, 1)", u @ a @ u, 0.0))


@claim(rows=("B01.25",))
def symmetric_matrices(key, *, dim: Size = 8, samples: Size = 30):
    r"""The singular values of a symmetric matrix are the absolute eigenvalues; a negative one flips a vector.

    For $A=A^\top$ the multisets $\{\sigma_i\}$ and $\{|\lambda_i|\}$ are equal, and if $|\lambda|$ is simple then
    $u^\top v=\mathrm{sign}\,\lambda$ for its singular vectors: $u=v$ for $\lambda>0$ and $u=-v$ for $\lambda<0$.
    """
    a = jax.random.normal(key, (samples, dim, dim))

    @jax.jit
    def measure(a):
        def one(a):
            symmetric = (a + a.T) / 2
            us, ss, vs = svd(symmetric)
            values = jnp.linalg.eigvalsh(symmetric)
            order = jnp.argsort(-jnp.abs(values))
            return {
                "sigma": ss,
                "sizes": jnp.abs(values)[order],
                "signs": jnp.sign(values)[order],
                "cosine": jnp.sum(us * vs, axis=0),
                "gap": jnp.abs(jnp.diff(ss)).min(),
                "other": singular_values(a),
            }

        return jax.vmap(one)(a)

    m = measure(a)
    rounding = 50 * dim * EPS * float(m["sigma"].max())
    yield equal("singular values against absolute eigenvalues", m["sigma"], m["sizes"], atol=rounding)
    # a singular vector is off by the rounding of the matrix over the gap to the next value, and so is its cosine
    error = 1e2 * rounding / float(m["gap"].min())
    yield equal("cosine of left and right vector: the sign of λ", m["cosine"], m["signs"], atol=error)
    values = np.sort(np.abs(np.linalg.eigvals(np.asarray(a))), axis=1)[:, ::-1]
    yield control(
        "the matrices are not symmetric",
        equal("singular values against absolute eigenvalues", m["other"], values, atol=rounding),
    )


@claim(
    rows=("B01.25",),
    erratum="Index by index the equation needs the eigenvalues in the order of their absolute values.",
)
def singular_values_index_by_index(key):
    r"""The i-th singular value of a symmetric matrix is the absolute value of the i-th eigenvalue.

    As printed: $\sigma_i(A)=|\lambda_i(A)|$, with $\lambda_1\ge\dots\ge\lambda_n$. For $\mathrm{diag}(1,-3)$ the sorted
    eigenvalues are $1,-3$ and the singular values $3,1$: they are the absolute eigenvalues in their own order.
    """
    a = jnp.diag(jnp.array([1.0, -3.0]))
    sizes = jnp.abs(sorted_eigen(a)[0])
    yield equal("singular values: absolute eigenvalues, sorted anew", singular_values(a), jnp.sort(sizes)[::-1])
    yield printed(equal("singular values: absolute eigenvalues, index by index", singular_values(a), sizes))
