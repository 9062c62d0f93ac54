r"""The graph Fourier transform, filters in its domain, and filters by polynomials that never go there."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import concrete, positive, real, whole
from corollary.catalog import implements


@implements("E07.24")
class GraphFourier(eqx.Module):
    r"""$L=U\Lambda U^\top$: the columns of `basis` are the waves of the graph, `frequencies` their eigenvalues.

    Frequencies increase. Where one repeats, the basis of its space is arbitrary.
    """

    basis: jax.Array
    frequencies: jax.Array

    def __init__(self, laplacian: Float[ArrayLike, "m m"]):
        self.frequencies, self.basis = jnp.linalg.eigh(_symmetric(laplacian))

    def forward(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$\hat x=U^\top x$ for a signal (m,) or several (m, d)."""
        return self.basis.T @ _signal(x, self.basis.shape[0])

    def inverse(self, spectrum: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$x=U\hat x$."""
        return self.basis @ _signal(spectrum, self.basis.shape[0], "spectrum")


@implements("E07.25")
def graph_convolve(
    x: Float[ArrayLike, "m"], y: Float[ArrayLike, "m"], basis: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$x*y=U(U^*x\odot U^*y)$ for signals (m,) and an orthonormal basis, real or complex.

    Commutative and linear in both; depends on the basis where frequencies repeat. On a cycle with the complex Fourier
    basis it is the circular convolution divided by $\sqrt m$.
    """
    basis = jnp.asarray(basis)
    if basis.ndim != 2 or basis.shape[0] != basis.shape[1]:
        raise ValueError(f"basis must be a square matrix, got shape {basis.shape}.")
    m = basis.shape[0]
    x, y = real("x", x, str(m), finite=False), real("y", y, str(m), finite=False)
    back = jnp.conj(basis.T)
    return basis @ ((back @ x) * (back @ y))


@implements("E07.26")
def spectral_filter(
    laplacian: Float[ArrayLike, "m m"], response: Callable, x: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$G(L)x=UG(\Lambda)U^\top x$ for an entrywise `response` $G$ to the frequencies; takes an eigendecomposition."""
    waves = GraphFourier(laplacian)
    spectrum = waves.forward(x)
    gain = response(waves.frequencies)
    return waves.inverse(gain.reshape(-1, *[1] * (spectrum.ndim - 1)) * spectrum)


@implements("E07.26", "E07.27")
def polynomial_filter(
    laplacian: Float[ArrayLike, "m m"] | Callable, coefficients: Float[ArrayLike, "k"], x: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    r"""$\sum_{k=0}^K\alpha_kL^kx$ by $K$ products with $L$, which is a matrix or a function $x\mapsto Lx$.

    The value at a vertex depends on those at distance $K$ or less. For many terms use `chebyshev_filter`: powers of
    $L$ lose digits.
    """
    apply, x = _operator(laplacian, x)
    coefficients = real("coefficients", coefficients, "k").astype(x.dtype)

    def horner(total, alpha):
        return apply(total) + alpha * x, None

    return jax.lax.scan(horner, coefficients[-1] * x, coefficients[:-1], reverse=True)[0]


@implements("E07.26")
def chebyshev_coefficients(response: Callable, order: int, top: float) -> np.ndarray:
    r"""The coefficients (order + 1,) of the polynomial that meets `response` in the Chebyshev points of $[0,top]$."""
    order = whole("order", order, 0)
    positive("top", top)
    angle = np.pi * (np.arange(order + 1) + 0.5) / (order + 1)
    values = np.asarray(response(top / 2 * (1 + np.cos(angle))), float)
    out = 2 / (order + 1) * np.cos(np.outer(np.arange(order + 1), angle)) @ values
    out[0] /= 2
    return out


@implements("E07.26")
def chebyshev_filter(
    laplacian: Float[ArrayLike, "m m"] | Callable,
    coefficients: Float[ArrayLike, "k"],
    x: Float[ArrayLike, "..."],
    *,
    top: Scalar,
) -> Float[Array, "..."]:
    r"""$\sum_kc_kT_k(\frac2{top}L-I)x$ by one product with $L$ a term; `top` is at least the largest eigenvalue."""
    apply, x = _operator(laplacian, x)
    top = positive("top", real("top", top, ""))
    coefficients = real("coefficients", coefficients, "k").astype(x.dtype)

    def scaled(v):
        return (2 / top).astype(x.dtype) * apply(v) - v

    def advance(state, c):
        before, now, total = state
        return (now, 2 * scaled(now) - before, total + c * now), None

    # T_{-1} = T_1 makes the first step of the recurrence like the others
    state = (scaled(x), x, jnp.zeros_like(x))
    return jax.lax.scan(advance, state, coefficients)[0][2]


@implements("E07.28")
def eigendecomposition_cost(nodes: int) -> float:
    r"""$\frac43m^3$ multiplications and additions to make a symmetric matrix tridiagonal by reflections.

    The first stage of every direct eigensolver; its vectors and the change of basis cost as much again a few times.
    """
    return 4 / 3 * whole("nodes", nodes) ** 3


@implements("E07.28")
def polynomial_filter_cost(nodes: int, edges: int, order: int) -> int:
    r"""Multiplications and additions of $\sum_{k\le K}\alpha_kL^kx$ on a graph given by its edges.

    Each of $K$ steps has $2|E|$ additions in $Ax$, $2m$ operations in $Dx-Ax$ and $2m$ to add $\alpha_kx$; the first
    term has $m$ products.
    """
    nodes, edges, order = whole("nodes", nodes), whole("edges", edges, 0), whole("order", order, 0)
    return order * (2 * edges + 4 * nodes) + nodes


def _symmetric(laplacian):
    out = real("laplacian", laplacian, "m m", {})
    if concrete(laplacian):
        seen = np.asarray(laplacian)
        # a normalised Laplacian is symmetric up to the rounding of its entries
        if not np.allclose(seen, seen.T, rtol=0, atol=100 * np.finfo(out.dtype).eps * np.abs(seen).max()):
            raise ValueError("laplacian must be symmetric.")
    return out


def _signal(x, m, name="x"):
    x = real(name, x, finite=False)
    if x.ndim not in (1, 2) or x.shape[0] != m:
        raise ValueError(f"{name} must be a signal ({m},) or several ({m}, d), got shape {x.shape}.")
    return x


def _operator(laplacian, x):
    if callable(laplacian):
        return laplacian, real("x", x, finite=False)
    matrix = _symmetric(laplacian)
    return (lambda v: matrix @ v), _signal(x, matrix.shape[0])
