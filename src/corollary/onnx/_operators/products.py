"""Products of matrices and tensors."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from corollary.onnx._table import namespace, operator


@operator("MatMul")
def matmul(node, a, b):
    return namespace(a, b).matmul(a, b)


@operator("Gemm")
def gemm(node, a, b, c=None):
    """alpha A B + beta C, A and B transposed if asked."""
    a = a.T if node["transA"] else a
    b = b.T if node["transB"] else b
    product = namespace(a, b).matmul(a, b)
    product = product if node["alpha"] == 1 else node["alpha"] * product
    if c is None or node["beta"] == 0:
        return product
    return product + (c if node["beta"] == 1 else node["beta"] * c)


@operator("Einsum")
def einsum(node, *xs):
    return namespace(*xs).einsum(node["equation"].replace(" ", ""), *xs)


@operator("Det")
def det(node, x):
    return jnp.linalg.det(x) if namespace(x) is jnp else np.linalg.det(x).astype(x.dtype)
