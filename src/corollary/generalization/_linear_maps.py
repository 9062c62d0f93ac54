r"""The largest singular value of a linear layer: from below by Lanczos, from above by bounds that need no iteration.

A convolution is the operator that it is on inputs of one shape, zeros around them included. What is small is written
out as a matrix, and both values are its norm. Otherwise the norm from above is the least of three. On a torus large
enough that nothing that goes around it is seen, the convolution is a part of one without an edge, whose norm is the
largest over the frequencies of the matrix between channels; strides become channels, one for each phase. The second is
$\sqrt{\|A\|_1\|A\|_\infty}$, the largest column and row sums of the moduli, and the third the Frobenius norm.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary._engine.cpu_ready import cpu_ready

#: A map with no more inputs or outputs than this, whichever are fewer, is written out as a matrix ...
FEW = 1024
#: ... unless the matrix had more entries than this.
MOST = 2**24
#: How many steps Lanczos makes, each a product with the map and one with its transpose.
STEPS = 48


class Size(NamedTuple):
    """Lower and upper value of the largest singular value, and the Frobenius norm."""

    lower: Any
    upper: Any
    frobenius: Any


class Convolution(NamedTuple):
    """What a convolution is beside its kernel; hashable."""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    numbers: Any
    groups: int
    batch_groups: int

    @classmethod
    def of(cls, params: dict) -> "Convolution":
        """From the parameters of the operation."""
        names = "window_strides", "padding", "lhs_dilation", "rhs_dilation"
        fixed = (tuple(tuple(p) if isinstance(p, tuple | list) else int(p) for p in params[n]) for n in names)
        groups = params["feature_group_count"], params["batch_group_count"]
        return cls(*fixed, params["dimension_numbers"], *groups)

    def __call__(self, x, kernel):
        return lax.conv_general_dilated(
            x,
            kernel,
            self.strides,
            self.padding,
            self.lhs_dilation,
            self.rhs_dilation,
            self.numbers,
            self.groups,
            self.batch_groups,
            lax.Precision.HIGHEST,
        )


@jax.jit
def matrix_size(matrices, key) -> Size:
    """Of a matrix that is a block for each of the `matrices` (groups, m, n)."""
    frobenius = jnp.sqrt(jnp.sum(matrices**2))
    if matrices.shape[1] > matrices.shape[2]:
        matrices = matrices.transpose(0, 2, 1)
    if matrices.shape[1] <= 2 * FEW:
        return _exact(matrices, frobenius)
    size = matrices[:, :, 0].size

    def squared(v):
        v = jnp.einsum("gmn,gm->gn", matrices, v.reshape(matrices.shape[:2]), precision="highest")
        return jnp.einsum("gmn,gn->gm", matrices, v, precision="highest").ravel()

    gram = jnp.einsum("gmn,gkn->gmk", matrices, matrices, precision="highest")
    return _ordered(_lanczos(squared, size, key, frobenius.dtype), _schatten(gram), frobenius)


@partial(jax.jit, static_argnums=(1, 2))
def convolution_size(kernel, conv: Convolution, shape: tuple, key) -> Size:
    """Of a convolution on inputs of this shape, all its axes included."""
    return _size(lambda x: conv(x, kernel), shape, kernel.dtype, key, *_above(kernel, conv, shape))


def map_size(linear, shape: tuple, dtype, key, upper, frobenius) -> Size:
    """Of any linear map of arrays of this shape, for which `upper` bounds its norm, and `frobenius` is known."""
    return jax.jit(partial(_size, linear, shape, dtype))(key, upper, frobenius)


@partial(jax.jit, static_argnums=(1, 2))
def convolution_above(kernel, conv: Convolution, shape: tuple):
    """The bound from above alone."""
    return _above(kernel, conv, shape)[0]


def _size(linear, shape, dtype, key, upper, frobenius) -> Size:
    one = jax.ShapeDtypeStruct(shape, dtype)
    out = jax.eval_shape(linear, one)
    back = jax.linear_transpose(linear, one)
    inputs, outputs = math.prod(shape), math.prod(out.shape)
    if is_few(inputs, outputs):
        first, start = (linear, shape) if inputs <= outputs else (lambda u: back(u)[0], out.shape)
        eye = jnp.eye(min(inputs, outputs), dtype=dtype).reshape(-1, *start)
        matrix = jax.vmap(first)(eye).reshape(eye.shape[0], -1)
        return _exact(matrix[None], jnp.linalg.norm(matrix))

    def squared(v):
        if inputs <= outputs:
            return back(linear(v.reshape(shape)))[0].ravel()
        return linear(back(v.reshape(out.shape))[0]).ravel()

    return _ordered(_lanczos(squared, min(inputs, outputs), key, dtype), upper, frobenius)


def is_few(inputs: int, outputs: int) -> bool:
    """Whether a map is written out as a matrix."""
    return min(inputs, outputs) <= FEW and inputs * outputs <= MOST


def _exact(matrices, frobenius) -> Size:
    gram = jnp.einsum("gmn,gkn->gmk", matrices, matrices.conj(), precision="highest")
    top = jnp.sqrt(jnp.maximum(jnp.max(jnp.linalg.eigvalsh(gram)[:, -1]), 0))
    off = _rounding(gram)
    return Size(top * (1 - off), top * (1 + off), frobenius)


def _rounding(gram):
    # an eigenvalue is off by the length of the sums times the last digit, and its root by half of that
    return gram.shape[-1] * jnp.finfo(gram.dtype).eps


def _ordered(lower, upper, frobenius) -> Size:
    upper = jnp.minimum(upper, frobenius)
    return Size(lower, upper, frobenius)


def _lanczos(squared, size, key, dtype):
    """The root of a Ritz value of the square of the map, which is at most its largest eigenvalue.

    A fixed number of steps, all vectors kept orthogonal: `landscape.eigenpairs` does more, and takes seconds to compile
    for each shape.
    """
    steps, eps, product_with = min(STEPS, size), jnp.finfo(dtype).eps, cpu_ready(squared)

    def advance(carry, j):
        basis, v = carry
        basis = basis.at[j].set(v)
        image = product_with(v)
        rest = image - (basis @ image) @ basis
        rest = rest - (basis @ rest) @ basis
        length = jnp.linalg.norm(rest)
        # nothing but rounding is left of an invariant subspace: there it ends
        goes_on = length > 16 * eps * jnp.linalg.norm(image)
        ahead = jnp.where(goes_on, rest / jnp.where(goes_on, length, 1), 0)
        return (basis, ahead), (v @ image, jnp.where(goes_on, length, 0))

    start = jax.random.normal(key, (size,), dtype)
    begin = jnp.zeros((steps, size), dtype), start / jnp.linalg.norm(start)
    _, (diagonal, beside) = lax.scan(advance, begin, jnp.arange(steps))
    projected = jnp.diag(diagonal) + jnp.diag(beside[:-1], 1) + jnp.diag(beside[:-1], -1)
    top = jnp.linalg.eigvalsh(projected)[-1]
    return jnp.sqrt(jnp.maximum(top, 0)) * (1 - 64 * eps)


def _schatten(gram, squarings: int = 3):
    r"""$\|G^{2^s}\|_F^{1/2^{s+1}}\ge\|A\|$ for blocks $G=AA^\top$, $s$ = `squarings`."""
    log = jnp.zeros((), gram.dtype)
    for i in range(squarings):
        scale = jnp.max(jnp.linalg.norm(gram, axis=(1, 2)))
        gram = gram / jnp.where(scale > 0, scale, 1)
        log = log + jnp.log(jnp.where(scale > 0, scale, 1)) / 2**i
        gram = jnp.einsum("gmn,gnk->gmk", gram, gram, precision="highest")
    top = jnp.max(jnp.linalg.norm(gram, axis=(1, 2)))
    power = jnp.exp((log + jnp.log(top) / 2**squarings) / 2)
    return power * (1 + _rounding(gram))


# --- convolutions from above


def _above(kernel, conv, shape):
    """The bound from above and the Frobenius norm."""

    def linear(x, weight):
        return conv(x, weight)

    ones = jnp.ones(shape, kernel.dtype)
    sizes = jnp.abs(kernel)
    rows = linear(ones, sizes)
    columns = jax.linear_transpose(lambda x: linear(x, sizes), ones)(jnp.ones_like(rows))[0]
    # every entry of the input meets one of the output through one entry of the kernel at most
    frobenius = jnp.sqrt(jnp.sum(linear(ones, kernel**2)))
    slack = 1 + math.prod(kernel.shape[a] for a in conv.numbers.rhs_spec[1:]) * jnp.finfo(kernel.dtype).eps
    upper = jnp.minimum(jnp.sqrt(jnp.max(rows) * jnp.max(columns)), frobenius) * slack
    if conv.batch_groups == 1:
        upper = jnp.minimum(upper, _torus(kernel, conv, shape))
    return upper, frobenius


class _Axis(NamedTuple):
    """One axis of the torus: the phase that each tap belongs to, on which side, and its factor at each frequency."""

    factors: np.ndarray  # (taps, phases, frequencies)
    on_input: bool


def _axis(taps: int, size: int, outputs: int, stride: int, low: int, spread: int, dilation: int) -> _Axis:
    """`spread` is the dilation of the input, `dilation` that of the kernel, `low` the padding before."""
    if stride > 1 and spread > 1:
        # all outputs and not every so manyth: the map is a part of that one
        outputs, stride = (outputs - 1) * stride + 1, 1
    offset = np.arange(taps) * dilation - low
    if spread == 1:  # output i meets input stride · (i + shift) + phase
        shift, phase = np.divmod(offset, stride)
        inputs, rows = -(-size // stride), outputs
    else:  # output spread · j + phase meets input j + shift
        phase = -offset % spread
        shift = (offset + phase) // spread
        inputs, rows = size, -(-outputs // spread)
    # a difference of positions is seen as no other one of the kernel's, all around the torus
    period = 1 + max(inputs - 1 - shift.min(), shift.max() + rows - 1, inputs - 1, rows - 1)
    phases = max(stride, spread)
    factors = np.zeros((taps, phases, period), complex)
    waves = np.exp(2j * np.pi * shift[:, None] * np.arange(period) / period)
    factors[np.arange(taps), phase] = waves
    return _Axis(factors, spread == 1)


def _torus(kernel, conv: Convolution, shape):
    """The largest norm of the matrix between channels, over the frequencies of a torus that holds the input."""
    lhs, rhs, _ = conv.numbers
    kernel = kernel.transpose(rhs)
    one = jax.ShapeDtypeStruct(shape, kernel.dtype)
    out = jax.eval_shape(lambda x: conv(x, kernel.transpose(np.argsort(rhs))), one).shape
    axes = [
        _axis(kernel.shape[2 + i], shape[lhs[2 + i]], out[conv.numbers.out_spec[2 + i]], s, p[0], t, r)
        for i, (s, p, t, r) in enumerate(
            zip(conv.strides, conv.padding, conv.lhs_dilation, conv.rhs_dilation, strict=True)
        )
    ]
    blocks = kernel.reshape(conv.groups, -1, *kernel.shape[1:])
    periods = [axis.factors.shape[2] for axis in axes]
    # the matrix at a frequency and that at its negative are conjugate: half of the first axis is enough
    places = np.array(list(product(range(periods[0] // 2 + 1), *map(range, periods[1:]))))
    tables = [jnp.asarray(axis.factors, jnp.result_type(kernel.dtype, jnp.complex64)) for axis in axes]
    letters = "abcdef"
    outside = "".join(x.upper() for x, axis in zip(letters, axes, strict=False) if not axis.on_input)
    inside = "".join(x.upper() for x, axis in zip(letters, axes, strict=False) if axis.on_input)
    taps = letters[: len(axes)]
    rule = f"goi{taps}," + ",".join(f"{x}{x.upper()}" for x in taps) + f"->go{outside}i{inside}"
    rows = blocks.shape[1] * math.prod(a.factors.shape[1] for a in axes if not a.on_input)

    def norm(place):
        waves = [table[:, :, place[i]] for i, table in enumerate(tables)]
        symbol = jnp.einsum(rule, blocks, *waves, precision="highest").reshape(conv.groups, rows, -1)
        if symbol.shape[1] > symbol.shape[2]:
            symbol = symbol.transpose(0, 2, 1)
        return _exact(symbol, 0.0).upper

    return jnp.max(lax.map(norm, jnp.asarray(places)))
