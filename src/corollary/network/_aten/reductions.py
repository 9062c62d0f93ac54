"""Operators that make one number of many: sums, moments, norms, extremes, running sums.

Where a maximum is reached several times, those that also say where have it at the first place, and so has its
derivative; those that do not (`amax`, `max` over everything) share the derivative evenly, in PyTorch as in JAX.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary.network._aten.pointwise import absolute
from corollary.network._aten.table import aten


def _axes(dim):
    """PyTorch's dimensions as axes: none, or no dimensions at all, are all of them."""
    if dim is None or dim == ():
        return None
    return dim if isinstance(dim, int) else tuple(dim)


@aten("sum")
def sum_(self, dim=None, keepdim=False, dtype=None):
    return jnp.sum(self, _axes(dim), dtype=dtype, keepdims=keepdim)


@aten("mean")
def mean(self, dim=None, keepdim=False, dtype=None):
    return jnp.mean(self, _axes(dim), dtype=dtype, keepdims=keepdim)


@aten("prod")
def prod(self, dim=None, keepdim=False, dtype=None):
    return jnp.prod(self, _axes(dim), dtype=dtype, keepdims=keepdim)


@aten("var")
def var(self, dim=None, correction=None, keepdim=False, unbiased=True):
    axes = _axes(dim)
    n = self.size if axes is None else int(np.prod([self.shape[d] for d in np.atleast_1d(axes)]))
    centred = self - jnp.mean(self, axes, keepdims=True)
    correction = (1 if unbiased else 0) if correction is None else correction
    return jnp.sum(jnp.square(centred), axes, keepdims=keepdim) / max(n - correction, 0)


@aten("std")
def std(self, dim=None, correction=None, keepdim=False, unbiased=True):
    return _root(var(self, dim, correction, keepdim, unbiased))


@aten("var_mean")
def var_mean(self, dim=None, correction=None, keepdim=False, unbiased=True):
    return var(self, dim, correction, keepdim, unbiased), jnp.mean(self, _axes(dim), keepdims=keepdim)


@aten("std_mean")
def std_mean(self, dim=None, correction=None, keepdim=False, unbiased=True):
    return std(self, dim, correction, keepdim, unbiased), jnp.mean(self, _axes(dim), keepdims=keepdim)


def _root(a):
    """The square root, with the derivative 0 at 0, as norms and deviations have it."""
    positive = a > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, a, 1)), jnp.where(a == 0, 0, a))


@aten("linalg_vector_norm")
def vector_norm(self, ord=2, dim=None, keepdim=False, dtype=None):
    axes = _axes(dim)
    if ord == 2:
        return _root(jnp.sum(jnp.square(self), axes, keepdims=keepdim))
    size = absolute(self)
    if ord == 1:
        return jnp.sum(size, axes, keepdims=keepdim)
    if ord == 0:
        return jnp.sum(self != 0, axes, keepdims=keepdim)
    if np.isinf(ord):
        return (jnp.max if ord > 0 else jnp.min)(size, axes, keepdims=keepdim)
    total = jnp.sum(jnp.where(size > 0, size, 0 if ord > 0 else size) ** ord, axes, keepdims=keepdim)
    positive = total > 0
    return jnp.where(positive, jnp.where(positive, total, 1) ** (1 / ord), 0)


@aten("norm")
def norm(self, p=2, dim=None, keepdim=False, dtype=None):
    return vector_norm(self, 2 if p is None else p, dim, keepdim)


@aten("amax", "max")
def amax(self, dim=None, keepdim=False):
    return jnp.max(self, _axes(dim), keepdims=keepdim)


@aten("amin", "min")
def amin(self, dim=None, keepdim=False):
    return jnp.min(self, _axes(dim), keepdims=keepdim)


@aten("max.dim")
def max_dim(self, dim, keepdim=False):
    return _at(self, jnp.argmax(self, dim), dim, keepdim)


@aten("min.dim")
def min_dim(self, dim, keepdim=False):
    return _at(self, jnp.argmin(self, dim), dim, keepdim)


@aten("median.dim")
def median_dim(self, dim=-1, keepdim=False):
    """The lower one of two."""
    order = jnp.argsort(self, dim, stable=True)
    return _at(self, jnp.take(order, (self.shape[dim] - 1) // 2, dim), dim, keepdim)


def _at(self, index, dim, keepdim):
    where = jnp.expand_dims(index, dim)
    values = jnp.take_along_axis(self, where, dim)
    return (values, where) if keepdim else (jnp.squeeze(values, dim), index)


@aten("argmax")
def argmax(self, dim=None, keepdim=False):
    return jnp.argmax(self, dim, keepdims=keepdim)


@aten("argmin")
def argmin(self, dim=None, keepdim=False):
    return jnp.argmin(self, dim, keepdims=keepdim)


@aten("any")
def any_(self, dim=None, keepdim=False):
    return jnp.any(self, _axes(dim), keepdims=keepdim)


@aten("all")
def all_(self, dim=None, keepdim=False):
    return jnp.all(self, _axes(dim), keepdims=keepdim)


@aten("count_nonzero")
def count_nonzero(self, dim=None):
    return jnp.count_nonzero(self, _axes(dim))


@aten("logsumexp")
def logsumexp(self, dim, keepdim=False):
    return jax.scipy.special.logsumexp(self, _axes(dim), keepdims=keepdim)


@aten("cumsum")
def cumsum(self, dim, dtype=None):
    return jnp.cumsum(self, dim, dtype) if self.ndim else self


@aten("cumprod")
def cumprod(self, dim, dtype=None):
    return jnp.cumprod(self, dim, dtype) if self.ndim else self


@aten("logcumsumexp")
def logcumsumexp(self, dim):
    return lax.cumlogsumexp(self, dim % self.ndim)
