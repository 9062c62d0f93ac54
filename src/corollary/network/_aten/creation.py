"""Operators that make tensors of nothing but numbers and shapes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from corollary.network._aten.table import aten


@aten("zeros", "empty")
def zeros(size, dtype=None):
    """What is empty has zeros here: a module that reads it before it writes has no meaning."""
    return jnp.zeros(size, dtype)


@aten("ones")
def ones(size, dtype=None):
    return jnp.ones(size, dtype)


@aten("full")
def full(size, fill_value, dtype=None):
    return jnp.full(size, fill_value, dtype)


@aten("new_zeros", "new_empty")
def new_zeros(self, size, dtype=None):
    return jnp.zeros(size, dtype or self.dtype)


@aten("new_ones")
def new_ones(self, size, dtype=None):
    return jnp.ones(size, dtype or self.dtype)


@aten("new_full")
def new_full(self, size, fill_value, dtype=None):
    return jnp.full(size, fill_value, dtype or self.dtype)


@aten("zeros_like", "empty_like")
def zeros_like(self, dtype=None):
    return jnp.zeros_like(self, dtype)


@aten("ones_like")
def ones_like(self, dtype=None):
    return jnp.ones_like(self, dtype)


@aten("full_like")
def full_like(self, fill_value, dtype=None):
    return jnp.full_like(self, fill_value, dtype)


@aten("scalar_tensor")
def scalar_tensor(s, dtype=None):
    return jnp.asarray(s, dtype)


@aten("arange")
def arange(end, start=0, step=1, dtype=None):
    return np.arange(start, end, step) if dtype is None else np.arange(start, end, step).astype(dtype)


@aten("linspace")
def linspace(start, end, steps, dtype=None):
    return jnp.linspace(start, end, steps, dtype=dtype)


@aten("eye")
def eye(n, m=None, dtype=None):
    return jnp.eye(n, m, dtype=dtype)


@aten("one_hot")
def one_hot(self, num_classes=-1):
    if num_classes < 0:
        raise ValueError("the module has a one-hot coding without the number of classes: give one_hot num_classes=.")
    return jax.nn.one_hot(self, num_classes, dtype=int)


@aten("meshgrid")
def meshgrid(tensors, indexing="ij"):
    return tuple(jnp.meshgrid(*tensors, indexing=indexing))
