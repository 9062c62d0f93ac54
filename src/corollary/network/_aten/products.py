"""Products of vectors and matrices."""

from __future__ import annotations

import jax.numpy as jnp

from corollary.network._aten.table import aten


@aten("linear")
def linear(input, weight, bias=None):
    out = input @ weight.T
    return out if bias is None else out + bias


@aten("matmul", "linalg_matmul")
def matmul(self, other):
    return jnp.matmul(self, other)


@aten("mm", "bmm")
def mm(self, mat2):
    return jnp.matmul(self, mat2)


@aten("mv")
def mv(self, vec):
    return self @ vec


@aten("dot", "vdot")
def dot(self, tensor=None, other=None):
    return jnp.dot(self, tensor if tensor is not None else other)


@aten("outer", "ger")
def outer(self, vec2):
    return jnp.outer(self, vec2)


@aten("addmm")
def addmm(self, mat1, mat2, beta=1, alpha=1):
    return _added(self, mat1 @ mat2, beta, alpha)


@aten("addmv")
def addmv(self, mat, vec, beta=1, alpha=1):
    return _added(self, mat @ vec, beta, alpha)


@aten("baddbmm")
def baddbmm(self, batch1, batch2, beta=1, alpha=1):
    return _added(self, batch1 @ batch2, beta, alpha)


def _added(start, product, beta, alpha):
    product = product if alpha == 1 else alpha * product
    if beta == 0:  # then PyTorch does not look at what is added, be it NaN
        return product
    return (start if beta == 1 else beta * start) + product


@aten("einsum")
def einsum(equation, tensors):
    return jnp.einsum(equation.replace(" ", ""), *tensors)


@aten("tensordot")
def tensordot(self, other, dims_self, dims_other):
    return jnp.tensordot(self, other, (dims_self, dims_other))


@aten("bilinear")
def bilinear(input1, input2, weight, bias=None):
    out = jnp.einsum("...i,kij,...j->...k", input1, weight, input2)
    return out if bias is None else out + bias


@aten("cosine_similarity")
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    def squared(a):
        return jnp.sum(jnp.square(a), dim)

    size = jnp.sqrt(jnp.maximum(squared(x1), eps**2)) * jnp.sqrt(jnp.maximum(squared(x2), eps**2))
    return jnp.sum(x1 * x2, dim) / size
