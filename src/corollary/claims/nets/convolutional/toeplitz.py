"""Convolutions as matrices: what they look like, what they can do, and how many numbers they hold."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets.convolutional._images import image
from corollary.evidence import Range, claim, control, equal
from corollary.nets import matrix_of
from corollary.nets.convolutional import (
    convolution_weights,
    convolve,
    cross_correlate,
    dense_weights,
    is_toeplitz,
    toeplitz_matrix,
)

EXACT = {"rtol": 0.0, "atol": 0.0}


@claim(rows=("E04.11", "B10.06", "B10.66", "B10.67"))
def toeplitz_form(key, *, length: Annotated[int, Range(6, 100)] = 10, taps: Annotated[int, Range(4, 6)] = 4):
    r"""A convolution is a matrix with constant diagonals, injective if its whole result is kept.

    For a kernel of $m$ entries and signals of $n$, $f*h=Hf$ with $H\in\mathbb R^{(n+m-1)\times n}$,
    $H_{ij}=h_{i-j+1}$ for $1\le i-j+1\le m$ and 0 elsewhere: $nm$ entries that are not zero, with $m$ different values;
    $H^\top g$ is the cross-correlation of $g$ with $h$; the rank is $n$ for every $h\ne0$, because the product of two
    polynomials is zero only if one of them is. The part without padding is $W_h\in\mathbb R^{(n-m+1)\times n}$, whose
    row $k$ is the reversed kernel in the columns $k..k+m-1$, of full rank too. In two dimensions the blocks are
    Toeplitz, and so is their arrangement. The matrices $W_h$ form a space of dimension $m$, as many as the kernel has
    entries, within the $n(n-m+1)$ of a dense layer. A layer with a kernel of its own at each place is not among them,
    and on a circle a kernel may erase a signal: $(1,-1)$ erases constants.
    """

    @jax.jit
    def measure(key):
        h_key, g_key, place_key = jax.random.split(key, 3)
        # different entries, none of them zero
        h = jax.random.permutation(h_key, jnp.arange(1.0, taps + 1)) * jnp.where(jnp.arange(taps) % 2, -1, 1)
        g = jax.random.randint(g_key, (length + taps - 1,), -9, 10).astype(float)
        full = matrix_of(lambda f: convolve(f, h), length)
        valid = matrix_of(lambda f: convolve(f, h, "valid"), length)
        kernel = h.reshape(2, -1)[:, :2]
        plane = matrix_of(lambda f: convolve(f.reshape(4, 3), kernel).ravel(), 12)
        span = jax.vmap(lambda e: toeplitz_matrix(e, length, "valid").ravel())(jnp.eye(taps))
        local = jax.random.normal(place_key, (length - taps + 1, taps))
        # kernels with zeros of their polynomial on the unit circle, where a convolution is least invertible
        hard = jnp.array([[1.0, -1, 0, 0], [1, -2, 1, 0], [1, 0, 1, 0], [0, 0, 1, 1]])
        many = jax.vmap(lambda h: toeplitz_matrix(h, length))(hard)
        wheel = toeplitz_matrix(hard[0, :2], length, "circular")
        formulas = toeplitz_matrix(h, length), toeplitz_matrix(kernel, (4, 3))
        return h, g, full, valid, plane, span, cross_correlate(h, g), local, many, wheel, formulas

    found = jax.tree.map(np.asarray, measure(key))
    h, g, full, valid, plane, span, adjoint, local, many, wheel, (formula, blocks) = found
    yield image("the matrix of a convolution", full)
    yield equal("entries against the formula", full, formula, **EXACT)
    yield equal("entries that are not zero", np.count_nonzero(full), length * taps, **EXACT)
    yield equal("different values", np.unique(full[full != 0]).size, taps, **EXACT)
    yield equal("transposed: the correlation", full.T @ g, adjoint, **EXACT)
    rows = np.zeros_like(valid)
    for k in range(length - taps + 1):
        rows[k, k : k + taps] = h[::-1]
    yield equal("without padding: the reversed kernel along the rows", valid, rows, **EXACT)
    yield equal("constant diagonals", [is_toeplitz(full), is_toeplitz(valid)], 1.0, **EXACT)
    yield equal("two dimensions: blocks in the Toeplitz arrangement", plane, blocks, **EXACT)
    ranks = [np.linalg.matrix_rank(matrix) for matrix in (full, *many)]
    yield equal("rank of the whole result", ranks, length, **EXACT)
    yield equal("rank without padding", np.linalg.matrix_rank(valid), length - taps + 1, **EXACT)
    layer = eqx.filter_eval_shape(eqx.nn.Conv1d, 1, 1, taps, use_bias=False, key=key)
    dense = eqx.filter_eval_shape(eqx.nn.Linear, length, length - taps + 1, use_bias=False, key=key)
    yield equal("dimension of the space of convolutions", np.linalg.matrix_rank(span), taps, **EXACT)
    counted = [sum(leaf.size for leaf in jax.tree.leaves(made)) for made in (layer, dense)]
    formulas = [convolution_weights(1, 1, taps, bias=False), dense_weights(1, 1, taps, length)]
    yield equal("parameters of both layers, counted", counted, formulas, **EXACT)
    yield control("around a circle", equal("rank", np.linalg.matrix_rank(wheel), length, **EXACT))
    own = np.zeros_like(valid)
    for k in range(length - taps + 1):
        own[k, k : k + taps] = local[k]
    best = np.linalg.lstsq(span.T, own.ravel(), rcond=None)[0]
    yield control(
        "a kernel of its own at each place",
        equal("matrix against the nearest convolution", own.ravel(), span.T @ best, rtol=1e-6),
    )
