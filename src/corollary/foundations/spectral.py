"""Eigenvalues, the Loewner order, and the singular value decomposition."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements


@implements("B01.17")
def sorted_eigen(a: Float[ArrayLike, "n n"]) -> tuple[Float[Array, "_"], Float[Array, "_ _"]]:
    r"""Eigenvalues $\lambda_1\ge\dots\ge\lambda_n$ of a symmetric matrix, and its eigenvectors as columns."""
    values, vectors = jnp.linalg.eigh(_symmetric("a", a))
    return values[::-1], vectors[:, ::-1]


@implements("B01.17")
def characteristic_polynomial(a: Float[ArrayLike, "n n"]) -> Float[Array, "_"]:
    r"""Coefficients of $\det(\lambda I-A)$, highest power first, by the recursion of Faddeev and Le Verrier.

    $M_k=AM_{k-1}+c_{k-1}I$ and $c_k=-\frac1k\mathrm{tr}(AM_k)$ from $M_0=0$, $c_0=1$. Exact in exact arithmetic; in
    floating point for small matrices only.
    """
    a = real("a", a, "n n")
    eye = jnp.eye(a.shape[0], dtype=a.dtype)

    def advance(carry, k):
        m, c = carry
        m = a @ m + c * eye
        c = -jnp.trace(a @ m) / k
        return (m, c), c

    start = jnp.zeros_like(a), jnp.ones((), a.dtype)
    _, rest = jax.lax.scan(advance, start, jnp.arange(1, a.shape[0] + 1, dtype=a.dtype))
    return jnp.concatenate([jnp.ones(1, a.dtype), rest])


@implements("B01.19")
def is_psd(a: Float[ArrayLike, "n n"], tolerance: Scalar | None = None) -> Bool[Array, ""]:
    r"""Whether $u^\top Au\ge0$ for all $u$: no negative eigenvalue of the symmetric part $(A+A^\top)/2$.

    Of a matrix that is not symmetric the eigenvalues of `a` itself decide nothing. `tolerance` is the size of a
    negative eigenvalue that counts as zero; by default what rounding can leave.
    """
    a = real("a", a, "n n")
    values = jnp.linalg.eigvalsh((a + a.T) / 2)
    if tolerance is None:
        tolerance = 10 * a.shape[0] * jnp.finfo(values.dtype).eps * jnp.abs(values).max()
    else:
        tolerance = within("tolerance", real("tolerance", tolerance, ""), 0.0)
    return values[0] >= -tolerance


@implements("B01.19")
def loewner_geq(
    a: Float[ArrayLike, "n n"], b: Float[ArrayLike, "n n"], tolerance: Scalar | None = None
) -> Bool[Array, ""]:
    r"""$A\succcurlyeq B$: $A-B$ is positive semi-definite. A partial order on symmetric matrices."""
    a, b = _symmetric("a", a), _symmetric("b", b)
    if a.shape != b.shape:
        raise ValueError(f"a and b must have the same shape, got {a.shape} and {b.shape}.")
    if tolerance is None:
        scale = jnp.linalg.norm(a) + jnp.linalg.norm(b)  # the difference inherits the rounding of both
        tolerance = 10 * a.shape[0] * jnp.finfo(scale.dtype).eps * scale
    return is_psd(a - b, tolerance)


@implements("B01.20")
def singular_values(a: Float[ArrayLike, "m n"]) -> Float[Array, "_"]:
    r"""$\sigma_i(A)=\sqrt{\lambda_i(A^\top A)}=\sqrt{\lambda_i(AA^\top)}$ for $i\le\min(m,n)$, in decreasing order."""
    return jnp.linalg.svd(real("a", a, "m n"), compute_uv=False)


@implements("B01.20")
def numerical_rank(a: Float[ArrayLike, "m n"], tolerance: Scalar | None = None) -> Int[Array, ""]:
    """The number of singular values above `tolerance`, by default what rounding makes of zero."""
    s = singular_values(a)
    if tolerance is None:
        tolerance = max(jnp.shape(a)) * jnp.finfo(s.dtype).eps * s[0]
    else:
        tolerance = within("tolerance", real("tolerance", tolerance, ""), 0.0)
    return jnp.sum(s > tolerance)


class SVD(NamedTuple):
    r"""$A=UDV^\top$ with orthogonal `u` (m, m) and `v` (n, n), and the diagonal of $D$ in decreasing order."""

    u: jax.Array
    s: jax.Array
    v: jax.Array

    __repr__ = shown

    @property
    def d(self) -> Float[Array, "_ _"]:
        """The diagonal as an (m, n) matrix, padded with zeros."""
        m, n = self.u.shape[0], self.v.shape[0]
        return jnp.zeros((m, n), self.s.dtype).at[jnp.arange(self.s.size), jnp.arange(self.s.size)].set(self.s)


@implements("B01.21")
def svd(a: Float[ArrayLike, "m n"]) -> SVD:
    """The full singular value decomposition of a real matrix."""
    u, s, vh = jnp.linalg.svd(real("a", a, "m n"), full_matrices=True)
    return SVD(u, s, vh.T)


@implements("B01.21")
def jacobi_svd(a: Float[ArrayLike, "m n"], sweeps: int = 12) -> SVD:
    r"""The thin decomposition of a tall matrix (m >= n) from scratch, by one-sided Jacobi rotations.

    Each rotation of two columns makes them orthogonal; after a few sweeps over all pairs all are, and they are the
    $\sigma_iu_i$. `u` has shape (m, n), with zero columns where $\sigma_i=0$. For reading: `svd` is faster.
    """
    a, sweeps = real("a", a, "m n"), whole("sweeps", sweeps)
    m, n = a.shape
    if m < n:
        raise ValueError(f"a must have at least as many rows as columns, got shape {a.shape}; transpose it.")
    pairs = jnp.array(np.stack(np.triu_indices(n, 1), 1).reshape(-1, 2))

    def rotate(state, pair):
        columns, v = state
        i, j = pair
        x, y = columns[:, i], columns[:, j]
        alpha, beta, gamma = x @ x, y @ y, x @ y
        zeta = (beta - alpha) / (2 * jnp.where(gamma == 0, 1, gamma))
        t = jnp.where(zeta >= 0, 1.0, -1.0) / (jnp.abs(zeta) + jnp.hypot(1, zeta))
        t = jnp.where(gamma == 0, 0, t).astype(a.dtype)
        c = 1 / jnp.hypot(1, t)
        s = c * t

        def turn(matrix):
            p, q = matrix[:, i], matrix[:, j]
            return matrix.at[:, i].set(c * p - s * q).at[:, j].set(s * p + c * q)

        return (turn(columns), turn(v)), None

    def sweep(state, _):
        return jax.lax.scan(rotate, state, pairs)[0], None

    (columns, v), _ = jax.lax.scan(sweep, (a, jnp.eye(n, dtype=a.dtype)), length=sweeps if n > 1 else 0)
    s = jnp.linalg.norm(columns, axis=0)
    order = jnp.argsort(-s)
    u = columns / jnp.where(s > 0, s, 1)
    return SVD(u[:, order], s[order], v[:, order])


@implements("B01.23")
def rank_one_terms(a: Float[ArrayLike, "m n"]) -> Float[Array, "_ m n"]:
    r"""The terms $\sigma_iu_iv_i^\top$ of $A=\sum_i\sigma_iu_iv_i^\top$, largest first: shape (min(m, n), m, n)."""
    u, s, vh = jnp.linalg.svd(real("a", a, "m n"), full_matrices=False)
    return s[:, None, None] * u.T[:, :, None] * vh[:, None, :]


@implements("B01.23")
def truncation_errors(a: Float[ArrayLike, "m n"]) -> Float[Array, "_"]:
    r"""$\|A-A_k\|_F=(\sum_{i>k}\sigma_i^2)^{1/2}$ of the sum of the first $k$ terms, for $k=0,\dots,\min(m,n)$."""
    s = singular_values(a)
    tail = jnp.cumsum((s**2)[::-1])[::-1]
    return jnp.sqrt(jnp.append(tail, 0))


class Geometry(NamedTuple):
    r"""A unit circle and its images under $V^\top$, $DV^\top$ and $UDV^\top=A$, each of shape (points, 2)."""

    circle: jax.Array
    rotated: jax.Array
    scaled: jax.Array
    image: jax.Array

    __repr__ = shown


@implements("B01.24")
def svd_geometry(a: Float[ArrayLike, "2 2"], points: int = 360) -> Geometry:
    """What each factor of a 2 x 2 matrix does to the unit circle; the first point is (1, 0)."""
    parts = svd(real("a", a, "2 2"))
    phi = 2 * jnp.pi * jnp.arange(whole("points", points, 4)) / points
    circle = jnp.stack([jnp.cos(phi), jnp.sin(phi)], 1).astype(parts.s.dtype)
    rotated = circle @ parts.v
    scaled = rotated * parts.s
    return Geometry(circle, rotated, scaled, scaled @ parts.u.T)


def _symmetric(name, a):
    a = real(name, a, "n n")
    if concrete(a):
        v = np.asarray(a, float)
        if (np.abs(v - v.T) > 1e3 * float(jnp.finfo(a.dtype).eps) * np.abs(v).max()).any():
            raise ValueError(f"{name} must be symmetric, got entries that differ from their transpose.")
    return a
